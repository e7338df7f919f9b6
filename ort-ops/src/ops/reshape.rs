//! Reshape: the same elements in another shape.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Behaviour, Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::{
    dims_product, expect_few, folded, int_values, known_dims, known_shape, ranked_fact,
    tensor_fact, vector_len,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Reshape",
    versions: (1, 25),
    types: DType::is_any,
    build: Reshape::build,
}];

/// Reshape: the elements of input 0, in row-major order, with the dimensions of input 1 (an attribute before version
/// 5). A 0 there copies the input's dimension at its position, a −1 is inferred from the number of elements.
///
/// Source: ONNX operator set, Reshape-25.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reshape {
    /// The dimensions, if they are an attribute.
    pub shape: Option<Vec<i64>>,
    /// Whether a 0 means an empty dimension instead of a copy.
    pub allow_zero: bool,
}

impl Reshape {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let shape = if spec.since_version < 5 {
            spec.ignore("consumed_inputs");
            let shape = spec.ints("shape")?;
            Some(shape.ok_or(OpError::MissingAttribute { name: "shape" })?.to_vec())
        } else {
            None
        };
        let allow_zero = spec.since_version >= 14 && spec.flag("allowzero", false)?;
        Ok(Arc::new(Self { shape, allow_zero }))
    }

    /// The dimensions of the output for an input of dimensions `x`, as far as they are known.
    fn dims(&self, x: Option<&[Dim]>, shape: &[i64]) -> Result<Dims, OpError> {
        expect_few(1, shape)?;
        let mut dims = Dims::new();
        let mut rest = None;
        for (i, &n) in shape.iter().enumerate() {
            dims.push(match (n, x) {
                (0, None) if !self.allow_zero => Dim::Unknown,
                (0, Some(x)) if !self.allow_zero => {
                    let wrong =
                        OpError::Axis { axis: i64::try_from(i).unwrap_or(-1), rank: x.len() };
                    x.get(i).cloned().ok_or(wrong)?
                }
                (-1, _) if rest.replace(i).is_none() => Dim::Known(1),
                (n, _) => Dim::Known(usize::try_from(n).map_err(|_| self.wrong_shape())?),
            });
        }
        match (rest, x) {
            (None, None) => {}
            (None, Some(x)) => match (dims_product(x), dims_product(&dims)) {
                (Dim::Known(a), Dim::Known(b)) if a != b => return Err(misfit(x, &dims)),
                _ => {}
            },
            (Some(rest), None) => dims[rest] = Dim::Unknown,
            (Some(rest), Some(x)) => dims[rest] = rest_of(x, &dims)?,
        }
        Ok(dims)
    }

    const fn wrong_shape(&self) -> OpError {
        let what = "a shape has dimensions from 0 up, and at most one -1";
        OpError::InputValue { index: 1, what }
    }
}

/// The dimension inferred from `dims` and the elements of `x`.
fn rest_of(x: &[Dim], dims: &[Dim]) -> Result<Dim, OpError> {
    // Symbols on both sides cancel out, and so do all known dimensions beside one symbol.
    let (mut x_rest, mut dims_rest): (Dims, Dims) = (x.into(), Dims::new());
    for dim in dims {
        match x_rest.iter().position(|other| other.known().is_none() && dim.equals(other)) {
            Some(same) => drop(x_rest.remove(same)),
            None => dims_rest.push(dim.clone()),
        }
    }
    let split = |dims: Dims| dims.into_iter().partition::<Dims, _>(|dim| dim.known().is_some());
    let ((x_known, x_symbols), (known, symbols)) = (split(x_rest), split(dims_rest));
    match (dims_product(&x_known), dims_product(&known), &x_symbols[..], &symbols[..]) {
        (Dim::Known(0), Dim::Known(1..), _, []) => Ok(Dim::Known(0)),
        (Dim::Known(a), Dim::Known(b), [], []) if b != 0 && a % b == 0 => Ok(Dim::Known(a / b)),
        (Dim::Known(_), Dim::Known(_), [], []) => Err(misfit(x, dims)),
        (a, b, [symbol], []) if a.equals(&b) => Ok(symbol.clone()),
        _ => Ok(Dim::Unknown),
    }
}

fn misfit(x: &[Dim], dims: &[Dim]) -> OpError {
    let known = |dims: &[Dim]| dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    OpError::Shapes { what: "reshaping", left: known(x), right: known(dims) }
}

