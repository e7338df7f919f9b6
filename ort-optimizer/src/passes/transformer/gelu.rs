//! The formulas of Gelu, however their products are grouped. `of` rounds their constants to the type that a network
//! was written in.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use crate::pattern::{Pat, any, op};
use crate::rule::{Rule, rule};

/// `½·x·(1 + erf(x/√2)) = gelu`
pub(super) fn exact(x: &Pat, gelu: &Pat, of: fn(f64) -> f64) -> [Rule; 6] {
    let angle = any([x / of(SQRT_2), x * of(FRAC_1_SQRT_2)]);
    halves(x, &(op("Erf", [angle]) + 1.0)).map(|formula| rule(formula, gelu))
}

/// `½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = gelu`
pub(super) fn by_tanh(x: &Pat, gelu: &Pat, of: fn(f64) -> f64) -> [Rule; 6] {
    halves(x, &(op("Tanh", [angle(x, of)]) + 1.0)).map(|formula| rule(formula, gelu))
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
fn angle(x: &Pat, of: fn(f64) -> f64) -> Pat {
    let (factor, cubic) = (of(FRAC_2_SQRT_PI * FRAC_1_SQRT_2), of(0.044_715));
    let square = x * x;
    let cubes = [
        op("Pow", [x, &3.0.into()]) * cubic,
        (&square * x) * cubic,
        (&square * cubic) * x,
        (x * cubic) * &square,
        ((x * cubic) * x) * x,
    ];
    let squares = [square * cubic, (x * cubic) * x, op("Pow", [x, &2.0.into()]) * cubic];
    let growth = any(squares) + 1.0;
    any([
        (x + any(cubes)) * factor,
        (x * factor) * &growth,
        x * (&growth * factor),
        (x * &growth) * factor,
    ])
}
