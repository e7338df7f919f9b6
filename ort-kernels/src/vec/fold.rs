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
const SHORT: usize = 15;
/// How many rows of bytes and of wider elements are joined together, a lane for each.
const BYTES: usize = 16;
const WORDS: usize = 8;

/// How elements are folded.
pub trait FoldOf<T>: Copy + Default {
    /// The accumulator type.
    type Sum: Copy;

    /// The initial value.
    const START: Self::Sum;

    /// Whether an element may be taken twice, as for extremes.
    const IS_IDEMPOTENT: bool = false;

    /// Whether folds in any order are equal, as for integers: the compiler then finds the best one.
    const IS_EXACT: bool = false;

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
        let [fold] = lanes.joined();
        fold
    }
}

/// The accumulators of a row. Every index is a constant, which keeps the lanes in registers.
struct Lanes<T, F: FoldOf<T>, const LANES: usize>([F::Sum; LANES]);

impl<T: Copy, F: FoldOf<T>, const LANES: usize> Lanes<T, F, LANES> {
    #[inline(always)]
    fn take(&mut self, row: &[T]) {
        if F::IS_EXACT && size_of::<T>() == 8 {
            // By lanes, the compiler would gather the elements of several chunks.
            let mut sum = self.0[0];
            for x in row {
                sum = F::step(sum, *x);
            }
            self.0[0] = sum;
            return;
        }
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            self.step(chunk);
        }
        match row.last_chunk::<LANES>() {
            Some(last) if F::IS_IDEMPOTENT => self.step(last),
            _ => self.take_rest(rest),
        }
    }

    /// Takes fewer elements than there are lanes.
    #[inline(always)]
    fn take_rest(&mut self, mut rest: &[T]) {
        if F::IS_IDEMPOTENT && self.take_ends::<8>(rest) {
            return;
        }
        self.take_some::<32>(&mut rest);
        self.take_some::<16>(&mut rest);
        self.take_some::<8>(&mut rest);
        self.take_some::<4>(&mut rest);
        self.take_some::<2>(&mut rest);
        self.take_some::<1>(&mut rest);
    }

    #[inline(always)]
    fn step(&mut self, chunk: &[T; LANES]) {
        for i in 0..LANES {
            self.0[i] = F::step(self.0[i], chunk[i]);
        }
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

    /// The lanes, joined to `N`.
    #[inline(always)]
    fn joined<const N: usize>(mut self) -> [F::Sum; N] {
        self.halve::<32>(N);
        self.halve::<16>(N);
        self.halve::<8>(N);
        self.halve::<4>(N);
        self.halve::<2>(N);
        self.halve::<1>(N);
        let mut joined = [F::START; N];
        joined.copy_from_slice(&self.0[..N]);
        joined
    }

    /// Joins `N` lanes with the `N` lanes after them, if that leaves at least `least`.
    #[inline(always)]
    fn halve<const N: usize>(&mut self, least: usize) {
        if N < LANES && N >= least {
            for i in 0..N {
                self.0[i] = F::join(self.0[i], self.0[i + N]);
            }
        }
    }
}

/// The fold of a row, in `N` lanes.
#[inline(always)]
fn of_row<const LANES: usize, const N: usize, T: Copy, F: FoldOf<T>>(row: &[T]) -> [F::Sum; N] {
    let mut lanes = Lanes::<T, F, LANES>([F::START; LANES]);
    lanes.take(row);
    lanes.joined()
}

/// The lanes of each row joined to one: all steps join whole registers, and the last yields one lane per row.
#[inline(always)]
fn join_rows<const N: usize, T: Copy, F: FoldOf<T>>(mut rows: [[F::Sum; N]; N]) -> [F::Sum; N] {
    let mut n = N;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            rows[i] = join_halves::<N, T, F>(rows[i], rows[i + n]);
        }
    }
    rows[0]
}

/// The lower lanes of `a` and `b` joined with their upper lanes, interleaved.
#[inline(always)]
fn join_halves<const N: usize, T: Copy, F: FoldOf<T>>(
    a: [F::Sum; N],
    b: [F::Sum; N],
) -> [F::Sum; N] {
    let (mut lower, mut upper) = (a, b);
    for i in 0..N / 2 {
        lower[2 * i] = a[i];
        lower[2 * i + 1] = b[i];
        upper[2 * i] = a[N / 2 + i];
        upper[2 * i + 1] = b[N / 2 + i];
    }
    for i in 0..N {
        lower[i] = F::join(lower[i], upper[i]);
    }
    lower
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
        if size_of::<T>() > 1 && F::IS_IDEMPOTENT && (WORDS..FEW).contains(&len) {
            return self.together::<WORDS, WORDS>(len);
        }
        if size_of::<T>() > 1 && len <= SHORT {
            return self.side_by_side(len);
        }
        match (is_long::<T, F>(len), size_of::<T>()) {
            (true, 1) => self.together::<MANY, BYTES>(len),
            (false, 1) => self.together::<FEW, BYTES>(len),
            (true, _) => self.together::<MANY, WORDS>(len),
            (false, _) => self.together::<FEW, WORDS>(len),
        }
    }
}

impl<T: Copy, F: FoldOf<T>> Each<'_, T, F> {
    /// Joins the lanes of `N` rows together.
    #[inline(always)]
    fn together<const LANES: usize, const N: usize>(self, len: usize) {
        let Self { x, sums } = self;
        let (groups, rest) = sums.as_chunks_mut::<N>();
        for (i, sums) in groups.iter_mut().enumerate() {
            let x = &x[i * N * len..][..N * len];
            let mut rows = [[F::START; N]; N];
            for (r, row) in rows.iter_mut().enumerate() {
                *row = of_row::<LANES, N, T, F>(&x[r * len..][..len]);
            }
            *sums = join_rows::<N, T, F>(rows);
        }
        let x = &x[groups.len() * N * len..];
        for (i, sum) in rest.iter_mut().enumerate() {
            [*sum] = of_row::<LANES, 1, T, F>(&x[i * len..][..len]);
        }
    }

    /// Folds each row in the order of its elements.
    #[inline(always)]
    fn side_by_side(self, len: usize) {
        let Self { x, sums } = self;
        let (groups, rest) = sums.as_chunks_mut::<WORDS>();
        for (i, sums) in groups.iter_mut().enumerate() {
            let x = &x[i * WORDS * len..][..WORDS * len];
            let rows: [&[T]; WORDS] = std::array::from_fn(|r| &x[r * len..][..len]);
            *sums = [F::START; WORDS];
            for k in 0..len {
                for r in 0..WORDS {
                    sums[r] = F::step(sums[r], rows[r][k]);
                }
            }
        }
        let x = &x[groups.len() * WORDS * len..];
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
mod tests;
