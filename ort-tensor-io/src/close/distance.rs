//! The distance of two elements, for every element type.

use std::fmt;

use ort_tensor::{
    Bool, Complex, DType, F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, bf16, f16,
};

pub(super) trait Distance: fmt::Debug {
    /// `|self − expected|`; 0 for two NaN or equal infinities, infinite where one is not a number.
    fn distance(&self, expected: &Self) -> f64;

    /// `|self|`; 0 for non-numeric types, so that they are compared exactly.
    fn magnitude(&self) -> f64;
}

/// An element of a type below eight bits.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Packed {
    pub(super) dtype: DType,
    pub(super) code: u8,
}

impl Packed {
    fn value(self) -> f64 {
        self.dtype.decode_packed(self.code).map_or(f64::NAN, f64::from)
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

fn between(found: f64, expected: f64) -> f64 {
    if found == expected || (found.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    let difference = (found - expected).abs();
    if difference.is_nan() { f64::INFINITY } else { difference }
}

fn equal_or_apart(equal: bool) -> f64 {
    if equal { 0.0 } else { f64::INFINITY }
}

macro_rules! through_f64 {
    ($($ty:ty: |$x:ident| $value:expr;)*) => { $(
        impl Distance for $ty {
            fn distance(&self, expected: &Self) -> f64 {
                let value = |$x: &Self| -> f64 { $value };
                between(value(self), value(expected))
            }
            fn magnitude(&self) -> f64 {
                let value = |$x: &Self| -> f64 { $value };
                value(self).abs()
            }
        }
    )* };
}

through_f64! {
    f64: |x| *x;
    f32: |x| f64::from(*x);
    f16: |x| f64::from(*x);
    bf16: |x| f64::from(*x);
    F8E4M3Fn: |x| f64::from(x.to_f32());
    F8E4M3Fnuz: |x| f64::from(x.to_f32());
    F8E5M2: |x| f64::from(x.to_f32());
    F8E5M2Fnuz: |x| f64::from(x.to_f32());
    F8E8M0: |x| f64::from(x.to_f32());
    Packed: |x| x.value();
}

/// Differences of integers are exact before they are rounded to `f64`.
macro_rules! integers {
    ($($ty:ty),*) => { $(
        impl Distance for $ty {
            fn distance(&self, expected: &Self) -> f64 {
                (i128::from(*self) - i128::from(*expected)).unsigned_abs() as f64
            }
            fn magnitude(&self) -> f64 {
                i128::from(*self).unsigned_abs() as f64
            }
        }
    )* };
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! complex {
    ($($part:ty),*) => { $(
        impl Distance for Complex<$part> {
            fn distance(&self, expected: &Self) -> f64 {
                self.re().distance(&expected.re()).hypot(self.im().distance(&expected.im()))
            }
            fn magnitude(&self) -> f64 {
                f64::from(self.re()).hypot(f64::from(self.im()))
            }
        }
    )* };
}

complex!(f32, f64);

impl Distance for Bool {
    fn distance(&self, expected: &Self) -> f64 {
        equal_or_apart(self == expected)
    }
    fn magnitude(&self) -> f64 {
        0.0
    }
}

impl Distance for String {
    fn distance(&self, expected: &Self) -> f64 {
        equal_or_apart(self == expected)
    }
    fn magnitude(&self) -> f64 {
        0.0
    }
}
