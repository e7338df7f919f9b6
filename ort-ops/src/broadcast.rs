//! Functions of operands that broadcast to one shape.
//!
//! Dimensions that every operand walks alike are merged, so that the last one left is a run along the output in which
//! each operand either advances with it or stays: tensors of one shape are one run, a scalar stays for all of it, a
//! bias along channels stays for one plane at a time. Short runs may include one more dimension, along which an
//! operand starts again: a bias of the last dimension repeats.

use std::ops::Range;

use ort_graph::OpError;
use ort_tensor::{
    Element, Inputs, Output, Pace, Shape, TensorError, TensorView, broadcast, broadcast_strides,
    go_on,
};

use crate::axes;

/// One operand: its elements under its own shape.
#[derive(Debug)]
pub(crate) struct Operand<'a, T> {
    pub(crate) shape: &'a [usize],
    pub(crate) data: &'a [T],
}

impl<T> Clone for Operand<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Operand<'_, T> {}

impl<'a, T: Element> Operand<'a, T> {
    /// The elements of a tensor.
    ///
    /// # Errors
    /// If they are not of type `T`.
    pub(crate) fn new(x: TensorView<'a>) -> Result<Self, OpError> {
        Ok(Self { shape: x.shape(), data: x.as_slice()? })
    }
}

/// What an operand does within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// It advances with the output.
    Advances,
    /// It advances, and starts again after every [period](Runs::period).
    Repeats,
    /// It advances by one element per period.
    Stretches,
    /// It stays.
    Stays,
}

/// How operands that broadcast to one shape are walked.
#[derive(Debug)]
pub struct Runs<const N: usize> {
    /// The elements of a run.
    len: usize,
    /// After how many of them repeating operands start again, and stretching ones advance.
    period: usize,
    walks: [Walk; N],
    /// The dimensions around a run, outermost first, with each operand's stride.
    outer: Vec<(usize, [usize; N])>,
}

impl<const N: usize> Runs<N> {
    /// The runs of operands of these shapes along an output of shape `shape`.
    ///
    /// # Errors
    /// If an operand does not broadcast to `shape`.
    pub fn new(shape: &[usize], operands: [&[usize]; N]) -> Result<Self, OpError> {
        for operand in operands {
            if broadcast(operand, shape).as_deref() != Some(shape) {
                return Err(mismatch(operand, shape));
            }
        }
        let strides = operands.map(|operand| broadcast_strides(operand, shape));
        let axes = shape.iter().enumerate();
        let axes = axes.map(|(axis, &dim)| (dim, strides.each_ref().map(|s| s[axis])));
        let mut merged = axes::merged(axes).into_vec();
        let (len, last) = merged.pop().unwrap_or((1, [0; N]));
        let walks = last.map(|stride| if stride == 0 { Walk::Stays } else { Walk::Advances });
        Ok(Self { len, period: len, walks, outer: merged })
    }

    /// The same with runs that include the last outer dimension, if every operand continues along it, starts again,
    /// or only advances there. Operands of such runs [repeat](Walk::Repeats) and, if runs had at most
    /// `most_stretched` elements, [stretch](Walk::Stretches).
    #[must_use]
    pub fn joined(mut self, most_stretched: usize) -> Self {
        let Some(&(dim, strides)) = self.outer.last() else { return self };
        let walk = |i: usize| match (self.walks[i], strides[i]) {
            (Walk::Advances, 0) => Some(Walk::Repeats),
            (Walk::Advances, stride) if stride == self.period => Some(Walk::Advances),
            (Walk::Stays, 0) => Some(Walk::Stays),
            (Walk::Stays, 1) if self.period <= most_stretched => Some(Walk::Stretches),
            _ => None,
        };
        let joined: [_; N] = std::array::from_fn(walk);
        if joined.iter().all(Option::is_some) && self.len == self.period {
            self.walks = joined.map(|walk| walk.unwrap_or(Walk::Stays));
            self.len *= dim;
            self.outer.pop();
        }
        self
    }

    /// Calls `run` for each run, or piece of a long one, in order, with its range in the output and its start in each
    /// operand.
    ///
    /// # Errors
    /// If the run was cancelled.
    pub(crate) fn for_each(
        &self,
        mut run: impl FnMut(Range<usize>, [usize; N]),
    ) -> Result<(), TensorError> {
        let n: usize = self.outer.iter().map(|(dim, _)| dim).product::<usize>() * self.len;
        for start in (0..n).step_by(Pace::STEP) {
            go_on()?;
            self.for_each_within(start..n.min(start + Pace::STEP), &mut run);
        }
        Ok(())
    }

    /// Calls `run` for the part of each run within `range`, in order, with its range in the output and where it
    /// starts in each operand: for a repeating one, relative to a multiple of the period; for a stretching one,
    /// counted as if each of its elements were a period.
    pub fn for_each_within(
        &self,
        range: Range<usize>,
        mut run: impl FnMut(Range<usize>, [usize; N]),
    ) {
        // bounded: rank
        let mut index = Shape::from_elem(0, self.outer.len());
        let mut starts = [0; N];
        // A run of no elements has no range.
        let mut rest = range.start.checked_div(self.len).unwrap_or(0);
        for (index, (dim, strides)) in index.iter_mut().zip(&self.outer).rev() {
            (*index, rest) = (rest % dim.max(&1), rest / dim.max(&1));
            starts.iter_mut().zip(strides).for_each(|(start, stride)| *start += *index * stride);
        }
        let mut at = range.start;
        let mut skipped = at.checked_rem(self.len).unwrap_or(0);
        while at < range.end {
            let end = range.end.min(at - skipped + self.len);
            run(at..end, self.after(starts, skipped));
            (at, skipped) = (end, 0);
            self.advance(&mut index, &mut starts);
        }
    }

