//! Weights of a few bits in other operators than MatMulNBits: gathered, dequantized for a product, or floats of 4 bits.

use super::super::net::{Net, ROUNDING, Value};
use super::quantized::sizes;

/// GatherBlockQuantized of rows, in the types that it has kernels for, and along other axes.
pub(super) fn gather(net: &mut Net<'_>) -> Vec<Value> {
    let (dtype, bits) =
        net.draw.pick(&[("uint8", 4), ("uint8", 8), ("int4", 4), ("uint4", 4), ("uint8", 2)]);
    let block = net.draw.pick(&[16, 32, 128, 256]);
    let len = 4 * net.draw.size(1, 500);
    let n_entries = net.draw.size(1, (400_000 / len).max(1));
    let (n_blocks, per_byte) = (len.div_ceil(block), 8 / bits);
    let (own, of_zeros) = match dtype {
        "uint8" => (len / per_byte, n_blocks.div_ceil(per_byte)),
        _ => (len, n_blocks),
    };
    let x = net.any('w', "", dtype, &[n_entries, own]);
    let scales = net.positive('w', &[n_entries, n_blocks]);
    let zeros = net.any('w', "", dtype, &[n_entries, of_zeros]);
    let zeros = if net.draw.one_in(2) { zeros.name.as_str() } else { "_" };
    let n = net.draw.size(1, (400_000 / len).max(1));
    let dtype = net.draw.pick(&["int64", "int32"]);
    // A few are out of range, and select zeros.
    let indices = net.any('x', &format!("_n{}", n_entries + 1), dtype, &[n]);
    let op = format!("com.microsoft:GatherBlockQuantized-1 [bits: {bits}, block_size: {block}]");
    let name = net.node(&op, &[&x.name, &indices.name, &scales.name, zeros]);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}

/// MatMul and Gemm of weights that are dequantized by block, or by column.
pub(super) fn dequantized(net: &mut Net<'_>) -> Vec<Value> {
    let [m, n, k] = sizes(net);
    let (dtype, bits) = net.draw.pick(&[
        ("int4", 4),
        ("uint4", 4),
        ("int8", 8),
        ("uint8", 8),
        ("int2", 2),
        ("uint2", 2),
    ]);
    // Without blocks, there is a scale for each column.
    let block = net.draw.pick(&[32, 16, 64, 128, 256, 8, 48, 1024, 0]);
    let is_transposed = net.draw.one_in(2);
    let shape = |len: usize| if is_transposed { [n, len] } else { [len, n] };
    let a = net.input(&[m, k]);
    let w = net.any('w', "", dtype, &shape(k));
    let of_scales = if block == 0 { vec![n] } else { shape(k.div_ceil(block)).to_vec() };
    let scales = net.positive('w', &of_scales);
    let zeros = net.any('w', "", dtype, &of_scales);
    let zeros = if net.draw.one_in(2) { zeros.name.as_str() } else { "_" };
    let axis = u8::from(is_transposed == (block != 0));
    let op = format!("DequantizeLinear-21 [axis: {axis}, block_size: {block}]");
    let d = net.node(&op, &[&w.name, &scales.name, zeros]);
    let bias = net.scaled('w', &[n], 1);
    let transposed = u8::from(is_transposed);
    let name = match net.draw.between(0, 2) {
        0 => net.node(&format!("Gemm-13 [transB: {transposed}]"), &[&a.name, &d, &bias.name]),
        1 if is_transposed => {
            let b = net.node("Transpose-13 [perm: [1, 0]]", &[&d]);
            net.node("MatMul-13", &[&a.name, &b])
        }
        _ if is_transposed => net.node("Gemm-13 [transB: 1]", &[&a.name, &d]),
        _ => net.node("MatMul-13", &[&a.name, &d]),
    };
    // Unsigned values without a zero point, times a scale of at most 1.5.
    let size = 1.1 * f64::from(bits).exp2() / 3.0_f64.sqrt();
    let weights = Value { size, error: 2.0 * ROUNDING * size, ..w };
    vec![Value::sums(name, vec![m, n], (k, [&a, &weights]), Some(&bias))]
}

