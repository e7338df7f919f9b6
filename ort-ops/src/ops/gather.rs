//! Gather: entries of an axis, selected by indices.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    DType, Inputs, Output, Pace, Shape, TensorError, TensorView, TensorViewMut, copy_texts, go_on,
    move_elements, n_elements, try_collected,
};

use crate::infer::{folded, int_values, normalize_axis, tensor_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Gather",
    versions: (1, 13),
    types: DType::is_any,
    build: Gather::build,
}];

/// Gather: `y[a…, i…, b…] = x[a…, indices[i…], b…]`, where `indices` takes the place of `axis`.
/// Indices below zero count from the back.
///
/// Source: ONNX operator set, Gather-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The axis, `−rank..rank`.
    pub axis: i64,
}

impl Gather {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { axis: spec.int("axis")?.unwrap_or(0) }))
    }
}

/// The index counted from the front.
///
/// # Errors
/// If it is not in `−len..len`.
#[inline]
pub fn normalize_index(what: &'static str, index: i64, len: usize) -> Result<usize, OpError> {
    let at = match usize::try_from(index) {
        Ok(at) => Some(at).filter(|&at| at < len),
        Err(_) => usize::try_from(index.unsigned_abs()).ok().and_then(|back| len.checked_sub(back)),
    };
    // Created lazily: an error has a destructor.
    at.ok_or_else(|| OpError::Index { what, index, len })
}

/// The indices counted from the front.
///
/// # Errors
/// If they are not integers, or one is not in `−len..len`.
pub(crate) fn normalize_indices(
    indices: TensorView<'_>,
    len: usize,
) -> Result<Vec<usize>, OpError> {
    let indices = int_values(indices)?;
    try_collected(indices.into_iter().map(|index| normalize_index("indices", index, len)))
}

impl Operator for Gather {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.dtype(1, DType::is_index)?;
        let (x, indices) = (inputs.fact(0)?.dims(), inputs.fact(1)?.dims());
        let axis = x.map(|x| normalize_axis(self.axis, x.len())).transpose()?;
        let dims = x.zip(indices).zip(axis).map(|((x, indices), axis)| -> Dims {
            x[..axis].iter().chain(indices).chain(&x[axis + 1..]).cloned().collect()
        });
        Ok(folded(self, inputs, vec![tensor_fact(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, indices) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let (before, n, after) = (&x.shape()[..axis], x.shape()[axis], &x.shape()[axis + 1..]);
        let shape: Shape = before.iter().chain(indices.shape()).chain(after).copied().collect();
        let indices = normalize_indices(indices, n)?;
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        let run = n_elements(after).ok_or(OpError::TooLarge)?;
        Ok(gather_tensor(x, (n, run), &indices, y)?)
    }
}

/// `y[o, i, :] = x[o, indices[i], :]`, where `x` is `[_, n, run]` and `indices` are below `n`.
///
/// # Errors
/// If the element types differ, there is no memory for texts, or the run was cancelled.
pub(crate) fn gather_tensor(
    x: TensorView<'_>,
    (n, run): (usize, usize),
    indices: &[usize],
    y: TensorViewMut<'_>,
) -> Result<(), TensorError> {
    match x.as_strings() {
        Ok(x) => gather_texts(x, (n, run), indices, y.into_strings()?),
        Err(_) => move_elements!(x => y, |src, dst| gather(src, n, run, indices, dst)),
    }
}

/// The same for strings, whose copies are counted many at a time.
fn gather_texts(
    x: &[String],
    (n, run): (usize, usize),
    indices: &[usize],
    y: &mut [String],
) -> Result<(), TensorError> {
    if y.is_empty() {
        return Ok(());
    }
    let many = (Pace::STEP / run).max(1);
    for (x, y) in x.chunks_exact(n * run).zip(y.chunks_exact_mut(indices.len() * run)) {
        for (y, indices) in y.chunks_mut(many * run).zip(indices.chunks(many)) {
            go_on()?;
            let texts = indices.iter().flat_map(|&i| &x[i * run..(i + 1) * run]);
            copy_texts(texts.map(String::as_str), y)?;
        }
    }
    Ok(())
}

/// `y[o, i, :] = x[o, indices[i], :]`, where `x` is `[_, n, run]`.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn gather<T: Clone>(
    x: &[T],
    n: usize,
    run: usize,
    indices: &[usize],
    y: &mut [T],
) -> Result<(), TensorError> {
    if y.is_empty() {
        return Ok(());
    }
    let mut pace = Pace::new();
    for (x, y) in x.chunks_exact(n * run).zip(y.chunks_exact_mut(indices.len() * run)) {
        if run == 1 {
            for (y, indices) in y.chunks_mut(Pace::STEP).zip(indices.chunks(Pace::STEP)) {
                pace.go(y.len())?;
                y.iter_mut().zip(indices).for_each(|(y, &i)| y.clone_from(&x[i]));
            }
            continue;
        }
        for (y, &i) in y.chunks_exact_mut(run).zip(indices) {
            pace.go(run)?;
            y.clone_from_slice(&x[i * run..(i + 1) * run]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn indices_take_the_place_of_the_axis() {
        let x = tensor(&[2, 3], &[1_u8, 2, 3, 4, 5, 6]);
        let cases = [
            (0, tensor(&[1, 2], &[1_i64, -2]), tensor(&[1, 2, 3], &[4_u8, 5, 6, 1, 2, 3])),
            (1, tensor(&[2], &[2_i64, 0]), tensor(&[2, 2], &[3_u8, 1, 6, 4])),
            (-1, Tensor::scalar(-1_i32), tensor(&[2], &[3_u8, 6])),
            (1, tensor::<i32>(&[0], &[]), tensor::<u8>(&[2, 0], &[])),
        ];
        for (axis, indices, expected) in cases {
            let case = Case::new("Gather", 13).attr("axis", Attr::Int(axis));
            assert_eq!(case.tensor(&[x.clone(), indices]), Ok(expected));
        }
    }

    #[test]
    fn an_index_out_of_range_is_an_error() {
        for (len, index) in [(2, 2), (2, -3), (0, 0), (2, i64::MIN), (2, i64::MAX)] {
            let x = Tensor::zeros(DType::String, &[len]).unwrap();
            let error = Case::new("Gather", 1).tensor(&[x, Tensor::scalar(index)]).unwrap_err();
            let expected = format!("indices: index {index} is out of range for {len} elements");
            assert_eq!(error, expected);
        }
    }
}
