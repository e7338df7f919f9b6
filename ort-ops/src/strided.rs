//! Copies between strided boxes of elements: the core of permuting, slicing, repeating and concatenating tensors.
//! Contiguous axes are merged first, so that the runs are as few and as long as the two layouts allow.

// collects are bounded: by the rank

use std::cmp::Reverse;

use ort_tensor::{
    Output, Pace, Shape, TensorError, TensorView, TensorViewMut, go_on, move_elements,
    row_major_strides,
};
use smallvec::SmallVec;

use crate::axes;
use runs::{MOST_STEPS, copy_columns, copy_runs, repeat};

mod runs;

pub use runs::Word;

/// The positions of the elements of a box in a slice: element `index` is at `offset + Σ index·stride`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The position of element 0.
    pub offset: usize,
    /// The step along each axis: negative to go backwards, 0 to repeat.
    pub strides: SmallVec<[isize; 6]>,
}

impl Strided {
    /// A contiguous box.
    pub fn row_major(shape: &[usize]) -> Self {
        Self::new(0, &row_major_strides(shape))
    }

    /// A box that begins at `offset` and steps forwards.
    pub fn new(offset: usize, strides: &[usize]) -> Self {
        Self { offset, strides: strides.iter().map(|stride| stride.cast_signed()).collect() }
    }
}

/// A result whose elements are those of a strided box of one input, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StridedView {
    /// The shape of the result.
    pub shape: Shape,
    /// The same, with some axes split in several.
    pub axes: Shape,
    /// Where the elements are, for these axes.
    pub from: Strided,
}

impl StridedView {
    /// Writes the result.
    ///
    /// # Errors
    /// If there is no memory for it, or the run was cancelled.
    pub(crate) fn write(&self, x: TensorView<'_>, y: &mut Output<'_>) -> Result<(), TensorError> {
        let y = y.tensor(x.dtype(), &self.shape)?;
        copy(&self.axes, x, &self.from, y, &Strided::row_major(&self.axes))
    }
}

/// `y[to(index)] = x[from(index)]` for every index of `shape`, any element type. Every element
/// that `from` and `to` select must exist; the rest of `y` is unchanged.
///
/// # Errors
/// If the element types differ, there is no memory for a text, or the run was cancelled.
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
    move_elements!(x => y, |src, dst| copy_parts(&axes, (src, from.offset), (dst, to.offset)))
}

/// Entries of an axis that are copied at once are a multiple of this: the rows of a tile of bytes.
const WHOLE_TILES: usize = 64;

/// The same in parts of about [`Pace::STEP`] elements: the corresponding number of entries of the outermost axis.
fn copy_parts<T: Word>(
    axes: &[Axis],
    (src, mut from): (&[T], usize),
    (dst, mut to): (&mut [T], usize),
) -> Result<(), TensorError> {
    let Some((&outer, rest)) = axes.split_first() else {
        copy_axes(axes, (src, from), (dst, to));
        return Ok(());
    };
    let n_inner: usize = rest.iter().map(|axis| axis.n).product();
    let is_transposed = matches!(rest, &[columns] if is_transposed(outer, columns));
    let is_deep = !is_transposed && !rest.is_empty() && n_inner > Pace::STEP;
    let most = (Pace::STEP / n_inner).next_multiple_of(WHOLE_TILES).max(WHOLE_TILES);
    let step = if is_deep { 1 } else { most };
    let mut part: SmallVec<[Axis; 6]> = axes.into();
    for first in (0..outer.n).step_by(step) {
        if is_deep {
            copy_parts(rest, (src, from), (dst, to))?;
        } else {
            go_on()?;
            part[0].n = step.min(outer.n - first);
            copy_axes(&part, (src, from), (dst, to));
        }
        let n = step.cast_signed();
        from = from.wrapping_add_signed(outer.from.wrapping_mul(n));
        to = to.wrapping_add_signed(outer.to.wrapping_mul(n));
    }
    Ok(())
}

