//! A few rows of A times a B whose rows are contiguous: B is read once, sequentially, and not
//! packed.

use super::{Element, LINE, Matrix};
use crate::isa::{SECOND_LEVEL, prefetch};

/// Rows of B that are added to C together, so that C is read and written once for all of them: the
/// hardware prefetcher follows four best.
const TOGETHER: usize = 4;
/// The same with software prefetch.
const PREFETCHED_TOGETHER: usize = 8;
/// Columns that are added together: half a line, which cannot straddle two lines, unlike whole ones if
/// rows are unaligned.
const LANES: usize = LINE / 2;
/// Columns of those rows that stay in the first-level cache for all rows of A: 16 KiB.
const COLUMNS: usize = 512;

per_isa! {
    /// `c[i][j] = c[i][j] + Σ_k alpha·A[i, k]·B[k, j]` for the rows of `c`, of equal length; B has
    /// column stride 1. `left` is A and alpha; `is_prefetched` selects software prefetch.
    pub(super) fn add_products<FMA>(
        left: (&Matrix<'_>, f32),
        b: &Matrix<'_>,
        c: &mut [&mut [f32]],
        is_prefetched: bool,
    ) {
        if is_prefetched {
            add_chunks::<f32, FMA, PREFETCHED_TOGETHER, LINE>(left, b, c);
        } else {
            add_chunks::<f32, FMA, TOGETHER, LANES>(left, b, c);
        }
    }
}

/// The same for other elements, which are read so much more slowly that software prefetch does not help, and dot
/// products with contiguous columns.
macro_rules! of_element {
    ($($element:ident: $add_products:ident, $add_dots:ident by $dot:ident;)+) => {$(
        per_isa! {
            pub(super) fn $add_products<FMA>(
                left: (&Matrix<'_, $element>, $element),
                b: &Matrix<'_, $element>,
                c: &mut [&mut [$element]],
            ) {
                add_chunks::<$element, FMA, TOGETHER, LANES>(left, b, c);
            }

            // Column by column of B, for all rows. A function that is passed as a value would not be inlined.
            pub(super) fn $add_dots<FMA>(
                left: (&Matrix<'_, $element>, $element),
                b: &Matrix<'_, $element>,
                c: &mut [&mut [$element]],
            ) {
                let (a, alpha) = left;
                let width = c.first().map_or(0, |c| c.len());
                for j in 0..width {
                    let column = &b.from(0, j)[..a.columns];
                    for (i, c) in c.iter_mut().enumerate() {
                        let sum = $dot::<$element, FMA>(&a.from(i, 0)[..a.columns], column);
                        c[j] = <$element as Element>::mul_add::<FMA>(alpha, sum, c[j]);
                    }
                }
            }
        }
    )+};
}

of_element! {
    f64: add_products_f64, add_dots_f64 by dot;
    i32: add_products_i32, add_dots_i32 by exact_dot;
    i64: add_products_i64, add_dots_i64 by exact_dot;
}

/// Chains of a dot product: four registers of f64.
const CHAINS: usize = 32;
/// Chains of what is left: one register.
const FEW: usize = 8;

/// `Σ x[k]·y[k]`: one chain for each remainder of the index, which are added pairwise, first those half of them apart.
/// What does not fill all chains continues the first.
#[inline(always)]
fn dot<E: Element, const FMA: bool>(x: &[E], y: &[E]) -> E {
    let ((xs, x), (ys, y)) = (x.as_chunks::<CHAINS>(), y.as_chunks::<CHAINS>());
    let mut chains = [E::zeroed(); CHAINS];
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..CHAINS {
            chains[i] = E::mul_add::<FMA>(x[i], y[i], chains[i]);
        }
    }
    for half in [CHAINS / 2, FEW] {
        let (low, high) = chains.split_at_mut(half);
        for i in 0..half {
            low[i] = E::mul_add::<FMA>(E::ONE, high[i], low[i]);
        }
    }
    let ((xs, x), (ys, y)) = (x.as_chunks::<FEW>(), y.as_chunks::<FEW>());
    for (x, y) in xs.iter().zip(ys) {
        for i in 0..FEW {
            chains[i] = E::mul_add::<FMA>(x[i], y[i], chains[i]);
        }
    }
    for ((chain, x), y) in chains.iter_mut().zip(x).zip(y) {
        *chain = E::mul_add::<FMA>(*x, *y, *chain);
    }
    for half in [FEW / 2, FEW / 4, 1] {
        for i in 0..half {
            chains[i] = E::mul_add::<FMA>(E::ONE, chains[i + half], chains[i]);
        }
    }
    chains[0]
}

/// The same of integers, whose sums have the same bits in any order: the compiler finds the best.
#[inline(always)]
fn exact_dot<E: Element, const FMA: bool>(x: &[E], y: &[E]) -> E {
    let mut sum = E::zeroed();
    for (x, y) in x.iter().zip(y) {
        sum = E::mul_add::<FMA>(*x, *y, sum);
    }
    sum
}

/// Chunk by chunk of columns, `T` rows of B at a time. Whole lines are prefetched.
#[inline(always)]
fn add_chunks<E: Element, const FMA: bool, const T: usize, const N: usize>(
    (a, alpha): (&Matrix<'_, E>, E),
    b: &Matrix<'_, E>,
    c: &mut [&mut [E]],
) {
    let width = c.first().map_or(0, |c| c.len());
    let chunk = if c.len() == 1 { width } else { COLUMNS };
    let factor = |i, k| alpha.times(a.from(i, k)[0]);
    let whole = b.rows / T * T;
    for column in (0..width).step_by(chunk.max(1)) {
        let columns = column..width.min(column + chunk);
        let row = |k| &b.from(k, columns.start)[..columns.len()];
        for k in (0..whole).step_by(T) {
            for (i, c) in c.iter_mut().enumerate() {
                let (mut rows, mut factors) = ([row(k); T], [E::zeroed(); T]);
                for t in 0..T {
                    (rows[t], factors[t]) = (row(k + t), factor(i, k + t));
                }
                add_rows::<E, FMA, T, N>(
                    &factors,
                    &rows,
                    T * b.row_stride,
                    &mut c[columns.clone()],
                );
            }
        }
        for k in whole..b.rows {
            for (i, c) in c.iter_mut().enumerate() {
                let factor = factor(i, k);
                for (c, b) in c[columns.clone()].iter_mut().zip(row(k)) {
                    *c = E::mul_add::<FMA>(factor, *b, *c);
                }
            }
        }
    }
}

/// `c[j] += Σ_t factors[t]·rows[t][j]`, `N` columns at a time; whole lines prefetch the line `ahead`.
#[inline(always)]
fn add_rows<E: Element, const FMA: bool, const T: usize, const N: usize>(
    factors: &[E; T],
    rows: &[&[E]; T],
    ahead: usize,
    c: &mut [E],
) {
    let (whole, rest) = c.as_chunks_mut::<N>();
    for (i, c) in whole.iter_mut().enumerate() {
        if N < LINE {
            // Already cached; but without a prefetch in the loop, the vectoriser splits the
            // columns.
            prefetch::<SECOND_LEVEL>(c.as_ptr().cast());
        }
        let mut sums = *c;
        for t in 0..T {
            let b = &rows[t].as_chunks::<N>().0[i];
            if N == LINE {
                prefetch::<SECOND_LEVEL>(b.as_ptr().wrapping_add(ahead).cast());
            }
            for j in 0..N {
                sums[j] = E::mul_add::<FMA>(factors[t], b[j], sums[j]);
            }
        }
        *c = sums;
    }
    let first = whole.len() * N;
    for (j, c) in rest.iter_mut().enumerate() {
        for t in 0..T {
            *c = E::mul_add::<FMA>(factors[t], rows[t][first + j], *c);
        }
    }
}
