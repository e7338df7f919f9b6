//! BatchNormalization: `y = (x − mean) / √(variance + epsilon) · scale + b`, for each channel.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator, TensorType, Type};
use ort_tensor::{DType, Inputs, Output, Pace, TensorError, collected, filled, n_elements};

use crate::channels_last::ChannelsLast;
use crate::floats;
use crate::infer::{element_flops, expect_dims};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "BatchNormalization",
        versions: (1, 15),
        types: DType::is_float,
        build: |spec| Ok(Arc::new(BatchNormalization::read(spec)?)),
    },
    OpDef {
        domain: "com.ms.internal.nhwc",
        name: "BatchNormalization",
        versions: (9, 15),
        types: DType::is_float,
        build: BatchNormalization::build_channels_last,
    },
];

/// BatchNormalization of `x: [N, C, D…]` (or `[N]`, where C is 1) with `scale`, `b`, `mean` and
/// `variance: [C]`, all floats, possibly of different types. In training, mean and variance are
/// those of the batch, and the outputs after `y` are their running averages and themselves.
///
/// That of com.ms.internal.nhwc takes and gives `[N, D…, C]`, and has no training.
///
/// Source: ONNX operator set, BatchNormalization-15, and 1 to 14; com.ms.internal.nhwc, BatchNormalization-9 to 15 (ONNX
/// Runtime 1.31), which ONNX Runtime never writes to a `.onnx` file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormalization {
    /// What is added to the variance.
    pub epsilon: f32,
    /// The weight of the old running averages.
    pub momentum: f32,
    /// Whether mean and variance are those of the batch. Before version 7 the negation of `is_test`; then, up to
    /// version 13, implied by more than one output.
    pub is_training: bool,
    /// Whether a channel has one mean; else (before version 9) each of its elements has its own.
    pub is_spatial: bool,
}

impl BatchNormalization {
    fn build_channels_last(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let norm = Self::read(spec)?;
        if norm.is_training || spec.n_outputs > 1 {
            return Err(OpError::Unsupported { what: "training with the channels last" });
        }
        Ok(Arc::new(ChannelsLast(norm)))
    }

    fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let version = spec.since_version;
        if version < 6 {
            spec.ignore("consumed_inputs");
        }
        let is_training = match version {
            ..7 => !spec.flag("is_test", false)?,
            7..14 => spec.n_outputs > 1,
            _ => spec.flag("training_mode", false)?,
        };
        Ok(Self {
            epsilon: spec.float("epsilon")?.unwrap_or(1e-5),
            momentum: spec.float("momentum")?.unwrap_or(0.9),
            is_training,
            is_spatial: version >= 9 || spec.flag("spatial", true)?,
        })
    }

    /// The dimensions of the parameters.
    fn parameter_dims(&self, x: &[Dim]) -> Dims {
        match x.get(1..) {
            // bounded: a constant
            None | Some([]) => Dims::from_elem(Dim::Known(1), 1),
            // bounded: a constant
            Some([channels, ..]) if self.is_spatial => Dims::from_elem(channels.clone(), 1),
            Some(channels) => channels.iter().cloned().collect(),
        }
    }
}

impl Operator for BatchNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_float)?;
        let x = inputs.fact(0)?;
        let dims = x.dims().map(|dims| self.parameter_dims(dims));
        for i in 1..5 {
            inputs.dtype(i, DType::is_float)?;
            if let Some(dims) = &dims {
                expect_dims(inputs, i, dims)?;
            }
        }
        let statistic = |i| -> Result<Fact, OpError> {
            let dtype = inputs.dtype(i, DType::is_float)?;
            Ok(Type::Tensor(TensorType { dtype, dims: dims.clone() }).into())
        };
        let (mean, variance) = (statistic(3)?, statistic(4)?);
        Ok(vec![x.ty.clone().into(), mean.clone(), variance.clone(), mean, variance])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let Some((&batch, rest)) = x.shape().split_first() else {
            return Err(OpError::InputRank { index: 0, expected: "1 or more", found: 0 });
        };
        let statistics = inputs.tensor(3)?;
        let channels = statistics.len();
        let inner = n_elements(rest).unwrap_or(0).checked_div(channels).unwrap_or(0);
        if (self.is_spatial && channels != rest.first().copied().unwrap_or(1))
            || Some(x.len()) != batch.checked_mul(channels).and_then(|n| n.checked_mul(inner))
        {
            let (left, right) = (x.shape().to_vec(), statistics.shape().to_vec());
            return Err(OpError::Shapes { what: "the channels", left, right });
        }
        let [scale, b, mean, variance] =
            [1, 2, 3, 4].map(|i| floats::read_parameter(inputs, i, channels));
        let mut given = [mean?, variance?];
        let mut y = floats::read(x)?;
        if self.is_training {
            let found = moments(&y, channels, inner)?;
            for (i, (given, found)) in given.iter_mut().zip(found).enumerate() {
                let dtype = inputs.tensor(3 + i)?.dtype();
                let running = self.running(given, &found)?;
                floats::write(outputs, 1 + i, dtype, statistics.shape(), &running)?;
                floats::write(outputs, 3 + i, dtype, statistics.shape(), &found)?;
                *given = found;
            }
        } else if outputs.iter().skip(1).any(Output::is_wanted) {
            return Err(OpError::Unsupported { what: "a running average outside training" });
        }
        self.normalize(&mut y, inner, &given, &[scale?, b?])?;
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)
    }

    fn flops(&self, _inputs: &Facts<'_>, outputs: &[Fact]) -> u64 {
        // A factor and a summand per element; everything else is per channel.
        element_flops(2, outputs.first())
    }
}

