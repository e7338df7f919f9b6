//! Folds of blocks of elements of any type to one number, or to one per column, by a fold that the caller gives.
//!
//! As in [`fold_row`](super::fold_row), a row is folded into lanes, and the lanes pairwise; the order depends
//! only on the shape of a block.

#![expect(clippy::needless_range_loop, reason = "constant indexes keep arrays in registers")]

use std::marker::PhantomData;

use crate::isa::{Isa, Task};

/// Lanes for long rows: enough to hide the latency of a step, with vectors of any width.
const MANY: usize = 64;
/// Lanes for shorter rows, which are cheaper to join.
const FEW: usize = 16;
/// The minimum length of a long row.
const LONG: usize = 512;
/// Up to this length, rows are folded element by element, several at a time.
const SHORT: usize = 24;
const SIDE: usize = 8;

/// How elements are folded.
pub trait FoldOf<T>: Copy + Default {
    /// The accumulator type.
    type Sum: Copy;

    /// The initial value.
    const START: Self::Sum;

    /// Whether an element may be taken twice, as for extremes.
    const IS_IDEMPOTENT: bool = false;

    /// The fold with one more element. Implementations are `#[inline(always)]`.
    fn step(sum: Self::Sum, x: T) -> Self::Sum;

    /// The fold of the elements of two folds. Implementations are `#[inline(always)]`.
    fn join(a: Self::Sum, b: Self::Sum) -> Self::Sum;
}

/// Rows of `len` elements: row `[i, j]` begins at `i·stride[0] + j·stride[1]` of `x`.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a, T> {
    /// The elements, including those between rows.
    pub x: &'a [T],
    /// The number of rows along both axes.
    pub n: [usize; 2],
    /// The distances between rows.
    pub strides: [usize; 2],
    /// Elements per row.
    pub len: usize,
}

impl<'a, T> Block<'a, T> {
    /// Its rows.
    #[inline(always)]
    pub(super) fn rows(self) -> impl Iterator<Item = &'a [T]> {
        let Self { x, n: [outer, inner], strides, len } = self;
        (0..outer).flat_map(move |i| {
            (0..inner).map(move |j| &x[i * strides[0] + j * strides[1]..][..len])
        })
    }
}

struct All<'a, T, F> {
    block: Block<'a, T>,
    /// The fold.
    fold: PhantomData<F>,
}

impl<T: Copy, F: FoldOf<T>> Task for All<'_, T, F> {
    type Output = F::Sum;
    const IS_WIDE: bool = size_of::<T>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> F::Sum {
        // Lanes are joined once for all rows.
        let is_long = is_long::<T, F>(self.block.len);
        if is_long { self.by::<MANY>() } else { self.by::<FEW>() }
    }
}

/// Whether rows of `len` elements use many lanes: if the rest of the row can overlap elements that
/// were taken before, or is small.
#[inline(always)]
fn is_long<T, F: FoldOf<T>>(len: usize) -> bool {
    len >= LONG || len >= MANY && (F::IS_IDEMPOTENT || size_of::<T>() == 1)
}

impl<T: Copy, F: FoldOf<T>> All<'_, T, F> {
    #[inline(always)]
    fn by<const LANES: usize>(self) -> F::Sum {
        let mut lanes = Lanes::<T, F, LANES>([F::START; LANES]);
        // Not a closure, which would be compiled for the baseline only.
        for row in self.block.rows() {
            lanes.take(row);
        }
        lanes.join()
    }
}

/// The accumulators of a row. Every index is a constant, which keeps the lanes in registers.
struct Lanes<T, F: FoldOf<T>, const LANES: usize>([F::Sum; LANES]);

impl<T: Copy, F: FoldOf<T>, const LANES: usize> Lanes<T, F, LANES> {
    #[inline(always)]
    fn take(&mut self, row: &[T]) {
        let (chunks, mut rest) = row.as_chunks::<LANES>();
        let again = row.last_chunk::<LANES>().filter(|_| F::IS_IDEMPOTENT && !rest.is_empty());
        for chunk in chunks.iter().chain(again) {
            for i in 0..LANES {
                self.0[i] = F::step(self.0[i], chunk[i]);
            }
        }
        if again.is_some() || F::IS_IDEMPOTENT && self.take_ends::<8>(rest) {
            return;
        }
        self.take_some::<32>(&mut rest);
        self.take_some::<16>(&mut rest);
        self.take_some::<8>(&mut rest);
        self.take_some::<4>(&mut rest);
        self.take_some::<2>(&mut rest);
        self.take_some::<1>(&mut rest);
    }

