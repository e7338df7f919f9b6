//! Sums of products over indices.

// collects are bounded: by the rank and the letters of the equation

use ort_graph::OpError;
use ort_tensor::{Pace, Shape, TensorError, n_elements, row_major_strides};

use super::equation::Label;
use crate::accumulate::{Sum, zeros};

/// The extent of each index.
pub(super) type Extents = [(Label, usize)];

/// A tensor whose dimensions are named.
#[derive(Debug)]
pub(super) struct Factor<S> {
    pub(super) labels: Vec<Label>,
    pub(super) shape: Shape,
    pub(super) data: Vec<S>,
}

/// One index of a loop: its extent, and its strides in the result and both factors.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    strides: [usize; 3],
}

impl<S> Factor<S> {
    /// The stride of `label`: 0 for a broadcast dimension of 1, the sum for a repeated one (a diagonal).
    fn stride(&self, label: Label) -> usize {
        stride(&self.labels, &self.shape, label)
    }
}

/// The stride of `label` in a tensor whose dimensions are `labels`.
pub(super) fn stride(labels: &[Label], shape: &[usize], label: Label) -> usize {
    let strides = row_major_strides(shape);
    let dims = labels.iter().zip(shape).zip(&strides);
    let own = dims.filter(|((own, dim), _)| **own == label && **dim != 1);
    own.map(|(_, stride)| stride).sum()
}

/// `y[output] = Σ a[…]·b[…]` over all indices that are not in `output`.
pub(super) fn contract<S: Sum>(
    a: &Factor<S>,
    b: &Factor<S>,
    output: Vec<Label>,
    extents: &Extents,
) -> Result<Factor<S>, OpError> {
    let len =
        |label: Label| extents.iter().find(|(other, _)| *other == label).map_or(1, |(_, len)| *len);
    let shape: Shape = output.iter().map(|&label| len(label)).collect();
    let data = zeros(n_elements(&shape).ok_or(OpError::TooLarge)?)?;
    let mut y = Factor { labels: output, shape, data };
    let mut labels = y.labels.clone();
    for &label in a.labels.iter().chain(&b.labels) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let axis = |&label: &Label| Axis {
        len: len(label),
        strides: [y.stride(label), a.stride(label), b.stride(label)],
    };
    let mut axes: Vec<Axis> = labels.iter().map(axis).filter(|axis| axis.len != 1).collect();
    if axes.iter().any(|axis| axis.len == 0) {
        return Ok(y);
    }
    let inner = take_inner(&mut axes);
    let mut pace = Pace::new();
    for_each_index(&axes, |[to, i, j]| {
        pace.go(inner.len)?;
        accumulate(&mut y.data[to..], &a.data[i..], &b.data[j..], inner);
        Ok(())
    })?;
    Ok(y)
}

/// The innermost axis: one with strides of at most 1 if there is one, else the longest.
fn take_inner(axes: &mut Vec<Axis>) -> Axis {
    let is_smooth = |axis: &Axis| axis.strides.iter().all(|&stride| stride <= 1);
    let best = (0..axes.len()).max_by_key(|&i| (is_smooth(&axes[i]), axes[i].len));
    best.map_or(Axis { len: 1, strides: [0; 3] }, |best| axes.remove(best))
}

/// Calls `visit` with the positions in the result and both factors, for each index of `axes`, up to the first error.
fn for_each_index(
    axes: &[Axis],
    mut visit: impl FnMut([usize; 3]) -> Result<(), TensorError>,
) -> Result<(), TensorError> {
    // bounded: rank
    let mut index = vec![0; axes.len()];
    let mut at = [0; 3];
    loop {
        visit(at)?;
        // The next index, as an odometer counts; all zeros again is the end.
        let mut is_end = true;
        for (index, axis) in index.iter_mut().zip(axes).rev() {
            *index += 1;
            let back = if *index < axis.len { 0 } else { *index };
            *index -= back;
            for (at, stride) in at.iter_mut().zip(axis.strides) {
                *at = *at + stride - back * stride;
            }
            if back == 0 {
                is_end = false;
                break;
            }
        }
        if is_end {
            return Ok(());
        }
    }
}

/// `y += a·b` along one axis.
fn accumulate<S: Sum>(y: &mut [S], a: &[S], b: &[S], axis: Axis) {
    let n = axis.len;
    match axis.strides {
        [1, 0, 1] => {
            let terms = y[..n].iter_mut().zip(&b[..n]);
            terms.for_each(|(y, &b)| *y = y.multiply_add(a[0], b));
        }
        [1, 1, 0] => {
            let terms = y[..n].iter_mut().zip(&a[..n]);
            terms.for_each(|(y, &a)| *y = y.multiply_add(a, b[0]));
        }
        [0, 1, 1] => {
            let terms = a[..n].iter().zip(&b[..n]);
            y[0] = terms.fold(y[0], |sum, (&a, &b)| sum.multiply_add(a, b));
        }
        [to, i, j] => {
            for k in 0..n {
                y[k * to] = y[k * to].multiply_add(a[k * i], b[k * j]);
            }
        }
    }
}
