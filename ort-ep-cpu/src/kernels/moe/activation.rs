//! The functions between the layers, in f32.

use ort_kernels::{Isa, vec};
use ort_ops::ops::microsoft::moe::{ExpertActivation, Gate};

/// Elements that are computed at a time.
pub(super) const TILE: usize = 128;

/// The inputs of the second layer from element `at` on, at most [`TILE`], of a row of the first.
pub(super) fn piece(
    isa: Isa,
    (activation, gate): (ExpertActivation, Gate),
    (row, at): (&[f32], usize),
    to: &mut [f32],
) {
    let mut linear = [0.0; TILE];
    let linear = &mut linear[..to.len()];
    match gate {
        Gate::Apart => {
            to.copy_from_slice(&row[at..][..to.len()]);
            return activate(isa, activation, to);
        }
        Gate::Interleaved => {
            let pairs = row[2 * at..].as_chunks::<2>().0;
            for ((to, linear), pair) in to.iter_mut().zip(&mut *linear).zip(pairs) {
                [*to, *linear] = *pair;
            }
        }
        Gate::Halves => {
            to.copy_from_slice(&row[at..][..to.len()]);
            linear.copy_from_slice(&row[row.len() / 2 + at..][..to.len()]);
        }
    }
    if let ExpertActivation::Swiglu { beta, limit, .. } = activation {
        for linear in &mut *linear {
            // A limit below zero clamps to itself.
            let x = if *linear > limit { limit } else { *linear };
            *linear = if x < -limit { -limit } else { x } + beta;
        }
    }
    activate(isa, activation, to);
    vec::mul(isa, to, linear);
}

/// `x = f(x)`, for a gate without its linear part.
fn activate(isa: Isa, activation: ExpertActivation, x: &mut [f32]) {
    match activation {
        // The maximum of NaN and zero is zero.
        ExpertActivation::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
        ExpertActivation::SquaredRelu => x.iter_mut().for_each(|x| *x = x.max(0.0) * x.max(0.0)),
        ExpertActivation::Gelu => vec::gelu_tanh(isa, x),
        ExpertActivation::Silu => vec::silu(isa, x, 1.0),
        ExpertActivation::Identity => {}
        ExpertActivation::Swiglu { alpha, limit, is_limit_after, .. } => {
            let at_most = |x: f32| if x > limit { limit } else { x };
            if !is_limit_after {
                x.iter_mut().for_each(|x| *x = at_most(*x));
            }
            vec::silu(isa, x, alpha);
            if is_limit_after {
                x.iter_mut().for_each(|x| *x = at_most(*x));
            }
        }
    }
}
