//! MatMulIntegerToFloat and DynamicQuantizeMatMul: products of quantized matrices, in floats.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, TensorView, bf16, f16, filled, with_dtype};

use crate::elementwise::{only, unsupported};
use crate::floats;
use crate::infer::{expect_dims, known_dim, matmul_dims, product_flops};
use crate::ops::matmul::Product;
use crate::quantized::{Along, Scheme, centered, expect_zero_point, scales, stretched};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("DynamicQuantizeMatMul", is_result, |_| Ok(Arc::new(DynamicQuantizeMatMul))),
    def("MatMulIntegerToFloat", DType::is_byte, |_| Ok(Arc::new(MatMulIntegerToFloat))),
];

const fn def(
    name: &'static str,
    types: fn(DType) -> bool,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "com.microsoft", name, versions: (1, 1), types, build }
}

/// MatMulIntegerToFloat: `y = Σ (a − a_zero)·(b − b_zero) · (a_scale·b_scale) + bias`. Inputs: `a`,
/// `b` (int8 or uint8), `a_scale`, `b_scale` (float, float16 or bfloat16, the type of `y`), `a_zero`,
/// `b_zero`, `bias: [N]`, of which the last three are optional. Several scales or zero points belong to the rows of
/// `a` and the columns of `b`. Sums are exact, the rest is float32.
///
/// Source: com.microsoft, MatMulIntegerToFloat-1 (ONNX Runtime 1.31, which also multiplies the bias by `b_scale`,
/// where that is a vector and `b` a batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulIntegerToFloat;

/// DynamicQuantizeMatMul: as [`MatMulIntegerToFloat`] with `a` quantized to uint8 as
/// DynamicQuantizeLinear does, the whole tensor with one scale. Inputs: `a` (float, float16 or
/// bfloat16), `b` (int8 or uint8), `b_scale`, `b_zero`, `bias`, of which the last two are optional.
///
/// Source: com.microsoft, DynamicQuantizeMatMul-1 (ONNX Runtime 1.31, which leaves `y` unwritten
/// where there are no terms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicQuantizeMatMul;

impl Operator for MatMulIntegerToFloat {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        for index in 0..2 {
            inputs.dtype(index, DType::is_byte)?;
            expect_zero_point(inputs, index + 4, index)?;
        }
        let dtype = inputs.dtype(2, is_result)?;
        inputs.fact(3)?;
        inputs.expect_dtype(3, dtype)?;
        product_fact(inputs, 6, dtype)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let product = Product::new(a.shape(), b.shape())?;
        let a = centered(a, inputs.optional_tensor(4)?, Along::Rows, [0, 4])?;
        let b = centered(b, inputs.optional_tensor(5)?, Along::Columns, [1, 5])?;
        let sums = product.compute_exact(&a, &b)?;
        let scale = inputs.tensor(2)?;
        let matrices = product.matrices();
        let factors = stretched(&scales(2, scale)?, scale.shape(), Along::Rows, &matrices)?;
        let result = Scaled { product: &product, sums, factors };
        result.write(inputs.tensor(3)?, inputs.optional_tensor(6)?, only(outputs)?)
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        flops(inputs, outputs)
    }
}

impl Operator for DynamicQuantizeMatMul {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_result)?;
        inputs.dtype(1, DType::is_byte)?;
        inputs.fact(2)?;
        inputs.expect_dtype(2, dtype)?;
        expect_zero_point(inputs, 3, 1)?;
        product_fact(inputs, 4, dtype)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let product = Product::new(a.shape(), b.shape())?;
        let values = floats::read_as::<f32>(a)?;
        let scheme = Scheme::of_values(&values)?;
        let b = centered(b, inputs.optional_tensor(3)?, Along::Columns, [1, 3])?;
        let sums = product.compute_exact(&scheme.centered(&values)?, &b)?;
        let factors = filled(scheme.scale, sums.len())?;
        let result = Scaled { product: &product, sums, factors };
        result.write(inputs.tensor(2)?, inputs.optional_tensor(4)?, only(outputs)?)
    }

    fn flops(&self, inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        flops(inputs, outputs)
    }
}

/// Sums, and the scale of `a` for each of them.
struct Scaled<'a> {
    product: &'a Product,
    sums: Vec<i64>,
    factors: Vec<f32>,
}

