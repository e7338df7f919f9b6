//! A number wide enough for any element, with conversions in both directions.

use ort_tensor::{Bool, Element, Number, bf16, f16};

/// The exact value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wide {
    Float(f64),
    Integer(i128),
}

impl Wide {
    /// The nearest double.
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Wide::Float(x) => x,
            Wide::Integer(x) => x as f64,
        }
    }

    /// The integer toward zero; `i32::MIN` for floats out of range, the low bits for integers.
    pub(super) fn to_i32(self) -> i32 {
        narrow_integer::<i32>(self)
    }
}

/// An element that can be converted from and to a [`Wide`].
pub(super) trait Castable: Element {
    fn widen(self) -> Wide;
    fn narrow(x: Wide) -> Self;
}

/// An integer converted from or to a float of at most 32 bits: as [`Castable`], without a branch.
pub(super) trait Small: Element {
    fn of_f32(x: f32) -> Self;
    fn to_f32(self) -> f32;
}

macro_rules! small {
    ($($ty:ty: |$x:ident| $of_f32:expr;)*) => { $(
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss,
            reason = "the low bits are requested")]
        impl Small for $ty {
            #[inline(always)]
            fn of_f32($x: f32) -> Self { $of_f32 }

            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
        }
    )* };
}

// The conversions of Rust saturate, and NaN gives 0.
small! {
    i32: |x| if x < 2_147_483_648.0 { x as i32 } else { i32::MIN };
    i64: |x| if x < 9_223_372_036_854_775_808.0 { x as i64 } else { i64::MIN };
    i8: |x| i32::of_f32(x) as i8;
    i16: |x| i32::of_f32(x) as i16;
    u8: |x| i32::of_f32(x) as u8;
    u16: |x| i32::of_f32(x) as u16;
    u32: |x| i64::of_f32(x) as u32;
}

impl Small for Bool {
    #[inline(always)]
    fn of_f32(x: f32) -> Self {
        Self::from(x != 0.0)
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        if self.get() { 1.0 } else { 0.0 }
    }
}

/// Conversion of floats and integers to an integer type.
trait Truncate: Sized {
    fn of_float(x: f64) -> Self;
    fn of_integer(x: i128) -> Self;
}

fn narrow_integer<T: Truncate>(x: Wide) -> T {
    match x {
        Wide::Float(x) => T::of_float(x),
        Wide::Integer(x) => T::of_integer(x),
    }
}

macro_rules! integers {
    ($($ty:ty: |$x:ident| $of_float:expr;)*) => { $(
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss,
            reason = "the low bits are requested")]
        impl Truncate for $ty {
            fn of_float($x: f64) -> Self { $of_float }
            fn of_integer(x: i128) -> Self { x as $ty }
        }

        impl Castable for $ty {
            fn widen(self) -> Wide { Wide::Integer(i128::from(self)) }
            fn narrow(x: Wide) -> Self { narrow_integer(x) }
        }
    )* };
}

/// 2^63, the first double beyond `i64`.
const BEYOND_I64: f64 = 9_223_372_036_854_775_808.0;

// The conversion instructions of x86 return 32 or 64 bits, or the smallest value if the result does not fit; narrower
// and unsigned types take its low bits.
integers! {
    i32: |x| if x > -2_147_483_649.0 && x < 2_147_483_648.0 { x as i32 } else { i32::MIN };
    i64: |x| if (-BEYOND_I64..BEYOND_I64).contains(&x) { x as i64 } else { i64::MIN };
    i8: |x| i32::of_float(x) as i8;
    i16: |x| i32::of_float(x) as i16;
    u8: |x| i32::of_float(x) as u8;
    u16: |x| i32::of_float(x) as u16;
    u32: |x| i64::of_float(x) as u32;
    u64: |x| if x >= BEYOND_I64 {
        i64::of_float(x - BEYOND_I64).cast_unsigned() ^ (1 << 63)
    } else {
        i64::of_float(x).cast_unsigned()
    };
}

macro_rules! floats {
    ($($ty:ty: $of_integer:expr;)*) => { $(
        impl Castable for $ty {
            fn widen(self) -> Wide { Wide::Float(self.to_f64()) }
            fn narrow(x: Wide) -> Self {
                match x {
                    Wide::Float(x) => <$ty as Number>::from_f64(x),
                    Wide::Integer(x) => $of_integer(x),
                }
            }
        }
    )* };
}

floats! {
    f32: |x: i128| x as f32;
    f64: |x: i128| x as f64;
    // Exact up to 2^24; all beyond is infinite.
    f16: |x: i128| f16::from_f32(x as f32);
    // Rounded a second time beyond 2^53.
    bf16: |x: i128| <bf16 as Number>::from_f64(x as f64);
}

impl Castable for Bool {
    fn widen(self) -> Wide {
        Wide::Integer(i128::from(self.get()))
    }

    fn narrow(x: Wide) -> Self {
        Bool::from(match x {
            Wide::Float(x) => x != 0.0,
            Wide::Integer(x) => x != 0,
        })
    }
}
