//! Element-wise functions of any type, given by the caller: read once, written once.

use crate::isa::{Isa, Task};

/// An operand along a row.
#[derive(Clone, Copy, Debug)]
pub enum Lane<'a, T> {
    /// One element per result.
    Row(&'a [T]),
    /// One element for all results.
    Same(T),
}

struct Each<'a, X, Y, F> {
    x: &'a [X],
    y: &'a mut [Y],
    f: F,
}

impl<X: Copy, Y, F: Fn(X) -> Y> Task for Each<'_, X, Y, F> {
    type Output = ();
    // Where the width of elements changes, AVX2 takes up to three times as long: it cannot narrow registers.
    const IS_WIDE: bool = size_of::<X>() == 8 || size_of::<Y>() != size_of::<X>();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = (self.f)(*x);
        }
    }
}

/// `y[i] = f(x[i])`. The functions that `f` calls must be inlined, or they are compiled for the baseline only.
///
/// # Panics
/// If the lengths differ.
pub fn each<X: Copy, Y>(isa: Isa, x: &[X], y: &mut [Y], f: impl Fn(X) -> Y) {
    assert_eq!(x.len(), y.len(), "operands have the same length");
    isa.run(Each { x, y, f });
}

struct EachInPlace<'a, T, F> {
    y: &'a mut [T],
    f: F,
}

impl<T: Copy, F: Fn(T) -> T> Task for EachInPlace<'_, T, F> {
    type Output = ();
    const IS_WIDE: bool = size_of::<T>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for y in self.y {
            *y = (self.f)(*y);
        }
    }
}

/// `y[i] = f(y[i])`; see [`each`].
pub fn each_in_place<T: Copy>(isa: Isa, y: &mut [T], f: impl Fn(T) -> T) {
    isa.run(EachInPlace { y, f });
}

struct Pairs<'a, A, B, Y, F> {
    a: Lane<'a, A>,
    b: Lane<'a, B>,
    y: &'a mut [Y],
    f: F,
}

impl<A: Copy, B: Copy, Y: Copy, F: Fn(A, B) -> Y> Task for Pairs<'_, A, B, Y, F> {
    type Output = ();
    const IS_WIDE: bool = size_of::<A>() == 8 || size_of::<B>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, b, y, f } = self;
        match (a, b) {
            (Lane::Row(a), Lane::Row(b)) => {
                for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                    *y = f(*a, *b);
                }
            }
            (Lane::Row(a), Lane::Same(b)) => {
                for (y, a) in y.iter_mut().zip(a) {
                    *y = f(*a, b);
                }
            }
            (Lane::Same(a), Lane::Row(b)) => {
                for (y, b) in y.iter_mut().zip(b) {
                    *y = f(a, *b);
                }
            }
            (Lane::Same(a), Lane::Same(b)) => y.fill(f(a, b)),
        }
    }
}

/// `y[i] = f(a[i], b[i])`; see [`each`].
///
/// # Panics
/// If a row is not as long as `y`.
pub fn pairs<A: Copy, B: Copy, Y: Copy>(
    isa: Isa,
    a: Lane<'_, A>,
    b: Lane<'_, B>,
    y: &mut [Y],
    f: impl Fn(A, B) -> Y,
) {
    let fits = |len: Option<usize>| len.is_none_or(|len| len == y.len());
    assert!(fits(a.len()) && fits(b.len()), "operands have the same length");
    isa.run(Pairs { a, b, y, f });
}

impl<T> Lane<'_, T> {
    fn len(&self) -> Option<usize> {
        match self {
            Self::Row(row) => Some(row.len()),
            Self::Same(_) => None,
        }
    }
}

struct Any<'a, X, F> {
    x: &'a [X],
    f: F,
}

impl<X: Copy, F: Fn(X) -> bool> Task for Any<'_, X, F> {
    type Output = bool;
    const IS_WIDE: bool = size_of::<X>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        // Without an exit in the middle of a chunk, so that the test vectorises.
        self.x.chunks(1024).any(|x| x.iter().fold(false, |any, x| any | (self.f)(*x)))
    }
}

/// Whether `f` holds for any element; see [`each`].
pub fn any<X: Copy>(isa: Isa, x: &[X], f: impl Fn(X) -> bool) -> bool {
    isa.run(Any { x, f })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_computed_once_on_every_instruction_set() {
        for isa in Isa::all() {
            for n in [0, 1, 7, 64, 1025] {
                let x: Vec<i16> = (0..n).map(|i| i * 7 - 100).collect();
                let (mut y, expected) = (vec![0_i64; x.len()], |x: i16| i64::from(x) * 3 - 1);
                each(isa, &x, &mut y, expected);
                assert!(x.iter().zip(&y).all(|(&x, &y)| y == expected(x)));
                each_in_place(isa, &mut y, |y| y + 1);
                assert!(x.iter().zip(&y).all(|(&x, &y)| y == 3 * i64::from(x)));
                let mut sums = vec![0_i16; x.len()];
                let sub = |a: i16, b: i16| a - b;
                pairs(isa, Lane::Row(&x), Lane::Same(3), &mut sums, sub);
                assert!(x.iter().zip(&sums).all(|(x, y)| *y == x - 3));
                pairs(isa, Lane::Same(3), Lane::Row(&x), &mut sums, sub);
                assert!(x.iter().zip(&sums).all(|(x, y)| *y == 3 - x));
                pairs(isa, Lane::Row(&x), Lane::Row(&x), &mut sums, sub);
                assert!(sums.iter().all(|y| *y == 0));
                pairs(isa, Lane::Same(3), Lane::Same(1), &mut sums, sub);
                assert!(sums.iter().all(|y| *y == 2));
                assert_eq!(any(isa, &x, |x| x == -93), n > 1);
            }
        }
    }
}