/// MatMulBnb4, whose blocks are parts of rows.
pub(super) fn floats_of_4_bits(net: &mut Net<'_>) -> Vec<Value> {
    let [m, n, k] = sizes(net);
    let block = net.draw.pick(&[16, 64, 128]);
    let k = k.next_multiple_of(block);
    let quant_type = net.draw.between(0, 1);
    let a = net.input(&[m, k]);
    let w = net.any('w', "", "uint8", &[n * k / 2]);
    let scales = net.positive('w', &[n * k / block]);
    let op = format!(
        "com.microsoft:MatMulBnb4-1 [K: {k}, N: {n}, block_size: {block}, quant_type: {quant_type}]"
    );
    let name = net.node(&op, &[&a.name, &w.name, &scales.name]);
    let weights = Value { size: 1.0, error: 2.0 * ROUNDING, ..w };
    vec![Value::sums(name, vec![m, n], (k, [&a, &weights]), None)]
}

/// QMoE with a scale for each row, or for each block of one.
pub(super) fn experts(net: &mut Net<'_>) -> Vec<Value> {
    let [m, inner, hidden] = sizes(net);
    let [inner, hidden] = [inner, hidden].map(|n| n.next_multiple_of(32));
    let (bits, block) = (net.draw.pick(&[4, 8, 2]), net.draw.pick(&[0, 16, 32]));
    let n_experts = net.draw.between(2, 5);
    let (a, logits) = (net.input(&[m, hidden]), net.input(&[m, n_experts]));
    let mut inputs = vec![a.name.clone(), logits.name];
    for [n, k] in [[inner, hidden], [hidden, inner]] {
        let by_row = match block {
            0 => vec![n_experts, n],
            _ => vec![n_experts, n, k / block],
        };
        inputs.push(net.any('w', "", "uint8", &[n_experts, n, k * bits / 8]).name);
        inputs.push(net.positive('w', &by_row).name);
        inputs.push(net.scaled('w', &[n_experts, n], 1).name);
    }
    let op = format!(
        "com.microsoft:QMoE-1 [k: 2, expert_weight_bits: {bits}, block_size: {block}, activation_type: \"relu\"]"
    );
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let name = net.node(&op, &inputs);
    // The difference of two quantized values, times a scale of at most 1.5.
    let size = 1.1 * (bits as f64).exp2() / 3.0_f64.sqrt();
    let weights = Value { name: String::new(), shape: vec![], size, error: 2.0 * ROUNDING * size };
    let first = Value::sums(String::new(), vec![m, inner], (hidden, [&a, &weights]), None);
    vec![Value::sums(name, vec![m, hidden], (inner, [&first, &weights]), None)]
}

/// QLinearConcat of parts with schemes of their own.
pub(super) fn concat(net: &mut Net<'_>) -> Vec<Value> {
    let dtype = net.draw.pick(&["uint8", "int8"]);
    let axis = net.draw.between(0, 2);
    let shape = [net.draw.size(1, 30), net.draw.size(1, 60), net.draw.size(1, 60)];
    let n_parts = net.draw.between(1, 4);
    let scheme = |net: &mut Net<'_>| {
        let scale = net.draw.pick(&["0.02", "0.01", "0.005"]);
        let zero = net.draw.pick(&[0, 3, 100]);
        [net.literal(&format!("float[] {scale}")), net.literal(&format!("{dtype}[] {zero}"))]
    };
    let mut inputs = scheme(net).to_vec();
    for _ in 0..n_parts {
        let mut shape = shape;
        shape[axis] = net.draw.size(1, 60);
        inputs.push(net.any('x', "", dtype, &shape).name);
        inputs.extend(scheme(net));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let name = net.node(&format!("com.microsoft:QLinearConcat-1 [axis: {axis}]"), &inputs);
    vec![Value { name, shape: Vec::new(), size: 1.0, error: 0.0 }]
}
