//! The types in which reductions accumulate.

use ort_tensor::{Bool, Element, Number, bf16, f16};

/// An element type that can be reduced.
pub(super) trait Reducible: Element {
    /// The type that accumulates its values.
    type Wide: Wide;
    /// A lower bound of all values.
    const LOWEST: Self::Wide;
    /// An upper bound of all values.
    const HIGHEST: Self::Wide;

    fn widen(self) -> Self::Wide;
    /// The nearest value for floats; the low bits for integers, as if every step had wrapped.
    fn narrow(wide: Self::Wide) -> Self;
}

/// f64 for floats; i128 for integers, wrapping, so that sums of 64-bit integers are exact.
pub(super) trait Wide: Copy {
    const ZERO: Self;
    const ONE: Self;

    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn magnitude(self) -> Self;
    /// The larger of two; NaN if one is NaN.
    fn larger(self, other: Self) -> Self;
    /// The smaller of two; NaN if one is NaN.
    fn smaller(self, other: Self) -> Self;
    /// `self / n`, for integers towards 0; 0 for `n = 0`.
    fn over(self, n: usize) -> Self;
    fn to_f64(self) -> f64;
}

impl Wide for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn magnitude(self) -> Self {
        self.abs()
    }
    fn larger(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }
    fn smaller(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }
    fn over(self, n: usize) -> Self {
        if n == 0 { 0.0 } else { self / n as f64 }
    }
    fn to_f64(self) -> f64 {
        self
    }
}

impl Wide for i128 {
    const ZERO: Self = 0;
    const ONE: Self = 1;

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    fn magnitude(self) -> Self {
        self.wrapping_abs()
    }
    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
    fn smaller(self, other: Self) -> Self {
        self.min(other)
    }
    fn over(self, n: usize) -> Self {
        i128::try_from(n).ok().and_then(|n| self.checked_div(n)).unwrap_or(0)
    }
    fn to_f64(self) -> f64 {
        self as f64
    }
}

macro_rules! floats {
    ($($ty:ty),*) => { $(
        impl Reducible for $ty {
            type Wide = f64;
            const LOWEST: f64 = f64::NEG_INFINITY;
            const HIGHEST: f64 = f64::INFINITY;

            fn widen(self) -> f64 {
                Number::to_f64(self)
            }
            fn narrow(wide: f64) -> Self {
                Number::from_f64(wide)
            }
        }
    )* };
}

macro_rules! integers {
    ($($ty:ty),*) => { $(
        impl Reducible for $ty {
            type Wide = i128;
            const LOWEST: i128 = <$ty>::MIN as i128;
            const HIGHEST: i128 = <$ty>::MAX as i128;

            fn widen(self) -> i128 {
                i128::from(self)
            }

            #[expect(clippy::cast_possible_truncation, reason = "integer arithmetic wraps")]
            #[allow(clippy::cast_sign_loss, reason = "integer arithmetic wraps")]
            fn narrow(wide: i128) -> Self {
                wide as $ty
            }
        }
    )* };
}

floats!(f32, f64, f16, bf16);
integers!(i8, i32, i64, u8, u32, u64);

/// `false < true`.
impl Reducible for Bool {
    type Wide = i128;
    const LOWEST: i128 = 0;
    const HIGHEST: i128 = 1;

    fn widen(self) -> i128 {
        i128::from(self.get())
    }
    fn narrow(wide: i128) -> Self {
        Bool::from(wide != 0)
    }
}

/// `ln Σ exp(x)`, kept as the largest `x` and `Σ exp(x − largest)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSumExp {
    max: f64,
    sum: f64,
}

impl LogSumExp {
    /// Without values: −∞.
    pub(super) const EMPTY: Self = Self { max: f64::NEG_INFINITY, sum: 0.0 };

    /// Of one value: itself.
    pub(super) fn one(x: f64) -> Self {
        Self { max: x, sum: 1.0 }
    }

    /// Of both. Equal largest values, infinite ones among them, need no scaling.
    pub(super) fn combine(self, other: Self) -> Self {
        if self.max == other.max {
            return Self { max: self.max, sum: self.sum + other.sum };
        }
        let (a, b) = if self.max < other.max { (other, self) } else { (self, other) };
        // A NaN in either reaches the sum here.
        Self { max: a.max, sum: a.sum + b.sum * (b.max - a.max).exp() }
    }

    pub(super) fn value(self) -> f64 {
        self.max + self.sum.ln()
    }
}
