//! Expand: a tensor broadcast to a shape.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView, broadcast_strides};

use crate::infer::{
    broadcast_dims, folded, int_values, known_dims, known_shape, ranked_fact, sizes, tensor_fact,
    vector_len,
};
use crate::strided::{Strided, StridedView};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Expand",
    versions: (8, 13),
    types: DType::is_any,
    build: Expand::build,
}];

/// Expand: the input broadcast with the shape in input 1. Either may broadcast the other, so the output can be larger
/// than that shape.
///
/// Source: ONNX operator set, Expand-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expand;

impl Expand {
    fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Expand))
    }

    fn dims(x: &[Dim], shape: &[i64]) -> Result<Dims, OpError> {
        broadcast_dims(x, &known_dims(&sizes(1, shape)?))
    }

    /// The result for an `x` of a shape and the values of input 1.
    ///
    /// # Errors
    /// If the two do not fit, or input 1 is not a vector of sizes.
    pub fn view(x: &[usize], shape: TensorView<'_>) -> Result<StridedView, OpError> {
        let shape = known_shape(&Self::dims(&known_dims(x), &int_values(shape)?)?)?;
        let from = Strided::new(0, &broadcast_strides(x, &shape));
        Ok(StridedView { axes: shape.clone(), shape, from })
    }
}

impl Operator for Expand {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let (x, shape) = (inputs.fact(0)?.dims(), inputs.fact(1)?.ints());
        inputs.expect_dtype(1, DType::I64)?;
        let n = vector_len(inputs, 1)?;
        let Some(shape) = shape else {
            return Ok(vec![ranked_fact(dtype, x.zip(n).map(|(x, n)| x.len().max(n)))]);
        };
        let dims = x.map(|x| Self::dims(x, &shape)).transpose()?;
        Ok(folded(self, inputs, vec![tensor_fact(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        Ok(Self::view(x.shape(), inputs.tensor(1)?)?.write(x, &mut outputs[0])?)
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn either_side_stretches() {
        let x = tensor(&[2, 1], &[1_u64, 2]);
        let cases: [(&[i64], Option<(&[usize], &[u64])>); 7] = [
            (&[2, 3], Some((&[2, 3], &[1, 1, 1, 2, 2, 2]))),
            (&[2], Some((&[2, 2], &[1, 1, 2, 2]))),
            (&[2, 1, 1], Some((&[2, 2, 1], &[1, 2, 1, 2]))),
            (&[], Some((&[2, 1], &[1, 2]))),
            (&[2, 0], Some((&[2, 0], &[]))),
            (&[3, 1], None),
            (&[-1, 1], None),
        ];
        for (shape, expected) in cases {
            let y = Case::new("Expand", 13).tensor(&[x.clone(), tensor(&[shape.len()], shape)]);
            assert_eq!(y.ok(), expected.map(|(shape, data)| tensor(shape, data)), "{shape:?}");
        }
        let huge = Case::new("Expand", 8).tensor(&[x, tensor(&[3], &[i64::MAX, 1, i64::MAX])]);
        assert!(huge.is_err());
        let y = Case::new("Expand", 8).tensor(&[Tensor::scalar(3_u8), tensor(&[1], &[2_i64])]);
        assert_eq!(y, Ok(tensor(&[2], &[3_u8, 3])));
    }
}
