//! Convolution of one plane or volume with one filter.

use super::Axis;
use super::window::{Fold, bands, fill_band, fold_band, scratch_len};
use crate::isa::mul_add;
use crate::{Activation, Isa};
use std::ops::Range;

/// `y[p] = act(bias + Σ_t weights[t]·x[s·p + d·t − pad])`, a chain of multiply-adds in ascending
/// order of taps; x is zero outside the plane.
#[derive(Clone, Copy, Debug)]
pub struct Depthwise<'a> {
    /// The instruction set.
    pub isa: Isa,
    /// Depth, height and width; a convolution of fewer dimensions has leading [`Axis::UNIT`]s.
    pub axes: [Axis; 3],
    /// Row-major over the kernel.
    pub weights: &'a [f32],
    /// The initial value of the sums.
    pub bias: f32,
    /// Applied to the sums.
    pub activation: Activation,
}

impl Depthwise<'_> {
    /// Elements of scratch for [`Depthwise::run`], for any number of rows.
    #[must_use]
    pub fn scratch_len(axes: &[Axis; 3]) -> usize {
        scratch_len(axes)
    }

    /// Computes the output rows `rows`, counted layer by layer: `plane: [depth, height, width]`, `out:
    /// [rows.len(), width out]`, both contiguous.
    ///
    /// # Panics
    /// If the plane, the weights, `out` or the scratch is too short for the axes.
    pub fn run(&self, plane: &[f32], rows: Range<usize>, out: &mut [f32], scratch: &mut [f32]) {
        let band = &mut scratch[..scratch_len(&self.axes)];
        let width = &self.axes[2];
        let mut rest = &mut out[..rows.len() * width.output];
        for (z, rows) in bands(&self.axes, rows) {
            fill_band(&self.axes, plane, (z, &rows), self.outside(), band);
            let (out, after) = rest.split_at_mut(rows.len() * width.output);
            rest = after;
            convolve(self.isa, self, band, out);
            if self.activation.as_clamp().is_none() {
                self.activation.apply(self.isa, out);
            }
        }
    }
}

impl Fold for Depthwise<'_> {
    #[inline(always)]
    fn start(&self) -> f32 {
        self.bias
    }

    fn outside(&self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn weights<const K: usize>(&self, first: usize) -> [f32; K] {
        let mut weights = [0.0; K];
        weights.copy_from_slice(&self.weights[first..first + K]);
        weights
    }

    #[inline(always)]
    fn step<const FMA: bool>(sum: f32, x: f32, weight: f32) -> f32 {
        mul_add::<FMA>(x, weight, sum)
    }
}

per_isa! {
    fn convolve<FMA>(this: &Depthwise<'_>, band: &[f32], out: &mut [f32]) {
        fold_band::<FMA, _>(this, &this.axes, band, out);
        if let Some((min, max)) = this.activation.as_clamp() {
            for x in out {
                *x = crate::vec::clamp(*x, min, max);
            }
        }
    }
}
