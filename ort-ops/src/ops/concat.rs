//! Concat: tensors one after the other along an axis.

// collects are bounded: by the rank and the operands

use std::sync::Arc;

use ort_graph::{Behaviour, Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, row_major_strides};
use ort_tensor::{Tensor, TensorError, TensorView, TensorViewMut};

use crate::infer::{folded, normalize_axis};
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Concat",
    versions: (1, 13),
    types: DType::is_any,
    build: Concat::build,
}];

/// Concat: the inputs concatenated along `axis`; their other dimensions are equal.
///
/// Source: ONNX operator set, Concat-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concat {
    /// The axis, `−rank..rank`.
    pub axis: i64,
}

impl Concat {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let default = (spec.since_version < 4).then_some(1);
        let axis = spec.int("axis")?.or(default);
        Ok(Arc::new(Self { axis: axis.ok_or(OpError::MissingAttribute { name: "axis" })? }))
    }
}

impl Operator for Concat {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let mut joined: Option<Dims> = None;
        let mut length = Some(0_usize);
        for i in 0..inputs.len() {
            inputs.fact(i)?;
            inputs.expect_dtype(i, dtype)?;
            let Some(dims) = inputs.fact(i)?.dims() else {
                length = None;
                continue;
            };
            let axis = normalize_axis(self.axis, dims.len())?;
            length = length.zip(dims[axis].known()).and_then(|(a, b)| a.checked_add(b));
            joined = Some(match joined {
                None => dims.into(),
                Some(other) => unify_but(axis, &other, dims)?,
            });
        }
        let Some(mut dims) = joined else { return Ok(vec![Fact::unranked(dtype)]) };
        let axis = normalize_axis(self.axis, dims.len())?;
        if inputs.len() > 1 {
            dims[axis] = length.map_or(Dim::Unknown, Dim::Known);
        }
        Ok(folded(self, inputs, vec![Fact::tensor(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let first = outputs[0].take().map(|first| first.as_tensor().cloned()).transpose()?;
        let n_taken = usize::from(first.is_some());
        let parts = (n_taken..inputs.len()).map(|i| inputs.tensor(i));
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        let rank = first.as_ref().map(Tensor::shape).or(parts.first().map(TensorView::shape));
        let axis = normalize_axis(self.axis, rank.map_or(0, <[usize]>::len))?;
        match first {
            Some(first) if first.dtype().word_bytes().is_some() => {
                append(first, &parts, axis, &mut outputs[0])
            }
            Some(first) => {
                parts.insert(0, first.view());
                join(&parts, axis, &mut outputs[0])
            }
            None => join(&parts, axis, &mut outputs[0]),
        }
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { takes: &[(0, 0)], ..Behaviour::default() }
    }
}

/// The common dimensions of two tensors that may differ along `axis`.
fn unify_but(axis: usize, a: &[Dim], b: &[Dim]) -> Result<Dims, OpError> {
    let pair = |(i, (a, b)): (usize, (&Dim, &Dim))| {
        if i == axis { Some(Dim::Unknown) } else { a.unify(b) }
    };
    let unified: Option<Dims> = a.iter().zip(b).enumerate().map(pair).collect();
    let known = |dims: &[Dim]| dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    unified.filter(|_| a.len() == b.len()).ok_or_else(|| OpError::Shapes {
        what: "concatenation",
        left: known(a),
        right: known(b),
    })
}

/// Writes the tensors, concatenated along `axis`.
///
/// # Errors
/// If there is none, or types or other dimensions differ.
pub(crate) fn join(
    parts: &[TensorView<'_>],
    axis: usize,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    let first = parts.first().ok_or(OpError::InputCount { expected: "1 or more", found: 0 })?;
    let mut shape = Shape::from_slice(first.shape());
    shape[axis] = length(&shape, parts, axis)?;
    let y = output.tensor(first.dtype(), &shape)?;
    write(parts, axis, 0, y)
}

/// Appends the tensors to the first one, in its memory if that has room.
fn append(
    first: Tensor,
    parts: &[TensorView<'_>],
    axis: usize,
    output: &mut Output<'_>,
) -> Result<(), OpError> {
    let start = first.shape()[axis];
    let added = length(first.shape(), parts, axis)?;
    if let Some(part) = parts.iter().find(|part| part.dtype() != first.dtype()) {
        let (expected, found) = (first.dtype(), part.dtype());
        return Err(TensorError::DType { expected, found }.into());
    }
    let mut joined = first.extended(axis, added, output.memory())?;
    write(parts, axis, start, joined.view_mut())?;
    Ok(output.set(joined.into())?)
}

/// The total length of tensors along `axis`; their other dimensions are those of `shape`.
fn length(shape: &[usize], parts: &[TensorView<'_>], axis: usize) -> Result<usize, OpError> {
    let mut length = 0_usize;
    for part in parts {
        let fits = |(i, (a, b)): (usize, (&usize, &usize))| i == axis || a == b;
        let rank = part.shape().len();
        if rank != shape.len() || !part.shape().iter().zip(shape).enumerate().all(fits) {
            let (left, right) = (shape.to_vec(), part.shape().to_vec());
            return Err(OpError::Shapes { what: "concatenation", left, right });
        }
        length = length.checked_add(part.shape()[axis]).ok_or(OpError::TooLarge)?;
    }
    Ok(length)
}

/// Writes the tensors, concatenated along `axis`, from `start` on.
fn write(
    parts: &[TensorView<'_>],
    axis: usize,
    start: usize,
    mut y: TensorViewMut<'_>,
) -> Result<(), OpError> {
    let mut to = Strided::row_major(y.shape());
    let stride = row_major_strides(y.shape())[axis];
    to.offset = start.wrapping_mul(stride);
    for part in parts {
        let from = Strided::row_major(part.shape());
        strided::copy(part.shape(), *part, &from, y.reborrow(), &to)?;
        to.offset = to.offset.wrapping_add(part.shape()[axis].wrapping_mul(stride));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use super::*;
    use crate::case::{Case, tensor};

    fn concat(axis: i64, inputs: &[Tensor]) -> Result<Tensor, String> {
        Case::new("Concat", 13).attr("axis", Attr::Int(axis)).tensor(inputs)
    }

    #[test]
    fn parts_follow_each_other_along_the_axis() {
        let a = tensor(&[2, 2], &[1_i8, 2, 3, 4]);
        let b = tensor(&[2, 1], &[5_i8, 6]);
        let c = tensor::<i8>(&[2, 0], &[]);
        let joined = tensor(&[2, 3], &[1_i8, 2, 5, 3, 4, 6]);
        for axis in [1, -1] {
            assert_eq!(concat(axis, &[a.clone(), c.clone(), b.clone()]), Ok(joined.clone()));
        }
        let rows = tensor(&[4, 2], &[1_i8, 2, 3, 4, 1, 2, 3, 4]);
        assert_eq!(concat(0, &[a.clone(), a.clone()]), Ok(rows));
        assert_eq!(concat(0, std::slice::from_ref(&a)), Ok(a.clone()));
        assert!(concat(0, &[a.clone(), b]).is_err());
        assert!(concat(2, std::slice::from_ref(&a)).is_err());
        assert!(concat(0, &[a, tensor(&[1, 2], &[0_u8, 0])]).is_err());
        assert!(concat(0, &[Tensor::scalar(1_i8)]).is_err());
    }

    #[test]
    fn packed_elements_and_strings_join_too() {
        let nibbles =
            |n, bytes: Vec<u8>| Tensor::from_bytes(DType::U4, &[n], bytes.into()).unwrap();
        let joined = concat(0, &[nibbles(3, vec![0x21, 0x03]), nibbles(2, vec![0x54])]);
        assert_eq!(joined, Ok(nibbles(5, vec![0x21, 0x43, 0x05])));
        let words = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Tensor::from_strings(&[words.len()], words).unwrap()
        };
        assert_eq!(concat(0, &[words(&["a"]), words(&["b", ""])]), Ok(words(&["a", "b", ""])));
    }

    #[test]
    fn an_unknown_part_leaves_the_other_dimensions_known() {
        let n = Dim::Symbol("n".into());
        let a = Fact::tensor(DType::F32, [n.clone(), Dim::Known(3)]);
        let b = Fact::unranked(DType::F32);
        let facts = Concat { axis: 1 }.infer(&Facts::new(&[Some(&a), Some(&b)])).unwrap();
        assert_eq!(facts, [Fact::tensor(DType::F32, [n, Dim::Unknown])]);
    }
}
