//! Pooling of one plane.

use super::Axis;
use super::window::{Fold, bands, fill_band, fold_band, scratch_len};
use crate::Isa;
use crate::vec::greater;
use std::ops::Range;

/// One value a window.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Which instructions to use.
    pub isa: Isa,
    /// Height and width; a pooling of one dimension has [`Axis::UNIT`] in front.
    pub axes: [Axis; 2],
    /// Which value.
    pub kind: PoolKind,
}

/// Which value a window gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The greatest input, NaN if there is one; −∞ if there is no input.
    Max,
    /// The sum of the inputs in ascending order of taps, divided by the number of taps that count.
    /// If none does, 0.
    Average {
        /// Whether taps in the padding count; those beyond it never do.
        count_padding: bool,
    },
}

impl Pool {
    /// The elements of scratch [`Pool::run`] needs, however many rows it computes.
    #[must_use]
    pub fn scratch_len(axes: &[Axis; 2]) -> usize {
        scratch_len(axes)
    }

    /// The output rows `rows` of one plane: `plane: [height, width]`, `out: [rows.len(), width
    /// out]`, both contiguous.
    ///
    /// # Panics
    /// If the plane, `out` or the scratch is shorter than the axes say.
    pub fn run(&self, plane: &[f32], rows: Range<usize>, out: &mut [f32], scratch: &mut [f32]) {
        let band = &mut scratch[..scratch_len(&self.axes)];
        let (first, width) = (rows.start, self.axes[1].output);
        for rows in bands(&self.axes, rows) {
            let out = &mut out[(rows.start - first) * width..(rows.end - first) * width];
            match self.kind {
                PoolKind::Max => {
                    fill_band(&self.axes, plane, &rows, Max.outside(), band);
                    greatest(self.isa, &self.axes, band, out);
                }
                PoolKind::Average { count_padding } => {
                    fill_band(&self.axes, plane, &rows, Sum.outside(), band);
                    sum(self.isa, &self.axes, band, out);
                    divide(&self.axes, count_padding, rows, out);
                }
            }
        }
    }
}

/// The greatest input, NaN if there is one.
pub(crate) struct Max;

impl Fold for Max {
    #[inline(always)]
    fn start(&self) -> f32 {
        f32::NEG_INFINITY
    }

    fn outside(&self) -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn step<const FMA: bool>(sum: f32, x: f32, _: f32) -> f32 {
        greater(sum, x)
    }
}

/// The sum of the inputs.
pub(crate) struct Sum;

impl Fold for Sum {
    #[inline(always)]
    fn start(&self) -> f32 {
        0.0
    }

    fn outside(&self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn step<const FMA: bool>(sum: f32, x: f32, _: f32) -> f32 {
        sum + x
    }
}

per_isa! {
    fn greatest<FMA>(axes: &[Axis; 2], band: &[f32], out: &mut [f32]) {
        fold_band::<FMA, _>(&Max, axes, band, out);
    }

    fn sum<FMA>(axes: &[Axis; 2], band: &[f32], out: &mut [f32]) {
        fold_band::<FMA, _>(&Sum, axes, band, out);
    }
}

/// Divides the sums of the output rows `rows` by the taps that count.
fn divide([height, width]: &[Axis; 2], count_padding: bool, rows: Range<usize>, out: &mut [f32]) {
    // Windows between the edges have all taps.
    let n_taps = |x| width.n_taps(x, count_padding);
    let is_whole = |x: &usize| n_taps(*x) == width.kernel;
    let first = (0..width.output).find(is_whole).unwrap_or(width.output);
    let end = (first..width.output).rev().find(is_whole).map_or(first, |last| last + 1);
    for (y, out) in rows.zip(out.chunks_exact_mut(width.output.max(1))) {
        let count_y = height.n_taps(y, count_padding);
        let divisor = |n_taps: usize| (count_y * n_taps).max(1) as f32;
        let whole = divisor(width.kernel);
        out[first..end].iter_mut().for_each(|sum| *sum /= whole);
        for x in (0..first).chain(end..width.output) {
            out[x] /= divisor(n_taps(x));
        }
    }
}
