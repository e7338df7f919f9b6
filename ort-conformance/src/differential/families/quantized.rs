//! Quantized operators: products and convolutions of bytes, sums and products of quantized values, pools, and
//! conversions between quantized values and floats.
//!
//! Sums of bytes are exact, and so are results up to the last rounding: a result half way between two quantized
//! values, up to a rounding, may be either.

use super::super::net::{Net, ROUNDING, Value, list};
use super::elementwise::shape;
use super::epilogue::normalized;

/// One quantization step, over the factor of bounds.
const QUANTUM: f64 = 1.0 / 12.0;

fn quantized(name: String) -> Value {
    Value { name, shape: Vec::new(), size: 128.0, error: QUANTUM }
}

/// A byte's zero point as a literal.
fn zero(net: &mut Net<'_>, dtype: &str) -> String {
    let zero = match dtype {
        "uint8" => net.draw.pick(&[128, 0, 255, 3]),
        _ => net.draw.pick(&[0, 5, -128]),
    };
    net.literal(&format!("{dtype}[] {zero}"))
}

fn scale(net: &mut Net<'_>, scale: f64) -> String {
    net.literal(&format!("float[] {scale:.6}"))
}

/// The scale of results so that sums of `k` products of bytes with these scales are quantized values.
fn result_scale(k: usize, scales: [f64; 2]) -> f64 {
    (100.0 * (k as f64).sqrt() * scales[0] * scales[1]).max(0.000_1)
}

const A_SCALE: f64 = 0.02;
const B_SCALE: f64 = 0.01;

pub(super) fn sizes(net: &mut Net<'_>) -> [usize; 3] {
    let first = net.draw.size(1, 2_000);
    let second = net.draw.size(1, (net.draw.budget() / first).clamp(1, 1_000));
    let third = net.draw.size(1, (net.draw.budget() / first / second).clamp(1, 1_000));
    let mut sizes = [first, second, third];
    sizes.rotate_left(net.draw.between(0, 2));
    sizes
}

pub(super) fn matmul(net: &mut Net<'_>) -> Vec<Value> {
    let [m, n, k] = sizes(net);
    let (of_a, of_b) = (net.draw.pick(&["uint8", "int8"]), net.draw.pick(&["int8", "uint8"]));
    let a = net.any('x', "", of_a, &[m, k]);
    // A constant, or another activation.
    let letter = net.draw.pick(&['w', 'w', 'x']);
    let b = net.any(letter, "", of_b, &[k, n]);
    let (a_zero, b_zero) = (zero(net, of_a), zero(net, of_b));
    let (a_scale, b_scale) = (scale(net, A_SCALE), scale(net, B_SCALE));
    match net.draw.between(0, 3) {
        0 => {
            let name = net.node("MatMulInteger-10", &[&a.name, &b.name, &a_zero, &b_zero]);
            vec![Value { name, ..a }]
        }
        1 => {
            let inputs = [&a.name, &b.name, &a_scale, &b_scale, &a_zero, &b_zero];
            let op = "com.microsoft:MatMulIntegerToFloat-1";
            let name = net.node(op, &inputs.map(String::as_str));
            let size = k as f64 * A_SCALE * B_SCALE * 128.0 * 128.0;
            vec![Value { name, shape: Vec::new(), size, error: ROUNDING * size }]
        }
        2 => {
            let y_scale = scale(net, result_scale(k, [A_SCALE, B_SCALE]));
            let y_zero = zero(net, of_a);
            let left = [&a.name, &a_scale, &a_zero, &b.name, &b_scale, &b_zero];
            let inputs = left.into_iter().chain([&y_scale, &y_zero]);
            let inputs: Vec<&str> = inputs.map(String::as_str).collect();
            vec![quantized(net.node("QLinearMatMul-10", &inputs))]
        }
        _ => gemm(net, [&a, &b], [of_a, of_b], [m, n, k]),
    }
}

