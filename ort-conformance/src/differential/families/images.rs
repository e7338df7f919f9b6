//! Networks of images whose channels fill NCHWc blocks: convolutions, pools, resizes, sums, concatenations and gates,
//! which run in the NCHWc layout where that pays.

use super::super::net::{Net, ROUNDING, Value, list};
use super::epilogue::{epilogue, function};

/// Layers of a network.
const MOST_LAYERS: usize = 5;

/// Kernels of two axes, and whether each channel has its own.
const KERNELS: [([usize; 2], bool); 12] = [
    ([3, 3], false),
    ([1, 1], false),
    ([3, 3], false),
    ([1, 1], false),
    ([3, 3], true),
    ([5, 5], true),
    ([3, 1], false),
    ([1, 3], false),
    ([1, 5], false),
    ([5, 1], false),
    ([5, 5], false),
    ([7, 7], false),
];

pub(super) fn network(net: &mut Net<'_>) -> Vec<Value> {
    let channels = match net.draw.between(0, 3) {
        0 => net.draw.pick(&[3, 1, 4]),
        1 => net.draw.size(1, 200),
        _ => 8 * net.draw.size(1, 24),
    };
    let most = (net.draw.size(10_000, 200_000) / channels).max(1);
    let h = net.draw.size(1, most.min(250));
    let w = net.draw.size(1, (most / h).clamp(1, 400));
    let n = net.draw.pick(&[1, 1, 1, 2]);
    let x = net.input(&[n, channels, h, w]);
    let mut values = vec![convolved(net, &x)];
    for _ in 0..net.draw.between(0, MOST_LAYERS - 1) {
        let last = values[values.len() - 1].clone();
        let x = if net.draw.one_in(4) {
            net.draw.between(0, values.len() - 1)
        } else {
            values.len() - 1
        };
        let x = values.get(x).cloned().unwrap_or(last);
        let y = match net.draw.between(0, 9) {
            0..=3 => convolved(net, &x),
            4 => pooled(net, &x),
            5 => enlarged(net, &x),
            6 => joined(net, &x, &values),
            7 => gated(net, &x),
            8 => residual(net, &x, &values),
            _ => epilogue(net, x.clone()),
        };
        values.push(y);
    }
    let last = values.len() - 1;
    if net.draw.one_in(3) {
        values[last] = whole(net, &values[last].clone());
    }
    let first = if last > 1 && net.draw.one_in(5) { last - 1 } else { last };
    values.split_off(first)
}

/// The filters of a convolution that keeps an image's size, or halves it.
struct Filters {
    kernel: [usize; 2],
    stride: usize,
    group: usize,
    n: usize,
}

fn convolved(net: &mut Net<'_>, x: &Value) -> Value {
    let (kernel, is_depthwise) = net.draw.pick(&KERNELS);
    let stride = net.draw.pick(&[1, 1, 1, 2]);
    let (channels, taps) = (x.shape[1], kernel[0] * kernel[1]);
    if is_depthwise {
        return convolution(net, x, &Filters { kernel, stride, group: channels, n: channels });
    }
    let cost = x.shape.iter().product::<usize>() * taps / (stride * stride);
    let most = (net.draw.budget() / MOST_LAYERS / cost.max(1)).clamp(1, 256);
    let n = match most < 8 || net.draw.one_in(4) {
        true => net.draw.size(1, most),
        false => 8 * net.draw.size(1, most / 8),
    };
    convolution(net, x, &Filters { kernel, stride, group: 1, n })
}

fn convolution(net: &mut Net<'_>, x: &Value, filters: &Filters) -> Value {
    let &Filters { kernel, stride, group, n } = filters;
    // Dimensions of 1 are too small for a kernel only without pads.
    let [top, left] = kernel.map(|size| size / 2);
    let (taps, of_group) = (kernel[0] * kernel[1], x.shape[1] / group);
    let terms = of_group * taps;
    let w = net.weights(&[n, of_group, kernel[0], kernel[1]], terms);
    let bias = net.draw.one_in(2).then(|| net.scaled('w', &[n], 1));
    let mut inputs = vec![x.name.as_str(), w.name.as_str()];
    inputs.extend(bias.iter().map(|bias| bias.name.as_str()));
    let op = format!(
        "Conv-11 [group: {group}, kernel_shape: [{}], strides: [{stride}, {stride}], \
         pads: [{top}, {left}, {top}, {left}]]",
        list(&kernel)
    );
    let name = net.node(&op, &inputs);
    let outputs = x.shape[2..].iter().map(|dim| (dim - 1) / stride + 1);
    let shape = [x.shape[0], n].into_iter().chain(outputs).collect();
    let mut y = Value::sums(name, shape, (terms, [x, &w]), bias.as_ref());
    // Transformed filters.
    y.error *= if taps > 1 { 4.0 } else { 1.0 };
    if net.draw.one_in(2) { function(net, &y) } else { y }
}

