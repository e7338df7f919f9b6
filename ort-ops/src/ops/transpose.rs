//! Transpose: `y[i₀, i₁, …] = x[i at perm⁻¹]`, any element type.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, row_major_strides};

use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Transpose",
    versions: (1, 25),
    types: DType::is_any,
    build: Transpose::build,
}];

/// Transpose: dimension `i` of the output is dimension `perm[i]` of the input; without `perm` the
/// dimensions are reversed.
///
/// Source: ONNX operator set, Transpose-25.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transpose {
    /// The permutation, if it is given.
    pub perm: Option<Vec<usize>>,
}

impl Transpose {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let Some(perm) = spec.ints("perm")? else { return Ok(Arc::new(Self { perm: None })) };
        let wrong = || OpError::AttributeValue { name: "perm", found: format!("{perm:?}") };
        let axes: Option<Vec<usize>> = perm.iter().map(|&axis| axis.try_into().ok()).collect();
        let axes = axes.ok_or_else(wrong)?;
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..axes.len()) {
            return Err(wrong());
        }
        Ok(Arc::new(Self { perm: Some(axes) }))
    }

    /// The permutation for a tensor of this rank.
    ///
    /// # Errors
    /// If the attribute is for another rank.
    pub fn perm(&self, rank: usize) -> Result<Shape, OpError> {
        match &self.perm {
            None => Ok((0..rank).rev().collect()),
            Some(perm) if perm.len() == rank => Ok(perm.iter().copied().collect()),
            Some(_) => {
                Err(OpError::InputRank { index: 0, expected: "that of `perm`", found: rank })
            }
        }
    }
}

impl Operator for Transpose {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let Some(dims) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let perm = self.perm(dims.len())?;
        let permuted: Dims = perm.iter().map(|&axis| dims[axis].clone()).collect();
        Ok(vec![Fact::tensor(dtype, permuted)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let perm = self.perm(x.shape().len())?;
        let strides = row_major_strides(x.shape());
        let shape: Shape = perm.iter().map(|&axis| x.shape()[axis]).collect();
        let strides: Shape = perm.iter().map(|&axis| strides[axis]).collect();
        let (from, to) = (Strided::new(0, &strides), Strided::row_major(&shape));
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        Ok(strided::copy(&shape, x, &from, y, &to)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::{Case, tensor};

    #[test]
    fn dimensions_are_reversed_unless_perm_says_otherwise() {
        let x = tensor(&[2, 3], &[1_i16, 2, 3, 4, 5, 6]);
        let y = tensor(&[3, 2], &[1_i16, 4, 2, 5, 3, 6]);
        assert_eq!(Case::new("Transpose", 13).tensor(std::slice::from_ref(&x)), Ok(y));
        let same = Case::new("Transpose", 13).attr("perm", Attr::Ints(vec![0, 1]));
        assert_eq!(same.tensor(std::slice::from_ref(&x)), Ok(x));
    }

    #[test]
    fn every_width_moves_and_empty_and_scalar_tensors_do_too() {
        for &dtype in DType::ALL {
            for shape in [&[][..], &[0, 2], &[2, 1, 3]] {
                let x = Tensor::zeros(dtype, shape).unwrap();
                let reversed: Vec<_> = shape.iter().copied().rev().collect();
                let y = Tensor::zeros(dtype, &reversed).unwrap();
                assert_eq!(Case::new("Transpose", 25).tensor(&[x]), Ok(y), "{dtype}{shape:?}");
            }
        }
    }

    #[test]
    fn an_invalid_permutation_is_rejected() {
        let case = Case::new("Transpose", 13).attr("perm", Attr::Ints(vec![0, 0]));
        let error = case.tensor(&[tensor(&[1, 1], &[1_f32])]).unwrap_err();
        assert_eq!(error, "attribute `perm` has the unsupported value [0, 0]");
    }
}
