//! The cell after the products of a step: gates, and the new states computed from them.

use ort_kernels::Isa;
use ort_ops::ops::rnn;

use super::real::Real;

/// The connections of the gates of an LSTM to its state, and to each other.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::kernels) struct Coupling<'a, T> {
    /// The weights of the state for the gates i, o and f, if there are peepholes.
    pub(in crate::kernels) peepholes: Option<[&'a [T]; 3]>,
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
    fn apply<T: Real>(&self, index: usize, x: &mut [T]) {
        if let Some(clip) = self.clip {
            T::clip(self.isa, x, T::from_f64(clip.into()));
        }
        T::apply(self.activations[index], self.isa, x);
    }

    /// Whether the functions are these, and nothing is clipped.
    fn are(&self, usual: &[rnn::Activation]) -> bool {
        self.clip.is_none() && self.activations.starts_with(usual)
    }

    /// `h = f(x)`.
    pub(in crate::kernels) fn simple<T: Real>(&self, x: &[T], h: &mut [T]) {
        h.copy_from_slice(x);
        self.apply(0, h);
    }

    /// `c = f·c + i·g, h = o·tanh(c)`; gates i, o, f and g.
    pub(in crate::kernels) fn lstm<T: Real>(
        &self,
        gates: [&mut [T]; 4],
        coupling: Coupling<'_, T>,
        c: &mut [T],
        h: &mut [T],
    ) {
        let isa = self.isa;
        let Coupling { peepholes, is_input_forget } = coupling;
        let is_plain = peepholes.is_none() && !is_input_forget;
        if is_plain
            && self.are(&[rnn::Activation::Sigmoid, rnn::Activation::Tanh, rnn::Activation::Tanh])
        {
            return T::lstm_cell(isa, gates, c, h);
        }
        let [input, output, forget, candidate] = gates;
        let see = |gate: &mut [T], which: usize, c: &[T]| {
            if let Some(peepholes) = peepholes {
                for ((gate, p), c) in gate.iter_mut().zip(peepholes[which]).zip(c) {
                    *gate = T::mul_add::<false>(*p, *c, *gate);
                }
            }
        };
        see(input, 0, c);
        self.apply(0, input);
        if is_input_forget {
            forget.copy_from_slice(input);
            T::sub_from_one(isa, forget);
        } else {
            see(forget, 2, c);
            self.apply(0, forget);
        }
        self.apply(1, candidate);
        T::mul(isa, c, forget);
        T::mul(isa, candidate, input);
        T::add(isa, c, candidate);
        see(output, 1, c);
        self.apply(0, output);
        h.copy_from_slice(c);
        // Only the inputs of gates are clipped, not the state.
        T::apply(self.activations[2], isa, h);
        T::mul(isa, h, output);
    }

    /// `reset = r·before`, where `r` holds the gate before its activation.
    pub(in crate::kernels) fn reset<T: Real>(&self, r: &mut [T], before: &[T], reset: &mut [T]) {
        self.apply(0, r);
        reset.copy_from_slice(before);
        T::mul(self.isa, reset, r);
    }

    /// `h = (1 − z)·x̂ + z·before`; `x̂ = g(x + r·reset)`, or `g(x)` if there is no reset.
    pub(in crate::kernels) fn gru<T: Real>(
        &self,
        [z, r]: [&mut [T]; 2],
        (x, reset): (&mut [T], Option<&mut [T]>),
        before: &[T],
        h: &mut [T],
    ) {
        let isa = self.isa;
        if let Some(reset) = reset {
            if self.are(&[rnn::Activation::Sigmoid, rnn::Activation::Tanh]) {
                return T::gru_cell(isa, [z, r], [x, reset], before, h);
            }
            self.apply(0, r);
            T::mul(isa, reset, r);
            T::add(isa, x, reset);
        }
        self.apply(0, z);
        self.apply(1, x);
        // x + z·(before − x), which has one product less.
        h.copy_from_slice(before);
        T::sub(isa, h, x);
        T::mul(isa, h, z);
        T::add(isa, h, x);
    }
}