/// Two convolutions of many channels in whole blocks, the first with windows that Winograd supports, and something
/// between them.
pub(super) fn blocks(net: &mut Net<'_>) -> Vec<Value> {
    let [channels, inner, filters] = [1, 2, 3].map(|_| 16 * net.draw.between(1, 8));
    let kernel = net.draw.pick(&[[3, 3], [3, 3], [1, 5], [5, 1], [1, 3], [3, 1]]);
    let taps = kernel[0] * kernel[1];
    let most = net.draw.budget() / (channels * inner * taps + inner * filters);
    let h = net.draw.size(8.min(most.max(1)), (most / 8).clamp(8, 120));
    let w = net.draw.size(1, (most / h).clamp(1, 250));
    let x = net.input(&[1, channels, h, w]);
    let y = convolution(net, &x, &Filters { kernel, stride: 1, group: 1, n: inner });
    let values = [x, y.clone()];
    let y = match net.draw.between(0, 5) {
        0 => pooled(net, &y),
        1 => enlarged(net, &y),
        2 => joined(net, &y, &values),
        3 => gated(net, &y),
        4 => residual(net, &y, &values),
        _ => epilogue(net, y),
    };
    let z = convolution(net, &y, &Filters { kernel: [1, 1], stride: 1, group: 1, n: filters });
    vec![match net.draw.between(0, 3) {
        0 => whole(net, &z),
        1 => pooled(net, &z),
        2 => epilogue(net, z),
        _ => z,
    }]
}

fn pooled(net: &mut Net<'_>, x: &Value) -> Value {
    let (size, stride) = net.draw.pick(&[(2, 2), (3, 2), (3, 1), (5, 1)]);
    let pad = if size == 2 { 0 } else { size / 2 };
    let dims = &x.shape[2..];
    if dims.iter().any(|&dim| dim + 2 * pad < size) {
        return x.clone();
    }
    let op = net.draw.pick(&["MaxPool-12", "AveragePool-11"]);
    let name = net.node(
        &format!(
            "{op} [kernel_shape: [{size}, {size}], strides: [{stride}, {stride}], pads: [{pad}, {pad}, {pad}, {pad}]]"
        ),
        &[&x.name],
    );
    let outputs = dims.iter().map(|dim| (dim + 2 * pad - size) / stride + 1);
    let shape = x.shape[..2].iter().copied().chain(outputs).collect();
    let (size, error) = x.after(1.0, x.size);
    Value { name, shape, size, error }
}

fn enlarged(net: &mut Net<'_>, x: &Value) -> Value {
    if x.shape.iter().product::<usize>() > 250_000 {
        return x.clone();
    }
    let scales = net.literal("float[4] [1, 1, 2, 2]");
    let op = net.draw.pick(&[
        "Resize-13 [coordinate_transformation_mode: \"asymmetric\", mode: \"nearest\", nearest_mode: \"floor\"]",
        "Resize-13 [coordinate_transformation_mode: \"half_pixel\", mode: \"linear\"]",
        "Resize-13 [coordinate_transformation_mode: \"align_corners\", mode: \"linear\"]",
    ]);
    let name = net.node(op, &[&x.name, "_", &scales]);
    let shape = vec![x.shape[0], x.shape[1], 2 * x.shape[2], 2 * x.shape[3]];
    let (size, error) = x.after(1.0, x.size);
    Value { name, shape, size, error }
}

fn joined(net: &mut Net<'_>, x: &Value, values: &[Value]) -> Value {
    let is_fit = |other: &&Value| other.shape[0] == x.shape[0] && other.shape[2..] == x.shape[2..];
    let Some(other) = values.iter().find(is_fit) else { return x.clone() };
    let name = net.node("Concat-13 [axis: 1]", &[&x.name, &other.name]);
    let mut shape = x.shape.clone();
    shape[1] += other.shape[1];
    Value { name, shape, size: x.size.max(other.size), error: x.error.max(other.error) }
}

fn residual(net: &mut Net<'_>, x: &Value, values: &[Value]) -> Value {
    let Some(other) = values.iter().rev().find(|other| other.shape == x.shape) else {
        return x.clone();
    };
    let name = net.node("Add-14", &[&x.name, &other.name]);
    let size = x.size + other.size;
    Value {
        name,
        shape: x.shape.clone(),
        size,
        error: (x.error + other.error).hypot(ROUNDING * size),
    }
}

/// The mean of everything.
fn whole(net: &mut Net<'_>, x: &Value) -> Value {
    let op = net.draw.pick(&["GlobalAveragePool-1", "GlobalMaxPool-1"]);
    let name = net.node(op, &[&x.name]);
    let shape = vec![x.shape[0], x.shape[1], 1, 1];
    let (size, error) = x.after(1.0, x.size);
    Value { name, shape, size, error }
}

/// Squeeze and excite.
fn gated(net: &mut Net<'_>, x: &Value) -> Value {
    let pooled = whole(net, x);
    let channels = x.shape[1];
    let w = net.scaled('w', &[channels, channels, 1, 1], channels);
    let name = net.node("Conv-11", &[&pooled.name, &w.name]);
    let sums = Value::sums(name, pooled.shape.clone(), (channels, [&pooled, &w]), None);
    let gate = net.mapped("Sigmoid-13", &sums, (0.25, 1.0));
    let name = net.node("Mul-14", &[&x.name, &gate.name]);
    let error = x.error.hypot(4.0 * x.size * gate.error).hypot(ROUNDING * x.size);
    Value { name, shape: x.shape.clone(), size: x.size, error }
}
