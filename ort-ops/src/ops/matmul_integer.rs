//! MatMulInteger: `y = (a − a_zero_point) · (b − b_zero_point)` in int32.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::accumulate::Accumulate;
use crate::infer::{known_dim, matmul_dims, product_flops};
use crate::ops::matmul::Product;
use crate::quantized::{Along, centered, expect_zero_point};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "MatMulInteger",
    versions: (10, 10),
    types: DType::is_byte,
    build: MatMulInteger::build,
}];

/// MatMulInteger: a matrix product of int8 or uint8 operands, wrapping in int32. A zero point is
/// absent (0), one value, one per row of `a` or column of `b`, or broadcasts to its operand.
///
/// Source: ONNX operator set, MatMulInteger-10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulInteger;

impl MatMulInteger {
    fn build(_spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self))
    }
}

impl Operator for MatMulInteger {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in 0..2 {
            inputs.dtype(index, DType::is_byte)?;
            expect_zero_point(inputs, index + 2, index)?;
        }
        match (inputs.fact(0)?.dims(), inputs.fact(1)?.dims()) {
            (Some(a), Some(b)) => Ok(vec![Fact::tensor(DType::I32, matmul_dims(a, b)?)]),
            _ => Ok(vec![Fact::unranked(DType::I32)]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let product = Product::new(a.shape(), b.shape())?;
        let a = centered(a, inputs.optional_tensor(2)?, Along::Rows, [0, 2])?;
        let b = centered(b, inputs.optional_tensor(3)?, Along::Columns, [1, 3])?;
        let sums = product.compute_exact(&a, &b)?;
        let y = outputs[0].tensor(DType::I32, &product.shape)?.into_slice::<i32>()?;
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = i32::narrow(sum);
        }
        Ok(())
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let rank = inputs.get(0).and_then(Fact::rank).unwrap_or(0);
        product_flops(known_dim(inputs, 0, rank.wrapping_sub(1)), outputs.first())
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};

    fn product() -> Case {
        Case::new("MatMulInteger", 10)
    }

    #[test]
    fn zero_points_are_for_all_or_for_rows_and_columns() {
        let a = || tensor(&[2, 2], &[1_u8, 2, 3, 4]);
        let b = || tensor(&[2, 2], &[1_i8, 0, 0, 1]);
        let y = product().tensor(&[a(), b()]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[1_i32, 2, 3, 4])));
        let y = product().tensor(&[a(), b(), tensor(&[], &[2_u8])]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[-1_i32, 0, 1, 2])));
        let columns = tensor(&[2], &[1_i8, 0]);
        let y = product().tensor(&[a(), b(), tensor(&[2], &[1_u8, 3]), columns]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[-1_i32, 1, -1, 1])));
    }

    #[test]
    fn other_types_are_refused_and_no_terms_give_zero() {
        let wide = tensor(&[1, 1], &[1_i32]);
        assert!(product().tensor(&[wide.clone(), wide]).is_err());
        let a = tensor::<u8>(&[1, 0], &[]);
        assert_eq!(
            product().tensor(&[a, tensor::<u8>(&[0, 1], &[])]),
            Ok(tensor(&[1, 1], &[0_i32]))
        );
    }
}