/// QGemm, whose right operand may be transposed.
fn gemm(
    net: &mut Net<'_>,
    [a, b]: [&Value; 2],
    types: [&str; 2],
    [m, n, k]: [usize; 3],
) -> Vec<Value> {
    let is_a_transposed = net.draw.one_in(3);
    let columns = net.any('x', "", types[0], &[k, m]);
    let a = if is_a_transposed { &columns } else { a };
    let is_transposed = net.draw.one_in(2);
    let transposed = net.any('w', "", types[1], &[n, k]);
    let b = if is_transposed { &transposed } else { b };
    let (a_zero, b_zero) = (zero(net, types[0]), zero(net, types[1]));
    let (a_scale, b_scale) = (scale(net, A_SCALE), scale(net, B_SCALE));
    let y_scale = scale(net, result_scale(k, [A_SCALE, B_SCALE]));
    let y_zero = zero(net, types[0]);
    let bias = net.any('w', "_n2000", "int32", &[n]);
    let bias = if net.draw.one_in(2) { bias.name.as_str() } else { "_" };
    let [of_a, of_b] = [is_a_transposed, is_transposed].map(u8::from);
    let op = format!("com.microsoft:QGemm-1 [transA: {of_a}, transB: {of_b}]");
    let inputs = [&a.name, &a_scale, &a_zero, &b.name, &b_scale, &b_zero, bias, &y_scale, &y_zero];
    vec![quantized(net.node(&op, &inputs))]
}

/// MatMulNBits of any bits and blocks, with or without zero points.
pub(super) fn few_bits(net: &mut Net<'_>) -> Vec<Value> {
    let [m, n, k] = sizes(net);
    let (bits, block) = (net.draw.pick(&[4, 4, 2, 8]), net.draw.pick(&[32, 16, 64, 128, 256]));
    let (n_blocks, level) = (k.div_ceil(block), net.draw.pick(&[4, 0, 1]));
    let a = net.input(&[m, k]);
    let packed = net.any('w', "", "uint8", &[n, n_blocks, block * bits / 8]);
    let scales = net.positive('w', &[n, n_blocks]);
    let zeros = net.any('w', "", "uint8", &[n * (n_blocks * bits).div_ceil(8)]);
    let zeros = if net.draw.one_in(2) { zeros.name.as_str() } else { "_" };
    let bias = net.scaled('w', &[n], 1);
    let bias = if net.draw.one_in(2) { bias.name.as_str() } else { "_" };
    let groups = net.any('w', &format!("_n{n_blocks}"), "int32", &[k]);
    let groups = if net.draw.one_in(4) { groups.name.as_str() } else { "_" };
    let op = format!(
        "com.microsoft:MatMulNBits-1 [K: {k}, N: {n}, bits: {bits}, block_size: {block}, accuracy_level: {level}]"
    );
    let name = net.node(&op, &[&a.name, &packed.name, &scales.name, zeros, groups, bias]);
    // The difference of two quantized values, times a scale of at most 1.5.
    let weight = (bits as f64).exp2() / 6.0_f64.sqrt() * 1.1;
    let size = (k as f64).sqrt() * a.size * weight + 1.0;
    // At most half a step of 8 bits, in either direction.
    let step = if level == 4 { 1.0 / 127.0 / 12.0_f64.sqrt() } else { 0.0 };
    let error = (k as f64).sqrt() * (step + ROUNDING * size) * weight;
    vec![Value { name, shape: vec![m, n], size, error }]
}

/// DynamicQuantizeLSTM, with a scale for all units or for each.
pub(super) fn lstm(net: &mut Net<'_>) -> Vec<Value> {
    let (direction, n) = net.draw.pick(&[("forward", 1), ("reverse", 1), ("bidirectional", 2)]);
    let (hidden, input) = (net.draw.size(1, 200), net.draw.size(1, 200));
    let batch = net.draw.pick(&[1, 1, 2, 5]);
    let budget = net.draw.budget().min(20_000_000) / 4;
    let steps = net.draw.size(1, (budget / (n * hidden * (hidden + input) * batch)).clamp(1, 50));
    let x = net.input(&[steps, batch, input]);
    let dtype = net.draw.pick(&["int8", "uint8"]);
    let w = net.any('w', "", dtype, &[n, input, 4 * hidden]);
    let r = net.any('w', "", dtype, &[n, hidden, 4 * hidden]);
    let bias = net.scaled('w', &[n, 8 * hidden], 1);
    let first = net.scaled('x', &[n, batch, hidden], 1);
    let form = if net.draw.one_in(2) { format!("{n}") } else { format!("{n},{}", 4 * hidden) };
    // Rows of weights sum to about a quarter, so that a state forgets.
    let mut literals = [input, hidden].into_iter().map(|k| {
        let scale = 1.0 / 256.0 / (k as f64).sqrt();
        let zero = if dtype == "uint8" { 128 } else { 0 };
        let scale = net.literal(&format!("float[{form}] fill {scale:.7}"));
        [scale, net.literal(&format!("{dtype}[{form}] fill {zero}"))]
    });
    let literals = [literals.next(), literals.next()].map(Option::unwrap_or_default);
    let mut inputs = vec![x.name.as_str(), &w.name, &r.name, &bias.name, "_"];
    inputs.extend([first.name.as_str(), &first.name, "_"]);
    inputs.extend(literals.as_flattened().iter().map(String::as_str));
    let op = format!("com.microsoft:DynamicQuantizeLSTM-1 [direction: \"{direction}\"]");
    let names = net.node_of(&op, &inputs, 3);
    // Sometimes a quantized value of the state is off by one.
    let code = 2.0 / 255.0 * 0.25 / (hidden as f64).sqrt();
    let value = |name| Value { name, shape: Vec::new(), size: 1.0, error: code + 64.0 * ROUNDING };
    names.into_iter().map(value).collect()
}

