//! Copies between boxes of elements that lie anywhere in their slices: what permuting, slicing,
//! repeating and joining tensors come down to. Axes that continue each other are merged first, so
//! that what is left to do is as few and as long runs as the two layouts allow.

use ort_tensor::{TensorError, TensorView, TensorViewMut, move_elements, row_major_strides};
use smallvec::SmallVec;

/// Where the elements of a box lie in a slice: element `index` is at `offset + Σ index·stride`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Where element 0 lies.
    pub offset: usize,
    /// The step along each axis: negative to go backwards, 0 to stay.
    pub strides: SmallVec<[isize; 6]>,
}

impl Strided {
    /// A contiguous box of its own.
    pub fn row_major(shape: &[usize]) -> Self {
        Self::new(0, &row_major_strides(shape))
    }

    /// A box that begins at `offset` and steps forwards.
    pub fn new(offset: usize, strides: &[usize]) -> Self {
        Self { offset, strides: strides.iter().map(|stride| stride.cast_signed()).collect() }
    }
}

/// `y[to(index)] = x[from(index)]` for every index of `shape`, any element type. Every element
/// that `from` and `to` lead to must exist; the rest of `y` stays what it is.
///
/// # Errors
/// If the element types differ.
pub(crate) fn copy(
    shape: &[usize],
    x: TensorView<'_>,
    from: &Strided,
    y: TensorViewMut<'_>,
    to: &Strided,
) -> Result<(), TensorError> {
    if shape.contains(&0) {
        return Ok(());
    }
    let axes = merged(shape, &from.strides, &to.strides);
    move_elements!(x => y, |src, dst| copy_axes(&axes, (src, from.offset), (dst, to.offset)))
}

/// As `copy`, of elements in slices.
///
/// # Panics
/// If an element that `from` or `to` leads to does not exist.
pub fn copy_slice<T: Clone>(
    shape: &[usize],
    (x, from): (&[T], &Strided),
    (y, to): (&mut [T], &Strided),
) {
    if !shape.contains(&0) {
        let axes = merged(shape, &from.strides, &to.strides);
        copy_axes(&axes, (x, from.offset), (y, to.offset));
    }
}

/// One axis of both boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    n: usize,
    from: isize,
    to: isize,
}

/// The axes with more than one element, those that continue each other as one.
fn merged(shape: &[usize], from: &[isize], to: &[isize]) -> SmallVec<[Axis; 6]> {
    let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
    for ((&n, &from), &to) in shape.iter().zip(from).zip(to).filter(|((n, _), _)| **n != 1) {
        let span = |stride: isize| stride.wrapping_mul(n.cast_signed());
        match axes.last_mut() {
            Some(outer) if outer.from == span(from) && outer.to == span(to) => {
                *outer = Axis { n: outer.n * n, from, to };
            }
            _ => axes.push(Axis { n, from, to }),
        }
    }
    // Reading columns: the axis along which the source is contiguous goes next to the one along
    // which the destination is, so that the two are copied in tiles.
    if let Some((last, outer)) = axes.split_last_mut()
        && last.to == 1
        && last.from.unsigned_abs() > 1
        && let Some(rows) = outer.iter().position(|axis| axis.from == 1)
    {
        outer[rows..].rotate_left(1);
    }
    axes
}

fn copy_axes<T: Clone>(axes: &[Axis], src: (&[T], usize), dst: (&mut [T], usize)) {
    let ((src, mut from), (dst, mut to)) = (src, dst);
    match axes {
        [] => dst[to] = src[from].clone(),
        [run] => copy_run(*run, (src, from), (dst, to)),
        [rows, columns] if rows.from == 1 && columns.to == 1 => {
            copy_tiles(*rows, *columns, (src, from), (dst, to));
        }
        [outer, rest @ ..] => {
            for _ in 0..outer.n {
                copy_axes(rest, (src, from), (dst, to));
                from = from.wrapping_add_signed(outer.from);
                to = to.wrapping_add_signed(outer.to);
            }
        }
    }
}