    /// The positions of the operands `skipped` elements after the start of a run.
    fn after(&self, starts: [usize; N], skipped: usize) -> [usize; N] {
        std::array::from_fn(|i| match self.walks[i] {
            Walk::Advances => starts[i] + skipped,
            Walk::Repeats => starts[i] + skipped % self.period,
            Walk::Stretches => starts[i] * self.period + skipped,
            Walk::Stays => starts[i],
        })
    }

    /// The next index, as an odometer counts.
    fn advance(&self, index: &mut [usize], starts: &mut [usize; N]) {
        for (index, (dim, strides)) in index.iter_mut().zip(&self.outer).rev() {
            *index += 1;
            let back = if *index < *dim { 0 } else { *index };
            *index -= back;
            for (start, stride) in starts.iter_mut().zip(strides) {
                *start = *start + stride - back * stride;
            }
            if back == 0 {
                return;
            }
        }
    }

    /// The number of elements after which repeating operands start again, or stretching ones advance: the length of a
    /// run before it was [joined](Runs::joined).
    pub const fn period(&self) -> usize {
        self.period
    }

    /// What each operand does within a run.
    pub const fn walks(&self) -> [Walk; N] {
        self.walks
    }

    /// Which operands advance within a run; none repeats or stretches unless runs are joined.
    pub fn advances(&self) -> [bool; N] {
        self.walks.map(|walk| walk != Walk::Stays)
    }
}

/// `y = f(a, b)` for all elements of `shape`, to which both broadcast.
///
/// # Errors
/// If they do not.
pub(crate) fn zip<A, B, Y>(
    (shape, y): (&[usize], &mut [Y]),
    a: Operand<'_, A>,
    b: Operand<'_, B>,
    f: &dyn Fn(&A, &B) -> Y,
) -> Result<(), OpError> {
    let runs = Runs::new(shape, [a.shape, b.shape])?;
    runs.for_each(|piece, [i, j]| {
        let (n, y) = (piece.len(), &mut y[piece]);
        match runs.advances() {
            [true, true] => {
                for ((y, a), b) in y.iter_mut().zip(&a.data[i..i + n]).zip(&b.data[j..j + n]) {
                    *y = f(a, b);
                }
            }
            [true, false] => {
                let b = &b.data[j];
                y.iter_mut().zip(&a.data[i..i + n]).for_each(|(y, a)| *y = f(a, b));
            }
            [false, true] => {
                let a = &a.data[i];
                y.iter_mut().zip(&b.data[j..j + n]).for_each(|(y, b)| *y = f(a, b));
            }
            [false, false] => y.iter_mut().for_each(|y| *y = f(&a.data[i], &b.data[j])),
        }
    })?;
    Ok(())
}

/// `y = f(y, a)` for all elements of `shape`, to which `a` broadcasts.
///
/// # Errors
/// If it does not.
pub(crate) fn update<A, Y>(
    (shape, y): (&[usize], &mut [Y]),
    a: Operand<'_, A>,
    f: &dyn Fn(&Y, &A) -> Y,
) -> Result<(), OpError> {
    let runs = Runs::new(shape, [a.shape])?;
    runs.for_each(|piece, [i]| {
        let (n, y) = (piece.len(), &mut y[piece]);
        match runs.advances() {
            [true] => y.iter_mut().zip(&a.data[i..i + n]).for_each(|(y, a)| *y = f(y, a)),
            [false] => {
                let a = &a.data[i];
                y.iter_mut().for_each(|y| *y = f(y, a));
            }
        }
    })?;
    Ok(())
}

/// `y = f(a, b)`, `a` and `b` being inputs 0 and 1, either of which `y` may be computed over.
///
/// # Errors
/// If an input is absent or not of type `T`, or the two do not broadcast.
pub(crate) fn combine<T: Element>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    f: &dyn Fn(&T, &T) -> T,
) -> Result<(), OpError> {
    if let Some((input, view)) = output.in_place_tensor() {
        let y = (&Shape::from_slice(view.shape())[..], view.into_slice::<T>()?);
        return match input {
            0 => update(y, Operand::new(inputs.tensor(1)?)?, f),
            _ => update(y, Operand::new(inputs.tensor(0)?)?, &|b, a| f(a, b)),
        };
    }
    compare(inputs, output, f)
}

/// As [`combine`] to elements of another type, never in place.
///
/// # Errors
/// As [`combine`].
pub(crate) fn compare<T: Element, Y: Element>(
    inputs: Inputs<'_>,
    output: &mut Output<'_>,
    f: &dyn Fn(&T, &T) -> Y,
) -> Result<(), OpError> {
    let (a, b) = (Operand::new(inputs.tensor(0)?)?, Operand::new(inputs.tensor(1)?)?);
    let shape = common_shape([a.shape, b.shape])?;
    zip((&shape, output.tensor(Y::DTYPE, &shape)?.into_slice()?), a, b, f)
}

/// The shape that all of these broadcast to.
///
/// # Errors
/// If there is none.
pub fn common_shape<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Result<Shape, OpError> {
    let mut common = Shape::new();
    for shape in shapes {
        common = broadcast(&common, shape).ok_or_else(|| mismatch(&common, shape))?;
    }
    Ok(common)
}

fn mismatch(left: &[usize], right: &[usize]) -> OpError {
    OpError::Shapes { what: "broadcasting", left: left.to_vec(), right: right.to_vec() }
}

#[cfg(test)]
mod tests;