pub(super) fn dynamic(net: &mut Net<'_>) -> Vec<Value> {
    if net.draw.one_in(3) {
        let shape = shape(net, 500_000);
        let x = net.input(&shape);
        let names = net.node_of("DynamicQuantizeLinear-11", &[&x.name], 3);
        let errors = [QUANTUM, ROUNDING, QUANTUM];
        let value = |(name, error)| Value { name, shape: Vec::new(), size: 1.0, error };
        return names.into_iter().zip(errors).map(value).collect();
    }
    let [m, n, k] = sizes(net);
    let x = net.input(&[m, k]);
    let dtype = net.draw.pick(&["int8", "uint8"]);
    let b = net.any('w', "", dtype, &[k, n]);
    let (b_scale, b_zero) = (scale(net, B_SCALE), zero(net, dtype));
    let bias = net.scaled('w', &[n], 1);
    let bias = if net.draw.one_in(2) { bias.name.as_str() } else { "_" };
    let inputs = [&x.name, &b.name, &b_scale, &b_zero, bias];
    let name = net.node("com.microsoft:DynamicQuantizeMatMul-1", &inputs);
    // A quantized value of the left operand may be off by one: once or twice in a row.
    let size = (k as f64).sqrt() * 128.0 * B_SCALE;
    let code = 2.0 / 255.0 * 255.0 * B_SCALE;
    vec![Value {
        name,
        shape: Vec::new(),
        size,
        error: QUANTUM * 2.0 * code + 8.0 * ROUNDING * size,
    }]
}

/// The sizes of a convolution.
struct Windows {
    are_last: bool,
    filters: usize,
    /// The number of products in a sum.
    k: usize,
    x: Vec<usize>,
    w: Vec<usize>,
    attrs: String,
}

fn windows(net: &mut Net<'_>, may_be_last: bool) -> Windows {
    let rank = net.draw.pick(&[2, 2, 1, 3]);
    let are_last = may_be_last && net.draw.one_in(3);
    let channels = net.draw.size(1, 200);
    let group = net.draw.pick(&[1, 1, channels]);
    let mut rest = (net.draw.size(2_000, 200_000) / channels).max(1);
    let (mut dims, mut kernel, mut strides, mut pads) = (vec![], vec![], vec![], vec![0; 2 * rank]);
    let mut n_outputs = 1;
    for i in 0..rank {
        let dim = net.draw.size(1, if i + 1 == rank { rest } else { rest.min(300) });
        rest = (rest / dim).max(1);
        let (size, stride) = (net.draw.pick(&[3, 1, 2, 5]).min(dim), net.draw.pick(&[1, 1, 2]));
        (pads[i], pads[rank + i]) = (net.draw.between(0, size - 1), net.draw.between(0, size - 1));
        n_outputs *= (dim + pads[i] + pads[rank + i] - size) / stride + 1;
        dims.push(dim);
        kernel.push(size);
        strides.push(stride);
    }
    let k = channels / group * kernel.iter().product::<usize>();
    let most = net.draw.budget() / (n_outputs * k * group).max(1);
    let filters = match are_last && group > 1 {
        true => group,
        false => group * net.draw.size(1, most.clamp(1, (200 / group).max(2))),
    };
    let image = dims.iter().copied();
    let x = match are_last {
        true => [1].into_iter().chain(image).chain([channels]).collect(),
        false => [1, channels].into_iter().chain(image).collect(),
    };
    let w = [filters, channels / group].into_iter().chain(kernel.iter().copied()).collect();
    let attrs = format!(
        "group: {group}, kernel_shape: [{}], strides: [{}], pads: [{}]",
        list(&kernel),
        list(&strides),
        list(&pads)
    );
    Windows { are_last, filters, k, x, w, attrs }
}

