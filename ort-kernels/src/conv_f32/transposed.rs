//! The sums of transposed convolutions of one channel.

use crate::isa::mul_add;
use crate::{Activation, Isa};

/// Elements per block.
const LANES: usize = 16;

/// Sums of shifted elements: `y[q] = act(bias + Σ_t x[q + offset_t]·weights[tap_t])`, a chain of multiply-adds
/// in the order of the taps. Those of one remainder of a transposed convolution read a padded plane so.
#[derive(Clone, Copy, Debug)]
pub struct ShiftedSum<'a> {
    /// The instruction set.
    pub isa: Isa,
    /// Of all taps.
    pub weights: &'a [f32],
    /// The initial value of the sums.
    pub bias: f32,
    /// Applied to the sums.
    pub activation: Activation,
}

impl ShiftedSum<'_> {
    /// The length of `y` for `n` elements: whole blocks.
    #[must_use]
    pub const fn padded(n: usize) -> usize {
        n.next_multiple_of(LANES)
    }

    /// Computes `y` from the taps, pairs of offset and tap.
    ///
    /// # Panics
    /// If `y` is not a number of whole blocks, `x` is shorter than `y` and the largest offset together, or there is
    /// no such weight.
    pub fn run(&self, taps: &[(usize, usize)], x: &[f32], y: &mut [f32]) {
        assert!(y.len().is_multiple_of(LANES), "{} elements", y.len());
        sums(self.isa, self, taps, x, y);
        self.activation.apply(self.isa, y);
    }
}

per_isa! {
    fn sums<FMA>(this: &ShiftedSum<'_>, taps: &[(usize, usize)], x: &[f32], y: &mut [f32]) {
        y.fill(this.bias);
        let (fours, rest) = taps.as_chunks::<4>();
        for taps in fours {
            add::<FMA, 4>(this, *taps, x, y);
        }
        match *rest {
            [a] => add::<FMA, 1>(this, [a], x, y),
            [a, b] => add::<FMA, 2>(this, [a, b], x, y),
            [a, b, c] => add::<FMA, 3>(this, [a, b, c], x, y),
            _ => {}
        }
    }
}

/// Adds the products of `N` taps.
#[inline(always)]
fn add<const FMA: bool, const N: usize>(
    this: &ShiftedSum<'_>,
    taps: [(usize, usize); N],
    x: &[f32],
    y: &mut [f32],
) {
    let n = y.len();
    let weights = taps.map(|(_, tap)| this.weights[tap]);
    let rows = taps.map(|(offset, _)| &x[offset..][..n]);
    for i in 0..n {
        let mut sum = y[i];
        for t in 0..N {
            sum = mul_add::<FMA>(rows[t][i], weights[t], sum);
        }
        y[i] = sum;
    }
}
