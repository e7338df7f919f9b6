//! What follows a product: biases, functions, sums with other values, factors.

use super::super::net::{Net, Value};

/// Functions with their steepest slope, and the bound of their results if there is one.
const FUNCTIONS: [(&str, f64, Option<f64>); 14] = [
    ("Relu-14", 1.0, None),
    ("Sigmoid-13", 0.25, Some(1.0)),
    ("Tanh-13", 1.0, Some(1.0)),
    ("LeakyRelu-16 [alpha: 0.1]", 1.0, None),
    ("HardSigmoid-6", 0.2, Some(1.0)),
    ("HardSwish-14", 1.5, None),
    ("Elu-6", 1.0, None),
    ("Selu-6", 1.8, None),
    ("Softplus-1", 1.0, None),
    ("Gelu-20", 1.2, None),
    ("Gelu-20 [approximate: \"tanh\"]", 1.2, None),
    ("Mish-18", 1.2, None),
    ("Erf-13", 1.2, Some(1.0)),
    ("Neg-13", 1.0, None),
];

/// A function of a value.
pub(super) fn function(net: &mut Net<'_>, x: &Value) -> Value {
    if net.draw.one_in(6) {
        return clipped(net, x);
    }
    let (op, slope, most) = net.draw.pick(&FUNCTIONS);
    // Softplus of zeros is ln 2.
    let size = most.unwrap_or_else(|| (x.size * slope.max(1.0)).max(0.7));
    net.mapped(op, x, (slope, size))
}

fn clipped(net: &mut Net<'_>, x: &Value) -> Value {
    let bounds: (&str, &str) = net.draw.pick(&[("0", "6"), ("-0.5", "0.5"), ("0", "0.25")]);
    let low = net.literal(&format!("float[] {}", bounds.0));
    let high = net.literal(&format!("float[] {}", bounds.1));
    let name = net.node("Clip-13", &[&x.name, &low, &high]);
    Value { name, ..x.clone() }
}

/// `x · sigmoid(x)` in two nodes.
fn gated(net: &mut Net<'_>, x: &Value) -> Value {
    let gate = net.node("Sigmoid-13", &[&x.name]);
    let name = net.node("Mul-14", &[&x.name, &gate]);
    let (size, error) = x.after(1.1, x.size.max(0.1));
    Value { name, shape: x.shape.clone(), size, error }
}

/// A sum with another value of the same shape, or one that broadcasts to it.
pub(super) fn sum(net: &mut Net<'_>, x: &Value) -> Value {
    let mut shape = x.shape.clone();
    if net.draw.one_in(4) {
        let i = net.draw.between(0, shape.len().saturating_sub(1));
        if let Some(dim) = shape.get_mut(i) {
            *dim = 1;
        }
    }
    let other = net.input(&shape);
    let (op, is_swapped) = (net.draw.pick(&["Add-14", "Sub-14"]), net.draw.one_in(3));
    let operands = if is_swapped { [&other.name, &x.name] } else { [&x.name, &other.name] };
    let name = net.node(op, &operands.map(String::as_str));
    let size = x.size.hypot(other.size);
    Value { name, shape: x.shape.clone(), size, error: x.error.hypot(2.0 * super::ROUNDING * size) }
}

/// A factor and a shift for each channel, which is axis 1.
fn scaled(net: &mut Net<'_>, x: &Value) -> Value {
    let mut shape = vec![1; x.shape.len()];
    let Some(channels) = x.shape.get(1).copied() else { return x.clone() };
    shape[1] = channels;
    let factor = net.positive('w', &shape);
    let name = net.node("Mul-14", &[&x.name, &factor.name]);
    let (size, error) = x.after(1.5, 1.5 * x.size);
    let product = Value { name, shape: x.shape.clone(), size, error };
    let shift = net.scaled('w', &shape, 1);
    let name = net.node("Add-14", &[&product.name, &shift.name]);
    let (size, error) = product.after(1.0, product.size.hypot(shift.size));
    Value { name, shape: x.shape.clone(), size, error }
}

/// BatchNormalization of images, whose channels may be the last dimension.
pub(super) fn normalized(net: &mut Net<'_>, x: &Value, is_last: bool) -> Value {
    let (axis, domain) = match is_last {
        true => (x.shape.len().saturating_sub(1), "com.ms.internal.nhwc:"),
        false => (1, ""),
    };
    let Some(channels) = x.shape.get(axis).copied() else { return x.clone() };
    let (scale, variance) = (net.positive('w', &[channels]), net.positive('w', &[channels]));
    let (shift, mean) = (net.scaled('w', &[channels], 1), net.scaled('w', &[channels], 1));
    let inputs = [&x.name, &scale.name, &shift.name, &mean.name, &variance.name];
    let op = format!("{domain}BatchNormalization-15");
    let name = net.node(&op, &inputs.map(String::as_str));
    // A scale is below 1.5, and a deviation above 0.7.
    let (size, error) = x.after(2.2, 2.2 * x.size.hypot(mean.size) + shift.size);
    Value { name, shape: x.shape.clone(), size, error }
}

/// What may follow a product, each at most once.
pub(super) fn epilogue(net: &mut Net<'_>, x: Value) -> Value {
    let mut x = x;
    for _ in 0..net.draw.between(0, 3) {
        x = match net.draw.between(0, 5) {
            0 | 1 => function(net, &x),
            2 => sum(net, &x),
            3 => scaled(net, &x),
            4 => normalized(net, &x, false),
            _ => gated(net, &x),
        };
    }
    x
}
