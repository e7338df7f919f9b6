//! Broadcast operands, run by run: a row is combined with a row or with a scalar; repeated, stretched and in-place
//! operands are copied to a tile first.

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::vec::Lane;
use ort_tensor::Element;

use super::Call;
use crate::operation::{LONG, Operand};
use crate::pieces::Rows;

/// Elements per tile: a repeated row has at most half as many.
const TILE: usize = 2 * LONG;

/// Operands that cannot be read directly. Only built if needed.
type Tiles<T> = Option<[[T; TILE]; 2]>;

impl Call<'_> {
    /// Calls `f(a, b, y)` for pieces of `y`, which may already hold an operand; `hold` copies that operand to a tile.
    /// Compiled once for all functions of these types.
    pub(in super::super) fn write<T: Element, Y: Element>(
        &self,
        operands: [Option<&[T]>; 2],
        (y, hold): (&mut [Y], fn(&[Y], &mut [T])),
        threads: &dyn Threads,
        f: &(dyn Fn(Lane<'_, T>, Lane<'_, T>, &mut [Y]) + Sync),
    ) {
        Rows::ELEMENTS.for_each(threads, y, |start, y| {
            let mut tiles = None;
            self.each_run(operands, start..start + y.len(), |range, [a, b]| {
                let y = &mut y[range.start - start..range.end - start];
                piece(&[a, b], (y, hold), &mut tiles, f);
            });
        });
    }

    /// Calls `f` with each run of the range, and the operands along it.
    fn each_run<T: Copy>(
        &self,
        [a, b]: [Option<&[T]>; 2],
        range: Range<usize>,
        mut f: impl FnMut(Range<usize>, [Operand<'_, T>; 2]),
    ) {
        let runs = &self.state.runs;
        let [a_walk, b_walk] = runs.walks().map(|walk| (walk, runs.period()));
        runs.for_each_within(range, |range, [i, j]| {
            let n = range.len();
            f(range, [Operand::new(a, i, n, a_walk), Operand::new(b, j, n, b_walk)]);
        });
    }
}

/// Calls `f(a, b, y)` along a run; `hold` copies the contents of `y` to a tile.
fn piece<T: Element, Y: Element>(
    operands: &[Operand<'_, T>; 2],
    (y, hold): (&mut [Y], fn(&[Y], &mut [T])),
    tiles: &mut Tiles<T>,
    f: &dyn Fn(Lane<'_, T>, Lane<'_, T>, &mut [Y]),
) {
    let [a, b] = operands;
    if let (Some(a), Some(b)) = (lane(a), lane(b)) {
        return f(a, b, y);
    }
    let [a_tile, b_tile] = tiles.get_or_insert_with(|| [[T::default(); TILE]; 2]);
    // A whole number of periods, so that every chunk finds a repeated row in its tile as the first left it.
    let len = match (a, b) {
        (Operand::Repeated(row, _), _) | (_, Operand::Repeated(row, _)) => {
            TILE / row.len() * row.len()
        }
        _ => TILE,
    };
    for (i, y) in y.chunks_mut(len).enumerate() {
        let [to_a, to_b] = [&mut a_tile[..y.len()], &mut b_tile[..y.len()]];
        let a = held(a, i * len, y, to_a, hold);
        let b = held(b, i * len, y, to_b, hold);
        f(a, b, y);
    }
}

/// Copies the operand that a result overwrites in place.
pub(in super::super) fn held_elements<T: Copy>(y: &[T], tile: &mut [T]) {
    tile.copy_from_slice(y);
}

/// An operand that can be read directly.
#[inline]
fn lane<'a, T: Copy>(operand: &Operand<'a, T>) -> Option<Lane<'a, T>> {
    match *operand {
        Operand::Row(row) => Some(Lane::Row(row)),
        Operand::Same(value) => Some(Lane::Same(value)),
        _ => None,
    }
}

/// A piece of an operand, from `start`, for a result that holds `y`. A repeated row is in the tile since the first piece.
fn held<'t, T: Copy, Y>(
    operand: &Operand<'t, T>,
    start: usize,
    y: &[Y],
    tile: &'t mut [T],
    hold: fn(&[Y], &mut [T]),
) -> Lane<'t, T> {
    match *operand {
        Operand::Row(row) => return Lane::Row(&row[start..][..y.len()]),
        Operand::Same(value) => return Lane::Same(value),
        Operand::InPlace => hold(y, tile),
        Operand::Repeated(..) if start > 0 => {}
        Operand::Repeated(..) | Operand::Stretched(..) => operand.from(start).write(tile),
    }
    Lane::Row(tile)
}
