//! Arithmetic that is total: integers wrap, 16-bit floats compute in `f32` and round once.

use ort_tensor::{Number, bf16, f16};

/// The four operations and order, for every number type.
pub trait Arithmetic: Number {
    /// `self + other`
    fn add(self, other: Self) -> Self;
    /// `self − other`
    fn sub(self, other: Self) -> Self;
    /// `self · other`
    fn mul(self, other: Self) -> Self;
    /// The quotient, toward zero for integers; 0 for an integer divided by zero.
    fn div(self, other: Self) -> Self;
    /// `self − trunc(self / other) · other`: the sign is that of `self`. 0 for an integer and 0.
    fn truncated_rem(self, other: Self) -> Self;
    /// `−self`
    fn neg(self) -> Self;
    /// `|self|`
    fn abs(self) -> Self;
    /// −1, 0 or 1; NaN for NaN.
    fn sign(self) -> Self;

    /// The larger; NaN if either is.
    #[inline]
    fn larger(self, other: Self) -> Self {
        // The sum is NaN, too. If an operand were taken, loops in place would store with masks, which some processors are slow at.
        let larger = if self > other { self } else { other };
        if self.equals_itself() & other.equals_itself() { larger } else { self.add(other) }
    }

    /// The smaller; NaN if either is.
    #[inline]
    fn smaller(self, other: Self) -> Self {
        // As in `larger`.
        let smaller = if self < other { self } else { other };
        if self.equals_itself() & other.equals_itself() { smaller } else { self.add(other) }
    }

    /// `self − ⌊self / other⌋ · other`: the sign is that of `other`. 0 for an integer and 0.
    #[inline]
    fn floored_rem(self, other: Self) -> Self {
        let zero = Self::default();
        let rem = self.truncated_rem(other);
        if rem == zero {
            // A zero remainder takes the sign of the divisor, too.
            return if other < zero { zero.neg() } else { zero };
        }
        if (rem < zero) == (other < zero) { rem } else { rem.add(other) }
    }

    /// False for NaN only.
    #[inline]
    fn equals_itself(self) -> bool {
        self.partial_cmp(&self).is_some()
    }
}

macro_rules! integers {
    ($sign:ident, $neg:ident, $abs:ident: $($ty:ty),*) => { $(
        impl Arithmetic for $ty {
            #[inline]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline]
            fn truncated_rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline]
            fn abs(self) -> Self { integers!(@abs $abs self) }
            #[inline]
            fn sign(self) -> Self { integers!(@sign $sign self) }
        }
    )* };
    (@abs wrapping $x:ident) => { $x.wrapping_abs() };
    (@abs same $x:ident) => { $x };
    // Vectorized, which `signum` is not.
    (@sign signum $x:ident) => { Self::from($x > 0) - Self::from($x < 0) };
    (@sign min_one $x:ident) => { $x.min(1) };
}

integers!(signum, wrapping, wrapping: i8, i16, i32, i64);
integers!(min_one, wrapping, same: u8, u16, u32, u64);

macro_rules! floats {
    ($($ty:ty: $into:expr, $from:expr;)*) => { $(
        impl Arithmetic for $ty {
            #[inline]
            fn add(self, other: Self) -> Self { $from($into(self) + $into(other)) }
            #[inline]
            fn sub(self, other: Self) -> Self { $from($into(self) - $into(other)) }
            #[inline]
            fn mul(self, other: Self) -> Self { $from($into(self) * $into(other)) }
            #[inline]
            fn div(self, other: Self) -> Self { $from($into(self) / $into(other)) }
            #[inline]
            fn truncated_rem(self, other: Self) -> Self { $from($into(self) % $into(other)) }
            #[inline]
            fn neg(self) -> Self { $from(-$into(self)) }
            #[inline]
            fn abs(self) -> Self { $from($into(self).abs()) }
            #[inline]
            fn sign(self) -> Self {
                let x = $into(self);
                if x == 0.0 { Self::default() } else if x.is_nan() { self } else { $from(x.signum()) }
            }
        }
    )* };
}

floats! {
    f32: std::convert::identity, std::convert::identity;
    f64: std::convert::identity, std::convert::identity;
    f16: f16::to_f32, f16::from_f32;
    bf16: bf16::to_f32, bf16::from_f32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_follow_the_sign_of_one_operand() {
        let cases = [(7, 3, 1, 1), (-7, 3, -1, 2), (7, -3, 1, -2), (-7, -3, -1, -1), (6, -3, 0, 0)];
        for (a, b, truncated, floored) in cases {
            assert_eq!((a.truncated_rem(b), a.floored_rem(b)), (truncated, floored), "{a} by {b}");
            let (x, y) = (f64::from(a), f64::from(b));
            assert_eq!(x.truncated_rem(y), f64::from(truncated), "{x} by {y}");
            assert_eq!(x.floored_rem(y), f64::from(floored), "{x} by {y}");
        }
        assert_eq!(1.0_f32.floored_rem(f32::NEG_INFINITY), f32::NEG_INFINITY);
        assert!((-6.0_f32).floored_rem(-3.0).is_sign_negative());
        assert!(1.0_f32.floored_rem(0.0).is_nan());
    }

    #[test]
    fn integers_never_overflow_or_divide_by_zero() {
        assert_eq!((i8::MIN.div(-1), i8::MIN.truncated_rem(-1)), (i8::MIN, 0));
        assert_eq!(
            (5_u8.div(0), 5_i64.floored_rem(0), Arithmetic::abs(i32::MIN)),
            (0, 0, i32::MIN)
        );
    }

    #[test]
    fn nan_wins_every_comparison() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(a.larger(b).is_nan() && a.smaller(b).is_nan());
        }
        assert_eq!((2_u8.larger(3), 2_u8.smaller(3)), (3, 2));
    }
}
