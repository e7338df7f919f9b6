//! Linear models and support vector machines against `eval`: every kernel, transform and type, one sample and many.

use ort_graph::Attr;
use ort_tensor::{Element, Number, Tensor, bf16, f16};

use crate::case::{Case, relative};

/// Numbers without an obvious pattern: eighths from −1 to 1, whose sums of products are exact.
struct Draw(u64);

impl Draw {
    fn eighth(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f32::from(i8::try_from(self.0 >> 60).unwrap()) / 8.0 - 1.0
    }

    fn list(&mut self, n: usize) -> Attr {
        Attr::Floats((0..n).map(|_| self.eighth()).collect())
    }

    fn samples<T: Element + Number>(&mut self, n: usize, n_features: usize) -> Tensor {
        let x: Vec<T> =
            (0..n * n_features).map(|_| T::from_f64(f64::from(self.eighth() * 8.0))).collect();
        Tensor::from_slice(&[n, n_features], &x).unwrap()
    }
}

fn int(n: usize) -> i64 {
    n.try_into().unwrap()
}

fn labels(n: usize) -> Attr {
    Attr::Ints((0..n).map(|i| 7 - int(i)).collect())
}

const TRANSFORMS: [&str; 5] = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];

/// Scores of up to 100 are rounded before their exponentials are taken.
fn is_close(a: f64, b: f64) -> bool {
    relative(2e-5)(a, b) || (a - b).abs() < 1e-6
}

/// Checks samples of every type, also where only labels, or only scores are wanted.
fn check(draw: &mut Draw, n_features: usize, n: usize, case: impl Fn(&mut Draw) -> Case) {
    let state = draw.0;
    let mut with = |x: &mut dyn FnMut(&mut Draw) -> Tensor| {
        draw.0 = state;
        let case = case(draw);
        let case = case.input(x(draw));
        assert!(case.variant().starts_with("linear_model"));
        case.check(is_close);
    };
    with(&mut |draw| draw.samples::<f32>(n, n_features));
    with(&mut |draw| draw.samples::<f64>(n, n_features));
    with(&mut |draw| draw.samples::<f16>(n, n_features));
    with(&mut |draw| draw.samples::<bf16>(n, n_features));
    with(&mut |draw| draw.samples::<i32>(n, n_features));
    with(&mut |draw| draw.samples::<i64>(n, n_features));
}

#[test]
fn linear_regressors_are_products() {
    let mut draw = Draw(1);
    for (n, n_features, n_targets) in [(0, 3, 2), (1, 1, 1), (1, 40, 3), (300, 20, 1), (70, 33, 17)]
    {
        for transform in TRANSFORMS {
            check(&mut draw, n_features, n, |draw| {
                Case::new("LinearRegressor", 1)
                    .domain("ai.onnx.ml")
                    .attr("coefficients", draw.list(n_targets * n_features))
                    .attr("intercepts", draw.list(n_targets))
                    .attr("targets", Attr::Int(int(n_targets)))
                    .attr("post_transform", Attr::String(transform.to_owned()))
            });
        }
    }
}

#[test]
fn linear_classifiers_have_classes() {
    let mut draw = Draw(2);
    let sizes = [(1, 5, 3, 3), (1, 5, 1, 2), (200, 17, 1, 2), (90, 8, 12, 12), (40, 3, 1, 1)];
    for (n, n_features, n_targets, n_classes) in sizes {
        for transform in TRANSFORMS {
            for unwanted in [&[] as &[usize], &[0], &[1]] {
                check(&mut draw, n_features, n, |draw| {
                    Case::new("LinearClassifier", 1)
                        .domain("ai.onnx.ml")
                        .outputs(2)
                        .unwanted(unwanted)
                        .attr("coefficients", draw.list(n_targets * n_features))
                        .attr("intercepts", draw.list(n_targets))
                        .attr("classlabels_ints", labels(n_classes))
                        .attr("post_transform", Attr::String(transform.to_owned()))
                });
            }
        }
    }
}

const KERNELS: [&str; 4] = ["LINEAR", "POLY", "RBF", "SIGMOID"];

