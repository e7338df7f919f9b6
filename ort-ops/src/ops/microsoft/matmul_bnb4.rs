//! MatMulBnb4: a matrix product with weights of 4-bit floats.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, filled};

use crate::floats::{read, write};
use crate::infer::{matmul_dims, matmul_shape, product_flops};
use crate::ops::microsoft::matmul_nbits::{required_block_size, required_size, starting_from};
use crate::weights::{add_product_by_rows, expect_len};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "com.microsoft",
    name: "MatMulBnb4",
    versions: (1, 1),
    types: DType::is_float,
    build: MatMulBnb4::build,
}];

/// The values of FP4: a sign, two bits of exponent and one of mantissa, over 12.
const FP4: [f64; 8] = [0.0, 1.0 / 192.0, 2.0 / 3.0, 1.0, 1.0 / 3.0, 0.5, 1.0 / 6.0, 0.25];

/// The values of NF4: quantiles of the normal distribution, scaled to −1…1.
///
/// Source: T. Dettmers et al., "QLoRA", 2023, appendix E.
const NF4: [f64; 16] = [
    -1.0,
    -0.696_192_800_998_687_7,
    -0.525_073_051_452_636_7,
    -0.394_917_488_098_144_53,
    -0.284_441_381_692_886_35,
    -0.184_773_430_228_233_34,
    -0.091_050_036_251_544_95,
    0.0,
    0.079_580_299_556_255_34,
    0.160_930_201_411_247_25,
    0.246_112_301_945_686_34,
    0.337_915_241_718_292_24,
    0.440_709_829_330_444_34,
    0.562_617_003_917_694_1,
    0.722_956_836_223_602_3,
    1.0,
];

/// MatMulBnb4: `y[…, n] = Σ a[…, k] · w[n, k]`, or `y[…, k] = Σ a[…, n] · w[n, k]` if `w` is not
/// transposed; `w = value(q) · absmax` of its block. Inputs: `a` of floats; quantized values of 4 bits, uint8,
/// in the order of `w: [n, k]`, the first in the highest bits; `absmax`, one for each `block_size`
/// quantized values, of the type of `a`. Summed in double precision and rounded once.
///
/// Source: com.microsoft, MatMulBnb4-1 (ONNX Runtime 1.31, whose CPU provider only supports a transposed `w`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulBnb4 {
    /// The columns of `w`.
    pub k: usize,
    /// The rows of `w`.
    pub n: usize,
    /// The quantized values that share a scale.
    pub block_size: usize,
    /// Whether quantized values are NF4, and not FP4.
    pub is_normal_float: bool,
    /// Whether `w` is transposed for the product.
    pub is_transposed: bool,
}

impl MatMulBnb4 {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        // It only affects what training keeps; the result is the same.
        spec.ignore("training_mode");
        let is_normal_float = match spec.int("quant_type")? {
            Some(0) => false,
            Some(1) => true,
            Some(found) => {
                let found = found.to_string();
                return Err(OpError::AttributeValue { name: "quant_type", found });
            }
            None => return Err(OpError::MissingAttribute { name: "quant_type" }),
        };
        Ok(Arc::new(Self {
            k: required_size(spec, "K")?,
            n: required_size(spec, "N")?,
            block_size: required_block_size(spec)?,
            is_normal_float,
            is_transposed: spec.flag("transB", true)?,
        }))
    }

    /// The shape of the right operand of the product.
    const fn right(self) -> [usize; 2] {
        if self.is_transposed { [self.k, self.n] } else { [self.n, self.k] }
    }

    /// Checks that quantized values and scales of these shapes are those of the weights.
    fn check(self, quantized: Option<&[usize]>, scales: Option<&[usize]>) -> Result<(), OpError> {
        let n_quantized = self.n.checked_mul(self.k);
        if let Some(quantized) = quantized {
            expect_len("codes", quantized, n_quantized.map(|n| n.div_ceil(2)))?;
        }
        if let Some(scales) = scales {
            expect_len("scales", scales, n_quantized.map(|n| n.div_ceil(self.block_size)))?;
        }
        Ok(())
    }

    /// What a quantized value, 0 to 15, stands for, before its scale.
    #[must_use]
    pub fn value(self, q: u8) -> f64 {
        let magnitude = FP4[usize::from(q & 7)];
        match (self.is_normal_float, q & 8) {
            (true, _) => NF4[usize::from(q & 15)],
            (false, 0) => magnitude,
            (false, _) => -magnitude,
        }
    }
}

