//! Normalizations of images: by batch, channel, group or neighbouring channels.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::batch_normalization;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("BatchNormalization", &[1, 6, 7, 9, 14, 15], batch_normalization::draw),
    Property {
        domain: "com.ms.internal.nhwc",
        name: "BatchNormalization",
        versions: &[9, 14, 15],
        draw: batch_normalization::draw_channels_last,
    },
    Property::onnx("GroupNormalization", &[18, 21], group),
    Property::onnx("ImageScaler", &[1], image_scaler),
    Property::onnx("InstanceNormalization", &[1, 6, 22], instance),
    Property::onnx("LRN", &[1, 13], local_response),
    Property::onnx("MeanVarianceNormalization", &[9, 13], mean_variance),
];

/// The error, in ULPs of a double, of an affine function of a normalized number with cancelling terms.
pub(super) const CANCELLED: f64 = 1_048_576.0;

pub(super) fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// The mean square of the distance to the mean.
pub(super) fn variance(x: &[f64]) -> f64 {
    let mean = mean(x);
    x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64
}

pub(super) fn floats(cells: &[&Cell]) -> Vec<f64> {
    cells.iter().map(|cell| cell.float()).collect()
}

/// `(x − mean) / √(variance + epsilon)` of each.
fn standardized(cells: &[&Cell], epsilon: f64) -> Vec<Cell> {
    let x = floats(cells);
    let (mean, deviation) = (mean(&x), (variance(&x) + epsilon).sqrt());
    x.iter().map(|x| Cell::Float((x - mean) / deviation)).collect()
}

/// `epsilon`, absent or given.
pub(super) fn epsilon(draw: &mut Draw, default: f32) -> (f64, Option<Attr>) {
    let given = draw.pick(&[None, Some(0.125)]);
    (given.unwrap_or(default).into(), given.map(Attr::Float))
}

/// An image `[n, c, …]`.
pub(super) fn image(draw: &mut Draw, dtype: DType) -> Tensor {
    let shape = draw.shape(2);
    draw.small(dtype, &shape)
}

/// `x · scale[c] + b[c]`, `c` being what `channel` says of an index.
fn affine(x: &Array, scale: &Tensor, b: &Tensor, channel: impl Fn(&[usize]) -> usize) -> Array {
    let (scale, b) = (Array::of(scale), Array::of(b));
    Array::from_fn(&x.shape, |i| {
        let c = channel(i);
        Cell::Float(x.at(i).float() * scale.cells[c].float() + b.cells[c].float())
    })
}

fn instance(draw: &mut Draw, dtype: DType) -> Sample {
    let x = image(draw, dtype);
    let channels = [x.shape()[1]];
    let (scale, b) = (draw.small(dtype, &channels), draw.small(dtype, &channels));
    let (epsilon, written) = epsilon(draw, 1e-5);
    Sample::new(&[&x.clone(), &scale.clone(), &b.clone()], move || {
        let axes: Vec<_> = (2..x.shape().len()).collect();
        let y = Array::of(&x).regrouped(&axes, |x| standardized(x, epsilon));
        Expected::rounded(dtype, affine(&y, &scale, &b, |i| i[1]), CANCELLED)
    })
    .maybe("epsilon", written)
}

/// Each group of channels is standardized; scale and b are those of a group in version 18, those of
/// a channel later.
fn group(draw: &mut Draw, dtype: DType) -> Sample {
    let (n_groups, n_members) = (draw.some_dim(), draw.some_dim());
    let mut shape = draw.shape(2);
    shape[1] = n_groups * n_members;
    let x = draw.small(dtype, &shape);
    let is_by_group = draw.version < 21;
    let n_parameters = if is_by_group { n_groups } else { shape[1] };
    let (scale, b) = (draw.small(dtype, &[n_parameters]), draw.small(dtype, &[n_parameters]));
    let (epsilon, written) = epsilon(draw, 1e-5);
    let sample = Sample::new(&[&x.clone(), &scale.clone(), &b.clone()], move || {
        let grouped = [&shape[..1], &[n_groups, n_members], &shape[2..]].concat();
        let axes: Vec<_> = (2..grouped.len()).collect();
        let y = Array::of(&x).reshaped(&grouped).regrouped(&axes, |x| standardized(x, epsilon));
        let parameter = |i: &[usize]| if is_by_group { i[1] / n_members } else { i[1] };
        Expected::rounded(dtype, affine(&y.reshaped(&shape), &scale, &b, parameter), CANCELLED)
    });
    let stash_type = (draw.version >= 21 && draw.one_in(2)).then_some(Attr::Int(1));
    sample
        .attr("num_groups", Attr::Int(n_groups.try_into().unwrap()))
        .maybe("epsilon", written)
        .maybe("stash_type", stash_type)
}

fn mean_variance(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.small(dtype, &shape);
    let is_default = shape.len() >= 4 && draw.one_in(2);
    let axes = if is_default { vec![0, 2, 3] } else { draw.axes(shape.len()) };
    let written = axes.iter().map(|&axis| draw.written(axis, shape.len())).collect();
    Sample::new(&[&x.clone()], move || {
        let y = Array::of(&x).regrouped(&axes, |x| {
            let x = floats(x);
            let (mean, deviation) = (mean(&x), variance(&x).sqrt() + 1e-9);
            x.iter().map(|x| Cell::Float((x - mean) / deviation)).collect()
        });
        // Sums of 4⁶ terms.
        Expected::rounded(dtype, y, 4096.0)
    })
    .maybe("axes", (!is_default).then_some(Attr::Ints(written)))
}

fn local_response(draw: &mut Draw, dtype: DType) -> Sample {
    let x = image(draw, dtype);
    let size = 1 + draw.below(5);
    let attrs = [("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)];
    let given = attrs.map(|_| draw.pick(&[None, Some(0.5), Some(2.0)]));
    let [alpha, beta, bias] = [0, 1, 2].map(|i| f64::from(given[i].unwrap_or(attrs[i].1)));
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&x.shape, |i| {
            let first = i[1].saturating_sub((size - 1) / 2);
            let last = (i[1] + size / 2).min(x.shape[1] - 1);
            let channel = |c| x.at(&[&i[..1], &[c], &i[2..]].concat()).float();
            let sum: f64 = (first..=last).map(|c| channel(c).powi(2)).sum();
            Cell::Float(x.at(i).float() / (bias + alpha / size as f64 * sum).powf(beta))
        });
        Expected::rounded(dtype, y, 8.0)
    });
    let sample = sample.attr("size", Attr::Int(size.try_into().unwrap()));
    attrs
        .iter()
        .zip(given)
        .fold(sample, |sample, ((name, _), value)| sample.maybe(name, value.map(Attr::Float)))
}

/// `scale · x + bias[c]`.
fn image_scaler(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(4);
    let x = draw.small(dtype, &shape);
    let scale = draw.pick(&[None, Some(0.5)]);
    let bias: Vec<_> = (0..shape[1]).map(|_| draw.pick(&[-1.0, 0.0, 2.5])).collect();
    let written = Attr::Floats(bias.clone());
    Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let y = Array::from_fn(&x.shape, |i| {
            let scale = f64::from(scale.unwrap_or(1.0));
            Cell::Float(x.at(i).float() * scale + f64::from(bias[i[1]]))
        });
        Expected::exact(dtype, y)
    })
    .attr("bias", written)
    .maybe("scale", scale.map(Attr::Float))
}
