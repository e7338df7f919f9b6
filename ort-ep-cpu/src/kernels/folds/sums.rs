//! The folds of reductions: sums, products and extremes.

use ort_kernels::vec::FoldOf;
use ort_ops::arithmetic::Arithmetic;
use ort_tensor::{Bool, bf16, f16};

use crate::wide::Wide;

/// An element type with the initial values of folds.
pub(in super::super) trait Summed: Wide {
    const LOWEST: Self::Of;
    const HIGHEST: Self::Of;
    const ZERO: Self::Of;
    const ONE: Self::Of;
    /// Whether sums, products and extremes are the same in any order.
    const IS_EXACT: bool;

    /// The larger of a fold and an element, NaN if either is: with fewer instructions than [`Arithmetic::larger`], but
    /// not for loops in place.
    #[inline(always)]
    fn keep_larger(sum: Self::Of, x: Self::Of) -> Self::Of {
        // For NaN, the element is taken.
        let larger = if sum > x { sum } else { x };
        if sum.equals_itself() { larger } else { sum }
    }

    /// The same of the smaller.
    #[inline(always)]
    fn keep_smaller(sum: Self::Of, x: Self::Of) -> Self::Of {
        let smaller = if sum < x { sum } else { x };
        if sum.equals_itself() { smaller } else { sum }
    }
}

macro_rules! summed {
    ($($ty:ty: $lowest:expr, $highest:expr, $zero:expr, $one:expr, $is_exact:literal;)*) => { $(
        impl Summed for $ty {
            const LOWEST: Self::Of = $lowest;
            const HIGHEST: Self::Of = $highest;
            const ZERO: Self::Of = $zero;
            const ONE: Self::Of = $one;
            const IS_EXACT: bool = $is_exact;
        }
    )* };
}
summed! {
    f32: f32::NEG_INFINITY, f32::INFINITY, 0.0, 1.0, false;
    f64: f64::NEG_INFINITY, f64::INFINITY, 0.0, 1.0, false;
    f16: f32::NEG_INFINITY, f32::INFINITY, 0.0, 1.0, false;
    bf16: f32::NEG_INFINITY, f32::INFINITY, 0.0, 1.0, false;
    i8: i8::MIN, i8::MAX, 0, 1, true;
    i16: i16::MIN, i16::MAX, 0, 1, true;
    i32: i32::MIN, i32::MAX, 0, 1, true;
    i64: i64::MIN, i64::MAX, 0, 1, true;
    u8: u8::MIN, u8::MAX, 0, 1, true;
    u16: u16::MIN, u16::MAX, 0, 1, true;
    u32: u32::MIN, u32::MAX, 0, 1, true;
    u64: u64::MIN, u64::MAX, 0, 1, true;
}

/// A fold: its initial value, what it takes of an element, and how two are joined.
macro_rules! folds {
    ($($name:ident: $start:ident, |$x:ident| $term:expr, |$a:ident, $b:ident| $join:expr $(, $idempotent:literal)?;)*) => { $(
        #[derive(Clone, Copy, Default)]
        pub(in super::super) struct $name;

        impl<T: Summed> FoldOf<T> for $name {
            type Sum = T::Of;

            const START: T::Of = T::$start;
            const IS_EXACT: bool = T::IS_EXACT;
            $(const IS_IDEMPOTENT: bool = $idempotent;)?

            #[inline(always)]
            fn step(sum: T::Of, x: T) -> T::Of {
                let $x = x.widen();
                <Self as FoldOf<T>>::join(sum, $term)
            }

            #[inline(always)]
            fn join($a: T::Of, $b: T::Of) -> T::Of {
                $join
            }
        }
    )* };
}
folds! {
    Sum: ZERO, |x| x, |a, b| a.add(b);
    SumOfSquares: ZERO, |x| x.mul(x), |a, b| a.add(b);
    SumOfMagnitudes: ZERO, |x| x.abs(), |a, b| a.add(b);
    Product: ONE, |x| x, |a, b| a.mul(b);
    Greatest: LOWEST, |x| x, |a, b| T::keep_larger(a, b), true;
    Least: HIGHEST, |x| x, |a, b| T::keep_smaller(a, b), true;
}