    /// Takes the first and the last `N` elements, if they cover the row.
    #[inline(always)]
    fn take_ends<const N: usize>(&mut self, row: &[T]) -> bool {
        let ends = row.first_chunk::<N>().zip(row.last_chunk::<N>());
        let Some((first, last)) = ends.filter(|_| row.len() <= 2 * N) else { return false };
        for i in 0..N {
            self.0[i] = F::step(F::step(self.0[i], first[i]), last[i]);
        }
        true
    }

    /// Takes `N` elements of the rest of a row, if there are as many.
    #[inline(always)]
    fn take_some<const N: usize>(&mut self, rest: &mut &[T]) {
        let Some((chunk, after)) = rest.split_first_chunk::<N>().filter(|_| N < LANES) else {
            return;
        };
        for i in 0..N {
            self.0[i] = F::step(self.0[i], chunk[i]);
        }
        *rest = after;
    }

    #[inline(always)]
    fn join(mut self) -> F::Sum {
        self.halve::<32>();
        self.halve::<16>();
        self.halve::<8>();
        self.halve::<4>();
        self.halve::<2>();
        self.halve::<1>();
        self.0[0]
    }

    /// Joins `N` lanes with the `N` lanes after them.
    #[inline(always)]
    fn halve<const N: usize>(&mut self) {
        if N < LANES {
            for i in 0..N {
                self.0[i] = F::join(self.0[i], self.0[i + N]);
            }
        }
    }
}

#[inline(always)]
fn of_row<const LANES: usize, T: Copy, F: FoldOf<T>>(row: &[T]) -> F::Sum {
    let mut lanes = Lanes::<T, F, LANES>([F::START; LANES]);
    lanes.take(row);
    lanes.join()
}

struct Each<'a, T, F: FoldOf<T>> {
    x: &'a [T],
    sums: &'a mut [F::Sum],
}

impl<T: Copy, F: FoldOf<T>> Task for Each<'_, T, F> {
    type Output = ();
    const IS_WIDE: bool = size_of::<T>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let len = self.x.len() / self.sums.len().max(1);
        if len <= SHORT && size_of::<T>() > 1 {
            return self.side_by_side(len);
        }
        let is_long = is_long::<T, F>(len);
        for (i, sum) in self.sums.iter_mut().enumerate() {
            let row = &self.x[i * len..][..len];
            *sum = if is_long { of_row::<MANY, T, F>(row) } else { of_row::<FEW, T, F>(row) };
        }
    }
}

impl<T: Copy, F: FoldOf<T>> Each<'_, T, F> {
    /// Folds each row in the order of its elements.
    #[inline(always)]
    fn side_by_side(self, len: usize) {
        let Self { x, sums } = self;
        let (groups, rest) = sums.as_chunks_mut::<SIDE>();
        for (i, sums) in groups.iter_mut().enumerate() {
            let x = &x[i * SIDE * len..][..SIDE * len];
            let rows: [&[T]; SIDE] = std::array::from_fn(|r| &x[r * len..][..len]);
            *sums = [F::START; SIDE];
            for k in 0..len {
                for r in 0..SIDE {
                    sums[r] = F::step(sums[r], rows[r][k]);
                }
            }
        }
        let x = &x[groups.len() * SIDE * len..];
        for (i, sum) in rest.iter_mut().enumerate() {
            *sum = x[i * len..][..len].iter().fold(F::START, |sum, x| F::step(sum, *x));
        }
    }
}

/// `sums[i]` is the fold of row `i` of `x`, which has `sums.len()` consecutive rows.
///
/// # Panics
/// If `x` cannot be divided into as many rows.
pub fn fold_rows_of<T: Copy, F: FoldOf<T>>(isa: Isa, _fold: F, x: &[T], sums: &mut [F::Sum]) {
    assert_eq!(x.len() % sums.len().max(1), 0, "rows have the same length");
    isa.run(Each::<T, F> { x, sums });
}

