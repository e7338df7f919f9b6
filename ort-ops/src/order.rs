//! A total order of elements, in which NaN comes after every number.

use std::cmp::Ordering;

use ort_tensor::{Bool, Complex, DType, Number, Pace, Room, TensorError, bf16, f16, go_on};

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

/// This many elements are sorted within milliseconds.
const PIECE: usize = 1 << 16;

/// A stable sort. Pieces are sorted separately, and then merged in pairs until one is left, so that it can be
/// cancelled in between.
///
/// # Errors
/// If there is no memory for another copy, or the run was cancelled.
pub(crate) fn sort<T: Copy>(
    items: &mut [T],
    order: &dyn Fn(&T, &T) -> Ordering,
) -> Result<(), TensorError> {
    for piece in items.chunks_mut(PIECE) {
        go_on()?;
        piece.sort_by(order);
    }
    let (n, mut sorted) = (items.len(), PIECE);
    if n <= sorted {
        return Ok(());
    }
    let (mut merged, mut pace) = (Room::with_room(n)?, Pace::new());
    while sorted < n {
        merged.clear();
        for pair in items.chunks(2 * sorted) {
            let (mut a, mut b) = pair.split_at(sorted.min(pair.len()));
            while let ([first, rest @ ..], [other, others @ ..]) = (a, b) {
                pace.go(1)?;
                if order(first, other).is_le() {
                    merged.push(*first)?;
                    a = rest;
                } else {
                    merged.push(*other)?;
                    b = others;
                }
            }
            merged.extend(a.iter().chain(b).copied())?;
        }
        items.copy_from_slice(&merged);
        sorted = sorted.saturating_mul(2);
    }
    Ok(())
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
    if k > PIECE || items.len() <= k {
        sort(&mut items, order)?;
        items.truncate(k);
        return Ok(items);
    }
    // The best so far, and a piece of the others.
    let mut best = Room::with_room(k + PIECE)?;
    for piece in items.chunks(PIECE) {
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
    fn long_lists_are_sorted_in_pieces() {
        for n in [0, 1, PIECE, PIECE + 1, 3 * PIECE + 17] {
            let numbers: Vec<(usize, usize)> = (0..n).map(|i| (i * 7919 % 1009, i)).collect();
            let mut expected = numbers.clone();
            expected.sort_by_key(|pair| pair.0);
            let mut sorted = numbers.clone();
            sort(&mut sorted, &|a, b| a.0.cmp(&b.0)).unwrap();
            assert_eq!(sorted, expected, "{n}");
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
