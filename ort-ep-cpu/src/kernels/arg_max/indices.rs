//! Indices of the extremes of lanes: for contiguous lanes, the extremes by vectors and then their positions; for
//! adjacent lanes, the running extremes and their indices, row by row.

use ort_kernels::vec::fold_rows_of;
use ort_kernels::{Isa, Task};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::argmax::ArgMax;

use super::super::folds::{Greatest, Least, Summed};
use crate::pieces::wanted;
use crate::wide::Wide;

/// The number of adjacent lanes searched together, of elements of a lane compared together, and of
/// contiguous lanes whose extremes are found at a time.
const WIDTH: usize = 64;

/// `y[i]`: the index of the extreme of row `i` of `x`, of NaN if it has one. `x` has as many rows as `y` has
/// elements, each of at most `u32::MAX` elements.
pub(in super::super) fn indices_of_rows<T: Summed>(isa: Isa, op: ArgMax, x: &[T], y: &mut [i64]) {
    let len = x.len() / y.len().max(1);
    for (x, y) in x.chunks(len.saturating_mul(WIDTH).max(1)).zip(y.chunks_mut(WIDTH)) {
        let mut extremes = [T::Of::default(); WIDTH];
        let extremes = &mut extremes[..y.len()];
        match op.is_max {
            true => fold_rows_of(isa, Greatest, x, extremes),
            false => fold_rows_of(isa, Least, x, extremes),
        }
        isa.run(Rows { x, extremes, y, selects_last: op.selects_last });
    }
}

/// `y[j]`: the index of the extreme of column `j`, of NaN if it has one. The rows of `x`, at most `u32::MAX`,
/// start `stride` apart.
pub(in super::super) fn indices_of_columns<T: Wide>(
    isa: Isa,
    op: ArgMax,
    (x, stride): (&[T], usize),
    y: &mut [i64],
) {
    for (i, y) in wanted(y.chunks_mut(WIDTH).enumerate()) {
        isa.run(Columns { op, x: &x[i * WIDTH..], stride, y });
    }
}

/// The index of the extreme of each contiguous lane.
struct Rows<'a, T: Wide> {
    x: &'a [T],
    extremes: &'a [T::Of],
    y: &'a mut [i64],
    selects_last: bool,
}

impl<T: Wide> Task for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let len = self.x.len() / self.y.len().max(1);
        for (i, y) in self.y.iter_mut().enumerate() {
            let (lane, extreme) = (&self.x[i * len..][..len], self.extremes[i]);
            *y = match (self.selects_last, extreme.equals_itself()) {
                (false, true) => first_index(lane, |x| x.widen() == extreme),
                (false, false) => first_index(lane, |x| !x.widen().equals_itself()),
                (true, true) => last_index(lane, |x| x.widen() == extreme),
                (true, false) => last_index(lane, |x| !x.widen().equals_itself()),
            };
        }
    }
}

/// The position of the first element of a lane that satisfies `is_it`.
#[inline(always)]
fn first_index<T: Copy>(lane: &[T], is_it: impl Fn(T) -> bool) -> i64 {
    for (i, chunk) in lane.chunks(WIDTH).enumerate() {
        // Long lanes are searched chunk by chunk, only in the chunk that has it.
        if lane.len() <= WIDTH || has(chunk, &is_it) {
            let mut first = u32::MAX;
            for (at, x) in (0_u32..).zip(chunk) {
                let at = if is_it(*x) { at } else { u32::MAX };
                first = first.min(at);
            }
            return index(i, first);
        }
    }
    0
}

/// The position of the last one.
#[inline(always)]
fn last_index<T: Copy>(lane: &[T], is_it: impl Fn(T) -> bool) -> i64 {
    for (i, chunk) in lane.chunks(WIDTH).enumerate().rev() {
        if lane.len() <= WIDTH || has(chunk, &is_it) {
            let mut last = 0;
            for (at, x) in (0_u32..).zip(chunk) {
                let at = if is_it(*x) { at } else { 0 };
                last = last.max(at);
            }
            return index(i, last);
        }
    }
    0
}

#[inline(always)]
fn index(chunk: usize, at: u32) -> i64 {
    i64::try_from(chunk * WIDTH).unwrap_or(0) + i64::from(at)
}

#[inline(always)]
fn has<T: Copy>(chunk: &[T], is_it: impl Fn(T) -> bool) -> bool {
    chunk.iter().fold(false, |any, x| any | is_it(*x))
}

/// The indices of the extremes of at most [`WIDTH`] adjacent lanes.
struct Columns<'a, T> {
    op: ArgMax,
    x: &'a [T],
    stride: usize,
    y: &'a mut [i64],
}

impl<T: Wide> Task for Columns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ArgMax { is_max, selects_last, .. } = self.op;
        let is_nan = |x: T::Of| !x.equals_itself();
        match (is_max, selects_last) {
            (true, false) => self.by(|x, best| x > best || is_nan(x) && !is_nan(best)),
            (false, false) => self.by(|x, best| x < best || is_nan(x) && !is_nan(best)),
            (true, true) => self.by(|x, best| x >= best || is_nan(x)),
            (false, true) => self.by(|x, best| x <= best || is_nan(x)),
        }
    }
}

impl<T: Wide> Columns<'_, T> {
    #[inline(always)]
    fn by(self, is_better: impl Fn(T::Of, T::Of) -> bool) {
        let Self { x, stride, y, .. } = self;
        let (mut best, mut indices) = ([T::Of::default(); WIDTH], [0_u32; WIDTH]);
        let (best, indices) = (&mut best[..y.len()], &mut indices[..y.len()]);
        best.iter_mut().zip(x).for_each(|(best, x)| *best = x.widen());
        for (row, at) in x.chunks(stride).zip(0_u32..).skip(1) {
            for ((best, index), x) in best.iter_mut().zip(&mut *indices).zip(&row[..y.len()]) {
                let x = x.widen();
                let is = is_better(x, *best);
                *best = if is { x } else { *best };
                *index = if is { at } else { *index };
            }
        }
        y.iter_mut().zip(indices).for_each(|(y, index)| *y = i64::from(*index));
    }
}
