//! MatMulInteger16: `y = a · b` of 16-bit integers in 32 bits.

use std::sync::Arc;

use ort_graph::{Fact, Facts, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView, collected, with_dtype};

use crate::accumulate::Accumulate;
use crate::elementwise::{only, unsupported};
use crate::infer::{known_dim, matmul_dims, product_flops};
use crate::ops::matmul::Product;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "MatMulInteger16",
    versions: (1, 1),
    types: is_short,
    build: |_| Ok(Arc::new(MatMulInteger16)),
}];

/// MatMulInteger16: a matrix product of int16 or uint16 operands, wrapping in int32, or in uint32
/// if both are uint16.
///
/// Source: com.microsoft, MatMulInteger16-1 (ONNX Runtime 1.31, which has int16 only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulInteger16;

impl Operator for MatMulInteger16 {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = result(inputs.dtype(0, is_short)?, inputs.dtype(1, is_short)?);
        match (inputs.fact(0)?.dims(), inputs.fact(1)?.dims()) {
            (Some(a), Some(b)) => Ok(vec![Fact::tensor(dtype, matmul_dims(a, b)?)]),
            _ => Ok(vec![Fact::unranked(dtype)]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let product = Product::new(a.shape(), b.shape())?;
        let sums = product.compute(&widened(0, a)?, &widened(1, b)?)?;
        let dtype = result(a.dtype(), b.dtype());
        let y = only(outputs)?.tensor(dtype, &product.shape)?;
        with_dtype!(dtype, [i32, u32], T => {
            let y = y.into_slice::<T>()?.iter_mut();
            y.zip(sums).for_each(|(y, sum)| *y = T::narrow(sum));
            Ok(())
        }, else => Err(unsupported(0, dtype)))
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let rank = inputs.get(0).and_then(Fact::rank).unwrap_or(0);
        product_flops(known_dim(inputs, 0, rank.wrapping_sub(1)), outputs.first())
    }
}

const fn is_short(dtype: DType) -> bool {
    matches!(dtype, DType::I16 | DType::U16)
}

const fn result(a: DType, b: DType) -> DType {
    match (a, b) {
        (DType::U16, DType::U16) => DType::U32,
        _ => DType::I32,
    }
}

fn widened(index: usize, x: TensorView<'_>) -> Result<Vec<i64>, OpError> {
    with_dtype!(x.dtype(), [i16, u16],
        T => Ok(collected(x.as_slice::<T>()?.iter().map(|x| x.widen()))?),
        else => Err(unsupported(index, x.dtype())))
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, tensor};

    #[test]
    fn sums_wrap_in_the_type_of_the_result() {
        let case = Case::new("MatMulInteger16", 1).domain("com.microsoft");
        let least = tensor(&[1, 2], &[i16::MIN, i16::MIN]);
        let column = tensor(&[2, 1], &[i16::MIN, i16::MIN]);
        assert_eq!(case.tensor(&[least.clone(), column]), Ok(tensor(&[1, 1], &[i32::MIN])));
        let unsigned = tensor(&[2, 1], &[u16::MAX, 1]);
        let y = case.tensor(&[least, unsigned.clone()]);
        assert_eq!(y, Ok(tensor(&[1, 1], &[i32::MIN])));
        let row = tensor(&[1, 2], &[u16::MAX, 0]);
        assert_eq!(case.tensor(&[row, unsigned]), Ok(tensor(&[1, 1], &[0xFFFE_0001_u32])));
        let none = [tensor::<u16>(&[1, 0], &[]), tensor::<i16>(&[0, 1], &[])];
        assert_eq!(case.tensor(&none), Ok(tensor(&[1, 1], &[0_i32])));
        assert!(case.tensor(&[tensor(&[1], &[1_i8]), tensor(&[1], &[1_i8])]).is_err());
    }
}
