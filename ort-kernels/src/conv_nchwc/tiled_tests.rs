//! Compares convolutions on tiles with the chain of multiply-adds.

use super::tests::{Case, axis, planes};
use super::{Conv, Form, Tiling};
use crate::conv_f32::Axis;
use crate::{Activation, Isa};

/// The rounding of one operation.
const U: f32 = f32::EPSILON / 2.0;

/// The instruction set with tiles, if this machine has it; otherwise prints that the test is skipped.
fn isa() -> Option<Isa> {
    let isa = Isa::by_name("amx");
    if isa.is_none() {
        println!("skipped: this machine has no tiles");
    }
    isa
}

fn cases(isa: Isa) -> Vec<Case> {
    let case = |i: usize, axes| Case::new(isa, 16, Form::Blocks, [1 + i % 4, 1 + i % 5], axes);
    let mut cases: Vec<_> =
        planes().into_iter().enumerate().map(|(i, axes)| case(i, axes)).collect();
    // Several products per row, several rows per product, phases of strides and dilations.
    for (i, (side, kernel, stride, dilation)) in [
        (40, 3, 1, 1),
        (33, 3, 2, 1),
        (31, 1, 2, 1),
        (29, 3, 2, 2),
        (30, 3, 3, 2),
        (70, 5, 1, 1),
        (26, 3, 4, 3),
    ]
    .into_iter()
    .enumerate()
    {
        let pad = kernel / 2 * dilation;
        let axis = axis(side, kernel, stride, dilation, [pad, pad]);
        cases.push(case(i, [axis, axis]));
    }
    // Chunks of several rows, and of parts of one; filters that are split again for each.
    let pointwise = |n| [axis(1, 1, 1, 1, [0; 2]), axis(n, 1, 1, 1, [0; 2])];
    let square = |axis: Axis| [axis, axis];
    cases.push(Case::new(isa, 16, Form::Blocks, [20, 2], square(axis(24, 3, 1, 1, [1; 2]))));
    cases.push(Case::new(isa, 16, Form::Blocks, [64, 7], pointwise(300)));
    cases
}

/// Σ|w·x| of every element.
fn magnitudes(case: &Case) -> Vec<f32> {
    let Case { isa, axes, ref x, ref w, .. } = *case;
    let absolute = |x: &[f32]| x.iter().map(|x| x.abs()).collect::<Vec<_>>();
    let (x, w) = (absolute(x), absolute(w));
    let conv = Conv { isa, x: &x, w: &w, ..case.conv(false, false, Activation::None) };
    let mut y = vec![0.0; case.y.len()];
    let positions = axes[0].output * axes[1].output;
    let mut pieces: Vec<_> = y.chunks_exact_mut((positions * 16).max(1)).collect();
    conv.run(0..positions, &mut pieces);
    y
}

fn found(case: &Case, has_bias: bool, is_sum: bool, activation: Activation) -> Vec<f32> {
    let conv = case.conv(has_bias, is_sum, activation);
    let tiling = Tiling::new(case.isa, &case.size()).expect("tiles are there");
    let mut scratch = vec![f32::NAN; tiling.scratch_len()];
    case.by_parts(is_sum, |positions, y| conv.run_on_tiles(&tiling, &positions, y, &mut scratch))
}

#[test]
fn errors_are_within_the_bound() {
    let Some(isa) = isa() else { return };
    for (i, case) in cases(isa).iter().enumerate() {
        let (has_bias, is_sum) = (i % 2 == 0, i % 3 == 0);
        let activation = if i % 5 == 0 { Activation::Relu } else { Activation::None };
        let expected = case.expected(has_bias, is_sum, activation);
        let found = found(case, has_bias, is_sum, activation);
        let terms = case.conv(false, false, activation).w.len() / 16 / case.y.len().max(1);
        let terms = terms.max(case.w.len() / 16) as f32;
        for (i, magnitude) in magnitudes(case).into_iter().enumerate() {
            // Both sums and their initial values are rounded.
            let bound = (7.0 * terms + 4.0) * U * 1.01 * magnitude + 6.0 * U * (2.0 + magnitude);
            let (x, y) = (expected[i], found[i]);
            assert!((x - y).abs() <= bound, "element {i} of {:?}: {y}, not {x}", case.axes);
        }
    }
}

#[test]
fn non_finite_results_equal_those_without_tiles() {
    let Some(isa) = isa() else { return };
    let odd = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        -f32::MAX,
        f32::from_bits(0x7f80_0001),
    ];
    for (i, case) in cases(isa).iter_mut().enumerate() {
        let odd = odd[i % odd.len()];
        let operand = if i % 2 == 0 { &mut case.x } else { &mut case.w };
        let at = (i + 1) * 7919 % operand.len().max(1);
        if let Some(x) = operand.get_mut(at) {
            *x = odd;
        }
        let activation = if i % 3 == 0 { Activation::Tanh } else { Activation::None };
        let plain = case.expected(true, true, activation);
        for (i, (x, y)) in plain.iter().zip(found(case, true, true, activation)).enumerate() {
            if !x.is_finite() || x.is_nan() {
                assert_eq!(
                    x.to_bits() & 0x7f80_0000,
                    y.to_bits() & 0x7f80_0000,
                    "element {i} of {:?}",
                    case.axes
                );
                assert_eq!(x.is_nan(), y.is_nan(), "element {i} of {:?}: {y}, not {x}", case.axes);
            } else {
                assert!(y.is_finite(), "element {i} of {:?}: {y}, not {x}", case.axes);
            }
        }
    }
}