fn kernel(case: Case, kernel: &str, n_features: usize) -> Case {
    // Arguments of functions are at most about 1.
    let gamma = 0.125 / (n_features as f32);
    case.attr("kernel_type", Attr::String(kernel.to_owned()))
        .attr("kernel_params", Attr::Floats(vec![gamma, 0.5, 3.0]))
}

#[test]
fn support_vector_regressors_sum_kernels() {
    let mut draw = Draw(3);
    for name in KERNELS {
        for (n, n_features, n_supports) in [(1, 4, 3), (1, 40, 70), (7, 20, 32), (90, 9, 400)] {
            for one_class in [0, 1] {
                check(&mut draw, n_features, n, |draw| {
                    let case = Case::new("SVMRegressor", 1)
                        .domain("ai.onnx.ml")
                        .attr("n_supports", Attr::Int(int(n_supports)))
                        .attr("support_vectors", draw.list(n_supports * n_features))
                        .attr("coefficients", draw.list(n_supports))
                        .attr("rho", draw.list(1))
                        .attr("one_class", Attr::Int(one_class));
                    kernel(case, name, n_features)
                });
            }
        }
    }
}

#[test]
fn many_vectors_make_blocks_of_samples() {
    let (mut draw, n_supports) = (Draw(7), super::BLOCK / super::LEAST + 100);
    check(&mut draw, 2, super::LEAST + 2, |draw| {
        let case = Case::new("SVMRegressor", 1)
            .domain("ai.onnx.ml")
            .attr("n_supports", Attr::Int(int(n_supports)))
            .attr("support_vectors", draw.list(n_supports * 2))
            .attr("coefficients", draw.list(n_supports))
            .attr("rho", draw.list(1));
        kernel(case, "LINEAR", 2)
    });
}

#[test]
fn linear_support_vector_machines_have_no_vectors() {
    let mut draw = Draw(4);
    check(&mut draw, 9, 50, |draw| {
        Case::new("SVMRegressor", 1)
            .domain("ai.onnx.ml")
            .attr("coefficients", draw.list(9))
            .attr("rho", draw.list(1))
    });
    for n_classes in [1, 2, 5] {
        check(&mut draw, 9, 50, |draw| {
            Case::new("SVMClassifier", 1)
                .domain("ai.onnx.ml")
                .outputs(2)
                .attr("coefficients", draw.list(9 * n_classes))
                .attr("rho", draw.list(1))
                .attr("classlabels_ints", labels(n_classes))
        });
    }
}

#[test]
fn support_vector_classifiers_decide_by_pairs() {
    let mut draw = Draw(5);
    let sizes: [(usize, usize, &[i64]); 4] = [
        (1, 4, &[2, 3]),
        (60, 20, &[20, 0, 15]),
        (9, 7, &[1, 2, 3, 4, 5, 6, 7]),
        (150, 3, &[40, 41]),
    ];
    for (n, n_features, vectors) in sizes {
        for (name, with_probabilities) in KERNELS.iter().flat_map(|k| [(k, false), (k, true)]) {
            for transform in ["NONE", "LOGISTIC", "SOFTMAX"] {
                check(&mut draw, n_features, n, |draw| {
                    let n_classes = vectors.len();
                    let n_supports = usize::try_from(vectors.iter().sum::<i64>()).unwrap();
                    let n_pairs = n_classes * (n_classes - 1) / 2;
                    let case = Case::new("SVMClassifier", 1)
                        .domain("ai.onnx.ml")
                        .outputs(2)
                        .attr("vectors_per_class", Attr::Ints(vectors.to_vec()))
                        .attr("support_vectors", draw.list(n_supports * n_features))
                        .attr("coefficients", draw.list(n_supports * (n_classes - 1)))
                        .attr("rho", draw.list(n_pairs))
                        .attr("classlabels_ints", labels(n_classes))
                        .attr("post_transform", Attr::String(transform.to_owned()));
                    let case = kernel(case, name, n_features);
                    if with_probabilities {
                        case.attr("prob_a", draw.list(n_pairs)).attr("prob_b", draw.list(n_pairs))
                    } else {
                        case
                    }
                });
            }
        }
    }
}
