//! One step of one sequence: from the inputs of the gates to the next state.

use ort_tensor::{Room, TensorError};

use super::Activation;
use crate::product::{Real, dot};

/// What a step needs in addition to the state: activations in order, and the clip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates<'a> {
    pub(super) activations: &'a [Activation],
    pub(super) clip: f64,
}

impl Gates<'_> {
    /// The activation at `index` of the clipped `x`; NaN stays NaN.
    fn apply(&self, index: usize, x: f64) -> f64 {
        self.activations[index].apply(x.clamp(-self.clip, self.clip))
    }

    /// `h = f(x + recurrent)`.
    pub(super) fn simple<R: Real>(&self, x: &[R], recurrent: &[R], h: &mut [R]) {
        for ((h, &x), &recurrent) in h.iter_mut().zip(x).zip(recurrent) {
            *h = R::from_f64(self.apply(0, x.to_f64() + recurrent.to_f64()));
        }
    }

    /// The gates z, r and h, in this order in `x` and `recurrent`. If present, `after_reset` is the part of R that
    /// multiplies `r ⊙ h`, and that of `recurrent` is not used.
    pub(super) fn gru<R: Real>(
        &self,
        x: &[R],
        recurrent: &[R],
        after_reset: Option<&[R]>,
        h: &mut [R],
    ) -> Result<(), TensorError> {
        let n = h.len();
        let gate = |i: usize, j: usize| {
            self.apply(0, x[i * n + j].to_f64() + recurrent[i * n + j].to_f64())
        };
        let update = Room::of((0..n).map(|j| gate(0, j)))?;
        let reset = Room::of((0..n).map(|j| gate(1, j)))?;
        let scaled: Room<R> =
            Room::of(h.iter().zip(&reset).map(|(h, r)| R::from_f64(h.to_f64() * r)))?;
        for (j, h) in h.iter_mut().enumerate() {
            let recurrent = match after_reset {
                Some(weights) => dot(&weights[j * n..(j + 1) * n], &scaled).to_f64(),
                None => reset[j] * recurrent[2 * n + j].to_f64(),
            };
            let candidate = self.apply(1, x[2 * n + j].to_f64() + recurrent);
            *h = R::from_f64((1.0 - update[j]) * candidate + update[j] * h.to_f64());
        }
        Ok(())
    }

    /// The gates i, o, f and c, in this order in `x` and `recurrent`; peepholes of i, o and f.
    pub(super) fn lstm<R: Real>(
        &self,
        x: &[R],
        recurrent: &[R],
        (peepholes, input_forget): (Option<&[R]>, bool),
        (h, c): (&mut [R], &mut [R]),
    ) {
        let n = h.len();
        let sum = |i: usize, j: usize| x[i * n + j].to_f64() + recurrent[i * n + j].to_f64();
        let peep =
            |i: usize, j: usize, c: f64| peepholes.map_or(0.0, |p| p[i * n + j].to_f64() * c);
        for (j, (h, c)) in h.iter_mut().zip(c).enumerate() {
            let previous = c.to_f64();
            let input = self.apply(0, sum(0, j) + peep(0, j, previous));
            let forget = match input_forget {
                true => 1.0 - input,
                false => self.apply(0, sum(2, j) + peep(2, j, previous)),
            };
            let next = forget * previous + input * self.apply(1, sum(3, j));
            let output = self.apply(0, sum(1, j) + peep(1, j, next));
            *c = R::from_f64(next);
            *h = R::from_f64(output * self.activations[2].apply(next));
        }
    }
}
