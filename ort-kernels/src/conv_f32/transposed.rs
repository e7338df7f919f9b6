//! Rows of transposed convolutions of one channel.

use crate::isa::mul_add;
use crate::transpose::transpose;
use crate::{Activation, Isa};

/// Positions per block.
const LANES: usize = 16;

/// One row: `y[q·S + r] = act(bias + Σ_t x[q + offset_t]·weights[tap_t])` over the taps t of remainder r,
/// a chain of multiply-adds in their order.
#[derive(Clone, Copy, Debug)]
pub struct TransposedRow<'a> {
    /// The instruction set.
    pub isa: Isa,
    /// The taps of each of the S remainders, as pairs of offset and tap.
    pub taps: &'a [Vec<(usize, usize)>],
    /// Of all taps.
    pub weights: &'a [f32],
    /// The initial value of the sums.
    pub bias: f32,
    /// Applied to the sums.
    pub activation: Activation,
}

impl TransposedRow<'_> {
    /// The length of rows of `n` positions: whole blocks.
    #[must_use]
    pub const fn padded(n: usize) -> usize {
        n.next_multiple_of(LANES)
    }

    /// Computes `n` positions: `y` and the scratch have `n·S` elements.
    ///
    /// # Panics
    /// If `n` is not a number of whole blocks, or `x` is shorter than `n` and the largest offset together.
    pub fn run(&self, x: &[f32], n: usize, y: &mut [f32], scratch: &mut [f32]) {
        assert!(n.is_multiple_of(LANES), "{n} positions");
        let stride = self.taps.len();
        let (y, scratch) = (&mut y[..n * stride], &mut scratch[..n * stride]);
        let rows = if stride == 1 { &mut *y } else { &mut *scratch };
        for (taps, row) in self.taps.iter().zip(rows.chunks_exact_mut(n.max(1))) {
            sums(self.isa, self, taps, x, row);
        }
        self.activation.apply(self.isa, rows);
        if stride > 1 {
            transpose(self.isa, [stride, n], (scratch, n), (y, stride));
        }
    }
}

per_isa! {
    /// The sums of one remainder.
    fn sums<FMA>(this: &TransposedRow<'_>, taps: &[(usize, usize)], x: &[f32], sums: &mut [f32]) {
        sums.fill(this.bias);
        let (fours, rest) = taps.as_chunks::<4>();
        for taps in fours {
            add::<FMA, 4>(this, *taps, x, sums);
        }
        match *rest {
            [a] => add::<FMA, 1>(this, [a], x, sums),
            [a, b] => add::<FMA, 2>(this, [a, b], x, sums),
            [a, b, c] => add::<FMA, 3>(this, [a, b, c], x, sums),
            _ => {}
        }
    }
}

/// Adds the products of `N` taps.
#[inline(always)]
fn add<const FMA: bool, const N: usize>(
    this: &TransposedRow<'_>,
    taps: [(usize, usize); N],
    x: &[f32],
    sums: &mut [f32],
) {
    let mut weights = [0.0; N];
    let mut rows = [&[][..]; N];
    for (t, (offset, tap)) in taps.into_iter().enumerate() {
        weights[t] = this.weights[tap];
        rows[t] = x[offset..][..sums.len()].as_chunks::<LANES>().0;
    }
    for (block, to) in sums.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let mut sums = *to;
        for t in 0..N {
            let x = &rows[t][block];
            for i in 0..LANES {
                sums[i] = mul_add::<FMA>(x[i], weights[t], sums[i]);
            }
        }
        *to = sums;
    }
}
