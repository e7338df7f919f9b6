//! Elements as integers of the same order, by whose bytes they are sorted.

use ort_tensor::{Bool, Complex, Pace, TensorError, bf16, f16, filled};

use crate::order::Sortable;

/// A plain element as an integer.
pub(super) trait Keyed: Sortable + Copy {
    /// The integer.
    type Key: Key;

    /// The integer, equal and ordered as the element is: one for all NaNs, the largest, and one for both zeros.
    fn key(self) -> Self::Key;
}

/// An integer, byte by byte.
pub(super) trait Key: Copy + Ord + Into<u128> {
    const N_BYTES: usize;

    /// Byte `i` from the lowest.
    fn byte(self, i: usize) -> usize;
}

macro_rules! key {
    ($($ty:ty)+) => { $(
        impl Key for $ty {
            const N_BYTES: usize = size_of::<$ty>();

            #[inline]
            fn byte(self, i: usize) -> usize {
                usize::from(self.to_le_bytes()[i])
            }
        }
    )+ };
}
key! { u8 u16 u32 u64 u128 }

macro_rules! keyed {
    ($($ty:ty: $key:ty, |$x:ident| $value:expr;)*) => { $(
        impl Keyed for $ty {
            type Key = $key;

            #[inline]
            fn key(self) -> $key {
                let $x = self;
                $value
            }
        }
    )* };
}
keyed! {
    Bool: u8, |x| x.get().into();
    i8: u8, |x| (x ^ i8::MIN).cast_unsigned();
    i16: u16, |x| (x ^ i16::MIN).cast_unsigned();
    i32: u32, |x| (x ^ i32::MIN).cast_unsigned();
    i64: u64, |x| (x ^ i64::MIN).cast_unsigned();
    u8: u8, |x| x;
    u16: u16, |x| x;
    u32: u32, |x| x;
    u64: u64, |x| x;
    f16: u32, |x| single(f32::from(x));
    bf16: u32, |x| single(f32::from(x));
    f32: u32, |x| single(x);
    f64: u64, |x| double(x);
    Complex<f32>: u64, |x| u64::from(single(x.re())) << 32 | u64::from(single(x.im()));
    Complex<f64>: u128, |x| u128::from(double(x.re())) << 64 | u128::from(double(x.im()));
}

macro_rules! floats {
    ($($name:ident: $float:ty, $bits:ty;)*) => { $(
        fn $name(x: $float) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            // The sum has no negative zero. The bits of negative numbers ascend with their magnitude.
            let bits = (x + 0.0).to_bits();
            match bits & SIGN {
                _ if x.is_nan() => <$bits>::MAX,
                0 => bits | SIGN,
                _ => !bits,
            }
        }
    )* };
}
floats! {
    single: f32, u32;
    double: f64, u64;
}

/// The keys of elements in ascending order, with their indices; those of equal elements ascend, too. A radix sort: one pass for
/// each byte in which keys differ, from the lowest.
///
/// # Errors
/// If there is not enough memory, or the run is cancelled.
pub(super) fn sorted<T: Keyed>(x: &[T]) -> Result<Vec<(T::Key, usize)>, TensorError> {
    let mut items = ort_tensor::collected(x.iter().map(|x| x.key()).zip(0..))?;
    let Some(&first) = items.first() else { return Ok(items) };
    let (mut other, mut pace) = (filled(first, items.len())?, Pace::new());
    let mut counts = filled([0; 1 << 8], T::Key::N_BYTES)?;
    for piece in items.chunks(Pace::STEP) {
        pace.go(piece.len())?;
        for (key, _) in piece {
            counts.iter_mut().enumerate().for_each(|(i, counts)| counts[key.byte(i)] += 1);
        }
    }
    for (i, places) in counts.iter_mut().enumerate() {
        if places.contains(&items.len()) {
            continue;
        }
        let mut n = 0;
        for place in &mut *places {
            n += std::mem::replace(place, n);
        }
        for piece in items.chunks(Pace::STEP) {
            pace.go(piece.len())?;
            for &item in piece {
                let place = &mut places[item.0.byte(i)];
                other[*place] = item;
                *place += 1;
            }
        }
        std::mem::swap(&mut items, &mut other);
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use ort_tensor::Number;

    use super::*;

    fn check<T: Keyed + Debug>(x: &[T]) {
        let found = sorted(x).unwrap();
        for pair in found.windows(2) {
            let ((key, i), (next, j)) = (pair[0], pair[1]);
            let (a, b) = (x[i], x[j]);
            assert_eq!(a.order(&b), key.cmp(&next), "{a:?} and {b:?}");
            assert!(a.order(&b).then(i.cmp(&j)).is_lt(), "{a:?} and {b:?}");
        }
        assert!(found.iter().all(|&(key, i)| key == x[i].key()));
        assert_eq!(found.len(), x.len());
    }

    fn of<T: Number>(x: &[f64]) -> Vec<T> {
        x.iter().map(|&x| T::from_f64(x)).collect()
    }

    #[test]
    fn keys_have_the_order_of_elements() {
        let numbers = [0.0, -0.0, 1.5, f64::NAN, -2.0, f64::INFINITY, -f64::INFINITY, -f64::NAN];
        let many = (0..3000).map(|i| f64::from(i * 7919 % 1009) - 500.0);
        let x: Vec<f64> = numbers.into_iter().chain(many).chain(numbers).collect();
        check(&x);
        check(&of::<f32>(&x));
        check(&of::<f16>(&x));
        check(&of::<bf16>(&x));
        check(&of::<i8>(&x));
        check(&of::<u16>(&x));
        // Of which all bytes differ.
        let large: Vec<f64> = x.iter().map(|x| x * 1.23e14).collect();
        check(&of::<i32>(&large));
        check(&of::<i64>(&large));
        check(&of::<u64>(&large));
        check(&x.iter().map(|&x| Bool::from(x > 0.0)).collect::<Vec<_>>());
        let complex = |(&re, &im): (&f64, &f64)| Complex::new(re, im);
        check(&x.iter().zip(x.iter().rev()).map(complex).collect::<Vec<_>>());
        check::<u8>(&[]);
    }
}
