//! A total order of elements, in which NaN comes after every number.

use std::cmp::Ordering;

use ort_tensor::{Bool, Complex, DType, Number, Pace, Room, TensorError, bf16, f16, go_on, sort};

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

/// The `k` first elements in this order, sorted; all if there are fewer.
///
/// # Errors
/// As [`sort`].
pub(crate) fn first<T: Copy>(
    mut items: Room<T>,
    k: usize,
    order: &dyn Fn(&T, &T) -> Ordering,
) -> Result<Room<T>, TensorError> {
    if k > Pace::STEP || items.len() <= k {
        sort(&mut items, order)?;
        items.truncate(k);
        return Ok(items);
    }
    // The best so far, and a piece of the others.
    let mut best = Room::with_room(k + Pace::STEP)?;
    for piece in items.chunks(Pace::STEP) {
        go_on()?;
        best.extend(piece.iter().copied())?;
        if best.len() > k {
            best.select_nth_unstable_by(k, order);
            best.truncate(k);
        }
    }
    sort(&mut best, order)?;
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_long_lists_are_sorted() {
        for n in [0, 1, Pace::STEP, 3 * Pace::STEP + 17] {
            let numbers: Vec<(usize, usize)> = (0..n).map(|i| (i * 7919 % 1009, i)).collect();
            let mut expected = numbers.clone();
            expected.sort();
            for k in [0, 1, 100, n / 2, n] {
                let best = first(Room::of(numbers.clone()).unwrap(), k, &Ord::cmp).unwrap();
                assert_eq!(best[..], expected[..k.min(n)], "{k} of {n}");
            }
        }
    }

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
