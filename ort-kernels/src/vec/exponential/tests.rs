//! The bits of kernels in registers.

use super::super::formula;

/// A function of each element.
pub(super) type Kernel<T> = fn(T, &mut [f32]);

/// Ordinary values, zeros, extremes, denormals and NaN.
fn values() -> impl Iterator<Item = f32> {
    let special = [f32::NAN, f32::INFINITY, f32::MAX, 89.0, 20.0, 3.95, 1.0, 1e-40, 0.0];
    let special = special.into_iter().flat_map(|x| [x, -x]);
    (-4000..4000).map(|i| i as f32 * 0.027).chain(special)
}

#[track_caller]
fn equals(kernel: impl Fn(&mut [f32]), formula: fn(f32) -> f32) {
    // Whole groups of registers, and the rest of a group of any length.
    let all: Vec<f32> = values().collect();
    for len in [all.len(), 1, 7, 8, 9, 15, 16, 17, 31, 33] {
        let mut found = all[all.len() - len..].to_vec();
        kernel(&mut found);
        for (x, found) in all[all.len() - len..].iter().zip(found) {
            let expected = formula(*x);
            let is_same = found.to_bits() == expected.to_bits();
            assert!(is_same || found.is_nan() && expected.is_nan(), "{x}: {found} {expected}");
        }
    }
}

/// Checks the kernels of exp, sigmoid, tanh, erf, gelu and gelu_tanh, and that of silu.
#[track_caller]
pub(super) fn have_the_bits_of_the_formulas<T: Copy>(
    token: T,
    kernels: [Kernel<T>; 6],
    silu: fn(T, &mut [f32], f32),
) {
    let formulas: [fn(f32) -> f32; 6] = [
        formula::exp::<true>,
        formula::sigmoid::<true>,
        formula::tanh::<true>,
        formula::erf::<true>,
        formula::gelu::<true>,
        formula::gelu_tanh::<true>,
    ];
    for (kernel, formula) in kernels.into_iter().zip(formulas) {
        equals(|x| kernel(token, x), formula);
    }
    equals(|x| silu(token, x, 1.7), |x| x * formula::sigmoid::<true>(1.7 * x));
}
