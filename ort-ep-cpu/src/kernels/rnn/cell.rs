//! The gates of one step, for all sequences. Rows of gates end up beginning with the new state.

use ort_kernels::{Activation, Isa, vec};

/// What the gates of a step need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) isa: Isa,
    /// The largest magnitude of what goes into an activation.
    pub(super) clip: Option<f32>,
    pub(super) activations: [Activation; 3],
    pub(super) hidden: usize,
}

impl Step {
    fn apply(&self, index: usize, x: &mut [f32]) {
        if let Some(clip) = self.clip {
            vec::clip(self.isa, x, -clip, clip);
        }
        self.activations[index].apply(self.isa, x);
    }

    /// `h = f(x)`; rows of one gate.
    pub(super) fn simple(&self, rows: &mut [f32], h: &mut [f32]) {
        self.apply(0, rows);
        h.copy_from_slice(rows);
    }

    /// `c = f·c + i·g, h = o·tanh(c)`; rows of gates i, o, f and g.
    pub(super) fn lstm(&self, rows: &mut [f32], h: &mut [f32], c: &mut [f32]) {
        let n = self.hidden;
        let states = h.chunks_exact_mut(n).zip(c.chunks_exact_mut(n));
        for (row, (h, c)) in rows.chunks_exact_mut(4 * n).zip(states) {
            self.apply(0, &mut row[..3 * n]);
            self.apply(1, &mut row[3 * n..]);
            let (input, rest) = row.split_at_mut(n);
            let (output, rest) = rest.split_at_mut(n);
            let (forget, candidate) = rest.split_at_mut(n);
            vec::mul(self.isa, c, forget);
            vec::mul(self.isa, candidate, input);
            vec::add(self.isa, c, candidate);
            h.copy_from_slice(c);
            // The state is not clipped, only what goes into gates.
            self.activations[2].apply(self.isa, h);
            vec::mul(self.isa, h, output);
            input.copy_from_slice(h);
        }
    }

    /// The gates z and r.
    pub(super) fn gates(&self, rows: &mut [f32]) {
        self.apply(0, rows);
    }

    /// `reset = r·h`; rows of gates z and r.
    pub(super) fn reset(&self, rows: &[f32], h: &[f32], reset: &mut [f32]) {
        let n = self.hidden;
        reset.copy_from_slice(h);
        for (row, reset) in rows.chunks_exact(2 * n).zip(reset.chunks_exact_mut(n)) {
            vec::mul(self.isa, reset, &row[n..]);
        }
    }

    /// `x = x + r·reset`; rows of gates z and r.
    pub(super) fn add_reset(&self, rows: &[f32], reset: &mut [f32], x: &mut [f32]) {
        let n = self.hidden;
        for (row, reset) in rows.chunks_exact(2 * n).zip(reset.chunks_exact_mut(n)) {
            vec::mul(self.isa, reset, &row[n..]);
        }
        vec::add(self.isa, x, reset);
    }

    /// `h = (1 − z)·f(x) + z·h`; rows of gates z and r, and what goes into the candidates.
    pub(super) fn gru(&self, rows: &[f32], x: &mut [f32], h: &mut [f32]) {
        let n = self.hidden;
        self.apply(1, x);
        let states = h.chunks_exact_mut(n).zip(x.chunks_exact_mut(n));
        for (row, (h, x)) in rows.chunks_exact(2 * n).zip(states) {
            // x + z·(h − x), which has one product less.
            vec::sub(self.isa, h, x);
            vec::mul(self.isa, h, &row[..n]);
            vec::add(self.isa, h, x);
            x.copy_from_slice(h);
        }
    }
}
