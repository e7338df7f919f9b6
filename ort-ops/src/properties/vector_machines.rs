//! Classical machine learning: support vector machines.

use ort_graph::Attr;
use ort_tensor::DType;

use super::draw::signed;
use super::linear::{doubles, eighths, labelled, labels, n_classes, samples, sums, table};
use super::scores::{first_largest, logistic, of_both, transform, transformed};
use super::{Draw, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::ml("SVMClassifier", &[1], classifier),
    Property::ml("SVMRegressor", &[1], regressor),
];

/// A kernel with its parameters.
#[derive(Clone, Copy)]
struct Kernel {
    name: &'static str,
    gamma: f32,
    coef0: f32,
    degree: u8,
}

impl Kernel {
    fn draw(draw: &mut Draw) -> Self {
        Self {
            name: draw.pick(&["LINEAR", "POLY", "RBF", "SIGMOID"]),
            gamma: draw.pick(&[0.125, 0.25]),
            coef0: draw.pick(&[-0.5, 0.0, 1.0]),
            degree: draw.pick(&[0, 1, 2, 3]),
        }
    }

    /// Whether it is exact for small whole numbers.
    fn is_exact(self) -> bool {
        matches!(self.name, "LINEAR" | "POLY")
    }

    fn of(self, x: &[f64], vector: &[f32]) -> f64 {
        let pairs = || x.iter().zip(doubles(vector));
        let product: f64 = pairs().map(|(x, v)| x * v).sum();
        let shifted = f64::from(self.gamma) * product + f64::from(self.coef0);
        match self.name {
            "LINEAR" => product,
            "POLY" => shifted.powi(self.degree.into()),
            "SIGMOID" => shifted.tanh(),
            _ => {
                let distance: f64 = pairs().map(|(x, v)| (x - v) * (x - v)).sum();
                (-f64::from(self.gamma) * distance).exp()
            }
        }
    }

    /// Support vectors and their coefficients. Where the kernel is not exact, no coefficient is
    /// negative, so that only the offset, a rational number, can cancel.
    fn machine(self, draw: &mut Draw, n: usize, n_rows: usize, n_features: usize) -> Machine {
        let least = if self.is_exact() { -32 } else { 0 };
        let whole = |_| f32::from(i8::try_from(draw.int(-4, 4)).unwrap());
        let vectors = (0..n * n_features).map(whole).collect();
        Machine { kernel: self, vectors, coefficients: eighths(draw, n * n_rows, least) }
    }
}

#[derive(Clone)]
struct Machine {
    kernel: Kernel,
    vectors: Vec<f32>,
    coefficients: Vec<f32>,
}

impl Machine {
    /// The kernels of a sample with each vector.
    fn kernels(&self, x: &[f64]) -> Vec<f64> {
        self.vectors.chunks(x.len()).map(|vector| self.kernel.of(x, vector)).collect()
    }

    /// The node with the attributes of the machine.
    fn written(&self, sample: Sample) -> Sample {
        let Kernel { name, gamma, coef0, degree } = self.kernel;
        sample
            .attr("kernel_type", Attr::String(name.to_owned()))
            .attr("kernel_params", Attr::Floats(vec![gamma, coef0, degree.into()]))
            .attr("support_vectors", Attr::Floats(self.vectors.clone()))
            .attr("coefficients", Attr::Floats(self.coefficients.clone()))
    }
}

fn regressor(draw: &mut Draw, dtype: DType) -> Sample {
    let n_features = draw.some_dim();
    let n = if draw.one_in(3) { 0 } else { 1 + draw.below(5) };
    let machine = Kernel::draw(draw).machine(draw, n.max(1), 1, n_features);
    let weights = eighths(draw, n_features, -32);
    let rho = rho(draw);
    let one_class = draw.pick(&[None, Some(0), Some(1)]);
    let (x, rows) = samples(draw, dtype, n_features);
    let sample = Sample::new(&[&x], {
        let (machine, weights, rho) = (machine.clone(), weights.clone(), rho.clone());
        move || {
            let score = |row: &Vec<f64>| {
                let score = match n {
                    0 => sums(row, &weights, &rho)[0],
                    _ => sums(&machine.kernels(row), &machine.coefficients, &rho)[0],
                };
                vec![match one_class {
                    Some(1) if score > 0.0 => 1.0,
                    Some(1) => -1.0,
                    _ => score,
                }]
            };
            table(&rows.iter().map(score).collect::<Vec<_>>(), 1)
        }
    });
    let sample = match n {
        0 => sample.attr("coefficients", Attr::Floats(weights)),
        _ => machine.written(sample).attr("n_supports", Attr::Int(signed(n))),
    };
    let (_, transform) = transform(draw);
    sample
        .attr("rho", Attr::Floats(rho))
        .maybe("one_class", one_class.map(Attr::Int))
        .maybe("post_transform", transform)
}

