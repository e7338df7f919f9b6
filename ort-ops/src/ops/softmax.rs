//! Softmax, LogSoftmax and Hardmax: `y = f(x)` along one axis, or along all axes from one on.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorError, by_pieces, with_dtype};

use crate::infer::{float_along, normalize_axis};
use crate::lanes::Lanes;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    def("Hardmax", |spec| Softmax::build(spec, Form::Hardmax)),
    def("LogSoftmax", |spec| Softmax::build(spec, Form::LogSoftmax)),
    def("Softmax", |spec| Softmax::build(spec, Form::Softmax)),
];

const fn def(
    name: &'static str,
    build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
) -> OpDef {
    OpDef { domain: "", name, versions: (1, 13), types: DType::is_float, build }
}

/// Softmax and its relatives, on floats of any rank but 0. Computed in f64 and rounded once. A NaN
/// in a lane makes the whole lane NaN, except that Hardmax treats it as the largest value.
///
/// Source: ONNX operator set, Softmax-13, LogSoftmax-13, Hardmax-13, and versions 1 and 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// Which of the three.
    pub form: Form,
    /// The axis, negative from the back.
    pub axis: i64,
    /// Before version 13: all dimensions from `axis` on are flattened.
    pub is_flattened: bool,
}

/// What is computed along the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `y[i] = exp(x[i]) / Σ exp(x)`.
    Softmax,
    /// `y[i] = x[i] − ln Σ exp(x)`.
    LogSoftmax,
    /// `y[i] = 1` at the first of the largest, else 0.
    Hardmax,
}

impl Softmax {
    fn build(spec: &NodeSpec<'_>, form: Form) -> Result<Arc<dyn Operator>, OpError> {
        let is_flattened = spec.since_version < 13;
        let axis = spec.int("axis")?.unwrap_or(if is_flattened { 1 } else { -1 });
        Ok(Arc::new(Self { form, axis, is_flattened }))
    }
}

impl Operator for Softmax {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![float_along(inputs, self.axis)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axis = normalize_axis(self.axis, x.shape().len())?;
        let lanes = match self.is_flattened {
            true => Lanes::flattened(x.shape(), axis),
            false => Lanes::along(x.shape(), axis),
        };
        let f = match self.form {
            Form::Softmax => softmax,
            Form::LogSoftmax => log_softmax,
            Form::Hardmax => hardmax,
        };
        let y = outputs[0].tensor(x.dtype(), x.shape())?;
        with_dtype!(x.dtype(), float, T => lanes.map::<T>(x.as_slice()?, y.into_slice()?, f)?,
            else => return Err(OpError::Unsupported { what: "a softmax of other types than floats" }));
        Ok(())
    }
}

/// `x[i] ← exp(x[i]) / Σ exp(x)`, after subtracting the largest, which keeps `exp` in range.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn softmax(lane: &mut [f64]) -> Result<(), TensorError> {
    let (max, mut sum) = (largest(lane)?, 0.0);
    by_pieces(lane, |_, piece| {
        for x in piece {
            *x = (*x - max).exp();
            sum += *x;
        }
    })?;
    by_pieces(lane, |_, piece| piece.iter_mut().for_each(|x| *x /= sum))
}

/// `x[i] ← x[i] − ln Σ exp(x)`, likewise.
///
/// # Errors
/// If the run was cancelled.
pub(crate) fn log_softmax(lane: &mut [f64]) -> Result<(), TensorError> {
    let (max, mut sum) = (largest(lane)?, 0.0);
    by_pieces(lane, |_, piece| sum = piece.iter().fold(sum, |sum, x| sum + (x - max).exp()))?;
    let log_sum = sum.ln();
    by_pieces(lane, |_, piece| piece.iter_mut().for_each(|x| *x = *x - max - log_sum))
}

fn hardmax(lane: &mut [f64]) -> Result<(), TensorError> {
    let (mut first, mut largest, mut i) = (0, f64::NEG_INFINITY, 0);
    by_pieces(lane, |_, piece| {
        for x in piece {
            if i == 0 || *x > largest || (x.is_nan() && !largest.is_nan()) {
                (first, largest) = (i, *x);
            }
            i += 1;
            *x = 0.0;
        }
    })?;
    if let Some(x) = lane.get_mut(first) {
        *x = 1.0;
    }
    Ok(())
}

