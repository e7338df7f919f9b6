//! The formulas of Gelu, however their products are grouped.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use crate::pattern::{Pat, any, op};
use crate::rule::{Rule, rule};

/// `½·x·(1 + erf(x/√2)) = gelu`
pub(in crate::passes) fn exact(x: &Pat, gelu: &Pat) -> [Rule; 6] {
    let angle = any([x / SQRT_2, x * FRAC_1_SQRT_2]);
    halves(x, &(op("Erf", [angle]) + 1.0)).map(|formula| rule(formula, gelu))
}

/// `½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = gelu`
pub(in crate::passes) fn by_tanh(x: &Pat, gelu: &Pat) -> [Rule; 6] {
    halves(x, &(op("Tanh", [angle(x)]) + 1.0)).map(|formula| rule(formula, gelu))
}

/// `½·x·share`
fn halves(x: &Pat, share: &Pat) -> [Pat; 6] {
    [
        x * share * 0.5,
        x * (share * 0.5),
        (x * 0.5) * share,
        x * share / 2.0,
        x * (share / 2.0),
        (x / 2.0) * share,
    ]
}

/// `√(2/π)·(x + 0.044715·x³)`
fn angle(x: &Pat) -> Pat {
    const FACTOR: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    const CUBIC: f64 = 0.044_715;
    let square = x * x;
    let cubes = [
        op("Pow", [x, &3.0.into()]) * CUBIC,
        (&square * x) * CUBIC,
        (&square * CUBIC) * x,
        (x * CUBIC) * &square,
        ((x * CUBIC) * x) * x,
    ];
    let squares = [square * CUBIC, (x * CUBIC) * x, op("Pow", [x, &2.0.into()]) * CUBIC];
    let growth = any(squares) + 1.0;
    any([
        (x + any(cubes)) * FACTOR,
        (x * FACTOR) * &growth,
        x * (&growth * FACTOR),
        (x * &growth) * FACTOR,
    ])
}