/// The offset of a sum, which often puts a sample of zeros on a border.
fn rho(draw: &mut Draw) -> Vec<f32> {
    if draw.one_in(2) { vec![draw.pick(&[0.0, 0.5])] } else { eighths(draw, 1, -32) }
}

fn classifier(draw: &mut Draw, dtype: DType) -> Sample {
    if draw.one_in(2) { by_features(draw, dtype) } else { by_class_pairs(draw, dtype) }
}

/// Without support vectors, each class has a weighted sum of the features.
fn by_features(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, n_features) = (n_classes(draw), draw.some_dim());
    let (labels, label_type, (name, attr)) =
        labels(draw, n, ["classlabels_ints", "classlabels_strings"]);
    let least = draw.pick(&[-32, 0]);
    let coefficients = eighths(draw, n * n_features, least);
    let rho = rho(draw);
    let are_probabilities = draw.one_in(3);
    let (transform, written) = transform(draw);
    let (x, rows) = samples(draw, dtype, n_features);
    let sample = Sample::new(&[&x], {
        let (coefficients, rho) = (coefficients.clone(), rho.clone());
        move || {
            let is_positive = coefficients.iter().all(|&coefficient| coefficient >= 0.0);
            let classify = |row: &Vec<f64>| {
                let scores = sums(row, &coefficients, &vec![rho[0]; n]);
                let best = first_largest(&scores);
                let is_past = if is_positive { scores[best] >= 0.5 } else { scores[best] > 0.0 };
                let is_second = n == 2 && is_past && !are_probabilities;
                (if is_second { 1 } else { best }, transformed(transform, &scores))
            };
            labelled(rows.iter().map(classify).collect(), (&labels, label_type), n)
        }
    });
    let probabilities = are_probabilities.then(|| Attr::Floats(vec![1.0]));
    sample
        .outputs(2)
        .attr("coefficients", Attr::Floats(coefficients))
        .attr("rho", Attr::Floats(rho))
        .maybe("prob_a", probabilities.clone())
        .maybe("prob_b", probabilities)
        .attr(name, attr)
        .maybe("post_transform", written)
}

/// Classes distinguished by pairwise decisions.
#[derive(Clone)]
struct PairwiseClassifier {
    machine: Machine,
    /// The class of each vector, in ascending order.
    classes: Vec<usize>,
    n_classes: usize,
    rho: Vec<f32>,
    /// For each decision, the parameters of the probability of its score.
    logits: Option<[Vec<f32>; 2]>,
}

