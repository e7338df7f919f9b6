//! Activations: functions of one operand with attributes, and Gelu with its bias.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::unary::{erf, sigmoid};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("Affine", &[1], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 1.0), ("beta", 0.0)], |x, p| p[0] * x + p[1])
    }),
    Property::onnx("ParametricSoftplus", &[1], |draw, dtype| {
        activation_of(draw, dtype, &["alpha", "beta"], |x, p| p[0] * (p[1] * x).exp().ln_1p())
    }),
    Property::onnx("Scale", &[1], |draw, dtype| {
        activation(draw, dtype, &[("scale", 1.0)], |x, p| p[0] * x)
    }),
    Property::onnx("ScaledTanh", &[1], |draw, dtype| {
        activation_of(draw, dtype, &["alpha", "beta"], |x, p| p[0] * (p[1] * x).tanh())
    }),
    Property::onnx("Celu", &[12, 28], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 1.0)], |x, p| {
            x.max(0.0) + (p[0] * (x / p[0]).exp_m1()).min(0.0)
        })
    }),
    Property::onnx("Elu", &[1, 22], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 1.0)], |x, p| elu(x, p[0]))
    }),
    Property::onnx("HardSigmoid", &[1, 22], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 0.2), ("beta", 0.5)], |x, p| {
            (p[0] * x + p[1]).clamp(0.0, 1.0)
        })
    }),
    Property::onnx("LeakyRelu", &[1, 16], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 0.01)], |x, p| if x < 0.0 { p[0] * x } else { x })
    }),
    Property::microsoft("QuickGelu", |draw, dtype| {
        activation(draw, dtype, &[("alpha", 1.702)], |x, p| x * sigmoid(p[0] * x))
    }),
    Property::onnx("Selu", &[1, 6, 22], |draw, dtype| {
        let (alpha, gamma) =
            if draw.version < 6 { (1.6732, 1.0507) } else { (1.673_263_2, 1.050_701) };
        activation(draw, dtype, &[("alpha", alpha), ("gamma", gamma)], |x, p| p[1] * elu(x, p[0]))
    }),
    Property::onnx("Shrink", &[9], shrink),
    Property::onnx("Swish", &[24], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 1.0)], |x, p| x * sigmoid(p[0] * x))
    }),
    Property::onnx("SwiGLU", &[28], gated),
    Property::onnx("ThresholdedRelu", &[10, 22], |draw, dtype| {
        activation(draw, dtype, &[("alpha", 1.0)], |x, p| if x > p[0] { x } else { 0.0 })
    }),
    Property::onnx("Gelu", &[20], |draw, dtype| {
        let written = draw.pick(&[None, Some("none"), Some("tanh")]);
        let f = if written == Some("tanh") { gelu_by_tanh } else { gelu };
        let sample = biased(draw, dtype, false, f);
        match written {
            Some(form) => sample.attr("approximate", Attr::String(form.to_owned())),
            None => sample,
        }
    }),
    Property::microsoft("Gelu", |draw, dtype| biased(draw, dtype, false, gelu)),
    Property::microsoft("BiasGelu", |draw, dtype| biased(draw, dtype, true, gelu)),
    Property::microsoft("FastGelu", |draw, dtype| {
        let has_bias = draw.one_in(2);
        biased(draw, dtype, has_bias, gelu_by_tanh)
    }),
];

/// Up to eight operations, each within an ULP of a double.
const OPERATIONS: f64 = 8.0;

/// A function of floats with attributes that have defaults: each is absent or given.
fn activation(
    draw: &mut Draw,
    dtype: DType,
    attrs: &[(&str, f32)],
    f: fn(f64, &[f64]) -> f64,
) -> Sample {
    let given: Vec<_> = attrs.iter().map(|_| draw.pick(&[None, Some(0.25), Some(3.0)])).collect();
    let values = attrs.iter().zip(&given).map(|((_, default), given)| given.unwrap_or(*default));
    let sample = formula(draw, dtype, values.collect(), f);
    with_floats(sample, attrs.iter().map(|(name, _)| *name).zip(given))
}

