//! The Rust types of elements: plain bytes, with every bit pattern valid.

use std::fmt::Debug;
use std::ops::BitOr;

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::DType;
use crate::float8::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0};

/// A Rust type whose slices are the elements of tensors of one [`DType`].
pub trait Element: Pod + Send + Sync + Debug + PartialEq + Default {
    /// The element type it stands for.
    const DTYPE: DType;
}

/// An element that supports arithmetic through `f64` where an exact way is not needed.
pub trait Number: Element + PartialOrd {
    /// The value as `f64`; integers beyond 2^53 round to nearest even.
    fn to_f64(self) -> f64;
    /// The nearest value; floats out of an integer's range saturate, NaN becomes 0.
    fn from_f64(value: f64) -> Self;
}

/// An unsigned word of one to sixteen bytes: data movement copies words regardless of their meaning.
pub trait Word: Pod + Send + Sync + Default + Debug + Eq + BitOr<Output = Self> {}

impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}
impl Word for u128 {}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => {
        $(impl Element for $ty { const DTYPE: DType = DType::$dtype; })*
    };
}

elements! {
    f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    Bool => Bool, Complex<f32> => Complex64, Complex<f64> => Complex128,
    F8E4M3Fn => F8E4M3Fn, F8E4M3Fnuz => F8E4M3Fnuz, F8E5M2 => F8E5M2, F8E5M2Fnuz => F8E5M2Fnuz,
    F8E8M0 => F8E8M0,
}

macro_rules! numbers {
    ($($ty:ty),*) => { $(
        impl Number for $ty {

            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast,
                reason = "the contract is `as`, and whether it narrows depends on the type")]
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }

            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast,
                reason = "the contract is `as`, and whether it narrows depends on the type")]
            #[inline]
            fn from_f64(value: f64) -> Self { value as $ty }
        }
    )* };
}

numbers!(f32, f64, u8, u16, u32, u64, i8, i16, i32, i64);

impl Number for f16 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn from_f64(value: f64) -> Self {
        f16::from_f32(round_to_odd(value))
    }
}

impl Number for bf16 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn from_f64(value: f64) -> Self {
        bf16::from_f32(round_to_odd(value))
    }
}

/// The `f32` next to `value` toward zero, its last bit set if that is not exact: rounding it to a
/// type at least two bits narrower is rounding `value` itself.
///
/// Source: S. Boldo, G. Melquiond, "When double rounding is odd", 2005.
pub(crate) fn round_to_odd(value: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lost bits are checked below")]
    let nearest = value as f32;
    let back = f64::from(nearest);
    let toward_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(toward_zero | u32::from(back != value))
}

/// A boolean as a byte: zero is false, all else is true, so that no file can hold an invalid one.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// Whether it is true.
    #[inline]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline]
    fn from(value: bool) -> Self {
        Bool(u8::from(value))
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.get()
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl Debug for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// A complex number: real part, imaginary part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Complex<T>([T; 2]);

impl<T: Copy> Complex<T> {
    /// `re + im·i`.
    pub const fn new(re: T, im: T) -> Self {
        Self([re, im])
    }

    /// The real part.
    pub const fn re(self) -> T {
        self.0[0]
    }

    /// The imaginary part.
    pub const fn im(self) -> T {
        self.0[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_round_a_double_only_once() {
        // Next to halfway between 1 and the number after it, by less than a float can represent.
        let sliver = 2.0_f64.powi(-40);
        let cases = [(sliver, 1.0), (0.0, 0.0), (-sliver, 0.0)];
        for (beyond, steps) in cases {
            let (half, brain) = (2.0_f64.powi(-11), 2.0_f64.powi(-8));
            assert_eq!(
                <f16 as Number>::from_f64(1.0 + half + beyond).to_f64(),
                1.0 + 2.0 * half * steps
            );
            assert_eq!(
                <bf16 as Number>::from_f64(1.0 + brain + beyond).to_f64(),
                1.0 + 2.0 * brain * steps
            );
        }
    }

    #[test]
    fn special_values_survive_rounding_to_odd() {
        for value in [0.0, -0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(f64::from(round_to_odd(value)).to_bits(), value.to_bits());
        }
        assert!(round_to_odd(f64::NAN).is_nan());
        assert_eq!(<f16 as Number>::from_f64(1e300), f16::INFINITY);
        assert_eq!(<bf16 as Number>::from_f64(-1e-300).to_bits(), 0x8000);
    }
}
