//! Shrink: `x < −lambd ? x + bias : x > lambd ? x − bias : 0`, of integers in integers where that equals the definition in f64.

use ort_ep::{Io, KernelError};
use ort_tensor::{Number, with_dtype};

use super::ElementKernel;

/// An integer whose differences are exact in f64.
trait Narrow: Number + Ord {
    fn saturating_add(self, other: Self) -> Self;
    fn saturating_sub(self, other: Self) -> Self;
}

macro_rules! narrow {
    ($($ty:ty),*) => { $(
        impl Narrow for $ty {
            #[inline(always)]
            fn saturating_add(self, other: Self) -> Self {
                <$ty>::saturating_add(self, other)
            }

            #[inline(always)]
            fn saturating_sub(self, other: Self) -> Self {
                <$ty>::saturating_sub(self, other)
            }
        }
    )* };
}
narrow!(i8, i16, i32, u8, u16, u32);

/// The function of integers.
#[derive(Clone, Copy)]
struct Whole<T> {
    bias: T,
    /// Numbers above it are reduced, and those below the other increased.
    above: T,
    below: T,
}

impl<T: Narrow> Whole<T> {
    /// `None` if the bias is not of this type, or `lambd` is below 0.
    fn new(bias: f64, lambd: f64) -> Option<Self> {
        let whole = T::from_f64(bias);
        let is_whole = whole.to_f64() == bias && lambd >= 0.0;
        let (above, below) = (T::from_f64(lambd.floor()), T::from_f64(-lambd.floor()));
        is_whole.then_some(Self { bias: whole, above, below })
    }

    #[inline(always)]
    fn of(self, x: T) -> T {
        let above = if x > self.above { x.saturating_sub(self.bias) } else { T::default() };
        if x < self.below { x.saturating_add(self.bias) } else { above }
    }
}

impl ElementKernel {
    pub(super) fn shrink(
        &self,
        bias: f64,
        lambd: f64,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        with_dtype!(self.dtype, [i8, i16, i32, u8, u16, u32], T => {
            if let Some(whole) = Whole::<T>::new(bias, lambd) {
                return self.map(io, move |x: T| whole.of(x));
            }
        }, else => {});
        with_dtype!(self.dtype, [f64, i8, i16, i32, i64, u8, u16, u32, u64],
            T => self.map(io, move |x: T| {
                let x = Number::to_f64(x);
                let above = if x > lambd { x - bias } else { 0.0 };
                <T as Number>::from_f64(if x < -lambd { x + bias } else { above })
            }), else => Err(KernelError::ForeignState))
    }
}
