//! Sums of products: each element type is summed in a wider one and rounded once, at the end.

use ort_graph::OpError;
use ort_tensor::{Number, Pace, TensorError, bf16, f16, filled};

/// An element type whose products are summed in [`Accumulate::Sum`]: `f64` for floats, so that a
/// float32 or smaller result is rounded once, and wrapping `i64` for integers, whose low bits are
/// those of the exact result in any integer type.
pub(crate) trait Accumulate: Number {
    /// The type of a sum.
    type Sum: Sum;

    /// The element as a sum.
    fn widen(self) -> Self::Sum;

    /// The sum as an element: floats round to nearest, integers wrap.
    fn narrow(sum: Self::Sum) -> Self;
}

/// The type of sums.
pub(crate) trait Sum: Copy + Default + PartialEq + std::fmt::Debug {
    /// `self + a·b`.
    #[must_use]
    fn multiply_add(self, a: Self, b: Self) -> Self;

    /// `self + a`.
    #[must_use]
    fn plus(self, a: Self) -> Self;

    /// `f(self)`; an integer is converted to `f64` and truncated.
    #[must_use]
    fn map(self, f: impl FnOnce(f64) -> f64) -> Self;

    /// `self · factor`, exact for 1; an integer is truncated.
    #[must_use]
    fn scale(self, factor: f32) -> Self {
        match factor {
            1.0 => self,
            _ => self.map(|sum| sum * f64::from(factor)),
        }
    }
}

impl Sum for f64 {
    fn multiply_add(self, a: f64, b: f64) -> f64 {
        self + a * b
    }

    fn plus(self, a: f64) -> f64 {
        self + a
    }

    fn map(self, f: impl FnOnce(f64) -> f64) -> f64 {
        f(self)
    }
}

impl Sum for i64 {
    fn multiply_add(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }

    fn plus(self, a: i64) -> i64 {
        self.wrapping_add(a)
    }

    fn map(self, f: impl FnOnce(f64) -> f64) -> i64 {
        i64::from_f64(f(self.to_f64()))
    }
}

macro_rules! accumulate_floats {
    ($($ty:ty),*) => { $(
        impl Accumulate for $ty {
            type Sum = f64;

            fn widen(self) -> f64 {
                self.to_f64()
            }

            fn narrow(sum: f64) -> Self {
                Self::from_f64(sum)
            }
        }
    )* };
}

accumulate_floats!(f32, f64, f16, bf16);

macro_rules! accumulate_integers {
    ($($ty:ty),*) => { $(
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast,
            clippy::cast_lossless, clippy::cast_possible_wrap,
            reason = "the contract is to keep the low bits, whatever the type is")]
        impl Accumulate for $ty {
            type Sum = i64;

            fn widen(self) -> i64 {
                self as i64
            }

            fn narrow(sum: i64) -> Self {
                sum as Self
            }
        }
    )* };
}

accumulate_integers!(i8, i16, i32, i64, u8, u16, u32, u64);

/// `n` sums without a term.
///
/// # Errors
/// If there is no memory for them.
pub(crate) fn zeros<S: Sum>(n: usize) -> Result<Vec<S>, OpError> {
    Ok(filled(S::default(), n)?)
}

/// `c[m,n] += Σ a[m,k]·b[k,n]`, all row-major; the terms of an element are added in the order of
/// `k`. `c` has `n` columns; `a` and `b` have as many columns and rows as that leaves.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn multiply_add<S: Sum>(
    a: &[S],
    b: &[S],
    c: &mut [S],
    n: usize,
) -> Result<(), TensorError> {
    if n == 0 || c.is_empty() || b.is_empty() {
        return Ok(());
    }
    let (k, mut pace) = (b.len() / n, Pace::new());
    for (row, sums) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        for (&factor, terms) in row.iter().zip(b.chunks_exact(n)) {
            pace.go(n)?;
            for (sum, &term) in sums.iter_mut().zip(terms) {
                *sum = sum.multiply_add(factor, term);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_floats_round_once() {
        assert_eq!(u8::narrow(1_i64.multiply_add(u8::widen(255), u8::widen(2))), 255);
        assert_eq!(u64::narrow(u64::widen(u64::MAX).plus(2)), 1);
        assert_eq!(i8::narrow(0_i64.multiply_add(i8::widen(-128), i8::widen(-1))), -128);
        let large = f32::widen(16_777_216.0).plus(1.0).plus(1.0);
        assert_eq!(f32::narrow(large), 16_777_218.0);
    }

    #[test]
    fn an_integer_is_scaled_towards_zero() {
        for (value, factor, expected) in [(i64::MAX, 1.0, i64::MAX), (7, 0.5, 3), (-7, 0.5, -3)] {
            assert_eq!(value.scale(factor), expected);
        }
    }

    #[test]
    fn a_product_adds_to_what_is_there() {
        let mut c = [1_i64, 1];
        multiply_add(&[1, 2, 3], &[1, 4, 2, 5, 3, 6], &mut c, 2).unwrap();
        assert_eq!(c, [15, 33]);
        multiply_add(&[], &[], &mut c, 2).unwrap();
        assert_eq!(c, [15, 33]);
    }
}
