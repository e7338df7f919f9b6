//! GroupNormalization and InstanceNormalization: `y = (x − mean) · inv_std · scale + b`, with mean
//! and deviation of a group of channels.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, n_elements};

use super::layer_normalization::standardize_rows;
use crate::floats;
use crate::infer::expect_dims;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "GroupNormalization",
        versions: (18, 21),
        types: DType::is_float,
        build: GroupNormalization::build_group,
    },
    OpDef {
        domain: "",
        name: "InstanceNormalization",
        versions: (1, 22),
        types: DType::is_float,
        build: GroupNormalization::build_instance,
    },
];

/// GroupNormalization of `x: [N, C, D…]`, floats computed in f64 and rounded once; `scale` and `b`
/// are `[C]`, before version 21 `[num_groups]`. InstanceNormalization is a group for each channel.
///
/// Source: ONNX operator set, GroupNormalization-18 and -21, InstanceNormalization-22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNormalization {
    /// How many groups the channels form; `None` if each channel is one.
    pub n_groups: Option<usize>,
    /// What is added to the variance.
    pub epsilon: f32,
    /// Whether `scale` and `b` have a value for each group; else for each channel.
    pub is_scaled_by_group: bool,
}

impl GroupNormalization {
    fn build_group(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        const NAME: &str = "num_groups";
        let found = spec.int(NAME)?.ok_or(OpError::MissingAttribute { name: NAME })?;
        let n_groups = usize::try_from(found).ok().filter(|&n| n > 0);
        let wrong = || OpError::AttributeValue { name: NAME, found: found.to_string() };
        // The precision of the first stage: ours is never lower.
        spec.ignore("stash_type");
        Ok(Arc::new(Self {
            n_groups: Some(n_groups.ok_or_else(wrong)?),
            epsilon: spec.float("epsilon")?.unwrap_or(1e-5),
            is_scaled_by_group: spec.since_version < 21,
        }))
    }

    fn build_instance(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.since_version < 6 {
            spec.ignore("consumed_inputs");
        }
        let epsilon = spec.float("epsilon")?.unwrap_or(1e-5);
        Ok(Arc::new(Self { n_groups: None, epsilon, is_scaled_by_group: false }))
    }
}

impl Operator for GroupNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let fact = inputs.fact(0)?;
        for i in [1, 2] {
            inputs.expect_dtype(i, dtype)?;
            let channels = match fact.dims() {
                Some([_, channels, ..]) => channels.clone(),
                Some(dims) => return Err(no_channels(dims.len())),
                None => Dim::Unknown,
            };
            let len = match self.n_groups.filter(|_| self.is_scaled_by_group) {
                Some(n_groups) => Dim::Known(n_groups),
                None => channels,
            };
            expect_dims(inputs, i, &[len])?;
        }
        Ok(vec![fact.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let &[_, channels, ref inner @ ..] = x.shape() else {
            return Err(no_channels(x.shape().len()));
        };
        let inner = n_elements(inner).unwrap_or(0);
        let n_groups = self.n_groups.unwrap_or(channels);
        if channels.checked_rem(n_groups).unwrap_or(0) != 0 {
            let (left, right) = (vec![channels], vec![n_groups]);
            return Err(OpError::Shapes { what: "channels and groups", left, right });
        }
        let n_in_group = channels.checked_div(n_groups).unwrap_or(0);
        let n_shared = if self.is_scaled_by_group { n_in_group } else { 1 };
        let n_parameters = if self.is_scaled_by_group { n_groups } else { channels };
        let scale = floats::read_parameter(inputs, 1, n_parameters)?;
        let b = floats::read_parameter(inputs, 2, n_parameters)?;
        let mut y = floats::read(x)?;
        standardize_rows(&mut y, n_in_group.saturating_mul(inner), self.epsilon, true)?;
        let mut pace = Pace::new();
        for (i, y) in y.chunks_exact_mut(inner.max(1)).enumerate() {
            pace.go(inner)?;
            let at = i % channels / n_shared;
            y.iter_mut().for_each(|y| *y = *y * scale[at] + b[at]);
        }
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}

const fn no_channels(found: usize) -> OpError {
    OpError::InputRank { index: 0, expected: "2 or more", found }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, bf16, f16};

    use crate::case::{Case, tensor};

    fn group(version: i32, n: i64) -> Case {
        let case = Case::new("GroupNormalization", version).attr("num_groups", Attr::Int(n));
        case.attr("epsilon", Attr::Float(0.0))
    }

    #[test]
    fn a_group_shares_mean_and_deviation_and_before_21_the_scale() {
        let x = tensor(&[1, 4, 1], &[1_f32, 3.0, 5.0, 13.0]);
        let by_group = [x.clone(), tensor(&[2], &[1_f32, 2.0]), tensor(&[2], &[0_f32, 1.0])];
        let y = tensor(&[1, 4, 1], &[-1_f32, 1.0, -1.0, 3.0]);
        assert_eq!(group(18, 2).tensor(&by_group), Ok(y));
        let by_channel = [x, tensor(&[4], &[1_f32, 2.0, 3.0, 4.0]), tensor(&[4], &[0_f32; 4])];
        let y = tensor(&[1, 4, 1], &[-1_f32, 2.0, -3.0, 4.0]);
        assert_eq!(group(21, 2).tensor(&by_channel), Ok(y));
        assert!(group(21, 2).tensor(&by_group).is_err());
        assert!(group(21, 3).tensor(&by_channel).is_err());
    }

    #[test]
    fn an_instance_is_a_channel_of_one_image() {
        let x = [1_f32, 3.0, 0.0, 0.0];
        let case = Case::new("InstanceNormalization", 22).attr("epsilon", Attr::Float(3.0));
        let [scale, b] = [[2_f32, 1.0], [0.0, 7.0]];
        let y = [-1_f32, 1.0, 7.0, 7.0];
        let inputs = [tensor(&[1, 2, 2], &x), tensor(&[2], &scale), tensor(&[2], &b)];
        assert_eq!(case.tensor(&inputs), Ok(tensor(&[1, 2, 2], &y)));
        let f = |v: &[f32]| v.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>();
        let inputs = [tensor(&[1, 2, 2], &f(&x)), tensor(&[2], &f(&scale)), tensor(&[2], &f(&b))];
        assert_eq!(case.tensor(&inputs), Ok(tensor(&[1, 2, 2], &f(&y))));
        let f = |v: &[f32]| v.iter().map(|&v| bf16::from_f32(v)).collect::<Vec<_>>();
        let inputs = [tensor(&[1, 2, 2], &f(&x)), tensor(&[2], &f(&scale)), tensor(&[2], &f(&b))];
        assert_eq!(case.tensor(&inputs), Ok(tensor(&[1, 2, 2], &f(&y))));
    }

    #[test]
    fn empty_images_pass_and_vectors_do_not() {
        let zeros = |shape: &[usize]| Tensor::zeros(ort_tensor::DType::F64, shape).unwrap();
        for shape in [[0, 2, 2], [1, 2, 0], [1, 0, 2]] {
            let c = zeros(&[shape[1]]);
            let case = Case::new("InstanceNormalization", 6);
            assert_eq!(case.tensor(&[zeros(&shape), c.clone(), c]), Ok(zeros(&shape)), "{shape:?}");
        }
        let vector = [zeros(&[2]), zeros(&[2]), zeros(&[2])];
        assert!(Case::new("InstanceNormalization", 6).tensor(&vector).is_err());
    }
}
