//! The types that arithmetic is computed in: f32 for 16-bit floats, the element type itself for all others.

use ort_kernels::vec::{
    bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f32_to_i32, f64_to_i32, f64_to_i64,
};
use ort_ops::arithmetic::Arithmetic;
use ort_tensor::{Element, bf16, f16};

/// An element and its computation type.
pub(crate) trait Wide: Element {
    /// The computation type.
    type Of: Quotient;

    fn widen(self) -> Self::Of;
    /// Rounds to the nearest.
    fn narrow(x: Self::Of) -> Self;
}

macro_rules! same {
    ($($ty:ty),*) => { $(
        impl Wide for $ty {
            type Of = $ty;

            #[inline(always)]
            fn widen(self) -> $ty { self }
            #[inline(always)]
            fn narrow(x: $ty) -> $ty { x }
        }
    )* };
}
same!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64);

impl Wide for f16 {
    type Of = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        f16_to_f32(self.to_bits())
    }

    #[inline(always)]
    fn narrow(x: f32) -> Self {
        Self::from_bits(f32_to_f16(x))
    }
}

impl Wide for bf16 {
    type Of = f32;

    #[inline(always)]
    fn widen(self) -> f32 {
        bf16_to_f32(self.to_bits())
    }

    #[inline(always)]
    fn narrow(x: f32) -> Self {
        Self::from_bits(f32_to_bf16(x))
    }
}

/// Branch-free division, through floats that represent every quotient: f32 for 16 bits, f64 for 32. A
/// non-integer quotient differs from the next integer by at least 2⁻³² of its value, so it is not rounded to it.
pub(crate) trait Quotient: Arithmetic {
    /// `self / other`, toward zero for integers; unspecified for a divisor of zero.
    fn quotient(self, other: Self) -> Self;

    /// `self − quotient·other`.
    #[inline(always)]
    fn remainder(self, other: Self) -> Self {
        self.sub(self.quotient(other).mul(other))
    }
}

macro_rules! through {
    ($($ty:ty: $float:ty, $truncate:ident;)*) => { $(
        impl Quotient for $ty {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the only quotient that does not fit wraps")]
            fn quotient(self, other: Self) -> Self {
                $truncate(<$float>::from(self) / <$float>::from(other)) as $ty
            }
        }
    )* };
}
through! {
    i8: f32, f32_to_i32;
    i16: f32, f32_to_i32;
    i32: f64, f64_to_i32;
    u8: f32, f32_to_i32;
    u16: f32, f32_to_i32;
    u32: f64, f64_to_i64;
}

macro_rules! plain {
    ($($ty:ty),*) => { $(
        impl Quotient for $ty {
            #[inline(always)]
            fn quotient(self, other: Self) -> Self { self.div(other) }
        }
    )* };
}
plain!(u64, f32, f64);

/// Through f64 twice: the first quotient is off by at most 2¹² (three roundings of a number below 2⁶³), so that the
/// remainder's quotient is off by at most one, which the sign and magnitude of the remainder reveal.
impl Quotient for i64 {
    #[inline(always)]
    #[allow(clippy::cast_precision_loss, reason = "the loss is corrected by the remainder")]
    fn quotient(self, other: Self) -> Self {
        let divisor = other as f64;
        let first = f64_to_i64(self as f64 / divisor);
        let left = self.wrapping_sub(first.wrapping_mul(other));
        let second = f64_to_i64(left as f64 / divisor);
        let left = left.wrapping_sub(second.wrapping_mul(other));
        let quotient = first.wrapping_add(second);
        // Away from zero if the remainder is not smaller than the divisor, toward it if its sign is not the dividend's.
        let away = if (self ^ other) < 0 { -1_i64 } else { 1 };
        let is_over = left != 0 && (left ^ self) < 0;
        let is_under = !is_over && left.unsigned_abs() >= other.unsigned_abs();
        quotient.wrapping_add(if is_under { away } else { 0 }).wrapping_sub(if is_over {
            away
        } else {
            0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Quotient;

    #[test]
    fn quotients_of_64_bits_are_exact() {
        let mut numbers = vec![0, 1, 2, 3, 7, 10, 1000, 999_999_937];
        for shift in [20, 31, 32, 52, 53, 54, 61, 62] {
            let power = 1_i64 << shift;
            numbers.extend([power - 1, power, power + 1, power / 3, power + power / 7]);
        }
        numbers.extend([i64::MAX, i64::MAX - 1, i64::MAX / 3]);
        let signed: Vec<i64> =
            numbers.iter().flat_map(|&x| [x, -x]).chain([i64::MIN, i64::MIN + 1]).collect();
        let check = |a: i64, b: i64| assert_eq!(a.quotient(b), a.wrapping_div(b), "{a} / {b}");
        for &a in &signed {
            for &b in signed.iter().filter(|b| **b != 0) {
                check(a, b);
                // Next to a multiple.
                let multiple = a.wrapping_div(b).wrapping_mul(b);
                for step in [-1, 0, 1] {
                    check(multiple.wrapping_add(step), b);
                }
            }
        }
        let mut rng = ort_testing::Rng::new(20);
        for _ in 0..200_000 {
            let [a, b] = [rng.next_u64(), rng.next_u64()].map(u64::cast_signed);
            let (a, b) = (a >> (b & 63), b >> (a & 63));
            if b != 0 {
                check(a, b);
            }
        }
    }
}
