//! Pooling of a plane.
//!
//! Row by row of the result: the input rows of its windows are folded to one padded line,
//! element by element; then the pixels of each window of the line are folded.

use super::lanes;
use crate::Isa;
use crate::conv_f32::{Axis, Fold, Layers, Max, PoolKind, Sum, fold_rows};
use std::ops::Range;

/// One pixel per window. Sums are over columns, then rows; everything else is as in
/// [`conv_f32::Pool`](crate::conv_f32::Pool).
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// The instruction set.
    pub isa: Isa,
    /// Elements per pixel, at least 1.
    pub block: usize,
    /// Height and width.
    pub axes: [Axis; 2],
    /// The value of a window.
    pub kind: PoolKind,
}

impl Pool {
    /// Elements of scratch for [`Pool::run`], for any number of rows. At most `usize::MAX`.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.axes[1].padded().saturating_mul(self.block)
    }

    /// Computes the output rows `rows` of one plane: `plane: [height][width][block]`, `out:
    /// [rows.len()][width out][block]`.
    ///
    /// # Panics
    /// If the plane, `out` or the scratch is too short for the axes.
    pub fn run(&self, plane: &[f32], rows: Range<usize>, out: &mut [f32], scratch: &mut [f32]) {
        let line = &mut scratch[..self.scratch_len()];
        let len = (self.axes[1].output * self.block).max(1);
        match self.kind {
            PoolKind::Max => line.fill(Max.outside()),
            PoolKind::Average { .. } => line.fill(Sum.outside()),
        }
        for (y, out) in rows.zip(out.chunks_exact_mut(len)) {
            match self.kind {
                PoolKind::Max => greatest(self.isa, self, plane, y, (line, out)),
                PoolKind::Average { count_padding } => {
                    sum(self.isa, self, plane, y, (line, out));
                    self.divide(y, count_padding, out);
                }
            }
        }
    }

    /// Divides the sums of output row `y` by the counted taps.
    fn divide(&self, y: usize, counts_padding: bool, out: &mut [f32]) {
        let [height, width] = &self.axes;
        let n = height.n_taps(y, counts_padding);
        let mut divide = |outputs: Range<usize>, taps: usize| {
            let out = &mut out[outputs.start * self.block..outputs.end * self.block];
            crate::vec::div_scalar(self.isa, out, (n * taps).max(1) as f32);
        };
        let interior = width.interior();
        for x in (0..interior.start).chain(interior.end..width.output) {
            divide(x..x + 1, width.n_taps(x, counts_padding));
        }
        divide(interior, width.kernel);
    }
}

per_isa! {
    fn greatest<FMA>(pool: &Pool, plane: &[f32], y: usize, to: (&mut [f32], &mut [f32])) {
        fold(&Max, pool, plane, y, to);
    }

    fn sum<FMA>(pool: &Pool, plane: &[f32], y: usize, to: (&mut [f32], &mut [f32])) {
        fold(&Sum, pool, plane, y, to);
    }
}

/// Computes output row `y`, through the line.
#[inline(always)]
fn fold<F: Fold>(
    fold: &F,
    pool: &Pool,
    plane: &[f32],
    y: usize,
    (line, out): (&mut [f32], &mut [f32]),
) {
    let [height, width] = &pool.axes;
    let len = width.input * pool.block;
    let (first, n_rows) = height.inputs(y);
    let start = |_, tap| (first + tap * height.dilation) * len;
    let rows = Layers { x: plane, n_layers: 1, n_rows, start };
    fold_rows(fold, rows, (), &mut line[width.pad[0] * pool.block..][..len]);
    by_kernel(fold, pool, line, out);
}

/// Windows of common widths are unrolled.
#[inline(always)]
fn by_kernel<F: Fold>(fold: &F, pool: &Pool, line: &[f32], out: &mut [f32]) {
    match pool.axes[1].kernel {
        2 => by_lanes!(pool.block => fold_pixels::<_, F>(fold, pool, 2, line, out)),
        3 => by_lanes!(pool.block => fold_pixels::<_, F>(fold, pool, 3, line, out)),
        taps => by_lanes!(pool.block => fold_pixels::<_, F>(fold, pool, taps, line, out)),
    }
}

/// `out[x]`: the fold of the pixels of window `x` of a line, `L` lanes at a time.
#[inline(always)]
fn fold_pixels<const L: usize, F: Fold>(
    fold: &F,
    pool: &Pool,
    taps: usize,
    line: &[f32],
    out: &mut [f32],
) {
    let (block, width) = (pool.block, &pool.axes[1]);
    for (x, out) in out.chunks_exact_mut(block).enumerate() {
        for lane in (0..block).step_by(L) {
            let mut sums = [fold.start(); L];
            for tap in 0..taps {
                let pixel = x * width.stride + tap * width.dilation;
                let input = lanes::<L>(line, pixel * block + lane);
                for i in 0..L {
                    sums[i] = F::step::<false>(sums[i], input[i], 1.0);
                }
            }
            out[lane..lane + L].copy_from_slice(&sums);
        }
    }
}