impl PairwiseClassifier {
    fn draw(draw: &mut Draw, n_features: usize) -> Self {
        let n_classes = 2 + draw.below(3);
        // The first class has a vector, others may have none.
        let mut classes: Vec<_> = (0..draw.below(5)).map(|_| draw.below(n_classes)).collect();
        classes.push(0);
        classes.sort_unstable();
        let has_logits = draw.one_in(3);
        let mut kernel = Kernel::draw(draw);
        if has_logits {
            // Scores of kernels up to 1 give no probability near 0, where coupling would lose all digits.
            kernel.name = "RBF";
        }
        let machine = kernel.machine(draw, classes.len(), n_classes - 1, n_features);
        let n_pairs = n_classes * (n_classes - 1) / 2;
        let mut small = || eighths(draw, n_pairs, -32).iter().map(|x| x / 16.0).collect();
        let logits = has_logits.then(|| [small(), small()]);
        let rho = eighths(draw, n_pairs, -32);
        Self { machine, classes, n_classes, rho, logits }
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.n_classes;
        (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()
    }

    /// The scores of all decisions: above zero the first of the two wins.
    fn scores(&self, row: &[f64]) -> Vec<f64> {
        let kernels = self.machine.kernels(row);
        let n = kernels.len();
        // A vector has a coefficient for each other class.
        let weighted = |own: usize, other: usize| -> f64 {
            let place = if other > own { other - 1 } else { other };
            let coefficients = doubles(&self.machine.coefficients[place * n..][..n]);
            (0..n).filter(|&v| self.classes[v] == own).map(|v| coefficients[v] * kernels[v]).sum()
        };
        let pairs = self.pairs().into_iter().zip(doubles(&self.rho));
        pairs.map(|((a, b), rho)| weighted(a, b) + weighted(b, a) + rho).collect()
    }

    /// The class that wins most, the first of equals.
    fn winner(&self, scores: &[f64]) -> usize {
        let mut wins = vec![0.0; self.n_classes];
        for ((a, b), &score) in self.pairs().into_iter().zip(scores) {
            wins[if score > 0.0 { a } else { b }] += 1.0;
        }
        first_largest(&wins)
    }

    fn probabilities(&self, scores: &[f64], [a, b]: &[Vec<f32>; 2]) -> Vec<f64> {
        let n = self.n_classes;
        let mut r = vec![vec![0.0; n]; n];
        for (i, (first, second)) in self.pairs().into_iter().enumerate() {
            let p = logistic(-(scores[i] * f64::from(a[i]) + f64::from(b[i])));
            let p = p.clamp(1e-7, 1.0 - 1e-7);
            (r[first][second], r[second][first]) = (p, 1.0 - p);
        }
        coupled(&r)
    }

    fn written(&self, sample: Sample) -> Sample {
        let n_of = |class| self.classes.iter().filter(|&&of| of == class).count();
        let per_class = (0..self.n_classes).map(|class| signed(n_of(class))).collect();
        let [a, b] = match &self.logits {
            Some(logits) => logits.each_ref().map(|values| Some(Attr::Floats(values.clone()))),
            None => [None, None],
        };
        self.machine
            .written(sample)
            .attr("vectors_per_class", Attr::Ints(per_class))
            .attr("rho", Attr::Floats(self.rho.clone()))
            .maybe("prob_a", a)
            .maybe("prob_b", b)
    }
}

/// The probabilities of classes from those of pairs: each in turn is set to the minimum of the sum of squares, and
/// all are scaled to 1, until the gradient is small (Wu, Lin and Weng 2004, algorithm 2).
fn coupled(r: &[Vec<f64>]) -> Vec<f64> {
    let n = r.len();
    let size: f64 = r.iter().map(|_| 1.0).sum();
    let q = |i: usize, j: usize| match i == j {
        true => (0..n).filter(|&k| k != i).map(|k| r[k][i] * r[k][i]).sum(),
        false => -r[j][i] * r[i][j],
    };
    let mut p = vec![1.0 / size; n];
    for _ in 0..100 {
        let slope = |p: &[f64], i: usize| -> f64 { (0..n).map(|j| q(i, j) * p[j]).sum() };
        let form = |p: &[f64]| -> f64 { (0..n).map(|i| p[i] * slope(p, i)).sum() };
        if (0..n).all(|i| (slope(&p, i) - form(&p)).abs() < 0.005 / size) {
            break;
        }
        for i in 0..n {
            let others = slope(&p, i) - q(i, i) * p[i];
            p[i] = (form(&p) - others) / q(i, i);
            let sum: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= sum);
        }
    }
    p
}

fn by_class_pairs(draw: &mut Draw, dtype: DType) -> Sample {
    let n_features = draw.some_dim();
    let classifier = PairwiseClassifier::draw(draw, n_features);
    let (labels, label_type, (name, attr)) =
        labels(draw, classifier.n_classes, ["classlabels_ints", "classlabels_strings"]);
    let (transform, written) = transform(draw);
    let (x, rows) = samples(draw, dtype, n_features);
    let n_columns = match classifier.rho.len() {
        _ if classifier.logits.is_some() => classifier.n_classes,
        1 => 2,
        n => n,
    };
    let sample = Sample::new(&[&x], {
        let classifier = classifier.clone();
        move || {
            let classify = |row: &Vec<f64>| {
                let scores = classifier.scores(row);
                let columns = match (&classifier.logits, &scores[..]) {
                    (Some(logits), _) => {
                        transformed(transform, &classifier.probabilities(&scores, logits))
                    }
                    (None, &[score]) => of_both(transform, score, transform != "NONE"),
                    (None, scores) => transformed(transform, scores),
                };
                (classifier.winner(&scores), columns)
            };
            labelled(rows.iter().map(classify).collect(), (&labels, label_type), n_columns)
        }
    });
    classifier.written(sample).outputs(2).attr(name, attr).maybe("post_transform", written)
}
