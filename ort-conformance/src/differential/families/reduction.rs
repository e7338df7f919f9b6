//! Reductions along every set of axes, and Softmax along every axis.

use super::super::net::{Net, ROUNDING, Value};
use super::elementwise::shape;

/// Operators, and whether the result of all terms of one sign has errors of longer walks.
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
    // Of many numbers a product is nothing, and of any that are not positive there is no logarithm.
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
    // Before version 13 all axes from this one on are one.
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
