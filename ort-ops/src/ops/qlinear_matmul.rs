//! QLinearMatMul: a matrix product of quantized operands, quantized again.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, TensorView, collected};

use crate::infer::{known_dim, matmul_dims, product_flops};
use crate::ops::matmul::Product;
use crate::quantized::{
    Along, QuantizedElement, centered, expect_zero_point, is_quantized, scales, store, stretched,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "QLinearMatMul",
    versions: (10, 21),
    types: is_quantized,
    build: QLinearMatMul::build,
}];

/// QLinearMatMul: `y = saturate(round(a'·b' · a_scale·b_scale/y_scale) + y_zero_point)`, where `a'`
/// and `b'` are quantized values minus zero points. Inputs: `a`, its scale and zero point, the same of `b`,
/// scale and zero point of `y`; quantized values are int8, uint8 or 8-bit floats, scales are float, float16 or
/// bfloat16. Several scales or zero points belong to the rows of `a` and `y` and the columns of `b`.
/// Sums are exact; scaling is float32, rounding half to even, as in ONNX Runtime.
///
/// Source: ONNX operator set, QLinearMatMul-21.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearMatMul;

impl QLinearMatMul {
    fn build(_spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self))
    }
}

impl Operator for QLinearMatMul {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in [0, 3] {
            inputs.dtype(index, is_quantized)?;
            expect_zero_point(inputs, index + 2, index)?;
        }
        for index in [1, 4, 6] {
            let is_scale = |dtype| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
            inputs.dtype(index, is_scale)?;
        }
        let dtype = inputs.dtype(7, is_quantized)?;
        match (inputs.fact(0)?.dims(), inputs.fact(3)?.dims()) {
            (Some(a), Some(b)) => Ok(vec![Fact::tensor(dtype, matmul_dims(a, b)?)]),
            _ => Ok(vec![Fact::unranked(dtype)]),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let product = Product::new(a.shape(), b.shape())?;
        let zero_points = [inputs.optional_tensor(2)?, inputs.optional_tensor(5)?];
        let sums = sums(&product, [a, b], zero_points)?;
        let matrices = product.matrices();
        let scale = |index: usize, along| {
            let x = inputs.tensor(index)?;
            stretched(&scales(index, x)?, x.shape(), along, &matrices)
        };
        let (a_scale, b_scale) = (scale(1, Along::Rows)?, scale(4, Along::Columns)?);
        let y_scale = scale(6, Along::Rows)?;
        let zero_point = inputs.tensor(7)?;
        let (dtype, given) = (zero_point.dtype(), zero_point.shape());
        let zero_point = stretched(&f64::of(7, zero_point)?, given, Along::Rows, &matrices)?;
        let value = |(i, sum): (usize, f64)| {
            (f32::from_f64(sum) * (a_scale[i] * b_scale[i] / y_scale[i]), zero_point[i])
        };
        let values = collected(sums.into_iter().enumerate().map(value))?;
        store(&mut outputs[0], dtype, &product.shape, &values)
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        let rank = inputs.get(0).and_then(Fact::rank).unwrap_or(0);
        product_flops(known_dim(inputs, 0, rank.wrapping_sub(1)), outputs.first())
    }
}

/// The sums of `a'·b'`.
fn sums(
    product: &Product,
    [a, b]: [TensorView<'_>; 2],
    [a_zero, b_zero]: [Option<TensorView<'_>>; 2],
) -> Result<Vec<f64>, OpError> {
    if a.dtype().is_byte() && b.dtype().is_byte() {
        let a = centered(a, a_zero, Along::Rows, [0, 2])?;
        let b = centered(b, b_zero, Along::Columns, [3, 5])?;
        let sums = product.compute_exact(&a, &b)?;
        return Ok(collected(sums.into_iter().map(Number::to_f64))?);
    }
    let a = centered::<f64>(a, a_zero, Along::Rows, [0, 2])?;
    let b = centered::<f64>(b, b_zero, Along::Columns, [3, 5])?;
    product.compute(&a, &b)
}

#[cfg(test)]
mod tests {
    use ort_tensor::{DType, F8E4M3Fn, Tensor, f16};

    use crate::case::{Case, tensor};

    fn scalar<T: ort_tensor::Element>(x: T) -> Tensor {
        Tensor::scalar(x)
    }

    #[test]
    fn results_are_rounded_half_to_even_and_saturate() {
        let inputs = [
            tensor(&[1, 2], &[3_u8, 255]),
            scalar(0.5_f32),
            scalar(1_u8),
            tensor(&[2, 3], &[1_i8, 3, 127, 0, 0, 127]),
            tensor(&[3], &[1_f32, 0.5, 1.0]),
            tensor(&[3], &[0_i8, 0, 0]),
            scalar(2_f32),
            scalar(-1_i8),
        ];
        // 2·1/4 = 0.5, 2·3/8 = 0.75 and a value far out of range.
        let y = Case::new("QLinearMatMul", 21).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[1, 3], &[-1_i8, 0, 127])));
    }

    #[test]
    fn eight_bit_floats_are_not_rounded_to_whole_numbers() {
        let f8 = |x: f32| F8E4M3Fn::from_f32(x, true);
        let (scale, zero) = (scalar(f16::ONE), scalar(f8(0.0)));
        let x = tensor(&[1, 1], &[f8(1.5)]);
        let inputs = [&x, &scale, &zero, &x, &scale, &zero, &scale, &zero].map(Tensor::clone);
        let y = Case::new("QLinearMatMul", 21).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[1, 1], &[f8(2.25)])));
        assert_eq!(y.unwrap().dtype(), DType::F8E4M3Fn);
    }
}
