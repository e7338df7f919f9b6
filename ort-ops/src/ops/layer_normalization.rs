//! LayerNormalization, RMSNormalization and its older name SimplifiedLayerNormalization:
//! `y = (x − mean) · inv_std · scale + b`, or the same without mean and `b`.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator, TensorType, Type};
use ort_tensor::{
    DType, Inputs, Output, Pace, Shape, TensorError, by_pieces, collected, n_elements, with_room,
};

use crate::floats;
use crate::infer::{broadcast_dims, element_flops, normalize_axis};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("LayerNormalization", (1, 17), |spec| LayerNormalization::build(spec, true)),
    def("RMSNormalization", (23, 23), |spec| LayerNormalization::build(spec, false)),
    def("SimplifiedLayerNormalization", (1, 1), |spec| LayerNormalization::build(spec, false)),
];

const fn def(
    name: &'static str,
    versions: (i32, i32),
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "", name, versions, types: DType::is_float, build }
}

/// LayerNormalization: the dimensions of `x` from `axis` on are a row; `scale` and `b` broadcast to
/// `x`. Everything is computed in f64 and rounded once. The outputs after `y` are the mean (if there
/// is one) and `1 / √(variance + epsilon)` of each row.
///
/// Source: ONNX operator set, LayerNormalization-17 and RMSNormalization-23; ONNX Runtime 1.31,
/// LayerNormalization-1 and SimplifiedLayerNormalization-1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNormalization {
    /// The first dimension of a row, negative from the back.
    pub axis: i64,
    /// What is added to the variance.
    pub epsilon: f32,
    /// The type of the outputs after `y`.
    pub stash_dtype: DType,
    /// Whether the mean is subtracted; else the variance is the mean square.
    pub is_centered: bool,
}

impl LayerNormalization {
    fn build(spec: &NodeSpec<'_>, is_centered: bool) -> Result<Arc<dyn Operator>, OpError> {
        let stash_type = spec.int("stash_type")?.unwrap_or(1);
        let stash_dtype = i32::try_from(stash_type).ok().and_then(DType::from_onnx);
        let wrong =
            || OpError::AttributeValue { name: "stash_type", found: stash_type.to_string() };
        Ok(Arc::new(Self {
            axis: spec.int("axis")?.unwrap_or(-1),
            epsilon: spec.float("epsilon")?.unwrap_or(1e-5),
            stash_dtype: stash_dtype.filter(|dtype| dtype.is_float()).ok_or_else(wrong)?,
            is_centered,
        }))
    }
}

impl Operator for LayerNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let y_dtype = inputs.dtype(1, DType::is_float)?;
        if self.is_centered {
            inputs.expect_dtype(1, dtype)?;
            inputs.expect_dtype(2, dtype)?;
        }
        let dims = inputs.fact(0)?.dims();
        let statistic = dims.map(|dims| self.statistic_dims(dims)).transpose()?;
        for i in [1, 2] {
            if let (Some(dims), Some(own)) = (dims, inputs.get(i).and_then(Fact::dims)) {
                broadcast_dims(own, dims)?;
            }
        }
        let fact = |dtype, dims| Fact::from(Type::Tensor(TensorType { dtype, dims }));
        let y = fact(y_dtype, dims.map(|dims| dims.iter().cloned().collect()));
        let statistic = fact(self.stash_dtype, statistic);
        Ok(vec![y, statistic.clone(), statistic])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, scale) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let len = n_elements(&x.shape()[axis..]).unwrap_or(0);
        let mut y = floats::read(x)?;
        let rows = standardize_rows(&mut y, len, self.epsilon, self.is_centered)?;
        floats::with_period(&mut y, &floats::read_period(scale, x.shape())?, |y, s| *y *= s)?;
        if let Some(b) = inputs.optional_tensor(2)? {
            floats::with_period(&mut y, &floats::read_period(b, x.shape())?, |y, b| *y += b)?;
        }
        floats::write(outputs, 0, scale.dtype(), x.shape(), &y)?;
        let mut shape = Shape::from_slice(x.shape());
        shape[axis..].fill(1);
        let statistics = match self.is_centered {
            true => vec![&rows.mean, &rows.inv_std],
            false => vec![&rows.inv_std],
        };
        for (i, statistic) in statistics.into_iter().enumerate() {
            write_statistic(outputs, 1 + i, (self.stash_dtype, &shape), statistic, f64::NAN)?;
        }
        Ok(())
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        // Two passes for the moments, of one operation and three; one to scale and shift, of four.
        element_flops(if self.is_centered { 8 } else { 4 }, outputs.first())
    }
}

impl LayerNormalization {
    fn statistic_dims(&self, dims: &[Dim]) -> Result<Dims, OpError> {
        let axis = normalize_axis(self.axis, dims.len())?;
        // bounded: rank
        let ones = std::iter::repeat_n(Dim::Known(1), dims.len() - axis);
        Ok(dims[..axis].iter().cloned().chain(ones).collect())
    }
}

/// The statistics of each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) mean: Vec<f64>,
    /// `1 / √(variance + epsilon)`.
    pub(crate) inv_std: Vec<f64>,
}

