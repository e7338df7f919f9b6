//! Tile: a tensor repeated along its axes.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, TensorView, row_major_strides};

use crate::infer::{
    folded, int_values, known_dims, known_shape, ranked_fact, tensor_fact, vector_len,
};
use crate::strided::{Strided, StridedView};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Tile",
    versions: (6, 13),
    types: DType::is_any,
    build: Tile::build,
}];

/// Tile: `y[i…] = x[i mod n…]`, where dimension `n` of `x` becomes `n·repeats` (input 1).
///
/// Source: ONNX operator set, Tile-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile;

impl Tile {
    fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Tile))
    }

    fn dims(x: &[Dim], repeats: &[i64]) -> Result<Dims, OpError> {
        if x.len() != repeats.len() {
            let what = "there are not as many repeats as dimensions";
            return Err(OpError::InputValue { index: 1, what });
        }
        let repeated = |(dim, &n): (&Dim, &i64)| match (dim, usize::try_from(n)) {
            (_, Err(_)) => Err(OpError::InputValue { index: 1, what: "a repeat is below zero" }),
            (_, Ok(0)) => Ok(Dim::Known(0)),
            (dim, Ok(1)) => Ok(dim.clone()),
            (dim, Ok(n)) => Ok(dim.map(|dim| dim.checked_mul(n))),
        };
        x.iter().zip(repeats).map(repeated).collect()
    }

    /// The result for an `x` of this shape and the values of input 1: each axis is two, the repeats and its own.
    ///
    /// # Errors
    /// If there are not as many repeats as dimensions, or one is below zero.
    pub fn view(x: &[usize], repeats: TensorView<'_>) -> Result<StridedView, OpError> {
        let shape = known_shape(&Self::dims(&known_dims(x), &int_values(repeats)?)?)?;
        let own = row_major_strides(x);
        let (mut axes, mut strides) = (Shape::new(), Shape::new());
        for ((&n, &repeated), &stride) in x.iter().zip(&shape).zip(&own) {
            axes.extend([repeated.checked_div(n).unwrap_or(0), n]);
            strides.extend([0, stride]);
        }
        Ok(StridedView { shape, axes, from: Strided::new(0, &strides) })
    }
}

impl Operator for Tile {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let (x, repeats) = (inputs.fact(0)?.dims(), inputs.fact(1)?.ints());
        inputs.expect_dtype(1, DType::I64)?;
        let n = vector_len(inputs, 1)?;
        let Some(repeats) = repeats else {
            return Ok(vec![ranked_fact(dtype, x.map(<[Dim]>::len).or(n))]);
        };
        let dims = x.map(|x| Self::dims(x, &repeats)).transpose()?;
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
    fn every_axis_repeats() {
        let x = tensor(&[2, 2], &[1_i8, 2, 3, 4]);
        let cases: [(&[i64], Option<(&[usize], &[i8])>); 7] = [
            (&[1, 2], Some((&[2, 4], &[1, 2, 1, 2, 3, 4, 3, 4]))),
            (&[2, 1], Some((&[4, 2], &[1, 2, 3, 4, 1, 2, 3, 4]))),
            (&[1, 0], Some((&[2, 0], &[]))),
            (&[1], None),
            (&[1 << 40, 1 << 40], None),
            (&[1, -1], None),
            (&[i64::MAX, i64::MAX], None),
        ];
        for (repeats, expected) in cases {
            let repeats_input = tensor(&[repeats.len()], repeats);
            let y = Case::new("Tile", 13).tensor(&[x.clone(), repeats_input]);
            assert_eq!(y.ok(), expected.map(|(shape, data)| tensor(shape, data)), "{repeats:?}");
        }
        let scalar =
            Case::new("Tile", 6).tensor(&[Tensor::scalar(1_f32), tensor::<i64>(&[0], &[])]);
        assert_eq!(scalar, Ok(Tensor::scalar(1_f32)));
    }
}
