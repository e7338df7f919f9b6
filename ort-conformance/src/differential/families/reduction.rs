//! Reductions along every set of axes, and Softmax along every axis.

use super::super::net::{Net, ROUNDING, Value};
use super::elementwise::shape;

/// The operators and their versions.
const REDUCTIONS: [&str; 10] = [
    "ReduceSum-13",
    "ReduceMean-18",
    "ReduceMax-18",
    "ReduceMin-18",
    "ReduceSumSquare-18",
    "ReduceL1-18",
    "ReduceL2-18",
    "ReduceLogSumExp-18",
    "ReduceProd-18",
    "ReduceLogSum-18",
];

pub(super) fn reduction(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let op = net.draw.pick(&REDUCTIONS);
    let mut axes = Vec::new();
    for axis in 0..full.len() {
        if net.draw.one_in(2) {
            axes.push(axis);
        }
    }
    let n: usize = match axes.is_empty() {
        true => full.iter().product(),
        false => axes.iter().map(|&axis| full[axis]).product(),
    };
    let n = n as f64;
    // A product of many numbers vanishes, and numbers that are not positive have no logarithm.
    let is_positive = ["ReduceLogSum-18", "ReduceProd-18"].contains(&op);
    let x = if is_positive { net.positive('x', &full) } else { net.input(&full) };
    // Terms of one sign, or of either: all of them are at most 3 in magnitude.
    let sum = ROUNDING * n.powf(1.5);
    let error = match op {
        "ReduceSum-13" => ROUNDING * n,
        "ReduceMean-18" => ROUNDING,
        "ReduceMax-18" | "ReduceMin-18" => 0.0,
        // A root of the sum; the logarithm of one.
        "ReduceL2-18" => sum / n.sqrt() + 4.0 * ROUNDING * n.sqrt(),
        "ReduceLogSumExp-18" | "ReduceLogSum-18" => sum / n + 4.0 * ROUNDING * (n.ln() + 2.0),
        // Factors of up to 1.5 whose logarithms are a random walk that falls by 0.04 a step.
        "ReduceProd-18" => ROUNDING * n.sqrt() * (4.0 * 0.3 * n.sqrt() - 0.04 * n).exp(),
        _ => sum,
    };
    let is_kept = net.draw.pick(&[1, 0]);
    let op = format!("{op} [keepdims: {is_kept}]");
    let name = if axes.is_empty() {
        net.node(&op, &[&x.name])
    } else {
        let is_negative = net.draw.one_in(4);
        let rank = i64::try_from(full.len()).unwrap_or(0);
        let axis = |&axis: &usize| {
            let axis = i64::try_from(axis).unwrap_or(0);
            if is_negative { axis - rank } else { axis }
        };
        let axes = net.ints(&axes.iter().map(axis).collect::<Vec<_>>());
        net.node(&op, &[&x.name, &axes])
    };
    vec![Value { name, shape: Vec::new(), size: n, error }]
}

pub(super) fn softmax(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let axis = net.draw.between(0, full.len() - 1);
    let x = net.input(&full);
    let op = net.draw.pick(&["Softmax-13", "LogSoftmax-13", "Softmax-1"]);
    // Before version 13 all axes from this one on are flattened.
    let n: usize = if op == "Softmax-1" { full[axis..].iter().product() } else { full[axis] };
    let name = net.node(&format!("{op} [axis: {axis}]"), &[&x.name]);
    // Exponentials are within [1/e, e], and their sum between n/e and n·e.
    let n = n as f64;
    let relative = 4.0 * ROUNDING + ROUNDING * n.sqrt();
    let (size, error) = match op {
        "LogSoftmax-13" => (n.ln() + 2.0, relative + ROUNDING * (n.ln() + 2.0)),
        _ => (8.0 / n, relative * 8.0 / n),
    };
    vec![Value { name, shape: full, size, error }]
}

/// Float types and their machine epsilon.
const FLOATS: [(&str, f64); 4] =
    [("float", 2.0 * ROUNDING), ("double", f64::EPSILON), ("float16", 1e-3), ("bfloat16", 8e-3)];

pub(super) fn hardmax(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 300_000);
    let axis = net.draw.between(0, full.len() - 1);
    let (dtype, _) = net.draw.pick(&FLOATS);
    // Among equal elements the first wins.
    let words = net.draw.pick(&["", "_n100"]);
    let x = net.any('x', words, dtype, &full);
    let op = net.draw.pick(&["Hardmax-13", "Hardmax-1"]);
    let name = net.node(&format!("{op} [axis: {axis}]"), &[&x.name]);
    vec![Value { name, shape: full, size: 1.0, error: 0.0 }]
}