impl BatchNormalization {
    /// `given · momentum + found · (1 − momentum)`.
    fn running(&self, given: &[f64], found: &[f64]) -> Result<Vec<f64>, TensorError> {
        let momentum = f64::from(self.momentum);
        let average = |(given, found)| given * momentum + found * (1.0 - momentum);
        collected(given.iter().zip(found).map(average))
    }

    fn normalize(
        &self,
        x: &mut [f64],
        inner: usize,
        [mean, variance]: &[Vec<f64>; 2],
        [scale, b]: &[Vec<f64>; 2],
    ) -> Result<(), TensorError> {
        let mut pace = Pace::new();
        for (i, x) in x.chunks_exact_mut(inner.max(1)).enumerate() {
            pace.go(inner)?;
            let c = i % mean.len();
            let factor = scale[c] / (variance[c] + f64::from(self.epsilon)).sqrt();
            x.iter_mut().for_each(|x| *x = (*x - mean[c]) * factor + b[c]);
        }
        Ok(())
    }
}

/// Mean and variance (over all elements, not all but one) of each channel of `x: [N, C, inner]`.
fn moments(x: &[f64], channels: usize, inner: usize) -> Result<[Vec<f64>; 2], TensorError> {
    let mean = mean_by_channel(x, channels, inner, |_, x| x)?;
    let variance = mean_by_channel(x, channels, inner, |c, x| (x - mean[c]).powi(2))?;
    Ok([mean, variance])
}

fn mean_by_channel(
    x: &[f64],
    channels: usize,
    inner: usize,
    f: impl Fn(usize, f64) -> f64,
) -> Result<Vec<f64>, TensorError> {
    let (mut means, mut pace) = (filled(0.0, channels)?, Pace::new());
    for (i, x) in x.chunks_exact(inner.max(1)).enumerate() {
        pace.go(inner)?;
        let c = i % channels;
        means[c] += x.iter().map(|&x| f(c, x)).sum::<f64>();
    }
    let n = x.len() as f64 / channels as f64;
    means.iter_mut().for_each(|mean| *mean /= n);
    Ok(means)
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor, f16};

    use crate::case::{Case, tensor};

    const STATISTICS: [[f32; 2]; 4] = [[2.0, 1.0], [10.0, 20.0], [1.0, 0.0], [3.0, 0.0]];

    fn parameters(x: Tensor) -> Vec<Tensor> {
        let parameters = STATISTICS.iter().map(|values| tensor(&[2], values));
        std::iter::once(x).chain(parameters).collect()
    }

    fn case(version: i32) -> Case {
        Case::new("BatchNormalization", version).attr("epsilon", Attr::Float(1.0))
    }

    #[test]
    fn each_channel_has_its_own_mean_and_scale() {
        let x = tensor(&[1, 2, 2], &[1_f32, 3.0, 1.0, -2.0]);
        let y = tensor(&[1, 2, 2], &[10_f32, 12.0, 21.0, 18.0]);
        for version in [7, 9, 14, 15] {
            assert_eq!(case(version).tensor(&parameters(x.clone())), Ok(y.clone()));
        }
        let test = case(6).attr("is_test", Attr::Int(1));
        assert_eq!(test.tensor(&parameters(x)), Ok(y));
        let half = tensor(&[1, 2], &[f16::ONE; 2]);
        let y = case(15).tensor(&parameters(half)).unwrap();
        assert_eq!(y, tensor(&[1, 2], &[10.0, 21.0].map(f16::from_f32)));
    }

    #[test]
    fn a_vector_is_one_channel_and_no_batch_gives_nothing() {
        let one: Vec<_> = [4_f32, 2.0, 1.0, 0.0, 3.0].map(|v| tensor(&[1], &[v])).into();
        assert_eq!(case(15).tensor(&one), Ok(tensor(&[1], &[5_f32])));
        let empty = tensor::<f32>(&[0, 2], &[]);
        assert_eq!(case(15).tensor(&parameters(empty.clone())), Ok(empty));
    }

    #[test]
    fn elements_of_a_channel_can_have_their_own_mean() {
        let mut inputs = parameters(tensor(&[2, 1, 2], &[1_f32, 1.0, 3.0, -2.0]));
        for input in &mut inputs[1..] {
            *input = input.reshaped(&[1, 2]).unwrap();
        }
        let y = case(7).attr("spatial", Attr::Int(0)).tensor(&inputs);
        assert_eq!(y, Ok(tensor(&[2, 1, 2], &[10_f32, 21.0, 12.0, 18.0])));
    }

    #[test]
    fn training_takes_the_moments_of_the_batch() {
        let x = tensor(&[2, 2, 1], &[1_f32, 0.0, 3.0, 0.0]);
        let case = case(14).attr("training_mode", Attr::Int(1)).attr("momentum", Attr::Float(0.5));
        let found = case.outputs(3).run(&parameters(x)).unwrap();
        let half = 2.0 / 2_f32.sqrt();
        let expected = [
            tensor(&[2, 2, 1], &[10.0 - half, 20.0, 10.0 + half, 20.0]),
            tensor(&[2], &[1.5_f32, 0.0]),
            tensor(&[2], &[2_f32, 0.0]),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.as_tensor().unwrap(), &expected);
        }
    }

    #[test]
    fn parameters_of_another_length_are_refused() {
        let x = Tensor::zeros(DType::F32, &[1, 3]).unwrap();
        assert!(case(15).tensor(&parameters(x)).is_err());
        assert!(case(15).tensor(&parameters(Tensor::scalar(1_f32))).is_err());
    }
}
