//! Slices of tensors along an axis, and tensors composed of slices.

use ort_ep::KernelError;
use ort_graph::OpError;
use ort_tensor::{Shape, Tensor, TensorError, TensorView, TensorViewMut, Value, ValueView};
use ort_tensor::{move_elements, n_elements};

/// A tensor that is read slice by slice along an axis.
#[derive(Clone, Debug)]
pub(super) struct Sliced<'a> {
    view: TensorView<'a>,
    axis: usize,
    is_reversed: bool,
    /// The shape of a slice.
    shape: Shape,
}

impl<'a> Sliced<'a> {
    pub(super) fn new(view: TensorView<'a>, axis: i64, is_reversed: bool) -> Result<Self, OpError> {
        let axis = super::axis(axis, view.shape().len())?;
        let mut shape = Shape::from_slice(view.shape());
        shape.remove(axis);
        Ok(Self { view, axis, is_reversed, shape })
    }

    /// The number of slices.
    pub(super) fn len(&self) -> usize {
        self.view.shape()[self.axis]
    }

    /// Slice `t`: a view if its elements are contiguous, otherwise a copy.
    pub(super) fn slice(&self, t: usize) -> Result<Slice<'_>, TensorError> {
        let at = if self.is_reversed { self.len() - 1 - t } else { t };
        let (outer, _) = around(self.view.shape(), self.axis);
        match self.view.item(&self.shape, at).filter(|_| outer == 1) {
            Some(view) => Ok(Slice::View(view)),
            None => slice(self.view, self.axis, at).map(Slice::Copy),
        }
    }
}

/// A slice of a tensor.
#[derive(Debug)]
pub(super) enum Slice<'a> {
    View(TensorView<'a>),
    Copy(Value),
}

impl Slice<'_> {
    pub(super) fn view(&self) -> ValueView<'_> {
        match self {
            Slice::View(view) => ValueView::Tensor(*view),
            Slice::Copy(value) => value.view(),
        }
    }
}

/// The number of elements before and after a dimension.
fn around(shape: &[usize], axis: usize) -> (usize, usize) {
    (shape[..axis].iter().product(), shape[axis + 1..].iter().product())
}

/// `view[…, at, …]` along `axis`, without that dimension.
pub(super) fn slice(view: TensorView<'_>, axis: usize, at: usize) -> Result<Value, TensorError> {
    let (outer, inner) = around(view.shape(), axis);
    let n = view.shape()[axis];
    let mut shape = Shape::from_slice(view.shape());
    shape.remove(axis);
    let mut tensor = Tensor::zeros(view.dtype(), &shape)?;
    move_elements!(view => tensor.view_mut(), |src, dst| for o in 0..outer {
        let from = (o * n + at) * inner;
        dst[o * inner..(o + 1) * inner].clone_from_slice(&src[from..from + inner]);
    })?;
    Ok(Value::Tensor(tensor))
}

/// `to[…, at, …] = view` along `axis`.
pub(super) fn put(
    view: TensorView<'_>,
    to: TensorViewMut<'_>,
    axis: usize,
    at: usize,
) -> Result<(), TensorError> {
    let (outer, inner) = around(to.shape(), axis);
    let n = to.shape()[axis];
    move_elements!(view => to, |src, dst| for o in 0..outer {
        let to = (o * n + at) * inner;
        dst[to..to + inner].clone_from_slice(&src[o * inner..(o + 1) * inner]);
    })
}

/// Whether the slices of a tensor of this shape along an axis are contiguous.
pub(super) fn are_contiguous(shape: &[usize], axis: usize) -> bool {
    n_elements(&shape[..axis]) == Some(1)
}

/// The first `length` entries along dimension 0.
pub(super) fn prefix(value: &Value, length: i64) -> Result<Value, KernelError> {
    let view = value.as_tensor()?.view();
    let length = usize::try_from(length).ok().filter(|n| view.shape().first() >= Some(n));
    let length = length.ok_or(OpError::InputValue { index: 0, what: "a length out of range" })?;
    let mut shape = Shape::from_slice(view.shape());
    shape[0] = length;
    resized(view, &shape)
}

/// The same, zero-padded along dimension 0 to `length` entries.
pub(super) fn pad_to(value: &Value, length: usize) -> Result<Value, KernelError> {
    let view = value.as_tensor()?.view();
    let mut shape = Shape::from_slice(view.shape());
    match shape.first_mut() {
        Some(first) => *first = length,
        None => return Err(OpError::InputRank { index: 0, expected: "1 or more", found: 0 }.into()),
    }
    resized(view, &shape)
}

fn resized(view: TensorView<'_>, shape: &[usize]) -> Result<Value, KernelError> {
    let mut tensor = Tensor::zeros(view.dtype(), shape)?;
    move_elements!(view => tensor.view_mut(), |src, dst| {
        let n = src.len().min(dst.len());
        dst[..n].clone_from_slice(&src[..n]);
    })?;
    Ok(Value::Tensor(tensor))
}
