//! Elements as integers of the same order, by whose bytes they are sorted.

use ort_tensor::{Bool, Complex, Pace, TensorError, bf16, f16, filled};

use crate::order::Sortable;

/// A plain element as an integer.
pub(super) trait Keyed: Sortable + Copy {
    /// How many bytes of the integer are used.
    const N_BYTES: usize;

    /// The integer, equal and ordered as the element is: one for all NaNs, the largest, and one for both zeros.
    fn bits(self) -> u128;
}

macro_rules! keyed {
    ($($ty:ty: $n:literal, |$x:ident| $bits:expr;)*) => { $(
        impl Keyed for $ty {
            const N_BYTES: usize = $n;

            #[inline]
            fn bits(self) -> u128 {
                let $x = self;
                u128::from($bits)
            }
        }
    )* };
}
keyed! {
    Bool: 1, |x| x.get();
    i8: 1, |x| (x ^ i8::MIN).cast_unsigned();
    i16: 2, |x| (x ^ i16::MIN).cast_unsigned();
    i32: 4, |x| (x ^ i32::MIN).cast_unsigned();
    i64: 8, |x| (x ^ i64::MIN).cast_unsigned();
    u8: 1, |x| x;
    u16: 2, |x| x;
    u32: 4, |x| x;
    u64: 8, |x| x;
    f16: 4, |x| single(f32::from(x));
    bf16: 4, |x| single(f32::from(x));
    f32: 4, |x| single(x);
    f64: 8, |x| double(x);
}

macro_rules! complex {
    ($($ty:ty: $n:literal, $bits:ident;)*) => { $(
        impl Keyed for Complex<$ty> {
            const N_BYTES: usize = 2 * $n;

            #[inline]
            fn bits(self) -> u128 {
                u128::from($bits(self.re())) << (8 * $n) | u128::from($bits(self.im()))
            }
        }
    )* };
}
complex! {
    f32: 4, single;
    f64: 8, double;
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

/// The elements in ascending order, with their indices; those of equal elements ascend, too. A radix sort: one pass for each byte
/// in which elements differ, from the lowest.
///
/// # Errors
/// If there is not enough memory, or the run is cancelled.
pub(super) fn sorted<T: Keyed>(x: &[T]) -> Result<Vec<(T, usize)>, TensorError> {
    let mut items: Vec<(T, usize)> = ort_tensor::collected(x.iter().copied().zip(0..))?;
    let Some(&first) = items.first() else { return Ok(items) };
    let (mut other, mut pace) = (filled(first, items.len())?, Pace::new());
    for byte in 0..T::N_BYTES {
        let digit = |x: T| usize::from((x.bits() >> (8 * byte)).to_le_bytes()[0]);
        let mut places = [0; 1 << 8];
        for piece in x.chunks(Pace::STEP) {
            pace.go(piece.len())?;
            piece.iter().for_each(|&x| places[digit(x)] += 1);
        }
        if places.contains(&items.len()) {
            continue;
        }
        let mut n = 0;
        for place in &mut places {
            n += std::mem::replace(place, n);
        }
        for piece in items.chunks(Pace::STEP) {
            pace.go(piece.len())?;
            for &item in piece {
                let place = &mut places[digit(item.0)];
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
            let ((a, i), (b, j)) = (pair[0], pair[1]);
            assert_eq!(a.order(&b), a.bits().cmp(&b.bits()), "{a:?} and {b:?}");
            assert!(a.order(&b).then(i.cmp(&j)).is_lt(), "{a:?} and {b:?}");
        }
        assert!(found.iter().all(|&(item, i)| item.order(&x[i]).is_eq()));
        assert_eq!(found.len(), x.len());
    }

    fn of<T: Number>(x: &[f64]) -> Vec<T> {
        x.iter().map(|&x| T::from_f64(x)).collect()
    }

    #[test]
    fn bits_have_the_order_of_elements() {
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
