//! Float tensors as f64, for operators that gain nothing from a loop for each type: everything
//! is computed in f64 and rounded once at the end.

use std::borrow::Cow;

use ort_graph::OpError;
use ort_tensor::{
    DType, Inputs, Number, Output, Pace, Shape, TensorError, TensorView, broadcast_strides,
    by_pieces, collected, with_room,
};
use ort_tensor::{n_elements, with_dtype};

/// The elements of a float tensor.
///
/// # Errors
/// If its elements are not floats.
pub(crate) fn read(view: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    owned(read_as(view)?)
}

/// The elements of a float tensor as another float type; borrowed if it is the same.
///
/// # Errors
/// If its elements are not floats.
pub(crate) fn read_as<R: Number>(view: TensorView<'_>) -> Result<Cow<'_, [R]>, OpError> {
    if view.dtype() == R::DTYPE {
        return Ok(Cow::Borrowed(view.as_slice()?));
    }
    with_dtype!(view.dtype(), float, T => {
        Ok(Cow::Owned(collected(view.as_slice::<T>()?.iter().map(|&x| R::from_f64(Number::to_f64(x))))?))
    }, else => Err(TensorError::DType { expected: DType::F32, found: view.dtype() }.into()))
}

/// The elements themselves, copied if they are borrowed.
///
/// # Errors
/// If there is no memory for a copy, or the run was cancelled.
pub(crate) fn owned<R: Number>(values: Cow<'_, [R]>) -> Result<Vec<R>, OpError> {
    match values {
        Cow::Owned(values) => Ok(values),
        Cow::Borrowed(values) => Ok(collected(values.iter().copied())?),
    }
}

/// The `len` elements of the float tensor at `index`.
///
/// # Errors
/// If it is absent, has no floats, or another number of them.
pub(crate) fn read_parameter(
    inputs: Inputs<'_>,
    index: usize,
    len: usize,
) -> Result<Vec<f64>, OpError> {
    let view = inputs.tensor(index)?;
    if view.len() != len {
        let (left, right) = (view.shape().to_vec(), vec![len]);
        return Err(OpError::Shapes { what: "the length of a parameter", left, right });
    }
    read(view)
}

/// The elements of a float tensor that broadcasts to `shape`, as a period: it is broadcast along the last dimensions,
/// and repeats along the others.
///
/// # Errors
/// If its elements are not floats, or it does not broadcast.
pub(crate) fn read_period(view: TensorView<'_>, shape: &[usize]) -> Result<Vec<f64>, OpError> {
    let leading = view.shape().iter().take_while(|&&dim| dim == 1).count();
    let own = &view.shape()[leading..];
    let refuse = || OpError::Shapes {
        what: "a parameter that broadcasts",
        left: view.shape().to_vec(),
        right: shape.to_vec(),
    };
    let target = shape.get(shape.len().wrapping_sub(own.len())..).ok_or_else(refuse)?;
    if !own.iter().zip(target).all(|(&from, &to)| from == to || from == 1) {
        return Err(refuse());
    }
    let values = read(view)?;
    if own == target {
        return Ok(values);
    }
    let strides = broadcast_strides(own, target);
    // bounded: rank
    let mut index = Shape::from_elem(0, target.len());
    let mut stretched = with_room(n_elements(target).ok_or(OpError::TooLarge)?)?;
    for _ in 0..stretched.capacity() {
        stretched
            .push(values[index.iter().zip(&strides).map(|(i, stride)| i * stride).sum::<usize>()]);
        for (index, &dim) in index.iter_mut().zip(target).rev() {
            *index = (*index + 1) % dim;
            if *index != 0 {
                break;
            }
        }
    }
    Ok(stretched)
}

/// `update(x[i], period[i mod len])`.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn with_period(
    x: &mut [f64],
    period: &[f64],
    update: impl Fn(&mut f64, f64),
) -> Result<(), TensorError> {
    let mut pace = Pace::new();
    for x in x.chunks_mut(period.len().max(1)) {
        for (x, period) in x.chunks_mut(Pace::STEP).zip(period.chunks(Pace::STEP)) {
            pace.go(x.len())?;
            x.iter_mut().zip(period).for_each(|(x, &p)| update(x, p));
        }
    }
    Ok(())
}

/// Writes `values`, rounded, to the output at `index`, if it is present and used.
///
/// # Errors
/// If something else was planned, or `dtype` is not a float.
pub(crate) fn write<R: Number>(
    outputs: &mut [Output<'_>],
    index: usize,
    dtype: DType,
    shape: &[usize],
    values: &[R],
) -> Result<(), OpError> {
    let Some(output) = outputs.get_mut(index).filter(|output| output.is_wanted()) else {
        return Ok(());
    };
    let y = output.tensor(dtype, shape)?;
    with_dtype!(dtype, float, T => {
        let y = y.into_slice::<T>()?;
        let mut values = values.iter();
        Ok(by_pieces(y, |_, y| {
            y.iter_mut().zip(&mut values).for_each(|(y, value)| *y = Number::from_f64(value.to_f64()));
        })?)
    }, else => Err(TensorError::DType { expected: DType::F32, found: dtype }.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::tensor;

    #[test]
    fn a_period_is_as_short_as_the_leading_ones_allow() {
        let period = |shape: &[usize], target: &[usize]| {
            let n = u8::try_from(shape.iter().product::<usize>()).unwrap();
            let data: Vec<f32> = (0..n).map(f32::from).collect();
            read_period(tensor(shape, &data).view(), target).ok()
        };
        assert_eq!(period(&[], &[2, 3]), Some(vec![0.0]));
        assert_eq!(period(&[1, 3], &[2, 3]), Some(vec![0., 1., 2.]));
        assert_eq!(period(&[2, 1], &[5, 2, 2]), Some(vec![0., 0., 1., 1.]));
        assert_eq!(period(&[1, 1, 1, 2], &[2]), Some(vec![0., 1.]));
        assert_eq!(period(&[2, 2], &[2]), None);
        assert_eq!(period(&[2], &[3]), None);
        assert_eq!(period(&[0], &[2, 0]), Some(vec![]));
        assert_eq!(period(&[2, 1], &[2, 0]), Some(vec![]));
    }
}
