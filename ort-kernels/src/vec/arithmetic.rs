//! `x[i] = x[i] ∘ y[i]`, the same with a scalar, and both with operands reversed, in IEEE 754 single
//! precision. Maximum and minimum are NaN if either operand is.

use super::reduce::{greater, less};
use crate::isa::mul_add;

/// In place with a row, in place with a scalar; and the same with the row or the scalar on the left,
/// if that differs.
macro_rules! arithmetic {
    ($($symbol:literal $f:expr => $row:ident $scalar:ident $($row_before:ident $scalar_before:ident)?;)+) => {per_isa! {$(
        #[doc = concat!("`x[i] = x[i] ", $symbol, " y[i]`.\n\n# Panics\nIf the lengths differ.")]
        pub fn $row<FMA>(x: &mut [f32], y: &[f32]) {
            combine(x, y, $f);
        }

        #[doc = concat!("`x[i] = x[i] ", $symbol, " y`.")]
        pub fn $scalar<FMA>(x: &mut [f32], y: f32) {
            x.iter_mut().for_each(|x| *x = $f(*x, y));
        }

        $(
            #[doc = concat!("`x[i] = y[i] ", $symbol, " x[i]`.\n\n# Panics\nIf the lengths differ.")]
            pub fn $row_before<FMA>(x: &mut [f32], y: &[f32]) {
                combine(x, y, |x, y| $f(y, x));
            }

            #[doc = concat!("`x[i] = y ", $symbol, " x[i]`.")]
            pub fn $scalar_before<FMA>(x: &mut [f32], y: f32) {
                x.iter_mut().for_each(|x| *x = $f(y, *x));
            }
        )?
    )+}};
}
arithmetic! {
    "+" |x, y| x + y => add add_scalar;
    "−" |x, y| x - y => sub sub_scalar sub_from sub_from_scalar;
    "·" |x, y| x * y => mul mul_scalar;
    "/" |x, y| x / y => div div_scalar div_by div_scalar_by;
    "max" greater => greatest greatest_scalar greatest_from greatest_from_scalar;
    "min" less => least least_scalar least_from least_from_scalar;
}

per_isa! {
    /// `y[i] = weights[0]·a[i] + weights[1]·b[i]`, the last sum fused if the instruction set supports it.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn weighted_sum<FMA>(y: &mut [f32], a: &[f32], b: &[f32], weights: [f32; 2]) {
        assert!(y.len() == a.len() && y.len() == b.len(), "operands have the same length");
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = mul_add::<FMA>(weights[1], *b, weights[0] * a);
        }
    }

    /// `y[i] = weight·x[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn scaled<FMA>(y: &mut [f32], x: &[f32], weight: f32) {
        combine(y, x, |_, x| weight * x);
    }

    /// `x[i] = x[i] + y[i]`, but −∞ where `y[i]` is, whatever `x[i]` is: a masking bias overrides NaN.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_bias<FMA>(x: &mut [f32], y: &[f32]) {
        combine(x, y, |x, y| if y == f32::NEG_INFINITY { y } else { x + y });
    }

    /// `x[i] = x[i] + bias` where `flags[i]` is below 1, as [`add_bias`].
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_bias_where<FMA>(x: &mut [f32], flags: &[i32], bias: f32) {
        changed(x, flags, |x, flag| {
            let biased = if bias == f32::NEG_INFINITY { bias } else { x + bias };
            if flag <= 0 { biased } else { x }
        });
    }

    /// `x[i] = −∞` where `flags[i]` is 0.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn hide_where<FMA>(x: &mut [f32], flags: &[u8]) {
        changed(x, flags, |x, flag| if flag == 0 { f32::NEG_INFINITY } else { x });
    }

    /// `y[i] += weight·x[i]`, fused if the instruction set supports it.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add_scaled<FMA>(y: &mut [f32], x: &[f32], weight: f32) {
        combine(y, x, |y, x| mul_add::<FMA>(weight, x, y));
    }
}

/// `x[i] = f(x[i], y[i])`.
#[inline(always)]
fn combine<T: Copy>(x: &mut [f32], y: &[T], f: impl Fn(f32, T) -> f32) {
    assert_eq!(x.len(), y.len(), "operands have the same length");
    for (x, y) in x.iter_mut().zip(y) {
        *x = f(*x, *y);
    }
}

/// [`combine`] for functions that return `x` itself for some elements. Such a store the compiler would replace by one with a
/// mask, which takes processors up to Zen 3 twelve cycles. A zero that it does not know prevents that.
#[inline(always)]
fn changed<T: Copy>(x: &mut [f32], y: &[T], f: impl Fn(f32, T) -> f32) {
    let zero = std::hint::black_box(0);
    combine(x, y, |x, y| f32::from_bits(f(x, y).to_bits() | zero));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn what_is_hidden_may_be_nan() {
        let n = 67;
        let x: Vec<f32> = (0..n).map(|i| if i % 5 == 0 { f32::NAN } else { i as f32 }).collect();
        let flags: Vec<i32> = (0..n).map(|i| i % 3 - 1).collect();
        let bytes: Vec<u8> = (0..n).map(|i| if i % 4 == 0 { 0 } else { 7 }).collect();
        for isa in Isa::all() {
            for bias in [-10_000.0, f32::NEG_INFINITY] {
                let mut found = x.clone();
                add_bias_where(isa, &mut found, &flags, bias);
                for (i, (found, x)) in found.iter().zip(&x).enumerate() {
                    let hidden = if bias.is_finite() { x + bias } else { bias };
                    let expected = if flags[i] <= 0 { hidden } else { *x };
                    assert_eq!(found.to_bits(), expected.to_bits(), "{i}: {found}, not {expected}");
                }
            }
            let mut found = x.clone();
            hide_where(isa, &mut found, &bytes);
            for (i, (found, x)) in found.iter().zip(&x).enumerate() {
                let expected = if bytes[i] == 0 { f32::NEG_INFINITY } else { *x };
                assert_eq!(found.to_bits(), expected.to_bits(), "{i}: {found}, not {expected}");
            }
        }
    }
}
