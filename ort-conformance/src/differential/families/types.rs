//! Products of types other than f32, and windows of f16. Operands are small whole numbers, whose
//! sums are exact, so that results are those of `eval` to the bit.

use super::super::net::{Net, Value};
use super::product::sizes;

const WHOLE: [&str; 5] = ["double", "int32", "uint32", "int64", "uint64"];
const HALVES: [&str; 2] = ["float16", "bfloat16"];

/// Whole numbers below 4, as an input or a constant.
fn some(net: &mut Net<'_>, dtype: &str, shape: &[usize]) -> Value {
    let letter = net.draw.pick(&['x', 'w']);
    net.any(letter, "_n4", dtype, shape)
}

fn exact(name: String, shape: Vec<usize>) -> Vec<Value> {
    vec![Value { name, shape, size: 1.0, error: 0.0 }]
}

/// A matrix product.
pub(super) fn product(net: &mut Net<'_>) -> Vec<Value> {
    let dtype =
        net.draw.pick(&[WHOLE[0], WHOLE[1], WHOLE[2], WHOLE[3], WHOLE[4], HALVES[0], HALVES[1]]);
    // `eval` takes longer for these than for f32.
    let [m, n, k] = sizes(net, 4);
    match net.draw.between(0, 2) {
        0 => {
            let batch = net.draw.between(1, 3);
            let a = net.any('x', "_n4", dtype, &[batch, m, k]);
            let b = some(net, dtype, &[k, n]);
            let name = net.node("MatMul-13", &[&a.name, &b.name]);
            exact(name, vec![batch, m, n])
        }
        1 => {
            let [is_a, is_b] = [net.draw.one_in(2), net.draw.one_in(2)];
            let a = net.any('x', "_n4", dtype, &if is_a { [k, m] } else { [m, k] });
            let b = some(net, dtype, &if is_b { [n, k] } else { [k, n] });
            let c = net.draw.pick(&[[1, n], [m, 1], [m, n]]);
            let c = some(net, dtype, &c);
            let beta = net.draw.pick(&["1.0", "0.0"]);
            let (t_a, t_b) = (u8::from(is_a), u8::from(is_b));
            let op = format!("Gemm-13 [beta: {beta}, transA: {t_a}, transB: {t_b}]");
            let name = net.node(&op, &[&a.name, &b.name, &c.name]);
            exact(name, vec![m, n])
        }
        _ => {
            let a = net.any('x', "_n4", dtype, &[k, m]);
            let b = net.any('x', "_n4", dtype, &[n, k]);
            let name = net.node("Einsum-12 [equation: \"ki,jk->ij\"]", &[&a.name, &b.name]);
            exact(name, vec![m, n])
        }
    }
}

/// A product of 16-bit integers.
pub(super) fn integers_of_16_bits(net: &mut Net<'_>) -> Vec<Value> {
    let dtypes = ["int16", "uint16"].map(|_| net.draw.pick(&["int16", "uint16"]));
    let [m, n, k] = sizes(net, 4);
    let [a, b] = [(dtypes[0], [m, k]), (dtypes[1], [k, n])]
        .map(|(dtype, shape)| some(net, dtype, &shape).name);
    exact(net.node("com.microsoft:MatMulInteger16-1", &[&a, &b]), vec![m, n])
}

/// Squared distances between rows.
pub(super) fn distances(net: &mut Net<'_>) -> Vec<Value> {
    let dtype = net.draw.pick(&["float", "double"]);
    let [m, k, n] = sizes(net, 4);
    let [a, b] = [[m, n], [k, n]].map(|shape| net.any('x', "_n4", dtype, &shape).name);
    let name = net.node("com.microsoft:CDist-1 [metric: \"sqeuclidean\"]", &[&a, &b]);
    exact(name, vec![m, k])
}

/// A convolution or a pool of f16.
pub(super) fn windows(net: &mut Net<'_>) -> Vec<Value> {
    let dtype = net.draw.pick(&HALVES);
    let [h, w] = [net.draw.size(3, 60), net.draw.size(3, 60)];
    let (c, k) = (net.draw.size(1, 24), net.draw.pick(&[1, 3]));
    let shape = [1, c, h, w];
    let x = net.any('x', "_n4", dtype, &shape);
    let [y, z] = [h + 1 - k, w + 1 - k];
    match net.draw.between(0, 2) {
        0 => {
            let filters = net.draw.size(1, 24);
            let weights = some(net, dtype, &[filters, c, k, k]);
            let name = net.node("Conv-11", &[&x.name, &weights.name]);
            exact(name, vec![1, filters, y, z])
        }
        1 => {
            let weights = some(net, dtype, &[c, 1, k, k]);
            let op = format!("Conv-11 [group: {c}]");
            let name = net.node(&op, &[&x.name, &weights.name]);
            exact(name, vec![1, c, y, z])
        }
        _ => {
            let op = format!("MaxPool-12 [kernel_shape: [{k}, {k}]]");
            let name = net.node(&op, &[&x.name]);
            exact(name, vec![1, c, y, z])
        }
    }
}
