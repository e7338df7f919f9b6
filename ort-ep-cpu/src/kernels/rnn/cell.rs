//! The cell after the products of a step: gates, and the new states computed from them.

use ort_kernels::{Activation, Isa, vec};
use ort_ops::ops::rnn;

/// `x = function(x)`.
fn apply(function: rnn::Activation, isa: Isa, x: &mut [f32]) {
    let plain = match function {
        rnn::Activation::Affine { alpha, beta } => {
            vec::mul_scalar(isa, x, alpha);
            return vec::add_scalar(isa, x, beta);
        }
        rnn::Activation::Elu { alpha } => return vec::elu(isa, x, alpha),
        rnn::Activation::HardSigmoid { alpha, beta } => Activation::HardSigmoid { alpha, beta },
        rnn::Activation::LeakyRelu { alpha } => Activation::LeakyRelu { alpha },
        rnn::Activation::Relu => Activation::Relu,
        rnn::Activation::ScaledTanh { alpha, beta } => {
            vec::mul_scalar(isa, x, beta);
            vec::tanh(isa, x);
            return vec::mul_scalar(isa, x, alpha);
        }
        rnn::Activation::Sigmoid => Activation::Sigmoid,
        rnn::Activation::Softplus => return vec::softplus(isa, x),
        rnn::Activation::Softsign => return vec::softsign(isa, x),
        rnn::Activation::Tanh => Activation::Tanh,
        rnn::Activation::ThresholdedRelu { alpha } => {
            return x.iter_mut().for_each(|x| *x = if *x < alpha { 0.0 } else { *x });
        }
    };
    plain.apply(isa, x);
}

/// The connections of the gates of an LSTM to its state, and to each other.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::kernels) struct Coupling<'a> {
    /// The weights of the state for the gates i, o and f, if there are peepholes.
    pub(in crate::kernels) peepholes: Option<[&'a [f32]; 3]>,
    /// Whether f is 1 − i.
    pub(in crate::kernels) is_input_forget: bool,
}

/// The functions of a cell.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Functions {
    pub(in crate::kernels) isa: Isa,
    /// The maximum magnitude of the inputs of activations.
    pub(in crate::kernels) clip: Option<f32>,
    pub(in crate::kernels) activations: [rnn::Activation; 3],
}

impl Functions {
    fn apply(&self, index: usize, x: &mut [f32]) {
        if let Some(clip) = self.clip {
            vec::clip(self.isa, x, -clip, clip);
        }
        apply(self.activations[index], self.isa, x);
    }

    /// Whether the functions are these, and nothing is clipped.
    fn are(&self, usual: &[rnn::Activation]) -> bool {
        self.clip.is_none() && self.activations.starts_with(usual)
    }

    /// `h = f(x)`.
    pub(in crate::kernels) fn simple(&self, x: &[f32], h: &mut [f32]) {
        h.copy_from_slice(x);
        self.apply(0, h);
    }

    /// `c = f·c + i·g, h = o·tanh(c)`; gates i, o, f and g.
    pub(in crate::kernels) fn lstm(
        &self,
        gates: [&mut [f32]; 4],
        coupling: Coupling<'_>,
        c: &mut [f32],
        h: &mut [f32],
    ) {
        let isa = self.isa;
        let Coupling { peepholes, is_input_forget } = coupling;
        let is_plain = peepholes.is_none() && !is_input_forget;
        if is_plain
            && self.are(&[rnn::Activation::Sigmoid, rnn::Activation::Tanh, rnn::Activation::Tanh])
        {
            return vec::lstm_cell(isa, gates.map(|gate| &*gate), c, h);
        }
        let [input, output, forget, candidate] = gates;
        let see = |gate: &mut [f32], which: usize, c: &[f32]| {
            if let Some(peepholes) = peepholes {
                let terms = peepholes[which].iter().zip(c).map(|(p, c)| p * c);
                gate.iter_mut().zip(terms).for_each(|(gate, term)| *gate += term);
            }
        };
        see(input, 0, c);
        self.apply(0, input);
        if is_input_forget {
            forget.copy_from_slice(input);
            vec::sub_from_scalar(isa, forget, 1.0);
        } else {
            see(forget, 2, c);
            self.apply(0, forget);
        }
        self.apply(1, candidate);
        vec::mul(isa, c, forget);
        vec::mul(isa, candidate, input);
        vec::add(isa, c, candidate);
        see(output, 1, c);
        self.apply(0, output);
        h.copy_from_slice(c);
        // Only the inputs of gates are clipped, not the state.
        apply(self.activations[2], isa, h);
        vec::mul(isa, h, output);
    }

    /// `reset = r·before`, where `r` holds the gate before its activation.
    pub(in crate::kernels) fn reset(&self, r: &mut [f32], before: &[f32], reset: &mut [f32]) {
        self.apply(0, r);
        reset.copy_from_slice(before);
        vec::mul(self.isa, reset, r);
    }

    /// `h = (1 − z)·x̂ + z·before`; `x̂ = g(x + r·reset)`, or `g(x)` if there is no reset.
    pub(in crate::kernels) fn gru(
        &self,
        [z, r]: [&mut [f32]; 2],
        (x, reset): (&mut [f32], Option<&mut [f32]>),
        before: &[f32],
        h: &mut [f32],
    ) {
        let isa = self.isa;
        if let Some(reset) = reset {
            if self.are(&[rnn::Activation::Sigmoid, rnn::Activation::Tanh]) {
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
