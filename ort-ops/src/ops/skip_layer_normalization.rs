//! SkipLayerNormalization and SkipSimplifiedLayerNormalization: layer normalization of
//! `input + skip + bias` over the last axis.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator, TensorType, Type};
use ort_tensor::{DType, Inputs, Output, Shape};

use super::layer_normalization::{standardize_rows, write_statistic};
use crate::floats;
use crate::infer::{broadcast_dims, element_flops, expect_dims};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("SkipLayerNormalization", |spec| SkipLayerNormalization::build(spec, true)),
    def("SkipSimplifiedLayerNormalization", |spec| SkipLayerNormalization::build(spec, false)),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "com.microsoft", name, versions: (1, 1), types: DType::is_float, build }
}

/// SkipLayerNormalization: `sum = input + skip + bias`, `y = (sum − mean) · inv_std · gamma + beta`
/// for each row `[H]` of `input: […, H]`; `skip` broadcasts to `input`, and `gamma`, `beta` and
/// `bias` are `[H]`. The outputs are `y`, mean, `1 / √(variance + epsilon)` (both f32) and `sum`.
/// Without centering there are no mean and no beta, and output 1 is 0.
///
/// Source: com.microsoft, SkipLayerNormalization-1 and SkipSimplifiedLayerNormalization-1 (ONNX
/// Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SkipLayerNormalization {
    /// What is added to the variance.
    pub epsilon: f32,
    /// Whether the mean is subtracted; else the variance is the mean square.
    pub is_centered: bool,
}

impl SkipLayerNormalization {
    fn build(spec: &NodeSpec<'_>, is_centered: bool) -> Result<Arc<dyn Operator>, OpError> {
        let epsilon = spec.float("epsilon")?.unwrap_or(1e-12);
        Ok(Arc::new(Self { epsilon, is_centered }))
    }

    /// The positions of `beta` (if there is one) and `bias`.
    const fn beta_and_bias(&self) -> (Option<usize>, usize) {
        if self.is_centered { (Some(3), 4) } else { (None, 3) }
    }
}

impl Operator for SkipLayerNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        (1..5).try_for_each(|i| inputs.expect_dtype(i, dtype))?;
        let dims = inputs.fact(0)?.dims();
        if let (Some(dims), Some(skip)) = (dims, inputs.fact(1)?.dims()) {
            broadcast_dims(dims, skip)?;
        }
        let statistic = match dims.map(<[Dim]>::split_last) {
            None => None,
            Some(None) => return Err(scalar()),
            Some(Some((hidden, rows))) => {
                (2..5).try_for_each(|i| expect_dims(inputs, i, std::slice::from_ref(hidden)))?;
                Some(rows.iter().cloned().chain([Dim::Known(1)]).collect::<Dims>())
            }
        };
        let y: Fact = inputs.fact(0)?.ty.clone().into();
        let statistic: Fact =
            Type::Tensor(TensorType { dtype: DType::F32, dims: statistic }).into();
        Ok(vec![y.clone(), statistic.clone(), statistic, y])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (dtype, shape) = (x.dtype(), x.shape());
        let &hidden = shape.last().ok_or_else(scalar)?;
        let (beta, bias) = self.beta_and_bias();
        let mut y = floats::read(x)?;
        let skip = floats::read_period(inputs.tensor(1)?, shape)?;
        floats::with_period(&mut y, &skip, |y, skip| *y += skip)?;
        if inputs.get(bias).is_some() {
            let bias = floats::read_parameter(inputs, bias, hidden)?;
            floats::with_period(&mut y, &bias, |y, bias| *y += bias)?;
        }
        floats::write(outputs, 3, dtype, shape, &y)?;
        let rows = standardize_rows(&mut y, hidden, self.epsilon, self.is_centered)?;
        let gamma = floats::read_parameter(inputs, 2, hidden)?;
        floats::with_period(&mut y, &gamma, |y, gamma| *y *= gamma)?;
        if let Some(beta) = beta.filter(|&beta| inputs.get(beta).is_some()) {
            let beta = floats::read_parameter(inputs, beta, hidden)?;
            floats::with_period(&mut y, &beta, |y, beta| *y += beta)?;
        }
        floats::write(outputs, 0, dtype, shape, &y)?;
        let mut shape = Shape::from_slice(shape);
        shape[x.shape().len() - 1] = 1;
        let mean_of_nothing = if self.is_centered { f64::NAN } else { 0.0 };
        write_statistic(outputs, 1, (DType::F32, &shape), &rows.mean, mean_of_nothing)?;
        write_statistic(outputs, 2, (DType::F32, &shape), &rows.inv_std, f64::NAN)
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        // As LayerNormalization, after a sum.
        element_flops(if self.is_centered { 9 } else { 5 }, outputs.first())
    }
}

const fn scalar() -> OpError {
    OpError::InputRank { index: 0, expected: "1 or more", found: 0 }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn case(name: &'static str) -> Case {
        Case::new(name, 1).domain("com.microsoft").outputs(4)
    }

    #[test]
    fn the_sum_is_normalized_and_kept() {
        let x = tensor(&[1, 2, 2], &[1_f32, 2.0, 3.0, 10.0]);
        let skip = tensor(&[2, 2], &[0_f32, -1.0, 2.0, 0.0]);
        let [gamma, beta, bias] =
            [[2.0_f32, 1.0], [0.5, 0.0], [0.0, 2.0]].map(|values| tensor(&[2], &values));
        let found = case("SkipLayerNormalization").run(&[x, skip, gamma, beta, bias]).unwrap();
        // The sums are 1 and 3, 5 and 12: means 2 and 8.5, deviations 1 and 3.5.
        let expected = [
            tensor(&[1, 2, 2], &[-1.5_f32, 1.0, -1.5, 1.0]),
            tensor(&[1, 2, 1], &[2_f32, 8.5]),
            tensor(&[1, 2, 1], &[1_f32, 1.0 / 3.5]),
            tensor(&[1, 2, 2], &[1_f32, 3.0, 5.0, 12.0]),
        ];
        for (found, expected) in found.iter().zip(expected) {
            // The default epsilon is below the rounding of f32.
            assert_eq!(found.as_tensor().unwrap(), &expected);
        }
    }

    #[test]
    fn without_centering_input_3_is_the_bias() {
        let one = |values: &[f32]| tensor(&[values.len()], values);
        let x = tensor(&[1, 2], &[1_f32, 5.0]);
        let inputs = [x, tensor(&[1, 2], &[0_f32, 1.0]), one(&[5.0, 10.0]), one(&[0.0, 1.0])];
        let found = case("SkipSimplifiedLayerNormalization").run(&inputs).unwrap();
        assert_eq!(found[0].as_tensor().unwrap(), &tensor(&[1, 2], &[1_f32, 14.0]));
        assert_eq!(found[3].as_tensor().unwrap(), &tensor(&[1, 2], &[1_f32, 7.0]));
    }

    #[test]
    fn mismatched_operands_are_rejected() {
        let zeros = |shape: &[usize]| Tensor::zeros(ort_tensor::DType::F32, shape).unwrap();
        let run = |x: &[usize], skip: &[usize], gamma: &[usize]| {
            case("SkipLayerNormalization").run(&[zeros(x), zeros(skip), zeros(gamma)]).is_ok()
        };
        assert!(run(&[2, 3, 4], &[1, 3, 4], &[4]) && run(&[0, 4], &[4], &[4]));
        assert!(!run(&[2, 3, 4], &[2, 3], &[4]) && !run(&[4], &[4], &[3]) && !run(&[], &[], &[]));
    }
}