/// Writes a statistic of each row to the output at `index`, if it is present and used; empty rows have the statistic
/// `of_nothing`.
///
/// # Errors
/// If something else was planned, or `dtype` is not a float.
pub(crate) fn write_statistic(
    outputs: &mut [Output<'_>],
    index: usize,
    (dtype, shape): (DType, &[usize]),
    values: &[f64],
    of_nothing: f64,
) -> Result<(), OpError> {
    let Some(output) = outputs.get_mut(index).filter(|output| output.is_wanted()) else {
        return Ok(());
    };
    // Memory for all of them, before another copy is allocated.
    let n_rows = output.tensor(dtype, shape)?.view().len();
    let nothing = n_rows.saturating_sub(values.len());
    let values = values.iter().copied().chain(std::iter::repeat_n(of_nothing, nothing));
    let values = collected(values)?;
    floats::write(outputs, index, dtype, shape, &values)
}

/// `x ← (x − mean) / √(variance + epsilon)` for each row of `len` elements; without centering the mean is taken as 0.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn standardize_rows(
    x: &mut [f64],
    len: usize,
    epsilon: f32,
    is_centered: bool,
) -> Result<Rows, TensorError> {
    let n_rows = x.len() / len.max(1);
    let mut rows = Rows { mean: with_room(n_rows)?, inv_std: with_room(n_rows)? };
    let mut pace = Pace::new();
    for row in x.chunks_exact_mut(len.max(1)) {
        pace.go(row.len())?;
        let (n, mut sum, mut squares) = (row.len() as f64, 0.0, 0.0);
        if is_centered {
            by_pieces(row, |_, row| sum = row.iter().fold(sum, |sum, x| sum + x))?;
        }
        let mean = sum / n;
        by_pieces(row, |_, row| {
            for x in row {
                *x -= mean;
                squares += *x * *x;
            }
        })?;
        let inv_std = 1.0 / (squares / n + f64::from(epsilon)).sqrt();
        by_pieces(row, |_, row| row.iter_mut().for_each(|x| *x *= inv_std))?;
        rows.mean.push(mean);
        rows.inv_std.push(inv_std);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn case(name: &'static str, version: i32) -> Case {
        Case::new(name, version).attr("epsilon", Attr::Float(0.0))
    }

    #[test]
    fn rows_begin_at_the_axis_and_have_mean_0_and_variance_1() {
        let x = tensor(&[2, 2, 1], &[1_f32, 3.0, 5.0, 13.0]);
        let scale = tensor(&[2, 1], &[2_f32, 3.0]);
        let b = tensor(&[1], &[1_f32]);
        let case = case("LayerNormalization", 17).attr("axis", Attr::Int(1)).outputs(3);
        let found = case.run(&[x, scale, b]).unwrap();
        let expected = [
            tensor(&[2, 2, 1], &[-1_f32, 4.0, -1.0, 4.0]),
            tensor(&[2, 1, 1], &[2_f32, 9.0]),
            tensor(&[2, 1, 1], &[1_f32, 0.25]),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.as_tensor().unwrap(), &expected);
        }
    }

    #[test]
    fn the_mean_square_alone_needs_no_mean() {
        // The mean square of 1 and 7 is 25.
        let x = tensor(&[1, 2], &[f16::from_f32(1.0), f16::from_f32(7.0)]);
        let scale = tensor(&[2], &[5_f32, 10.0]);
        let y = tensor(&[1, 2], &[1_f32, 14.0]);
        let rms = case("RMSNormalization", 23).tensor(&[x.clone(), scale.clone()]);
        assert_eq!(rms, Ok(y.clone()));
        let simplified = case("SimplifiedLayerNormalization", 1).outputs(2);
        let found = simplified.run(&[x, scale]).unwrap();
        assert_eq!(found[0].as_tensor().unwrap(), &y);
        assert_eq!(found[1].as_tensor().unwrap(), &tensor(&[1, 1], &[0.2_f32]));
    }

    #[test]
    fn the_stash_type_is_that_of_the_statistics() {
        let x = tensor(&[1, 2], &[1_f32, 3.0]);
        let case = case("LayerNormalization", 17).attr("stash_type", Attr::Int(16)).outputs(2);
        let found = case.run(&[x, tensor(&[2], &[1_f32; 2])]).unwrap();
        let mean = tensor(&[1, 1], &[bf16::from_f32(2.0)]);
        assert_eq!(found[1].as_tensor().unwrap(), &mean);
    }

    #[test]
    fn empty_rows_have_no_mean_and_shapes_must_broadcast() {
        let zeros = |shape| Tensor::zeros(ort_tensor::DType::F32, shape).unwrap();
        let case = case("LayerNormalization", 17).outputs(2);
        let found = case.run(&[zeros(&[2, 0]), zeros(&[0])]).unwrap();
        assert!(found[1].as_tensor().unwrap().as_slice::<f32>().unwrap()[1].is_nan());
        assert!(case.run(&[zeros(&[0, 2]), zeros(&[2])]).is_ok());
        assert!(case.run(&[zeros(&[2, 2]), zeros(&[3])]).is_err());
        assert!(case.run(&[zeros(&[]), zeros(&[])]).is_err());
    }
}
