//! Classical machine learning: weighted sums of features.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::features::with_some;
use super::scores::{first_largest, of_both, transform, transformed};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::ml("LinearClassifier", &[1], classifier),
    Property::ml("LinearRegressor", &[1], regressor),
];

/// Samples of `n_features` small whole features, and the rows that they are read as.
pub(super) fn samples(draw: &mut Draw, dtype: DType, n_features: usize) -> (Tensor, Vec<Vec<f64>>) {
    let shape = if draw.one_in(4) { vec![n_features] } else { vec![draw.dim(), n_features] };
    let x = draw.small(dtype, &shape);
    // Samples of zeros make scores equal.
    let x = if dtype.is_number() { with_some(draw, &x, &Cell::zero(dtype)) } else { x };
    (x.clone(), rows_of(&x))
}

/// The samples of a tensor of numbers; none for other types.
pub(super) fn rows_of(x: &Tensor) -> Vec<Vec<f64>> {
    if !x.dtype().is_number() {
        return Vec::new();
    }
    let cells: Vec<_> = Array::of(x).cells.iter().map(Cell::float).collect();
    cells.chunks(x.shape().last().copied().unwrap().max(1)).map(<[f64]>::to_vec).collect()
}

/// Multiples of 1/8 up to 4, whose products and sums with small whole numbers are exact; often only of 1/2 or 2, so
/// that scores equal each other, and borders.
pub(super) fn eighths(draw: &mut Draw, n: usize, least: i64) -> Vec<f32> {
    let step = draw.pick(&[1, 4, 16]);
    let mut steps = || i16::try_from(draw.int(least / step, 32 / step) * step).unwrap();
    (0..n).map(|_| f32::from(steps()) / 8.0).collect()
}

/// A number of classes; for two, special rules apply.
pub(super) fn n_classes(draw: &mut Draw) -> usize {
    if draw.one_in(2) { 2 } else { draw.some_dim() }
}

pub(super) fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Labels of classes, and their attribute, one of two with these names.
pub(super) fn labels(
    draw: &mut Draw,
    n: usize,
    names: [&'static str; 2],
) -> (Vec<Cell>, DType, (&'static str, Attr)) {
    let numbers: Vec<i64> = (0..n).map(|_| draw.int(-9, 9)).collect();
    if draw.one_in(2) {
        let cells = numbers.iter().map(|&number| Cell::Int(number.into())).collect();
        return (cells, DType::I64, (names[0], Attr::Ints(numbers)));
    }
    let texts: Vec<_> = numbers.iter().map(i64::to_string).collect();
    let cells = texts.iter().cloned().map(Cell::Text).collect();
    (cells, DType::String, (names[1], Attr::Strings(texts)))
}

/// Rows of scores as a tensor of floats, after a transform in double precision.
pub(super) fn table(rows: &[Vec<f64>], n_columns: usize) -> Vec<Expected> {
    let cells = rows.concat().into_iter().map(Cell::Float).collect();
    Expected::rounded(DType::F32, Array { shape: vec![rows.len(), n_columns], cells }, 1.0)
}

/// The labels of the classes of samples, and their scores.
pub(super) fn labelled(
    results: Vec<(usize, Vec<f64>)>,
    (labels, dtype): (&[Cell], DType),
    n_columns: usize,
) -> Vec<Expected> {
    let (classes, scores): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let cells: Vec<_> = classes.iter().map(|&class| labels[class].clone()).collect();
    let y = Array { shape: vec![cells.len()], cells };
    Expected::exact(dtype, y).into_iter().chain(table(&scores, n_columns)).collect()
}

/// The weighted sums of a sample: a row of coefficients for each.
pub(super) fn sums(row: &[f64], coefficients: &[f32], intercepts: &[f32]) -> Vec<f64> {
    let weighted = |coefficients: &[f32]| -> f64 {
        doubles(coefficients).iter().zip(row).map(|(coefficient, x)| coefficient * x).sum()
    };
    let rows = coefficients.chunks(row.len()).zip(intercepts);
    rows.map(|(coefficients, &intercept)| weighted(coefficients) + f64::from(intercept)).collect()
}

/// Coefficients of `n_targets` targets, and intercepts, optional and 0 by default.
fn model(draw: &mut Draw, n_targets: usize, n_features: usize) -> (Vec<f32>, Vec<f32>, bool) {
    let coefficients = eighths(draw, n_targets * n_features, -32);
    let is_given = draw.one_in(2);
    let intercepts = if is_given { eighths(draw, n_targets, -32) } else { vec![0.0; n_targets] };
    (coefficients, intercepts, is_given)
}

fn regressor(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, n_features) = (draw.some_dim(), draw.some_dim());
    let (coefficients, intercepts, is_given) = model(draw, n, n_features);
    let (transform, written) = transform(draw);
    let (x, rows) = samples(draw, dtype, n_features);
    let targets = if n == 1 { draw.pick(&[None, Some(1)]) } else { Some(n) };
    let sample = Sample::new(&[&x], {
        let (coefficients, intercepts) = (coefficients.clone(), intercepts.clone());
        move || {
            let scores =
                |row: &Vec<f64>| transformed(transform, &sums(row, &coefficients, &intercepts));
            table(&rows.iter().map(scores).collect::<Vec<_>>(), n)
        }
    });
    sample
        .attr("coefficients", Attr::Floats(coefficients))
        .maybe("intercepts", is_given.then_some(Attr::Floats(intercepts)))
        .maybe("targets", targets.map(|n| Attr::Int(signed(n))))
        .maybe("post_transform", written)
}

fn classifier(draw: &mut Draw, dtype: DType) -> Sample {
    let (n, n_features) = (n_classes(draw), draw.some_dim());
    let (labels, label_type, (name, attr)) =
        labels(draw, n, ["classlabels_ints", "classlabels_strings"]);
    // For two classes, the score of the second can suffice.
    let is_lone = n == 2 && draw.one_in(2);
    let (coefficients, intercepts, is_given) = model(draw, if is_lone { 1 } else { n }, n_features);
    let is_given = is_given || is_lone;
    let (transform, written) = transform(draw);
    let (x, rows) = samples(draw, dtype, n_features);
    let sample = Sample::new(&[&x], {
        let (coefficients, intercepts) = (coefficients.clone(), intercepts.clone());
        move || {
            let classify = |row: &Vec<f64>| {
                let scores = sums(row, &coefficients, &intercepts);
                match is_lone {
                    true => (usize::from(scores[0] > 0.0), of_both(transform, scores[0], true)),
                    false => (first_largest(&scores), transformed(transform, &scores)),
                }
            };
            labelled(rows.iter().map(classify).collect(), (&labels, label_type), n)
        }
    });
    sample
        .outputs(2)
        .attr("coefficients", Attr::Floats(coefficients))
        .maybe("intercepts", is_given.then_some(Attr::Floats(intercepts)))
        .attr(name, attr)
        .maybe("multi_class", draw.pick(&[None, Some(Attr::Int(1))]))
        .maybe("post_transform", written)
}