fn copy_run<T: Clone>(run: Axis, src: (&[T], usize), dst: (&mut [T], usize)) {
    let ((src, mut from), (dst, mut to)) = (src, dst);
    match (run.from, run.to) {
        (1, 1) => dst[to..to + run.n].clone_from_slice(&src[from..from + run.n]),
        (0, 1) => dst[to..to + run.n].fill(src[from].clone()),
        // A step that the compiler knows becomes shuffles of registers.
        (2, 1) => {
            let (pairs, last) = src[from..from + 2 * run.n - 1].as_chunks::<2>();
            let (dst, end) = dst[to..to + run.n].split_at_mut(pairs.len());
            dst.iter_mut().zip(pairs).for_each(|(to, [from, _])| to.clone_from(from));
            end.clone_from_slice(last);
        }
        _ => {
            for _ in 0..run.n {
                dst[to].clone_from(&src[from]);
                from = from.wrapping_add_signed(run.from);
                to = to.wrapping_add_signed(run.to);
            }
        }
    }
}

/// Rows of a tile: the elements of four bytes in one cache line, each line is read in one go.
const TILE_ROWS: usize = 16;
/// Columns of a tile: as many lines as a cache set holds, for the lines that a tile reads may all
/// fall into one set.
const TILE_COLUMNS: usize = 8;

fn copy_tiles<T: Clone>(rows: Axis, columns: Axis, src: (&[T], usize), dst: (&mut [T], usize)) {
    let ((src, from), (dst, to)) = (src, dst);
    let step = |start: usize, n: usize, stride: isize| {
        start.wrapping_add_signed(stride.wrapping_mul(n.cast_signed()))
    };
    for first_row in (0..rows.n).step_by(TILE_ROWS) {
        for column in (0..columns.n).step_by(TILE_COLUMNS) {
            let run = Axis { n: TILE_COLUMNS.min(columns.n - column), ..columns };
            for row in first_row..rows.n.min(first_row + TILE_ROWS) {
                let from = step(step(from, row, rows.from), column, columns.from);
                let to = step(step(to, row, rows.to), column, columns.to);
                copy_run(run, (src, from), (dst, to));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Shape, Tensor};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_that_continue_each_other_are_one() {
        let axis = |n, from, to| Axis { n, from, to };
        let cases: [(&[usize], &[isize], &[isize], &[Axis]); 4] = [
            (&[2, 1, 3], &[3, 3, 1], &[3, 3, 1], &[axis(6, 1, 1)]),
            (&[2, 3], &[0, 0], &[3, 1], &[axis(6, 0, 1)]),
            (&[2, 3], &[6, 1], &[3, 1], &[axis(2, 6, 3), axis(3, 1, 1)]),
            // The source is contiguous along the first axis, which becomes the rows of tiles.
            (&[4, 2, 3], &[1, 99, 4], &[6, 3, 1], &[axis(2, 99, 3), axis(4, 1, 6), axis(3, 4, 1)]),
        ];
        for (shape, from, to, expected) in cases {
            assert_eq!(merged(shape, from, to).as_slice(), expected, "{shape:?}");
        }
    }

    proptest! {
        #[test]
        fn every_element_goes_where_its_index_says(
            shape in prop::collection::vec(1_usize..20, 0..4), seed in 0_usize..6, back in any::<bool>()
        ) {
            let n: usize = shape.iter().product();
            let data: Vec<u32> = (0..u32::try_from(n).unwrap()).collect();
            let x = Tensor::from_slice(&[n], &data).unwrap();
            let mut y = Tensor::zeros(x.dtype(), &[n]).unwrap();
            // The source lies under a rotation of the axes, forwards or backwards.
            let rank = shape.len();
            let perm: Vec<usize> = (0..rank).map(|i| (i + seed) % rank).collect();
            let permuted: Shape = perm.iter().map(|&axis| shape[axis]).collect();
            let own = row_major_strides(&permuted);
            let mut strides = Shape::from_elem(0, rank);
            for (&axis, &stride) in perm.iter().zip(&own) {
                strides[axis] = stride;
            }
            let mut from = Strided::new(0, &strides);
            if back {
                from.offset = n - 1;
                from.strides.iter_mut().for_each(|stride| *stride = -*stride);
            }
            let to = Strided::row_major(&shape);
            copy(&shape, x.view(), &from, y.view_mut(), &to).unwrap();
            let y = y.as_slice::<u32>().unwrap();
            for (i, &value) in y.iter().enumerate() {
                let at: usize = to.strides.iter().zip(&shape).zip(&strides)
                    .map(|((&to, &n), &from)| i / to.unsigned_abs() % n * from).sum();
                let at = if back { n - 1 - at } else { at };
                prop_assert_eq!(value, data[at]);
            }
        }
    }
}
