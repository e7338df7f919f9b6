//! Losses of classifiers.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("NegativeLogLikelihoodLoss", &[12, 13, 22], |draw, dtype| {
        loss(draw, dtype, false)
    }),
    Property::onnx("SoftmaxCrossEntropyLoss", &[12, 13], |draw, dtype| loss(draw, dtype, true)),
];

/// The classes of some samples, possibly ignored: those of an existing class, or of another one.
struct Samples {
    shape: Vec<usize>,
    labels: Tensor,
    ignored: Option<i64>,
}

fn samples(draw: &mut Draw, x: &[usize]) -> Samples {
    let shape = [&x[..1], &x[2..]].concat();
    let n_classes = x[1];
    // Without classes, all samples must be ignored.
    let has_ignored = n_classes == 0 || draw.one_in(2);
    let ignored = has_ignored.then(|| draw.pick(&[0, signed(n_classes), -1, 1_000_000]));
    let labels = (0..shape.iter().product()).map(|_| match ignored {
        Some(ignored) if n_classes == 0 || draw.one_in(3) => ignored,
        _ => signed(draw.below(n_classes)),
    });
    let labels: Vec<_> = labels.collect();
    Samples { labels: draw.indices(&shape, &labels), shape, ignored }
}

/// With two operands and an optional weight.
fn loss(draw: &mut Draw, dtype: DType, is_softmax: bool) -> Sample {
    let shape = draw.shape(2);
    let x = draw.small(dtype, &shape);
    let Samples { shape: of_samples, labels, ignored } = samples(draw, &shape);
    let weight = draw.one_in(2).then(|| {
        // Positive, so that a mean does not divide by almost zero.
        let weight = draw.small(dtype, &shape[1..2]);
        if dtype.is_float() {
            Draw::map(&weight, |weight| Cell::Float(weight.float() * 0.0625 + 0.75))
        } else {
            weight
        }
    });
    let reduction = draw.pick(&[None, Some("none"), Some("sum"), Some("mean")]);
    let n_outputs = 1 + usize::from(is_softmax && draw.one_in(2));
    Sample::new(&[&x.clone(), &labels.clone()], {
        let weight = weight.clone();
        move || {
            let (x, labels) = (Array::of(&x), Array::of(&labels));
            let log_probabilities = if is_softmax { log_softmax(&x) } else { x };
            let weight = weight.as_ref().map(Array::of);
            let weight_at = |at: &[usize]| match labels.at(at).int() {
                label if ignored.is_some_and(|ignored| label == ignored.into()) => None,
                label => {
                    let class = usize::try_from(label).unwrap();
                    Some((class, weight.as_ref().map_or(1.0, |it| it.at(&[class]).float())))
                }
            };
            let losses = Array::from_fn(&of_samples, |at| {
                let loss = |(class, weight): (usize, f64)| {
                    let at = [&at[..1], &[class], &at[1..]].concat();
                    -weight * log_probabilities.at(&at).float()
                };
                Cell::Float(weight_at(at).map_or(0.0, loss))
            });
            let weights = Array::from_fn(&of_samples, |at| {
                Cell::Float(weight_at(at).map_or(0.0, |(_, weight)| weight))
            });
            let sum = |array: &Array| array.cells.iter().map(Cell::float).sum::<f64>();
            let scalar = |value| Array { shape: vec![], cells: vec![Cell::Float(value)] };
            let loss = match reduction.unwrap_or("mean") {
                "none" => losses,
                "sum" => scalar(sum(&losses)),
                _ => scalar(sum(&losses) / sum(&weights)),
            };
            // The logarithm of a softmax is 0 or below −ln(1 + e⁻⁸), −3·10⁻⁴, but it is a difference of numbers up to
            // 8: 15 bits are lost, and some operations. Other sums are exact.
            let ulps = if is_softmax { 131_072.0 } else { 1.0 };
            let outputs = [loss, log_probabilities].into_iter().take(n_outputs);
            outputs.flat_map(|array| Expected::rounded(dtype, array, ulps)).collect()
        }
    })
    .input(2, weight)
    .outputs(n_outputs)
    .maybe("reduction", reduction.map(|it| Attr::String(it.to_owned())))
    .maybe("ignore_index", ignored.map(Attr::Int))
}

/// `ln(exp(x) / Σ exp(x))` along axis 1.
fn log_softmax(x: &Array) -> Array {
    x.regrouped(&[1], |lane| {
        let exp: Vec<_> = lane.iter().map(|x| x.float().exp()).collect();
        let sum: f64 = exp.iter().sum();
        exp.iter().map(|exp| Cell::Float((exp / sum).ln())).collect()
    })
}
