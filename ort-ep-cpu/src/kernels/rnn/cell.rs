//! What follows the products of a step: gates, and from them new states.

use ort_kernels::{Activation, Isa, vec};

/// The functions of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    pub(super) isa: Isa,
    /// The largest magnitude of what goes into an activation.
    pub(super) clip: Option<f32>,
    pub(super) activations: [Activation; 3],
}

impl Functions {
    fn apply(&self, index: usize, x: &mut [f32]) {
        if let Some(clip) = self.clip {
            vec::clip(self.isa, x, -clip, clip);
        }
        self.activations[index].apply(self.isa, x);
    }

    /// Whether the functions are these, and nothing is clipped.
    fn are(&self, usual: &[Activation]) -> bool {
        self.clip.is_none() && self.activations.starts_with(usual)
    }

    /// `h = f(x)`.
    pub(super) fn simple(&self, x: &[f32], h: &mut [f32]) {
        h.copy_from_slice(x);
        self.apply(0, h);
    }

    /// `c = f·c + i·g, h = o·tanh(c)`; gates i, o, f and g.
    pub(super) fn lstm(&self, gates: [&mut [f32]; 4], c: &mut [f32], h: &mut [f32]) {
        let isa = self.isa;
        if self.are(&[Activation::Sigmoid, Activation::Tanh, Activation::Tanh]) {
            return vec::lstm_cell(isa, gates.map(|gate| &*gate), c, h);
        }
        let [input, output, forget, candidate] = gates;
        for gate in [&mut *input, &mut *output, &mut *forget] {
            self.apply(0, gate);
        }
        self.apply(1, candidate);
        vec::mul(isa, c, forget);
        vec::mul(isa, candidate, input);
        vec::add(isa, c, candidate);
        h.copy_from_slice(c);
        // The state is not clipped, only what goes into gates.
        self.activations[2].apply(isa, h);
        vec::mul(isa, h, output);
    }

    /// `reset = r·before`, where r is not yet a function of its sum.
    pub(super) fn reset(&self, r: &mut [f32], before: &[f32], reset: &mut [f32]) {
        self.apply(0, r);
        reset.copy_from_slice(before);
        vec::mul(self.isa, reset, r);
    }

    /// `h = (1 − z)·x̂ + z·before`; `x̂ = g(x + r·reset)`, or `g(x)` if there is no reset.
    pub(super) fn gru(
        &self,
        [z, r]: [&mut [f32]; 2],
        (x, reset): (&mut [f32], Option<&mut [f32]>),
        before: &[f32],
        h: &mut [f32],
    ) {
        let isa = self.isa;
        if let Some(reset) = reset {
            if self.are(&[Activation::Sigmoid, Activation::Tanh]) {
                return vec::gru_cell(isa, [z, r], [x, reset], before, h);
            }
            self.apply(0, r);
            vec::mul(isa, reset, r);
            vec::add(isa, x, reset);
        }
        self.apply(0, z);
        self.apply(1, x);
        // x + z·(before − x), which has one product less.
        h.copy_from_slice(before);
        vec::sub(isa, h, x);
        vec::mul(isa, h, z);
        vec::add(isa, h, x);
    }
}