/// Whether any and whether all elements are true.
#[derive(Clone, Copy, Default)]
pub(super) struct Any;
#[derive(Clone, Copy, Default)]
pub(super) struct All;

macro_rules! of_flags {
    ($($name:ident: $start:expr, $join:tt;)*) => { $(
        impl FoldOf<Bool> for $name {
            type Sum = u8;

            const START: u8 = $start;
            const IS_IDEMPOTENT: bool = true;

            #[inline(always)]
            fn step(sum: u8, x: Bool) -> u8 { sum $join u8::from(x.get()) }

            #[inline(always)]
            fn join(a: u8, b: u8) -> u8 { a $join b }
        }
    )* };
}
of_flags! {
    Any: 0, |;
    All: 1, &;
}

/// An exact sum of 64-bit numbers: the sums of their lower and of their upper halves, which vectors have instructions for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halves {
    lower: u64,
    upper: i64,
}

impl Halves {
    const ZERO: Self = Self { lower: 0, upper: 0 };

    #[inline(always)]
    #[expect(clippy::cast_sign_loss, reason = "the lower half of the two's complement")]
    fn with(self, x: i64) -> Self {
        let (lower, upper) = (x as u64 & u64::from(u32::MAX), x >> 32);
        Self { lower: self.lower.wrapping_add(lower), upper: self.upper.wrapping_add(upper) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let (lower, upper) = (other.lower, other.upper);
        Self { lower: self.lower.wrapping_add(lower), upper: self.upper.wrapping_add(upper) }
    }

    pub(super) fn sum(self) -> i128 {
        (i128::from(self.upper) << 32) + i128::from(self.lower)
    }
}

/// The sum and the sum of squares of up to [`MAX_EXACT`] integers.
#[derive(Clone, Copy, Default)]
pub(super) struct ExactSum;
#[derive(Clone, Copy, Default)]
pub(super) struct ExactSumOfSquares;

macro_rules! exact {
    ($($fold:ty, $x:ty => $sum:ty, $start:expr, |$a:ident, $b:ident| $step:expr, $join:ident;)*) => { $(
        impl FoldOf<$x> for $fold {
            type Sum = $sum;

            const START: $sum = $start;
            const IS_EXACT: bool = true;

            #[inline(always)]
            fn step($a: $sum, $b: $x) -> $sum { $step }

            #[inline(always)]
            fn join(a: $sum, b: $sum) -> $sum { a.$join(b) }
        }
    )* };
}
exact! {
    ExactSum, i32 => i64, 0, |a, b| a.wrapping_add(i64::from(b)), wrapping_add;
    ExactSum, i64 => Halves, Halves::ZERO, |a, b| a.with(b), plus;
    ExactSumOfSquares, i64 => i128, 0, |a, b| a.wrapping_add(i128::from(b) * i128::from(b)), wrapping_add;
    ExactSumOfSquares, i32 => Halves, Halves::ZERO, |a, b| a.with(i64::from(b) * i64::from(b)), plus;
}

/// Maximum number of integers whose exact sums fit their accumulators.
pub(super) const MAX_EXACT: usize = 1 << 31;

/// The functions at the end of means, norms and logarithms.
pub(super) trait Root: Arithmetic {
    fn of_len(n: usize) -> Self;
    fn root(self) -> Self;
    fn logarithm(self) -> Self;
}

impl Root for f32 {
    fn of_len(n: usize) -> Self {
        n as Self
    }

    fn root(self) -> Self {
        self.sqrt()
    }

    fn logarithm(self) -> Self {
        self.ln()
    }
}

impl Root for f64 {
    fn of_len(n: usize) -> Self {
        n as Self
    }

    fn root(self) -> Self {
        self.sqrt()
    }

    fn logarithm(self) -> Self {
        self.ln()
    }
}
