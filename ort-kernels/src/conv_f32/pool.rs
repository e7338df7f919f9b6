//! Pooling of one plane.

use super::Axis;
use super::window::{Fold, fold_row};
use crate::Isa;
use std::ops::Range;

struct Max;

impl Fold for Max {
    #[inline(always)]
    fn start(&self) -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn step<const FMA: bool>(&self, sum: f32, x: f32, _: usize) -> f32 {
        if x > sum { x } else { sum }
    }
}

struct Sum;

impl Fold for Sum {
    #[inline(always)]
    fn start(&self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn step<const FMA: bool>(&self, sum: f32, x: f32, _: usize) -> f32 {
        sum + x
    }
}

per_isa! {
    /// The greatest input of each window: output rows `rows` of one plane. `axes` are height and
    /// width, `plane: [height, width]`, `out: [rows.len(), width out]`, both contiguous.
    ///
    /// NaN is passed over; a window without a number gives −∞.
    ///
    /// # Panics
    /// If the plane or `out` is shorter than the axes say.
    pub fn max_pool<FMA>(axes: &[Axis; 2], plane: &[f32], rows: Range<usize>, out: &mut [f32]) {
        for (y, out) in rows.zip(out.chunks_exact_mut(axes[1].output.max(1))) {
            fold_row::<FMA, _>(&Max, axes, plane, y, out);
        }
    }
}

/// The mean of each window.
#[derive(Clone, Copy, Debug)]
pub struct AveragePool {
    /// Height and width.
    pub axes: [Axis; 2],
    /// Whether taps in the padding count; those beyond it never do.
    pub count_padding: bool,
}

impl AveragePool {
    /// Output rows `rows` of one plane: `plane: [height, width]`, `out: [rows.len(), width out]`, both
    /// contiguous. The sum is in ascending order of taps; a window without an input gives 0 if the
    /// padding counts, else NaN.
    ///
    /// # Panics
    /// If the plane or `out` is shorter than the axes say.
    pub fn run(&self, isa: Isa, plane: &[f32], rows: Range<usize>, out: &mut [f32]) {
        sum_pool(isa, self, plane, rows, out);
    }

    /// The taps of `output` that count along one axis.
    #[inline(always)]
    fn count(&self, axis: &Axis, output: usize) -> usize {
        if self.count_padding {
            let room = axis.input + axis.pad[0] + axis.pad[1];
            room.saturating_sub(output * axis.stride).div_ceil(axis.dilation).min(axis.kernel)
        } else {
            axis.taps(output).len()
        }
    }
}

per_isa! {
    fn sum_pool<FMA>(this: &AveragePool, plane: &[f32], rows: Range<usize>, out: &mut [f32]) {
        let [height, width] = &this.axes;
        for (y, out) in rows.zip(out.chunks_exact_mut(width.output.max(1))) {
            fold_row::<FMA, _>(&Sum, &this.axes, plane, y, out);
            let count_y = this.count(height, y);
            for (x, sum) in out.iter_mut().enumerate() {
                *sum /= (count_y * this.count(width, x)) as f32;
            }
        }
    }
}
