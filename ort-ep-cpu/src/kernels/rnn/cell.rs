//! One step of one sequence: from the sums of the gates to the next state, in place.

use ort_kernels::{Isa, vec};

/// `h = tanh(sum)`.
pub(super) fn simple(isa: Isa, sum: &[f32], h: &mut [f32]) {
    h.copy_from_slice(sum);
    vec::tanh(isa, h);
}

/// The gates z, r and h: `h = h̃ + z ⊙ (h − h̃)`, `h̃ = tanh(x + r ⊙ recurrent)`.
pub(super) fn gru(isa: Isa, x: &mut [f32], recurrent: &mut [f32], h: &mut [f32]) {
    let n = h.len();
    let (gates, candidate) = x.split_at_mut(2 * n);
    let (of_gates, of_candidate) = recurrent.split_at_mut(2 * n);
    vec::add(isa, gates, of_gates);
    vec::sigmoid(isa, gates);
    let (update, reset) = gates.split_at(n);
    vec::mul(isa, of_candidate, reset);
    vec::add(isa, candidate, of_candidate);
    vec::tanh(isa, candidate);
    vec::sub(isa, h, candidate);
    vec::mul(isa, h, update);
    vec::add(isa, h, candidate);
}

/// The gates i, o, f and c: `c = f ⊙ c + i ⊙ c̃`, `h = o ⊙ tanh(c)`.
pub(super) fn lstm(isa: Isa, sums: &mut [f32], h: &mut [f32], c: &mut [f32]) {
    let n = h.len();
    let (gates, candidate) = sums.split_at_mut(3 * n);
    vec::sigmoid(isa, gates);
    vec::tanh(isa, candidate);
    vec::mul(isa, candidate, &gates[..n]);
    vec::mul(isa, c, &gates[2 * n..]);
    vec::add(isa, c, candidate);
    h.copy_from_slice(c);
    vec::tanh(isa, h);
    vec::mul(isa, h, &gates[n..2 * n]);
}