impl Operator for MatMulBnb4 {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.dtype(1, |dtype| dtype == DType::U8)?;
        inputs.fact(2)?;
        inputs.expect_dtype(2, dtype)?;
        let shape = |index: usize| inputs.get(index).and_then(Fact::shape);
        self.check(shape(1).as_deref(), shape(2).as_deref())?;
        let Some(a) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        Ok(vec![Fact::tensor(dtype, matmul_dims(a, &self.right().map(Dim::Known))?)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (a, quantized, scales) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        self.check(Some(quantized.shape()), Some(scales.shape()))?;
        let shape = matmul_shape(a.shape(), &self.right())?;
        let mut y = starting_from(None, &shape)?;
        let (quantized, scales) = (quantized.as_slice::<u8>()?, read(scales)?);
        let row = |row: usize, w: &mut [f64]| {
            for (column, w) in w.iter_mut().enumerate() {
                let i = row * self.k + column;
                let byte = quantized[i / 2];
                let q = if i.is_multiple_of(2) { byte >> 4 } else { byte & 0xf };
                *w = self.value(q) * scales[i / self.block_size];
            }
            Ok(())
        };
        let values = read(a)?;
        if self.is_transposed {
            add_product_by_rows(&values, [self.n, self.k], &mut y, row)?;
        } else {
            add_product_by_columns(&values, [self.n, self.k], &mut y, row)?;
        }
        write(outputs, 0, a.dtype(), &shape, &y)
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        product_flops(Some(self.right()[0]), outputs.first())
    }
}

/// `y[m, k] += Σ a[m, n] · w[n, k]`, where `row(n, w)` writes row `n` of `w: [n, k]`.
fn add_product_by_columns(
    a: &[f64],
    [n, k]: [usize; 2],
    y: &mut [f64],
    row: impl Fn(usize, &mut [f64]) -> Result<(), OpError>,
) -> Result<(), OpError> {
    if n == 0 || k == 0 {
        return Ok(());
    }
    let mut w = filled(0.0, k)?;
    for j in 0..n {
        row(j, &mut w)?;
        for (a, y) in a.chunks_exact(n).zip(y.chunks_exact_mut(k)) {
            y.iter_mut().zip(&w).for_each(|(y, w)| *y += a[j] * w);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16};

    use crate::case::{Case, tensor};

    fn case(k: i64, n: i64, attrs: &[(&str, i64)]) -> Case {
        let case = Case::new("MatMulBnb4", 1).domain("com.microsoft").attr("K", Attr::Int(k));
        let case = case.attr("N", Attr::Int(n)).attr("block_size", Attr::Int(16));
        attrs.iter().fold(case, |case, (name, value)| case.attr(name, Attr::Int(*value)))
    }

    fn row_of_ones(n: usize) -> Tensor {
        tensor(&[1, n], &vec![1_f64; n])
    }

    #[test]
    fn quantized_values_are_floats_the_first_in_the_highest_bits() {
        let quantized = || tensor(&[2], &[0x3b_u8, 0x50]);
        let scale = || tensor(&[1], &[2_f64]);
        for (quant_type, expected) in [
            (0, [0.0, 1.0]),
            (
                1,
                [
                    2.0 * (0.337_915_241_718_292_24 - 0.394_917_488_098_144_53),
                    2.0 * (-0.184_773_430_228_233_34 - 1.0),
                ],
            ),
        ] {
            let y = case(2, 2, &[("quant_type", quant_type)]);
            let y = y.tensor(&[row_of_ones(2), quantized(), scale()]);
            assert_eq!(y, Ok(tensor(&[1, 2], &expected)));
        }
        let y = case(2, 2, &[("quant_type", 0), ("transB", 0)]);
        let y = y.tensor(&[tensor(&[2], &[1_f64, 10.0]), quantized(), scale()]);
        assert_eq!(y, Ok(tensor(&[2], &[12_f64, -2.0])));
    }

    #[test]
    fn blocks_run_through_rows() {
        // Three rows of six: the last element of the third row but one begins a block.
        let mut quantized = [0_u8; 9];
        (quantized[7], quantized[8]) = (0x33, 0x33);
        let a = tensor(&[1, 6], &[bf16::ONE; 6]);
        let scales = tensor(&[2], &[bf16::ONE, bf16::from_f32(100.0)]);
        let y = case(6, 3, &[("quant_type", 0)]).tensor(&[a, tensor(&[9], &quantized), scales]);
        let expected = [0.0, 0.0, 202.0].map(bf16::from_f32);
        assert_eq!(y, Ok(tensor(&[1, 3], &expected)));
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        let inputs = |quantized: usize, scales: usize| {
            let scales = tensor(&[scales], &vec![1_f64; scales]);
            [row_of_ones(3), tensor(&[quantized], &vec![0_u8; quantized]), scales]
        };
        let three = |attrs: &[(&str, i64)]| case(3, 1, attrs);
        assert!(three(&[("quant_type", 1)]).tensor(&inputs(2, 1)).is_ok());
        assert!(three(&[("quant_type", 1)]).tensor(&inputs(1, 1)).is_err());
        assert!(three(&[("quant_type", 1)]).tensor(&inputs(2, 2)).is_err());
        assert!(three(&[("quant_type", 2)]).tensor(&inputs(2, 1)).is_err());
        assert!(three(&[]).tensor(&inputs(2, 1)).is_err());
    }
}
