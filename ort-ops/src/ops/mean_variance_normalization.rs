//! MeanVarianceNormalization: `y = (x − E x) / (√E (x − E x)² + 10⁻⁹)` over some axes.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::floats;
use crate::infer::normalize_axes;
use crate::walk::Walk;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "MeanVarianceNormalization",
    versions: (1, 13),
    types: DType::is_float,
    build: MeanVarianceNormalization::build,
}];

/// Keeps a constant from dividing by 0.
pub const EPSILON: f64 = 1e-9;

/// MeanVarianceNormalization of floats, computed in f64 and rounded once.
///
/// Source: ONNX operator set, MeanVarianceNormalization-13; version 1 has other attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeanVarianceNormalization {
    /// Which axes share mean and variance.
    pub joined: Joined,
    /// Whether differences from the mean are divided by the deviation; optional in version 1 only.
    pub normalizes_variance: bool,
}

/// Axes that share mean and variance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// These, negative ones from the back.
    Axes(Vec<i64>),
    /// All but axis 1.
    AllButChannels,
    /// All.
    All,
}

impl MeanVarianceNormalization {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        if spec.since_version < 9 {
            let across = spec.flag("across_channels", false)?;
            return Ok(Arc::new(Self {
                joined: if across { Joined::All } else { Joined::AllButChannels },
                normalizes_variance: spec.flag("normalize_variance", true)?,
            }));
        }
        let axes = spec.ints("axes")?.map_or_else(|| vec![0, 2, 3], <[i64]>::to_vec);
        Ok(Arc::new(Self { joined: Joined::Axes(axes), normalizes_variance: true }))
    }

    /// The axes of an operand with `rank` axes, in ascending order.
    ///
    /// # Errors
    /// If it has no such axis, or one occurs twice.
    pub fn axes(&self, rank: usize) -> Result<Vec<usize>, OpError> {
        match &self.joined {
            Joined::Axes(axes) => normalize_axes(axes, rank),
            Joined::AllButChannels => Ok((0..rank).filter(|&axis| axis != 1).collect()),
            Joined::All => Ok((0..rank).collect()),
        }
    }
}

impl Operator for MeanVarianceNormalization {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_float)?;
        let fact = inputs.fact(0)?;
        if let Some(rank) = fact.rank() {
            self.axes(rank)?;
        }
        Ok(vec![fact.ty.clone().into()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axes = self.axes(x.shape().len())?;
        let is_joined: Vec<bool> =
            (0..x.shape().len()).map(|i| axes.binary_search(&i).is_ok()).collect();
        let mut y = floats::read(x)?;
        if !y.is_empty() {
            let n: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
            let n = n as f64;
            let walk = Walk::new(x.shape(), &is_joined);
            let mut mean = walk.fold(&y, 0.0, |x| x, |a, b| a + b)?;
            mean.iter_mut().for_each(|mean| *mean /= n);
            walk.spread(&mut y, &mean, |x, mean| *x -= mean)?;
            if self.normalizes_variance {
                let mut deviation = walk.fold(&y, 0.0, |x| x * x, |a, b| a + b)?;
                deviation.iter_mut().for_each(|sum| *sum = (*sum / n).sqrt() + EPSILON);
                walk.spread(&mut y, &deviation, |x, deviation| *x /= deviation)?;
            }
        }
        floats::write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    #[test]
    fn channels_are_normalized_each_on_its_own_by_default() {
        let x = tensor(&[2, 2, 1, 1], &[1_f32, 5.0, 3.0, 5.0]);
        let y = tensor(&[2, 2, 1, 1], &[-1_f32, 0.0, 1.0, 0.0]);
        let case = || Case::new("MeanVarianceNormalization", 13);
        assert_eq!(case().tensor(&[x]), Ok(y));
        let rows = case().attr("axes", Attr::Ints(vec![-1]));
        let x = tensor(&[2, 2], &[1_f64, 2.0, 1e9, 3e9]);
        let y = rows.tensor(&[x]).unwrap();
        // The epsilon is 2 · 10⁻⁹ of the deviation of the first row, 10⁻¹⁸ of the second.
        let first = 0.5 / (0.5 + 1e-9);
        assert_eq!(y, tensor(&[2, 2], &[-first, first, -1.0, 1.0]));
    }

    #[test]
    fn empty_tensors_pass_and_missing_axes_do_not() {
        let x = tensor::<f32>(&[0, 1, 2, 3], &[]);
        let case = Case::new("MeanVarianceNormalization", 9);
        assert_eq!(case.tensor(std::slice::from_ref(&x)), Ok(x));
        assert!(case.tensor(&[Tensor::scalar(1_f32)]).is_err());
    }

    #[test]
    fn the_first_version_had_flags() {
        let x = tensor(&[2, 2, 1], &[1_f32, 5.0, 3.0, 7.0]);
        let case = |across, variance| {
            let case = Case::new("MeanVarianceNormalization", 1)
                .attr("across_channels", Attr::Int(across))
                .attr("normalize_variance", Attr::Int(variance));
            case.tensor(std::slice::from_ref(&x)).unwrap()
        };
        assert_eq!(case(0, 0), tensor(&[2, 2, 1], &[-1_f32, -1.0, 1.0, 1.0]));
        assert_eq!(case(0, 1), case(0, 0));
        assert_eq!(case(1, 0), tensor(&[2, 2, 1], &[-3_f32, 1.0, -1.0, 3.0]));
    }
}
