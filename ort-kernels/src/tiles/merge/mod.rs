//! `y[p] = clamp(sums[p] + (bias + y[p]))`, for positions of 16 filters.
//!
//! **Operands.** As many positions as `sums` and y both have. What [`Start`] lacks counts as zero,
//! and y is read only for a summand. NaN stays NaN.

use crate::conv_nchwc::Start;

/// A variant: its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>`, the name of its file.
    pub name: &'static str,
}

/// What is added to the sums, and the range of the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge<'a> {
    pub(crate) start: Start<'a>,
    pub(crate) min: f32,
    pub(crate) max: f32,
}

ladder! {
    fn merge(sums: &[[f32; 16]], merge: &Merge<'_>, y: &mut [[f32; 16]]);
    Avx512 => avx512; generic
}

/// Writes y with the best variant that `isa` allows.
pub(crate) fn write(isa: crate::Isa, sums: &[[f32; 16]], with: &Merge<'_>, y: &mut [[f32; 16]]) {
    merge(isa, sums, with, y);
}

#[cfg(test)]
mod tests {
    use super::{Merge, generic, merge};
    use crate::Isa;
    use crate::conv_nchwc::Start;

    /// Called by the ladder for each variant.
    pub(super) fn agrees_with_generic(isa: Isa) {
        let numbers = |n: usize, from: f32| -> Vec<[f32; 16]> {
            (0..n).map(|i| std::array::from_fn(|lane| from + (i * 16 + lane) as f32 / 7.0)).collect()
        };
        let mut sums = numbers(5, -3.0);
        sums[3][2] = f32::NAN;
        let bias: Vec<f32> = numbers(2, 0.5).concat();
        for (bias, is_sum) in [(None, false), (None, true), (Some(&bias[..]), false), (Some(&bias), true)] {
            for (min, max) in [(f32::NEG_INFINITY, f32::INFINITY), (-1.0, 2.5)] {
                let with = Merge { start: Start { bias, is_sum }, min, max };
                let (mut found, mut expected) = (numbers(4, -1.0), numbers(4, -1.0));
                merge(isa, &sums, &with, &mut found);
                generic::merge(&sums, &with, &mut expected);
                let bits = |y: Vec<[f32; 16]>| y.concat().into_iter().map(f32::to_bits).collect::<Vec<_>>();
                assert_eq!(bits(found), bits(expected), "{isa:?} {with:?}");
            }
        }
    }

    #[test]
    fn generic_adds_and_clamps() {
        let bias = [1.0; 16];
        let with = Merge { start: Start { bias: Some(&bias), is_sum: true }, min: 0.0, max: 6.0 };
        let mut y = [[-3.0; 16], [2.0; 16], [5.0; 16], [0.0; 16]];
        merge(Isa::Generic, &[[1.0; 16]; 3], &with, &mut y);
        assert_eq!(y, [[0.0; 16], [4.0; 16], [6.0; 16], [0.0; 16]]);
    }
}