/// As `copy`, of elements in slices.
///
/// # Panics
/// If an element that `from` or `to` selects does not exist.
pub fn copy_slice<T: Word>(
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

impl Axis {
    /// An axis of one element.
    const ONE: Self = Self { n: 1, from: 0, to: 0 };
}

/// The axes with more than one element in the order of the destination, merged where contiguous.
fn merged(shape: &[usize], from: &[isize], to: &[isize]) -> SmallVec<[Axis; 6]> {
    let axes = shape.iter().zip(from).zip(to).map(|((&n, &from), &to)| (n, [from, to]));
    let mut axes: SmallVec<[_; 6]> = axes.collect();
    axes.sort_by_key(|&(_, [_, to])| Reverse(to.unsigned_abs()));
    let axes = axes.into_iter().map(|(n, strides)| (n, strides.map(isize::cast_unsigned)));
    let axis = |(n, strides): (usize, [usize; 2])| {
        let [from, to] = strides.map(usize::cast_signed);
        Axis { n, from, to }
    };
    let mut axes: SmallVec<[Axis; 6]> = axes::merged(axes).into_iter().map(axis).collect();
    // Reading columns: the axis along which the source is contiguous goes next to the one along
    // which the destination is, so that the two are copied in tiles, or lines of the source are read once.
    if let Some((last, outer)) = axes.split_last_mut()
        && last.to == 1
        && last.from.unsigned_abs() > 1
        && let Some(rows) = outer.iter().position(|axis| axis.from == 1)
    {
        outer[rows..].rotate_left(1);
    }
    axes
}

/// Whether the rows of the source are columns of the destination, and too long to be the steps of a run.
fn is_transposed(rows: Axis, columns: Axis) -> bool {
    let is_step = rows.n <= MOST_STEPS && rows.n.cast_signed() == columns.from;
    rows.from == 1 && columns.to == 1 && columns.from != 0 && !is_step
}

/// How many elements the destination has for each index of the outermost axis, if that axis repeats a contiguous
/// part.
fn repeated(axes: &[Axis]) -> Option<usize> {
    let (outer, rest) = axes.split_first().filter(|(outer, _)| outer.from == 0)?;
    let last = rest.last().filter(|last| last.to == 1)?;
    // Axes go from the longest step to the shortest, and no two elements have the same position.
    let n = rest[..rest.len() - 1].iter().fold(last.n, |n, axis| n * axis.n);
    (outer.to.unsigned_abs() == n).then_some(n)
}

fn copy_axes<T: Word>(axes: &[Axis], src: (&[T], usize), dst: (&mut [T], usize)) {
    let ((src, mut from), (dst, mut to)) = (src, dst);
    if let (Some(n), [outer, rest @ ..]) = (repeated(axes), axes) {
        copy_axes(rest, (src, from), (&mut *dst, to));
        return repeat(n, &mut dst[to..to + outer.n * n]);
    }
    match *axes {
        [] => dst[to] = src[from].clone(),
        [run] => copy_runs([Axis::ONE; 2], run, (src, from), (dst, to)),
        [rows, columns] if is_transposed(rows, columns) => {
            copy_columns(rows, columns, (src, from), (dst, to));
        }
        [rows, run] => copy_runs([Axis::ONE, rows], run, (src, from), (dst, to)),
        [planes, rows, run] if !is_transposed(rows, run) => {
            copy_runs([planes, rows], run, (src, from), (dst, to));
        }
        [outer, ref rest @ ..] => {
            for _ in 0..outer.n {
                copy_axes(rest, (src, from), (dst, to));
                from = from.wrapping_add_signed(outer.from);
                to = to.wrapping_add_signed(outer.to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use ort_tensor::{Shape, Tensor};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_that_continue_each_other_are_one() {
        let axis = |n, from, to| Axis { n, from, to };
        let cases: [(&[usize], &[isize], &[isize], &[Axis]); 5] = [
            (&[2, 1, 3], &[3, 3, 1], &[3, 3, 1], &[axis(6, 1, 1)]),
            (&[2, 3], &[0, 0], &[3, 1], &[axis(6, 0, 1)]),
            (&[2, 3], &[6, 1], &[3, 1], &[axis(2, 6, 3), axis(3, 1, 1)]),
            // The source is contiguous along the first axis, which becomes the rows of tiles.
            (&[4, 2, 3], &[1, 99, 5], &[6, 3, 1], &[axis(2, 99, 3), axis(4, 1, 6), axis(3, 5, 1)]),
            // Also if it is all that is between two elements of a run.
            (&[4, 2, 3], &[1, 99, 4], &[6, 3, 1], &[axis(2, 99, 3), axis(4, 1, 6), axis(3, 4, 1)]),
        ];
        for (shape, from, to, expected) in cases {
            assert_eq!(merged(shape, from, to).as_slice(), expected, "{shape:?}");
        }
    }

    /// Checks that `y[to(index)] = x[from(index)]`, `from` being anything and `to` contiguous.
    fn check<T: Word + PartialEq + Debug>(
        shape: &[usize],
        from: &Strided,
        of: impl Fn(usize) -> T,
    ) {
        let n = shape.iter().product();
        let x: Vec<T> = (0..n).map(&of).collect();
        let mut y = vec![of(0); n];
        let to = Strided::row_major(shape);
        copy_slice(shape, (&x, from), (&mut y, &to));
        for (i, value) in y.iter().enumerate() {
            let steps = to.strides.iter().zip(shape).zip(&from.strides);
            let step = |((&to, &n), &from): ((&isize, &usize), &isize)| {
                (i / to.unsigned_abs() % n).cast_signed() * from
            };
            let at = from.offset.wrapping_add_signed(steps.map(step).sum());
            assert_eq!(*value, of(at), "{shape:?} {from:?} at {i}");
        }
    }

    proptest! {
        #[test]
        fn every_element_goes_where_its_index_says(
            shape in prop::collection::vec(1_usize..20, 0..4), seed in 0_usize..6, back in any::<bool>()
        ) {
            // The source has rotated axes, forwards or backwards.
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
                from.offset = shape.iter().product::<usize>() - 1;
                from.strides.iter_mut().for_each(|stride| *stride = -*stride);
            }
            check(&shape, &from, |i| u8::try_from(i % 251).unwrap());
            check(&shape, &from, |i| u16::try_from(i % 65_521).unwrap());
            check(&shape, &from, |i| u32::try_from(i).unwrap());
            check(&shape, &from, |i| i as u64);
            check(&shape, &from, |i| i.to_string());
        }
    }

    /// Runs, rows and columns that are longer than a part, forwards, backwards and transposed.
    #[test]
    fn long_copies_are_the_same_in_parts() {
        let n = Pace::STEP + 4465;
        let cases: [(&[usize], usize, &[isize]); 7] = [
            (&[n], 0, &[1]),
            (&[n], n - 1, &[-1]),
            (&[3, n], 0, &[n as isize, 1]),
            (&[3, n], 0, &[1, 3]),
            (&[n, 3], 0, &[1, n as isize]),
            (&[130, 3, 700], 0, &[1, 130 * 700, 130]),
            (&[2, 3, n], 1, &[0, 0, 0]),
        ];
        for (shape, offset, strides) in cases {
            let len: usize = shape.iter().product();
            let x: Vec<u32> = (0..u32::try_from(len).unwrap()).collect();
            let (from, to) =
                (Strided { offset, strides: strides.into() }, Strided::row_major(shape));
            let mut expected = vec![0; len];
            copy_slice(shape, (&x, &from), (&mut expected, &to));
            let x = Tensor::from_slice(&[len], &x).unwrap();
            let mut y = Tensor::zeros(x.dtype(), &[len]).unwrap();
            copy(shape, x.view(), &from, y.view_mut(), &to).unwrap();
            assert_eq!(y.as_slice::<u32>().unwrap(), expected, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn what_repeats_is_filled() {
        for strides in [[0, 1], [1, 0], [0, 0]] {
            check(&[70, 90], &Strided::new(3, &strides), |i| u32::try_from(i).unwrap());
            check(&[70, 90], &Strided::new(3, &strides), |i| i.to_string());
        }
        for strides in [[0, 0, 1], [0, 20, 1], [7, 0, 1], [0, 1, 30]] {
            for shape in [[9, 3, 7], [2000, 5, 20], [3, 30, 8]] {
                check(&shape, &Strided::new(1, &strides), |i| i as u64);
                check(&shape, &Strided::new(1, &strides), |i| i.to_le_bytes()[0]);
            }
        }
    }
}