pub(super) fn lp_normalization(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 300_000);
    let axis = net.draw.between(0, full.len() - 1);
    let (dtype, unit) = net.draw.pick(&FLOATS);
    let x = net.any('x', "", dtype, &full);
    let p = net.draw.pick(&[1, 2]);
    let name = net.node(&format!("LpNormalization-22 [axis: {axis}, p: {p}]"), &[&x.name]);
    vec![Value { name, shape: full, size: 1.0, error: unit }]
}

pub(super) fn lrn(net: &mut Net<'_>) -> Vec<Value> {
    let mut full = shape(net, 300_000);
    full.insert(0, net.draw.between(1, 2));
    let (dtype, unit) = net.draw.pick(&FLOATS);
    let x = net.any('x', "", dtype, &full);
    let (size, beta) =
        (net.draw.pick(&[1, 3, 5, 8]), net.draw.pick(&["0.75", "0.5", "1.0", "0.6"]));
    let name = format!("LRN-13 [size: {size}, alpha: 0.5, beta: {beta}, bias: 2.0]");
    let (name, size) = (net.node(&name, &[&x.name]), x.size);
    vec![Value { name, shape: full, size, error: (2.0 * unit + 16.0 * ROUNDING) * size }]
}

pub(super) fn mean_variance_normalization(net: &mut Net<'_>) -> Vec<Value> {
    let mut full = shape(net, 300_000);
    full.insert(0, net.draw.between(1, 2));
    let (dtype, unit) = net.draw.pick(&FLOATS);
    let x = net.any('x', "", dtype, &full);
    let axes: Vec<usize> = match net.draw.one_in(2) {
        true => (0..full.len()).filter(|&axis| axis != 1).collect(),
        false => vec![net.draw.between(0, full.len() - 1)],
    };
    let name = net.node(&format!("MeanVarianceNormalization-13 [axes: {axes:?}]"), &[&x.name]);
    // A value is less than the root of the number of elements with its mean, and of many evenly distributed ones near √3.
    let n: usize = axes.iter().map(|&axis| full[axis]).product();
    let size = (n as f64).sqrt().min(4.0);
    let error = (2.0 * unit + 64.0 * ROUNDING) * size;
    vec![Value { name, shape: full, size, error }]
}

pub(super) fn log_sum_exp(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 300_000);
    let (dtype, unit) = match net.draw.one_in(4) {
        true => (net.draw.pick(&["int32", "int64", "uint32", "uint64"]), 0.0),
        false => net.draw.pick(&FLOATS),
    };
    let x = net.any('x', "", dtype, &full);
    let axes = (0_i64..).zip(&full).filter(|_| net.draw.one_in(2));
    let axes: Vec<i64> = axes.map(|(axis, _)| axis).collect();
    let axes = net.ints(&axes);
    let name = net.node("ReduceLogSumExp-18", &[&x.name, &axes]);
    // Elements are at most 1, and their number is at most e^13.
    vec![Value { name, shape: Vec::new(), size: 14.0, error: 14.0 * unit }]
}

/// Functions of f64, whose results are at most e, but for logarithms, which are below 40.
pub(super) fn double(net: &mut Net<'_>) -> Vec<Value> {
    let full = shape(net, 500_000);
    let ops = ["Exp-13", "Log-13", "Sigmoid-13", "Tanh-13", "Elu-6", "Selu-6", "Celu-12"];
    let op = net.draw.pick(&ops);
    let x = net.any('x', "", "double", &full);
    let name = net.node(op, &[&x.name]);
    vec![Value { name, shape: full, size: 40.0, error: 40.0 * f64::EPSILON }]
}

/// Losses of classes.
pub(super) fn class_loss(net: &mut Net<'_>) -> Vec<Value> {
    let (n, c, d) = (net.draw.size(1, 300), net.draw.size(1, 300), net.draw.size(1, 9));
    let (x, target) = match net.draw.one_in(2) {
        true => (vec![n, c], vec![n]),
        false => (vec![n, c, d], vec![n, d]),
    };
    let (x, dtype) = (net.input(&x), net.draw.pick(&["int64", "int32"]));
    let target = net.any('x', &format!("_n{c}"), dtype, &target);
    let op = net.draw.pick(&["SoftmaxCrossEntropyLoss-13", "NegativeLogLikelihoodLoss-13"]);
    let reduction = net.draw.pick(&["none", "mean"]);
    let name = net.node(&format!("{op} [reduction: \"{reduction}\"]"), &[&x.name, &target.name]);
    let size = (c as f64).ln() + 1.0;
    vec![Value { name, shape: Vec::new(), size, error: 4.0 * ROUNDING * size }]
}
