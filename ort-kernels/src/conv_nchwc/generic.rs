//! 4 positions by 1 output block of any width, autovectorised.

use super::{Form, Line, Start, Variant};
use crate::isa::{GENERIC_FMA, mul_add};

pub(super) const VARIANT: Variant = Variant { name: "generic", block: 8, filters: 1 };
const POSITIONS: usize = 4;

pub(super) fn line(line: &Line<'_>, y: &mut [&mut [f32]]) {
    match line.block {
        1 => tiles::<1>(line, y[0]),
        2 => tiles::<2>(line, y[0]),
        4 => tiles::<4>(line, y[0]),
        8 => tiles::<8>(line, y[0]),
        16 => tiles::<16>(line, y[0]),
        32 => tiles::<32>(line, y[0]),
        _ => tiles::<64>(line, y[0]),
    }
}

fn tiles<const B: usize>(line: &Line<'_>, y: &mut [f32]) {
    line.each_tile(POSITIONS, |first, len| match len {
        0 => {}
        1 => tile::<B, 1>(line, first, y),
        2 => tile::<B, 2>(line, first, y),
        3 => tile::<B, 3>(line, first, y),
        _ => tile::<B, 4>(line, first, y),
    });
}

/// `R` positions starting at `first`, of one output block.
fn tile<const B: usize, const R: usize>(line: &Line<'_>, first: usize, y: &mut [f32]) {
    let y = &mut y.as_chunks_mut::<B>().0[line.places::<R>(first)];
    let mut sums = start::<B, R>(&line.merge.start, y);
    match line.form {
        Form::Blocks => each_tap::<B, B, B, R>(line, first, |x, w| {
            for k in 0..B {
                for r in 0..R {
                    add([x[r][k]; B], &w[k], &mut sums[r]);
                }
            }
        }),
        Form::Planes => each_tap::<B, 1, 1, R>(line, first, |x, w| {
            for r in 0..R {
                add([x[r][0]; B], &w[0], &mut sums[r]);
            }
        }),
        Form::Depthwise => each_tap::<B, B, 1, R>(line, first, |x, w| {
            for r in 0..R {
                add(*x[r], &w[0], &mut sums[r]);
            }
        }),
    }
    for (y, sums) in y.iter_mut().zip(&sums) {
        *y = sums.map(|sum| line.merge.epilogue.of(sum));
    }
}

/// Calls `add` with the pixels, `P` lanes wide, and the `D` vectors of each tap.
fn each_tap<const B: usize, const P: usize, const D: usize, const R: usize>(
    line: &Line<'_>,
    first: usize,
    mut add: impl FnMut([&[f32; P]; R], &[[f32; B]; D]),
) {
    for input in 0..line.inputs {
        for tap_y in line.taps_y.clone() {
            let row = line.row::<P>(input, tap_y);
            let [w] = line.taps::<B, D, 1>(input, tap_y, line.n_taps());
            for (tap, w) in w.iter().enumerate() {
                add(line.pixels::<P, R, 0>(row, first, tap), w);
            }
        }
    }
}

#[inline(always)]
fn add<const B: usize>(x: [f32; B], w: &[f32; B], sums: &mut [f32; B]) {
    for j in 0..B {
        sums[j] = mul_add::<GENERIC_FMA>(x[j], w[j], sums[j]);
    }
}

/// The initial sums of `R` positions; `y` holds their summands, if there are any.
fn start<const B: usize, const R: usize>(start: &Start<'_>, y: &[[f32; B]]) -> [[f32; B]; R] {
    let bias = start.bias.and_then(|bias| bias.first_chunk::<B>());
    let mut sums = [*bias.unwrap_or(&[0.0; B]); R];
    if start.is_sum {
        for (sums, y) in sums.iter_mut().zip(y) {
            sums.iter_mut().zip(y).for_each(|(sum, y)| *sum += y);
        }
    }
    sums
}
