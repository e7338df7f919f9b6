//! Elements as types that the processor computes with: 16-bit floats as f32, all others as they are.

use ort_kernels::vec::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, f32_to_i32, f64_to_i64};
use ort_ops::arithmetic::Arithmetic;
use ort_tensor::{Element, bf16, f16};

/// An element and the type it is computed in.
pub(crate) trait Wide: Element {
    /// That type.
    type Of: Quotient;

    fn widen(self) -> Self::Of;
    /// The nearest.
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

/// Division without a branch, where floats hold every quotient: those of 16 bits in f32, of 32 in f64. A
/// quotient is then at least 2⁻³² of itself from the next integer, and rounded to none.
pub(crate) trait Quotient: Arithmetic {
    /// `self / other`, toward zero for integers; of no meaning for a divisor of zero.
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
    i32: f64, f64_to_i64;
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
plain!(i64, u64, f32, f64);
