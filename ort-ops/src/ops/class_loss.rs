//! NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: losses of classifiers.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, Shape, collected, with_room};

use super::softmax::log_softmax;
use crate::floats;
use crate::infer::{expect_dims, int_values, tensor_fact};
use crate::lanes::Lanes;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "NegativeLogLikelihoodLoss",
        versions: (12, 22),
        types: DType::is_float,
        build: |spec| ClassLoss::build(spec, false),
    },
    OpDef {
        domain: "",
        name: "SoftmaxCrossEntropyLoss",
        versions: (12, 13),
        types: DType::is_float,
        build: |spec| ClassLoss::build(spec, true),
    },
];

/// `loss[n, d…] = −x[n, c, d…] · weight[c]` with the class `c = target[n, d…]`, and 0 for the ignored class; then the
/// sum of these, or their mean: the sum divided by the sum of the weights of samples not ignored.
/// SoftmaxCrossEntropyLoss takes the logarithm of the softmax of `x` along the classes first, and returns it as a
/// second output.
///
/// `x: [N, C, D…]`, floats; `target: [N, D…]`, int32 or int64; `weight: [C]`, or absent, which means ones. The mean
/// without samples is NaN.
///
/// Source: ONNX operator set, NegativeLogLikelihoodLoss-22, SoftmaxCrossEntropyLoss-13. The class of an ignored
/// sample may be any integer there, as here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLoss {
    /// Whether `x` are scores, and not yet logarithms of probabilities.
    pub is_softmax: bool,
    /// The class whose samples do not count.
    pub ignore_index: Option<i64>,
    /// The reduction of the losses.
    pub reduction: Reduction,
}

/// The reduction of the losses of all samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// None: the losses are the result.
    None,
    /// Their sum.
    Sum,
    /// Their sum over the sum of the weights.
    Mean,
}

impl ClassLoss {
    fn build(spec: &NodeSpec<'_>, is_softmax: bool) -> Result<Arc<dyn Operator>, OpError> {
        let name = "reduction";
        let reduction = match spec.string(name)?.unwrap_or("mean") {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            other => return Err(OpError::AttributeValue { name, found: other.to_owned() }),
        };
        Ok(Arc::new(Self { is_softmax, ignore_index: spec.int("ignore_index")?, reduction }))
    }

    /// The dimensions of the losses before they are reduced.
    fn samples(inputs: &Facts<'_>) -> Result<Option<Dims>, OpError> {
        let target = inputs.fact(1)?.dims();
        let Some(x) = inputs.fact(0)?.dims() else { return Ok(target.map(Dims::from)) };
        let [batch, classes, rest @ ..] = x else {
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found: x.len() });
        };
        expect_dims(inputs, 2, std::slice::from_ref(classes))?;
        let of_x: Dims = std::iter::once(batch).chain(rest).cloned().collect();
        expect_dims(inputs, 1, &of_x)?;
        let Some(target) = target else { return Ok(Some(of_x)) };
        Ok(of_x.iter().zip(target).map(|(a, b)| a.unify(b)).collect())
    }

    /// The class of a sample with this label; `None` if it does not count.
    ///
    /// # Errors
    /// If there is no such class.
    #[inline]
    pub fn class(self, label: i64, n_classes: usize) -> Result<Option<usize>, OpError> {
        if self.ignore_index == Some(label) {
            return Ok(None);
        }
        let class = usize::try_from(label).ok().filter(|&class| class < n_classes);
        let wrong = || OpError::Index { what: "a class", index: label, len: n_classes };
        class.map(Some).ok_or_else(wrong)
    }

    /// The loss and the weight of each sample.
    fn losses(
        self,
        log_probabilities: &[f64],
        lanes: Lanes,
        labels: &[i64],
        weights: Option<&[f64]>,
    ) -> Result<(Vec<f64>, Vec<f64>), OpError> {
        let (mut losses, mut counted) = (with_room(labels.len())?, with_room(labels.len())?);
        let mut pace = Pace::new();
        for (i, &label) in labels.iter().enumerate() {
            pace.go(1)?;
            let (mut loss, mut weight) = (0.0, 0.0);
            if let Some(class) = self.class(label, lanes.len)? {
                let (n, d) = (i / lanes.inner, i % lanes.inner);
                weight = weights.map_or(1.0, |weights| weights[class]);
                loss = -log_probabilities[(n * lanes.len + class) * lanes.inner + d] * weight;
            }
            losses.push(loss);
            counted.push(weight);
        }
        Ok((losses, counted))
    }
}

