//! Broadcast operands, run by run: a row is combined with a row or with a scalar; repeated, stretched and in-place
//! operands are copied to a tile first.

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::vec::Lane;
use ort_tensor::Element;

use super::Call;
use crate::operation::Operand;
use crate::pieces::Rows;

/// Elements per tile.
const TILE: usize = 512;

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
            self.each_run(operands, start..start + y.len(), |range, [a, b]| {
                piece([a, b], &mut y[range.start - start..range.end - start], hold, f);
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
    operands: [Operand<'_, T>; 2],
    y: &mut [Y],
    hold: fn(&[Y], &mut [T]),
    f: &dyn Fn(Lane<'_, T>, Lane<'_, T>, &mut [Y]),
) {
    if let [Some(a), Some(b)] = operands.map(lane) {
        return f(a, b, y);
    }
    let mut tiles = [[T::default(); TILE]; 2];
    for (i, y) in y.chunks_mut(TILE).enumerate() {
        let [a_tile, b_tile] = &mut tiles;
        let tiles = [&mut a_tile[..y.len()], &mut b_tile[..y.len()]];
        let [a, b] = operands.map(|operand| operand.from(i * TILE));
        let [to_a, to_b] = tiles;
        let a = held(a, y, to_a, hold);
        let b = held(b, y, to_b, hold);
        f(a, b, y);
    }
}

/// Copies the operand that a result overwrites in place.
pub(in super::super) fn held_elements<T: Copy>(y: &[T], tile: &mut [T]) {
    tile.copy_from_slice(y);
}

/// An operand that can be read directly.
fn lane<T: Copy>(operand: Operand<'_, T>) -> Option<Lane<'_, T>> {
    match operand {
        Operand::Row(row) => Some(Lane::Row(row)),
        Operand::Same(value) => Some(Lane::Same(value)),
        _ => None,
    }
}

/// The start of an operand, for a piece of the result that holds `y`.
fn held<'t, T: Copy, Y>(
    operand: Operand<'t, T>,
    y: &[Y],
    tile: &'t mut [T],
    hold: fn(&[Y], &mut [T]),
) -> Lane<'t, T> {
    match operand {
        Operand::Row(row) => return Lane::Row(&row[..y.len()]),
        Operand::Same(value) => return Lane::Same(value),
        Operand::InPlace => hold(y, tile),
        Operand::Repeated(..) | Operand::Stretched(..) => operand.write(tile),
    }
    Lane::Row(tile)
}