impl Operator for Reshape {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let x = inputs.fact(0)?;
        let shape = match &self.shape {
            Some(shape) => Some(shape.clone()),
            None => {
                inputs.fact(1)?;
                inputs.expect_dtype(1, DType::I64)?;
                let rank = vector_len(inputs, 1)?;
                let shape = inputs.fact(1)?.ints();
                if shape.is_none() {
                    return Ok(vec![ranked_fact(dtype, rank)]);
                }
                shape
            }
        };
        let dims = shape.map(|shape| self.dims(x.dims(), &shape)).transpose()?;
        Ok(folded(self, inputs, vec![tensor_fact(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let shape = match &self.shape {
            Some(shape) => shape.clone(),
            None => int_values(inputs.tensor(1)?)?,
        };
        let shape = known_shape(&self.dims(Some(&known_dims(x.shape())), &shape)?)?;
        Ok(outputs[0].tensor(x.dtype(), &shape)?.copy_from(x)?)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_alias: true, ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn zero_copies_a_dimension_and_minus_one_takes_the_rest() {
        let cases: [(&[usize], &[i64], Option<&[usize]>); 11] = [
            (&[2, 3, 4], &[4, 2, 3], Some(&[4, 2, 3])),
            (&[2, 3, 4], &[2, 0, 1, -1], Some(&[2, 3, 1, 4])),
            (&[2, 3, 4], &[-1], Some(&[24])),
            (&[1], &[], Some(&[])),
            (&[], &[1, 1], Some(&[1, 1])),
            (&[0, 3], &[3, 0], None),
            (&[0, 3], &[0, 5], Some(&[0, 5])),
            (&[0, 3], &[0, -1], None),
            (&[2, 3], &[-1, -1], None),
            (&[2, 3], &[4, -1], None),
            (&[2, 3], &[-2, 3], None),
        ];
        for (x, shape, expected) in cases {
            let x = Tensor::zeros(DType::F16, x).unwrap();
            let y = Case::new("Reshape", 25).tensor(&[x, tensor(&[shape.len()], shape)]);
            assert_eq!(y.as_ref().ok().map(Tensor::shape), expected, "{shape:?}");
        }
    }

    #[test]
    fn allowzero_makes_an_empty_dimension() {
        let case = Case::new("Reshape", 14).attr("allowzero", Attr::Int(1));
        let x = Tensor::zeros(DType::String, &[0, 3]).unwrap();
        let y = case.tensor(&[x.clone(), tensor(&[3], &[3_i64, 4, 0])]);
        assert_eq!(y.unwrap().shape(), [3, 4, 0]);
        assert!(case.tensor(&[x, tensor(&[2], &[0_i64, -1])]).is_err());
    }

    #[test]
    fn the_shape_was_an_attribute_once() {
        let case = Case::new("Reshape", 1).attr("shape", Attr::Ints(vec![3, -1]));
        assert_eq!(
            case.tensor(&[tensor(&[2, 3], &[1_u8, 2, 3, 4, 5, 6])]),
            Ok(tensor(&[3, 2], &[1_u8, 2, 3, 4, 5, 6]))
        );
    }

    #[test]
    fn symbols_cancel_out() {
        let op = Reshape { shape: None, allow_zero: false };
        let n = || Dim::Symbol("n".into());
        let known = Dim::Known;
        let cases = [
            (vec![n(), known(3), known(4)], vec![0, -1], vec![n(), known(12)]),
            (vec![n(), known(3), known(4)], vec![-1, 12], vec![n(), known(12)]),
            (vec![n(), known(3), known(4)], vec![-1, 6], vec![Dim::Unknown, known(6)]),
            (vec![n(), n(), known(4)], vec![-1, 4], vec![Dim::Unknown, known(4)]),
            (vec![n(), known(0)], vec![4, -1], vec![known(4), known(0)]),
            (vec![known(1), n()], vec![-1], vec![n()]),
            (vec![Dim::Unknown, known(2)], vec![0, -1], vec![Dim::Unknown, Dim::Unknown]),
        ];
        for (x, shape, expected) in cases {
            assert_eq!(op.dims(Some(&x), &shape).unwrap().to_vec(), expected, "{x:?} {shape:?}");
        }
    }
}