impl Operator for ClassLoss {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.dtype(1, DType::is_index)?;
        inputs.expect_dtype(2, dtype)?;
        let samples = Self::samples(inputs)?;
        let loss = match self.reduction {
            Reduction::None => tensor_fact(dtype, samples),
            Reduction::Sum | Reduction::Mean => Fact::shaped(dtype, &[]),
        };
        let log_probabilities = self.is_softmax.then(|| inputs.fact(0)).transpose()?;
        let log_probabilities = log_probabilities.map(|x| x.ty.clone().into());
        Ok(std::iter::once(loss).chain(log_probabilities).collect())
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, target) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let &[batch, classes, ref rest @ ..] = x.shape() else {
            let found = x.shape().len();
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found });
        };
        let samples: Shape = std::iter::once(batch).chain(rest.iter().copied()).collect();
        if target.shape() != samples.as_slice() {
            let (left, right) = (samples.to_vec(), target.shape().to_vec());
            return Err(OpError::Shapes { what: "samples and their classes", left, right });
        }
        let weights = inputs.get(2).map(|_| floats::read_parameter(inputs, 2, classes));
        let weights = weights.transpose()?;
        let lanes = Lanes::along(x.shape(), 1);
        let mut values = floats::read(x)?;
        if self.is_softmax {
            let scores = collected(values.iter().copied())?;
            lanes.map(&scores, &mut values, log_softmax)?;
            floats::write(outputs, 1, x.dtype(), x.shape(), &values)?;
        }
        let labels = int_values(target)?;
        let (losses, counted) = self.losses(&values, lanes, &labels, weights.as_deref())?;
        // The sum of an empty iterator of floats would be −0.
        let sum = |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value);
        let (shape, loss) = match self.reduction {
            Reduction::None => (samples, losses),
            Reduction::Sum => (Shape::new(), vec![sum(&losses)]),
            Reduction::Mean => (Shape::new(), vec![sum(&losses) / sum(&counted)]),
        };
        floats::write(outputs, 0, x.dtype(), &shape, &loss)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    const NLL: &str = "NegativeLogLikelihoodLoss";
    const CROSS_ENTROPY: &str = "SoftmaxCrossEntropyLoss";

    fn case(name: &'static str, reduction: &str) -> Case {
        Case::new(name, 13).attr("reduction", Attr::String(reduction.into()))
    }

    fn ignoring(reduction: &str, class: i64) -> Case {
        case(NLL, reduction).attr("ignore_index", Attr::Int(class))
    }

    /// The samples of the specification's examples.
    fn samples() -> [Tensor; 2] {
        let x = [1_f32, 2., 2., 2., 3., 2., 0., 1., 2., 2., 1., 2.];
        [tensor(&[2, 3, 2], &x), tensor(&[2, 2], &[2_i64, 1, 0, 2])]
    }

    #[test]
    fn the_right_class_is_weighed_and_reduced() {
        let [x, target] = samples();
        let run = |reduction, weight: Option<&Tensor>| {
            let inputs: Vec<_> = [&x, &target].into_iter().chain(weight).cloned().collect();
            let y = case(NLL, reduction).tensor(&inputs).unwrap();
            y.as_slice::<f32>().unwrap().to_vec()
        };
        assert_eq!(run("none", None), [-3.0, -2.0, 0.0, -2.0]);
        assert_eq!(run("sum", None), [-7.0]);
        assert_eq!(run("mean", None), [-1.75]);
        let weight = tensor(&[3], &[2_f32, 3.0, 1.0]);
        assert_eq!(run("none", Some(&weight)), [-3.0, -6.0, 0.0, -2.0]);
        assert_eq!(run("sum", Some(&weight)), [-11.0]);
        assert_eq!(run("mean", Some(&weight)), [-11.0 / 7.0]);
        let short = tensor(&[2], &[2_f32, 3.0]);
        assert!(case(NLL, "sum").tensor(&[x.clone(), target.clone(), short]).is_err());
        assert!(case(NLL, "other").tensor(&[x, target]).is_err());
    }

    #[test]
    fn an_ignored_class_may_be_any_integer_and_counts_for_nothing() {
        let [x, _] = samples();
        for class in [-1, 1, 9, i64::MIN] {
            let target = tensor(&[2, 2], &[2, class, 0, 2]);
            let run = |reduction| {
                ignoring(reduction, class).tensor(&[x.clone(), target.clone()]).unwrap()
            };
            assert_eq!(run("none"), tensor(&[2, 2], &[-3_f32, 0.0, -0.0, -2.0]), "{class}");
            assert_eq!(run("mean"), Tensor::scalar(-5_f32 / 3.0), "{class}");
            let is_class = class == 1;
            assert_eq!(case(NLL, "sum").tensor(&[x.clone(), target]).is_ok(), is_class, "{class}");
        }
        let all = tensor(&[2, 2], &[7_i32; 4]);
        let mean = ignoring("mean", 7).tensor(&[x, all]).unwrap();
        assert!(mean.as_slice::<f32>().unwrap()[0].is_nan());
    }

    #[test]
    fn cross_entropy_is_that_of_the_softmax_and_shows_it() {
        let x = tensor(&[1, 2, 2], &[0_f64, 1000.0, 0.0, 0.0]);
        let target = tensor(&[1, 2], &[1_i32, 1]);
        let found = case(CROSS_ENTROPY, "sum").outputs(2).run(&[x, target]).unwrap();
        let half = 2_f64.ln();
        assert_eq!(found[0].as_tensor(), Ok(&Tensor::scalar(half + 1000.0)));
        let log_probabilities = tensor(&[1, 2, 2], &[-half, 0.0, -half, -1000.0]);
        assert_eq!(found[1].as_tensor(), Ok(&log_probabilities));
    }

    #[test]
    fn every_float_type_and_no_samples_pass() {
        let target = tensor(&[1], &[0_i64]);
        let run = |x| case(NLL, "none").tensor(&[x, target.clone()]);
        assert_eq!(run(tensor(&[1, 1], &[f16::ONE])), Ok(tensor(&[1], &[f16::NEG_ONE])));
        assert_eq!(run(tensor(&[1, 1], &[bf16::ONE])), Ok(tensor(&[1], &[bf16::NEG_ONE])));
        assert!(run(tensor(&[1, 0], &[0_f32; 0])).is_err());
        assert!(run(tensor(&[1], &[0_f32])).is_err() && run(tensor(&[1, 1], &[0_i32])).is_err());
        let empty = [tensor(&[2, 3, 0], &[0_f32; 0]), tensor(&[2, 0], &[0_i64; 0])];
        for name in [NLL, CROSS_ENTROPY] {
            assert_eq!(case(name, "none").tensor(&empty), Ok(tensor(&[2, 0], &[0_f32; 0])));
            assert_eq!(case(name, "sum").tensor(&empty), Ok(Tensor::scalar(0_f32)));
        }
    }
}