/// The same with attributes that have none.
fn activation_of(
    draw: &mut Draw,
    dtype: DType,
    names: &[&str],
    f: fn(f64, &[f64]) -> f64,
) -> Sample {
    let given: Vec<_> = names.iter().map(|_| draw.pick(&[0.25, 3.0])).collect();
    let sample = formula(draw, dtype, given.clone(), f);
    with_floats(sample, names.iter().copied().zip(given.into_iter().map(Some)))
}

fn formula(
    draw: &mut Draw,
    dtype: DType,
    parameters: Vec<f32>,
    f: fn(f64, &[f64]) -> f64,
) -> Sample {
    let shape = draw.shape(0);
    let x = draw.real(dtype, &shape, 6.0);
    let parameters: Vec<_> = parameters.into_iter().map(f64::from).collect();
    Sample::mapped(&x, OPERATIONS, move |x| Cell::Float(f(x.float(), &parameters)))
}

fn with_floats<'a>(sample: Sample, attrs: impl Iterator<Item = (&'a str, Option<f32>)>) -> Sample {
    attrs.fold(sample, |sample, (name, value)| match value {
        Some(value) => sample.attr(name, Attr::Float(value)),
        None => sample,
    })
}

fn elu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * x.exp_m1() } else { x }
}

/// Of integers, too, which are rounded toward zero. The bias is at most the threshold, so that no
/// unsigned integer would fall below zero.
fn shrink(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.real(dtype, &shape, 4.0);
    let (bias, lambd) = draw.pick(&[(None, None), (Some(0.25), None), (Some(1.5), Some(2.0))]);
    let (b, l) = (f64::from(bias.unwrap_or(0.0)), f64::from(lambd.unwrap_or(0.5)));
    let shrunk = move |x: f64| match x {
        x if x < -l => x + b,
        x if x > l => x - b,
        _ => 0.0,
    };
    let sample = Sample::mapped(&x, 1.0, move |x| match x {
        Cell::Int(_) => Cell::whole(shrunk(x.float()).trunc()),
        x => Cell::Float(shrunk(x.float())),
    });
    with_floats(sample, [("bias", bias), ("lambd", lambd)].into_iter())
}

/// The Swish of one operand times another one of its shape.
fn gated(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let [a, b] = [0, 1].map(|_| draw.real(dtype, &shape, 6.0));
    let given = draw.pick(&[None, Some(0.25), Some(3.0)]);
    let alpha = f64::from(given.unwrap_or(1.0));
    let sample = Sample::new(&[&a.clone(), &b.clone()], move || {
        let (a, b) = (Array::of(&a), Array::of(&b));
        let y = Array::from_fn(&a.shape, |at| {
            let (a, b) = (a.at(at).float(), b.at(at).float());
            Cell::Float(a / (1.0 + (-alpha * a).exp()) * b)
        });
        Expected::rounded(dtype, y, OPERATIONS)
    });
    with_floats(sample, [("alpha", given)].into_iter())
}

/// `f(x + bias)`, the bias along the last axis.
fn biased(draw: &mut Draw, dtype: DType, has_bias: bool, f: fn(f64) -> f64) -> Sample {
    let shape = draw.shape(usize::from(has_bias));
    let x = draw.real(dtype, &shape, 3.0);
    let bias: Option<Tensor> = has_bias.then(|| draw.real(dtype, &shape[shape.len() - 1..], 1.0));
    let (operand, along) = (x.clone(), bias.clone());
    Sample::new(&[&x], move || {
        let (x, bias) = (Array::of(&operand), along.as_ref().map(Array::of));
        let y = Array::from_fn(&x.shape, |i| {
            let bias = bias.as_ref().map_or(0.0, |bias| bias.at_broadcast(i).float());
            Cell::Float(f(x.at(i).float() + bias))
        });
        // At −4, half of 1 + erf(x/√2) or 1 + tanh is 3·10⁻⁵: 15 bits of 1 are lost.
        Expected::rounded(operand.dtype(), y, f64::from(1 << 17))
    })
    .input(1, bias)
}

fn gelu(x: f64) -> f64 {
    x * 0.5 * (1.0 + erf(x / 2.0_f64.sqrt()))
}

fn gelu_by_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}
