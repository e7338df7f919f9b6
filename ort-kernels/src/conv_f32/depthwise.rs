//! Convolution of one plane with one filter.

use super::Axis;
use super::window::{Fold, fold_row};
use crate::isa::mul_add;
use crate::{Activation, Isa};
use std::ops::Range;

/// `y[p] = act(bias + Σ_t weights[t]·x[s·p + d·t − pad])`, the sum in ascending order of taps, those
/// outside the plane left out.
#[derive(Clone, Copy, Debug)]
pub struct Depthwise<'a> {
    /// Height and width; a convolution of one dimension has [`Axis::UNIT`] in front.
    pub axes: [Axis; 2],
    /// Row-major over the kernel.
    pub weights: &'a [f32],
    /// What the sum starts from.
    pub bias: f32,
    /// What is applied to the sums.
    pub activation: Activation,
}

impl Depthwise<'_> {
    /// The output rows `rows` of one plane: `plane: [height, width]`, `out: [rows.len(), width out]`,
    /// both contiguous.
    ///
    /// # Panics
    /// If the plane, the weights or `out` is shorter than the axes say.
    pub fn run(&self, isa: Isa, plane: &[f32], rows: Range<usize>, out: &mut [f32]) {
        let width = self.axes[1].output;
        if width == 0 {
            return;
        }
        let out = &mut out[..rows.len() * width];
        for (y, out) in rows.zip(out.chunks_exact_mut(width)) {
            convolve(isa, self, plane, y, out);
            if self.activation.as_clamp().is_none() {
                self.activation.apply(isa, out);
            }
        }
    }
}

impl Fold for Depthwise<'_> {
    #[inline(always)]
    fn start(&self) -> f32 {
        self.bias
    }

    #[inline(always)]
    fn step<const FMA: bool>(&self, sum: f32, x: f32, tap: usize) -> f32 {
        mul_add::<FMA>(x, self.weights[tap], sum)
    }
}

per_isa! {
    fn convolve<FMA>(this: &Depthwise<'_>, plane: &[f32], y: usize, out: &mut [f32]) {
        fold_row::<FMA, _>(this, &this.axes, plane, y, out);
        if let Some((min, max)) = this.activation.as_clamp() {
            for x in out {
                *x = crate::vec::clamp(*x, min, max);
            }
        }
    }
}