fn largest(lane: &mut [f64]) -> Result<f64, TensorError> {
    let mut largest = f64::NEG_INFINITY;
    by_pieces(lane, |_, piece| largest = piece.iter().copied().fold(largest, f64::max))?;
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn run(name: &'static str, version: i32, axis: i64, x: Tensor) -> Tensor {
        Case::new(name, version).attr("axis", Attr::Int(axis)).tensor(&[x]).unwrap()
    }

    #[test]
    fn a_lane_runs_along_the_axis_or_before_13_along_the_rest() {
        let x = tensor(&[2, 2, 2], &[0_f32; 8]);
        for (version, axis, expected) in
            [(13, 0, 0.5_f32), (13, -1, 0.5), (1, 2, 0.5), (1, 1, 0.25), (11, -3, 0.125)]
        {
            let y = run("Softmax", version, axis, x.clone());
            assert_eq!(y, tensor(&[2, 2, 2], &[expected; 8]), "version {version} axis {axis}");
        }
        let default = Case::new("Softmax", 1).tensor(&[x]).unwrap();
        assert_eq!(default.as_slice::<f32>().unwrap()[0], 0.25);
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        // exp(0), exp(1), exp(2), exp(3) over their sum, rounded to f32.
        let shares = [0.032_058_604_f32, 0.087_144_315, 0.236_882_82, 0.643_914_3];
        let x = [[0_f32, 1., 2., 3.], [10000., 10001., 10002., 10003.]].concat();
        let y = run("Softmax", 13, -1, tensor(&[2, 4], &x));
        assert_eq!(y, tensor(&[2, 4], &[shares, shares].concat()));
        let y = run("LogSoftmax", 13, -1, tensor(&[2], &[-1e30_f64, 1e30]));
        assert_eq!(y, tensor(&[2], &[-2e30_f64, 0.0]));
    }

    #[test]
    fn hardmax_marks_the_first_of_the_largest() {
        let x = [3_f32, 0., 3., 2., f32::NAN, 4., f32::NEG_INFINITY, f32::NEG_INFINITY, -1.];
        let y = run("Hardmax", 13, 1, tensor(&[3, 3], &x));
        assert_eq!(y, tensor(&[3, 3], &[1_f32, 0., 0., 0., 1., 0., 0., 0., 1.]));
    }

    #[test]
    fn nan_fills_its_lane_only() {
        let y = run("Softmax", 13, 1, tensor(&[2, 2], &[f32::NAN, 0., 0., f32::NEG_INFINITY]));
        let y = y.as_slice::<f32>().unwrap();
        assert!(y[0].is_nan() && y[1].is_nan());
        assert_eq!(y[2..], [1.0, 0.0]);
    }

    #[test]
    fn every_float_type_and_empty_lanes_pass() {
        let half = [0.5_f32; 2];
        let y = run("Softmax", 13, 0, tensor(&[2], &[f16::ONE; 2]));
        assert_eq!(y, tensor(&[2], &half.map(f16::from_f32)));
        let y = run("Softmax", 13, 0, tensor(&[2], &[bf16::ONE; 2]));
        assert_eq!(y, tensor(&[2], &half.map(bf16::from_f32)));
        for name in ["Softmax", "LogSoftmax", "Hardmax"] {
            for shape in [[0, 2], [2, 0]] {
                let x = tensor::<f32>(&shape, &[]);
                assert_eq!(run(name, 13, 1, x.clone()), x);
                assert_eq!(run(name, 1, 1, x.clone()), x);
            }
        }
    }

    #[test]
    fn an_axis_out_of_range_and_integers_are_refused() {
        let case = |axis| Case::new("Softmax", 13).attr("axis", Attr::Int(axis));
        let error = case(1).tensor(&[tensor(&[1], &[0_f32])]).unwrap_err();
        assert_eq!(error, "axis 1 is out of range for rank 1");
        assert!(case(0).tensor(&[Tensor::scalar(1_f32)]).is_err());
        assert!(case(0).tensor(&[tensor(&[1], &[0_i64])]).is_err());
    }
}
