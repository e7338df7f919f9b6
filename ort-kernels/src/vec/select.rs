//! Where: one of two operands for each element.

use std::hint::black_box;
use std::ops::BitOr;

use super::Lane;
use crate::isa::{Isa, Task};

struct Select<'a, T> {
    condition: &'a [u8],
    sides: [Option<Lane<'a, T>>; 2],
    y: &'a mut [T],
}

impl<T: Copy + Default + BitOr<Output = T>> Task for Select<'_, T> {
    type Output = ();
    // AVX2 is faster for bytes, and a third as fast for wider elements.
    const IS_WIDE: bool = size_of::<T>() > 1;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { condition, sides, y } = self;
        // A zero that the compiler does not know: see `changed` in `arithmetic`.
        let zero = black_box(T::default());
        match sides {
            [None, None] => {}
            [Some(Lane::Same(a)), Some(Lane::Same(b))] => {
                for (y, c) in y.iter_mut().zip(condition) {
                    *y = if *c == 0 { b } else { a };
                }
            }
            [Some(Lane::Row(a)), Some(Lane::Row(b))] => {
                for (((y, c), a), b) in y.iter_mut().zip(condition).zip(a).zip(b) {
                    // Both are read before the selection, so that the loop needs no branch.
                    let (a, b) = (*a, *b);
                    *y = if *c == 0 { b } else { a };
                }
            }
            [Some(Lane::Row(a)), Some(Lane::Same(b))] => {
                row(condition, a, y, |c, a, _| if c { a } else { b })
            }
            [Some(Lane::Same(a)), Some(Lane::Row(b))] => {
                row(condition, b, y, |c, b, _| if c { a } else { b })
            }
            [Some(Lane::Row(a)), None] => {
                row(condition, a, y, |c, a, y| if c { a } else { y } | zero);
            }
            [None, Some(Lane::Row(b))] => {
                row(condition, b, y, |c, b, y| if c { y } else { b } | zero);
            }
            [Some(Lane::Same(a)), None] => {
                for (y, c) in y.iter_mut().zip(condition) {
                    *y = if *c == 0 { *y } else { a } | zero;
                }
            }
            [None, Some(Lane::Same(b))] => {
                for (y, c) in y.iter_mut().zip(condition) {
                    *y = if *c == 0 { b } else { *y } | zero;
                }
            }
        }
    }
}

/// `y[i] = f(condition[i], x[i], y[i])`.
#[inline(always)]
fn row<T: Copy>(condition: &[u8], x: &[T], y: &mut [T], f: impl Fn(bool, T, T) -> T) {
    for ((y, c), x) in y.iter_mut().zip(condition).zip(x) {
        *y = f(*c != 0, *x, *y);
    }
}

/// `y[i] = condition[i] ≠ 0 ? a[i] : b[i]` for the operands `[a, b]`; `None` is what `y` holds.
///
/// # Panics
/// If a row is not as long as `y`.
pub fn select<T: Copy + Default + BitOr<Output = T>>(
    isa: Isa,
    condition: &[u8],
    sides: [Option<Lane<'_, T>>; 2],
    y: &mut [T],
) {
    let fits = |side: &Option<Lane<'_, T>>| match side {
        Some(Lane::Row(row)) => row.len() == y.len(),
        _ => true,
    };
    assert!(condition.len() == y.len() && sides.iter().all(fits), "operands have the same length");
    isa.run(Select { condition, sides, y });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_one_of_two_on_every_instruction_set() {
        let n = 139_usize;
        let condition: Vec<u8> = (0..n).map(|i| u8::from(i % 3 == 0 || i % 7 == 2)).collect();
        let number = |first: u64| (first..).take(n).collect::<Vec<_>>();
        let (a, b, held) = (number(1000), number(2000), number(3000));
        let (same_a, same_b) = (7, 8);
        let sides = |row, same| [None, Some(Lane::Row(row)), Some(Lane::Same(same))];
        for isa in Isa::all() {
            for of_a in sides(&a[..], same_a) {
                for of_b in sides(&b[..], same_b) {
                    let mut y = held.clone();
                    select(isa, &condition, [of_a, of_b], &mut y);
                    for (i, y) in y.into_iter().enumerate() {
                        let side = if condition[i] == 0 { of_b } else { of_a };
                        let expected = match side {
                            None => held[i],
                            Some(Lane::Row(row)) => row[i],
                            Some(Lane::Same(value)) => value,
                        };
                        assert_eq!(y, expected, "{isa:?} {i} {of_a:?} {of_b:?}");
                    }
                }
            }
        }
    }
}
