//! A total order of elements, in which NaN comes after every number.

use std::cmp::Ordering;

use ort_tensor::{Bool, Complex, DType, Number, bf16, f16};

/// The types whose elements are compared: all but the packed ones and floats of 8 bits.
pub(crate) const fn is_comparable(dtype: DType) -> bool {
    dtype.is_number()
        || matches!(dtype, DType::Bool | DType::String | DType::Complex64 | DType::Complex128)
}

/// An element that can be sorted. −0 equals 0, and NaN equals NaN.
pub(crate) trait Sortable {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! numbers {
    ($($ty:ty),*) => { $(
        impl Sortable for $ty {
            fn order(&self, other: &Self) -> Ordering {
                number_order(*self, *other)
            }
        }
    )* };
}

numbers!(f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64);

fn number_order<T: Number>(a: T, b: T) -> Ordering {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

impl Sortable for Bool {
    fn order(&self, other: &Self) -> Ordering {
        self.get().cmp(&other.get())
    }
}

impl Sortable for String {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// By the real part first.
impl<T: Number> Sortable for Complex<T> {
    fn order(&self, other: &Self) -> Ordering {
        number_order(self.re(), other.re()).then_with(|| number_order(self.im(), other.im()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_comes_last_and_zeros_are_equal() {
        let mut x = [f32::NAN, 1.0, f32::INFINITY, -1.0, -f32::NAN];
        x.sort_by(Sortable::order);
        assert_eq!(x[..3], [-1.0, 1.0, f32::INFINITY]);
        assert_eq!((-0.0_f64).order(&0.0), Ordering::Equal);
        assert_eq!(f32::NAN.order(&-f32::NAN), Ordering::Equal);
        assert_eq!(Complex::new(1_f32, 2.0).order(&Complex::new(1.0, 3.0)), Ordering::Less);
    }
}