impl Scaled<'_> {
    /// Writes `sum · (a_scale·b_scale) + bias` in the type of `b_scale`.
    fn write(
        self,
        b_scale: TensorView<'_>,
        bias: Option<TensorView<'_>>,
        output: &mut Output<'_>,
    ) -> Result<(), OpError> {
        let shape = &self.product.shape;
        let stretched = |x: TensorView<'_>| {
            stretched(&floats::read_as::<f32>(x)?, x.shape(), Along::Columns, shape)
        };
        let (b_scales, bias) = (stretched(b_scale)?, bias.map(stretched).transpose()?);
        let value = |i: usize| {
            let scaled = self.sums[i] as f32 * (self.factors[i] * b_scales[i]);
            bias.as_ref().map_or(scaled, |bias| scaled + bias[i])
        };
        let y = output.tensor(b_scale.dtype(), shape)?;
        with_dtype!(b_scale.dtype(), [f32, f16, bf16], T => {
            for (i, y) in y.into_slice::<T>()?.iter_mut().enumerate() {
                *y = <T as Number>::from_f64(f64::from(value(i)));
            }
            Ok(())
        }, else => Err(unsupported(2, b_scale.dtype())))
    }
}

const fn is_result(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// The fact of the product of inputs 0 and 1, with a bias at `bias`.
fn product_fact(inputs: &Facts<'_>, bias: usize, dtype: DType) -> Result<Vec<Fact>, OpError> {
    inputs.expect_dtype(bias, dtype)?;
    let (Some(a), Some(b)) = (inputs.fact(0)?.dims(), inputs.fact(1)?.dims()) else {
        return Ok(vec![Fact::unranked(dtype)]);
    };
    if let [.., n] = b {
        expect_dims(inputs, bias, std::slice::from_ref(n))?;
    }
    Ok(vec![Fact::tensor(dtype, matmul_dims(a, b)?)])
}

fn flops(inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
    let rank = inputs.get(0).and_then(Fact::rank).unwrap_or(0);
    product_flops(known_dim(inputs, 0, rank.wrapping_sub(1)), outputs.first())
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, tensor};

    fn case(name: &'static str) -> Case {
        Case::new(name, 1).domain("com.microsoft")
    }

    #[test]
    fn rows_and_columns_have_their_own_scales() {
        let inputs = [
            tensor(&[2, 2], &[3_u8, 2, 1, 0]),
            tensor(&[2, 2], &[1_i8, 2, 3, 4]),
            tensor(&[2, 1], &[1_f32, 10.0]),
            tensor(&[2], &[0.5_f32, 1.0]),
            Tensor::scalar(1_u8),
            tensor(&[2], &[0_i8, 2]),
            tensor(&[2], &[100_f32, 200.0]),
        ];
        // [[2, 1], [0, −1]] · [[1, 0], [3, 2]] = [[5, 2], [−3, −2]].
        let y = case("MatMulIntegerToFloat").tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[2, 2], &[102.5_f32, 202.0, 85.0, 180.0])));
    }

    #[test]
    fn the_scale_has_the_type_of_the_result() {
        let half = |x: f32| f16::from_f32(x);
        let quantized = || tensor(&[1, 1], &[3_i8]);
        let scale = || Tensor::scalar(half(0.5));
        let y = case("MatMulIntegerToFloat").tensor(&[quantized(), quantized(), scale(), scale()]);
        assert_eq!(y, Ok(tensor(&[1, 1], &[half(2.25)])));
        let mixed = [quantized(), quantized(), scale(), Tensor::scalar(1_f32)];
        assert!(case("MatMulIntegerToFloat").tensor(&mixed).is_err());
    }

    #[test]
    fn the_left_operand_is_quantized_by_its_own_range() {
        // The scale is 1, the zero point 55.
        let a = tensor(&[2, 2], &[-55_f32, 200.0, 1.5, 0.0]);
        let b = tensor(&[2, 1], &[2_u8, 1]);
        let scale = Tensor::scalar(0.5_f32);
        let y = case("DynamicQuantizeMatMul").tensor(&[a.clone(), b.clone(), scale.clone()]);
        assert_eq!(y, Ok(tensor(&[2, 1], &[45_f32, 2.0])));
        let zero = Tensor::scalar(1_u8);
        let all = [a, b, scale, zero, tensor(&[1], &[1_f32])];
        let y = case("DynamicQuantizeMatMul").tensor(&all);
        assert_eq!(y, Ok(tensor(&[2, 1], &[-26.5_f32, 2.0])));
    }

    #[test]
    fn without_terms_the_bias_is_left() {
        let (a, b) = (tensor::<f32>(&[2, 0], &[]), tensor::<i8>(&[0, 1], &[]));
        let inputs = [a, b, Tensor::scalar(1_f32), Tensor::scalar(0_i8), tensor(&[1], &[3_f32])];
        let y = case("DynamicQuantizeMatMul").tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[2, 1], &[3_f32, 3.0])));
        let y = case("DynamicQuantizeMatMul").tensor(&inputs[..3]);
        assert_eq!(y, Ok(tensor(&[2, 1], &[0_f32, 0.0])));
    }
}
