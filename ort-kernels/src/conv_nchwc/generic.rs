//! 4 positions by 1 output block of any width, left to the vectoriser.

use super::{Line, Variant};
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

/// `R` positions from `first` on, of one output block.
fn tile<const B: usize, const R: usize>(line: &Line<'_>, first: usize, y: &mut [f32]) {
    let y = &mut y.as_chunks_mut::<B>().0[line.places::<R>(first)];
    let mut sums = line.merge.start.sums::<B, R>(y);
    for (x, [w]) in line.runs::<R, 1, B>(first) {
        for (k, w) in w.iter().enumerate() {
            for r in 0..R {
                for j in 0..B {
                    let x = if line.is_depthwise() { x[r][k * B + j] } else { x[r][k] };
                    sums[r][j] = mul_add::<GENERIC_FMA>(x, w[j], sums[r][j]);
                }
            }
        }
    }
    line.merge.store(&sums, y);
}
