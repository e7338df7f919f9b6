//! Depthwise: lane by lane, so that the vectoriser needs no intrinsics.

use super::Line;
use crate::isa::mul_add;
use std::ops::Range;

/// Positions of a tile: enough independent sums to hide the latency of a multiply-add.
const POSITIONS: usize = 8;

per_isa! {
    /// The positions of a line of one block.
    pub(super) fn line<FMA>(line: &Line<'_>, y: &mut [f32]) {
        match line.block {
            1 => tiles::<FMA, 1>(line, y),
            2 => tiles::<FMA, 2>(line, y),
            4 => tiles::<FMA, 4>(line, y),
            8 => tiles::<FMA, 8>(line, y),
            16 => tiles::<FMA, 16>(line, y),
            32 => tiles::<FMA, 32>(line, y),
            _ => tiles::<FMA, 64>(line, y),
        }
    }
}

#[inline(always)]
fn tiles<const FMA: bool, const B: usize>(line: &Line<'_>, y: &mut [f32]) {
    let Range { mut start, end } = line.outputs;
    while start + POSITIONS <= end {
        tile::<FMA, B, POSITIONS>(line, start, y);
        start += POSITIONS;
    }
    for first in start..end {
        tile::<FMA, B, 1>(line, first, y);
    }
}

/// `R` positions from `first` on.
#[inline(always)]
fn tile<const FMA: bool, const B: usize, const R: usize>(
    line: &Line<'_>,
    first: usize,
    y: &mut [f32],
) {
    let y = &mut y.as_chunks_mut::<B>().0[line.places::<R>(first)];
    let mut sums = line.merge.start.sums::<B, R>(y);
    for (x, [w]) in line.runs::<R, 1, B>(first) {
        let mut blocks: [&[[f32; B]]; R] = [&[]; R];
        for r in 0..R {
            blocks[r] = &x[r].as_chunks::<B>().0[..w.len()];
        }
        for (k, w) in w.iter().enumerate() {
            for r in 0..R {
                for j in 0..B {
                    sums[r][j] = mul_add::<FMA>(blocks[r][k][j], w[j], sums[r][j]);
                }
            }
        }
    }
    line.merge.store(&sums, y);
}