pub(super) fn convolution(net: &mut Net<'_>) -> Vec<Value> {
    let Windows { are_last, filters, k, x, w, attrs } = windows(net, true);
    let (of_x, of_w) = (net.draw.pick(&["uint8", "int8"]), net.draw.pick(&["int8", "uint8"]));
    let x = net.any('x', "", of_x, &x);
    let w = net.any('w', "", of_w, &w);
    let w_scale = match net.draw.one_in(2) {
        true => net.any('w', "_p_s7", "float", &[filters]).name,
        false => scale(net, B_SCALE),
    };
    let (x_scale, x_zero) = (scale(net, A_SCALE), zero(net, of_x));
    let w_zero = zero(net, of_w);
    let (y_scale, y_zero) = (scale(net, result_scale(k, [A_SCALE, B_SCALE])), zero(net, of_x));
    let bias = net.any('w', "_n2000", "int32", &[filters]);
    let op = match are_last {
        true => format!("com.microsoft:QLinearConv-1 [{attrs}, channels_last: 1]"),
        false => format!("QLinearConv-10 [{attrs}]"),
    };
    let inputs = [&x.name, &x_scale, &x_zero, &w.name, &w_scale, &w_zero, &y_scale, &y_zero];
    let mut inputs = inputs.map(String::as_str).to_vec();
    if net.draw.one_in(2) {
        inputs.push(&bias.name);
    }
    vec![quantized(net.node(&op, &inputs))]
}

pub(super) fn integer_convolution(net: &mut Net<'_>) -> Vec<Value> {
    let Windows { filters, x, w, attrs, .. } = windows(net, false);
    let (of_x, of_w) = (net.draw.pick(&["uint8", "int8"]), net.draw.pick(&["int8", "uint8"]));
    let x = net.any('x', "", of_x, &x);
    let w = net.any('w', "", of_w, &w);
    let x_zero = zero(net, of_x);
    let w_zero = match net.draw.one_in(3) {
        true => net.any('w', "", of_w, &[filters]).name,
        false => zero(net, of_w),
    };
    let op = format!("ConvInteger-10 [{attrs}]");
    let name = net.node(&op, &[&x.name, &w.name, &x_zero, &w_zero]);
    vec![Value { name, ..x }]
}

/// A sum or a product of operands that broadcast.
fn broadcast(net: &mut Net<'_>, dtype: &str, shape: [usize; 4]) -> Vec<Value> {
    let [n, channels, _, w] = shape;
    let (x_scale, x_zero) = (scale(net, A_SCALE), zero(net, dtype));
    let a = net.any('x', "", dtype, &shape);
    let other = net.draw.pick(&[[1, 1, 1, w], [n, channels, 1, 1], [1, 1, 1, 1]]);
    let b = net.any('x', "", dtype, &other);
    let (b_scale, b_zero) = (scale(net, B_SCALE), zero(net, dtype));
    let op = net.draw.pick(&["com.microsoft:QLinearAdd-1", "com.microsoft:QLinearMul-1"]);
    let (y_scale, y_zero) = (scale(net, 0.03), zero(net, dtype));
    let mut pair = [(&a.name, &x_scale, &x_zero), (&b.name, &b_scale, &b_zero)];
    if net.draw.one_in(2) {
        pair.reverse();
    }
    let [(a, a_scale, a_zero), (b, b_scale, b_zero)] = pair;
    let inputs = [a, a_scale, a_zero, b, b_scale, b_zero, &y_scale, &y_zero];
    vec![quantized(net.node(op, &inputs.map(String::as_str)))]
}