/// The fold of all elements of a block.
///
/// # Panics
/// If a row ends beyond `x`.
pub fn fold_block<T: Copy, F: FoldOf<T>>(isa: Isa, _fold: F, block: Block<'_, T>) -> F::Sum {
    isa.run(All::<T, F> { block, fold: PhantomData })
}

struct Columns<'a, T, F: FoldOf<T>> {
    block: Block<'a, T>,
    sums: &'a mut [F::Sum],
}

impl<T: Copy, F: FoldOf<T>> Task for Columns<'_, T, F> {
    type Output = ();
    const IS_WIDE: bool = size_of::<T>() == 8;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { block, sums } = self;
        sums.fill(F::START);
        for row in block.rows() {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum = F::step(*sum, *x);
            }
        }
    }
}

/// `sums[j]` is the fold of element `j` of every row, for the length of `sums`.
///
/// # Panics
/// If a row ends beyond `x`.
pub fn fold_columns_of<T: Copy, F: FoldOf<T>>(
    isa: Isa,
    _fold: F,
    block: Block<'_, T>,
    sums: &mut [F::Sum],
) {
    isa.run(Columns::<T, F> { block, sums });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Default)]
    struct Sum;

    impl FoldOf<u8> for Sum {
        type Sum = u64;

        const START: u64 = 0;

        #[inline(always)]
        fn step(sum: u64, x: u8) -> u64 {
            sum + u64::from(x)
        }

        #[inline(always)]
        fn join(a: u64, b: u64) -> u64 {
            a + b
        }
    }

    #[test]
    fn blocks_are_folded_whole_and_by_column() {
        let x: Vec<u8> = (0..4000_u32).map(|i| (i * 7919 % 251) as u8).collect();
        for isa in Isa::all() {
            for (n, len) in
                [([1, 1], 0), ([2, 3], 5), ([1, 7], 64), ([3, 2], 201), ([0, 5], 9), ([1, 2], 600)]
            {
                let strides = [2 * len + 700, len + 3];
                let at = |i: usize, j: usize, k: usize| {
                    u64::from(x[i * strides[0] + j * strides[1] + k])
                };
                let rows = || (0..n[0]).flat_map(|i| (0..n[1]).map(move |j| (i, j)));
                let block = Block { x: &x, n, strides, len };
                let column = |k| rows().map(|(i, j)| at(i, j, k)).sum::<u64>();
                let mut sums = vec![9; len];
                fold_columns_of(isa, Sum, block, &mut sums);
                assert!(sums.iter().enumerate().all(|(k, sum)| *sum == column(k)));
                assert_eq!(fold_block(isa, Sum, block), (0..len).map(column).sum());
                let mut sums = [9; 3];
                fold_rows_of(isa, Sum, &x[..3 * len], &mut sums);
                let of_row = |i| x[i * len..][..len].iter().map(|x| u64::from(*x)).sum::<u64>();
                assert_eq!(sums, [0, 1, 2].map(of_row));
            }
        }
    }

    #[derive(Clone, Copy, Default)]
    struct Most;

    impl FoldOf<usize> for Most {
        type Sum = usize;

        const START: usize = 0;
        const IS_IDEMPOTENT: bool = true;

        #[inline(always)]
        fn step(most: usize, x: usize) -> usize {
            most.max(x)
        }

        #[inline(always)]
        fn join(a: usize, b: usize) -> usize {
            a.max(b)
        }
    }

    #[test]
    fn the_greatest_of_rows_of_any_length_is_found_at_any_position() {
        for isa in Isa::all() {
            for len in (1..70).chain([127, 128, 129, 511, 520, 600]) {
                let n = 19;
                let mut x: Vec<usize> = (0..n * len).map(|i| i * 7919 % 251).collect();
                for i in 0..n {
                    x[i * len + i * 37 % len] = 1000 + i;
                }
                let mut most = [0; 19];
                fold_rows_of(isa, Most, &x, &mut most);
                assert_eq!(most, std::array::from_fn(|i| 1000 + i), "{len}");
                let block = Block { x: &x, n: [1, n], strides: [0, len], len };
                assert_eq!(fold_block(isa, Most, block), 1018, "{len}");
            }
        }
    }
}
