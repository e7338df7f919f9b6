//! The formulas of Gelu, however their products are grouped.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use crate::pattern::{Pat, op};
use crate::rule::{Rule, rule};

/// `½·x·(1 + erf(x/√2)) = gelu`
pub(super) fn exact(x: &Pat, gelu: &Pat) -> Vec<Rule> {
    let share = |z| op("Erf", [z]) + 1.0;
    let shares = [share(x / SQRT_2), share(x * FRAC_1_SQRT_2)];
    let formulas = shares.iter().flat_map(|share| halves(x, share));
    formulas.map(|formula| rule(formula, gelu)).collect()
}

/// `½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) = gelu`
pub(super) fn by_tanh(x: &Pat, gelu: &Pat) -> Vec<Rule> {
    let angles = angles(x).into_iter();
    let formulas = angles.flat_map(|angle| halves(x, &(op("Tanh", [angle]) + 1.0)));
    formulas.map(|formula| rule(formula, gelu)).collect()
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
fn angles(x: &Pat) -> Vec<Pat> {
    const FACTOR: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    const CUBIC: f64 = 0.044_715;
    let square = x * x;
    let mut angles: Vec<Pat> = [
        op("Pow", [x, &3.0.into()]) * CUBIC,
        (&square * x) * CUBIC,
        (&square * CUBIC) * x,
        (x * CUBIC) * &square,
        ((x * CUBIC) * x) * x,
    ]
    .map(|cube| (x + &cube) * FACTOR)
    .into();
    let squares = [square * CUBIC, (x * CUBIC) * x, op("Pow", [x, &2.0.into()]) * CUBIC];
    for growth in squares.map(|square| square + 1.0) {
        angles.extend([(x * FACTOR) * &growth, x * (&growth * FACTOR), (x * &growth) * FACTOR]);
    }
    angles
}