/// Quantized operators: broadcasting, scales along an axis, Softmax, and global average pooling.
pub(super) fn operators(net: &mut Net<'_>) -> Vec<Value> {
    let dtype = net.draw.pick(&["uint8", "int8"]);
    let [n, channels] = [net.draw.size(1, 4), net.draw.size(1, 100)];
    let (h, w) = (net.draw.size(1, 60), net.draw.size(1, 60));
    let shape = [n, channels, h, w];
    let (x_scale, x_zero) = (scale(net, A_SCALE), zero(net, dtype));
    match net.draw.between(0, 5) {
        0 => broadcast(net, dtype, shape),
        1 => {
            let axis = net.draw.between(0, 3);
            let scales = net.any('w', "_p_s7", "float", &[shape[axis]]);
            let zeros = net.any('w', "", dtype, &[shape[axis]]);
            let x = net.input(&shape);
            let op = format!("QuantizeLinear-13 [axis: {axis}]");
            vec![quantized(net.node(&op, &[&x.name, &scales.name, &zeros.name]))]
        }
        2 => {
            let x = net.any('x', "", dtype, &shape);
            let y_scale = scale(net, 1.0 / 256.0);
            let y_zero = zero(net, dtype);
            let op = format!(
                "com.microsoft:QLinearSoftmax-1 [axis: {}, opset: {}]",
                net.draw.between(0, 3),
                net.draw.pick(&[13, 12])
            );
            let inputs = [&x.name, &x_scale, &x_zero, &y_scale, &y_zero];
            vec![quantized(net.node(&op, &inputs.map(String::as_str)))]
        }
        kind => {
            let x = net.any('x', "", dtype, &shape);
            let (y_scale, y_zero) = (scale(net, 0.005), zero(net, dtype));
            let channels_last = net.draw.between(0, 1);
            let op = match kind {
                5 => "QLinearSigmoid-1".to_owned(),
                3 => format!("QLinearGlobalAveragePool-1 [channels_last: {channels_last}]"),
                _ => format!(
                    "QLinearAveragePool-1 [channels_last: {channels_last}, kernel_shape: [3, 2], pads: [1, 0, 2, 1], count_include_pad: {}]",
                    net.draw.between(0, 1)
                ),
            };
            let op = format!("com.microsoft:{op}");
            let inputs = [&x.name, &x_scale, &x_zero, &y_scale, &y_zero];
            vec![quantized(net.node(&op, &inputs.map(String::as_str)))]
        }
    }
}

pub(super) fn pointwise(net: &mut Net<'_>) -> Vec<Value> {
    let shape = shape(net, 500_000);
    let dtype = net.draw.pick(&["uint8", "int8"]);
    let (x_scale, x_zero) = (scale(net, A_SCALE), zero(net, dtype));
    match net.draw.between(0, 3) {
        0 => {
            let a = net.any('x', "", dtype, &shape);
            let b = net.any('x', "", dtype, &shape);
            let (b_scale, b_zero) = (scale(net, B_SCALE), zero(net, dtype));
            let op = net.draw.pick(&["com.microsoft:QLinearAdd-1", "com.microsoft:QLinearMul-1"]);
            let (y_scale, y_zero) = (scale(net, 0.03), zero(net, dtype));
            let inputs =
                [&a.name, &x_scale, &x_zero, &b.name, &b_scale, &b_zero, &y_scale, &y_zero];
            vec![quantized(net.node(op, &inputs.map(String::as_str)))]
        }
        1 => {
            let x = net.input(&shape);
            vec![quantized(net.node("QuantizeLinear-13", &[&x.name, &x_scale, &x_zero]))]
        }
        2 => {
            let x = net.any('x', "", dtype, &shape);
            let name = net.node("DequantizeLinear-13", &[&x.name, &x_scale, &x_zero]);
            let x = Value { name, shape, size: 5.0, error: ROUNDING * 5.0 };
            if net.draw.one_in(2) {
                return vec![x];
            }
            let is_last = x.shape.len() > 1 && net.draw.one_in(2);
            let y = normalized(net, &x, is_last);
            let (y_scale, y_zero) = (scale(net, 0.1), zero(net, dtype));
            vec![quantized(net.node("QuantizeLinear-13", &[&y.name, &y_scale, &y_zero]))]
        }
        _ => pool(net, dtype),
    }
}

/// NhwcMaxPool of bytes.
fn pool(net: &mut Net<'_>, dtype: &str) -> Vec<Value> {
    let (h, w) = (net.draw.size(3, 100), net.draw.size(3, 100));
    let channels = net.draw.size(1, (400_000 / h / w).clamp(1, 300));
    let x = net.any('x', "", dtype, &[1, h, w, channels]);
    let (size, stride) = (net.draw.pick(&[2, 3]), net.draw.pick(&[1, 2]));
    let pad = net.draw.between(0, size - 1);
    let op = format!(
        "com.microsoft:NhwcMaxPool-1 [kernel_shape: [{size}, {size}], strides: [{stride}, {stride}], pads: [{pad}, 0, 0, {pad}]]"
    );
    let name = net.node(&op, &[&x.name]);
    vec![Value { name, ..x }]
}
