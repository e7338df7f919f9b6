//! What one expert computes: two layers with an activation between them, which may be a gate.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{TensorError, TensorView, collected, filled};

use crate::weights::{QuantizedRows, add_product_by_rows, float_row};

/// The function between the layers of an expert.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExpertActivation {
    /// `max(0, x)`.
    Relu,
    /// `max(0, x)²`.
    SquaredRelu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))`.
    Gelu,
    /// `x / (1 + exp(−x))`.
    Silu,
    /// `x`.
    Identity,
    /// `g / (1 + exp(−alpha·g)) · (l + beta)`, where `l` is clamped to `−limit` and `limit`, and `g` or, if the limit
    /// comes after the activation, the quotient to at most `limit`.
    Swiglu {
        /// The factor in the exponent.
        alpha: f32,
        /// What is added to the linear part.
        beta: f32,
        /// The bound.
        limit: f32,
        /// Whether it limits the activated gate, not the gate.
        is_limit_after: bool,
    },
}

/// The source of the linear part of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A separate layer, if there is one.
    Apart,
    /// Every second column of the first layer.
    Interleaved,
    /// The second half of the columns of the first layer.
    Halves,
}

/// The activation `gelu`, of a gate whose parts are both in the first layer.
pub(super) const GEGLU: &str = "geglu";

impl ExpertActivation {
    pub(super) fn of_node(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        let (alpha, beta) = (spec.float("activation_alpha")?, spec.float("activation_beta")?);
        let limit = spec.float("swiglu_limit")?.unwrap_or(f32::INFINITY);
        let is_limit_after = spec.flag("swiglu_limit_after_activation", false)?;
        let activation = match spec.string("activation_type")? {
            None | Some("relu") => Self::Relu,
            Some("relu2") => Self::SquaredRelu,
            Some("gelu" | GEGLU) => Self::Gelu,
            Some("silu") => Self::Silu,
            Some("identity") => Self::Identity,
            Some("swiglu") => {
                let (alpha, beta) = (alpha.unwrap_or(1.0), beta.unwrap_or(0.0));
                return Ok(Self::Swiglu { alpha, beta, limit, is_limit_after });
            }
            Some(found) => {
                let (name, found) = ("activation_type", found.to_owned());
                return Err(OpError::AttributeValue { name, found });
            }
        };
        if is_limit_after {
            let (name, found) = ("swiglu_limit_after_activation", "1".to_owned());
            return Err(OpError::AttributeValue { name, found });
        }
        Ok(activation)
    }

    fn apply(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::SquaredRelu => x.max(0.0).powi(2),
            Self::Gelu => {
                let root = (2.0 / std::f64::consts::PI).sqrt();
                0.5 * x * (1.0 + (root * (x + 0.044_715 * x * x * x)).tanh())
            }
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Identity => x,
            Self::Swiglu { .. } => self.gated(x, 1.0),
        }
    }

    /// The activation of `gate` times the linear part.
    fn gated(self, gate: f64, linear: f64) -> f64 {
        let Self::Swiglu { alpha, beta, limit, is_limit_after } = self else {
            return self.apply(gate) * linear;
        };
        let [alpha, beta, limit] = [alpha, beta, limit].map(f64::from);
        // A limit below zero clamps to itself.
        let at_most = |x: f64| if x > limit { limit } else { x };
        let silu = |x: f64| x / (1.0 + (-alpha * x).exp());
        let linear = at_most(linear);
        let linear = if linear < -limit { -limit } else { linear };
        let gate = if is_limit_after { at_most(silu(gate)) } else { silu(at_most(gate)) };
        gate * (linear + beta)
    }

    /// The input of the second layer from the output of the first, whose rows have
    /// `n_columns`, and from that of the layer of the linear part.
    pub(super) fn between(
        self,
        gate: Gate,
        first: Vec<f64>,
        linear: Option<Vec<f64>>,
        n_columns: usize,
    ) -> Result<Vec<f64>, TensorError> {
        let pairs = |row: &[f64], i: usize| match gate {
            Gate::Interleaved => self.gated(row[2 * i], row[2 * i + 1]),
            _ => self.gated(row[i], row[i + row.len() / 2]),
        };
        match (gate, linear) {
            (Gate::Apart, None) => collected(first.into_iter().map(|x| self.apply(x))),
            (Gate::Apart, Some(linear)) => {
                let pairs = first.iter().zip(&linear);
                collected(pairs.map(|(&gate, &linear)| self.gated(gate, linear)))
            }
            (..) if n_columns == 0 => Ok(first),
            (..) => {
                let rows = first.chunks_exact(n_columns);
                collected(rows.flat_map(|row| (0..n_columns / 2).map(move |i| pairs(row, i))))
            }
        }
    }
}

/// The same layer of all experts: `y = x·wᵀ + bias`, the rows of the weights expert by expert.
pub(super) struct Layer<'a> {
    pub(super) weights: Weights<'a>,
    /// A row for each expert.
    pub(super) bias: Option<Vec<f64>>,
    /// The rows and columns of the weights of one expert.
    pub(super) size: [usize; 2],
}

/// The weights of a layer.
pub(super) enum Weights<'a> {
    /// Floats, input `.0`.
    Floats(usize, TensorView<'a>),
    /// Quantized values.
    Quantized(QuantizedRows<'a>),
}

impl Layer<'_> {
    /// The layer of one expert on `n_rows` rows of `x`.
    pub(super) fn apply(
        &self,
        expert: usize,
        x: &[f64],
        n_rows: usize,
    ) -> Result<Vec<f64>, OpError> {
        let [n, _] = self.size;
        let mut y = match &self.bias {
            Some(bias) => {
                let row = &bias[expert * n..][..n];
                collected((0..n_rows).flat_map(|_| row.iter().copied()))?
            }
            None => filled(0.0, n * n_rows)?,
        };
        add_product_by_rows(x, self.size, &mut y, |row, w| match &self.weights {
            Weights::Floats(index, view) => float_row(*index, *view, expert * n + row, w),
            Weights::Quantized(quantized) => {
                quantized.row(expert * n + row, w);
                Ok(())
            }
        })?;
        Ok(y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_takes_its_parts_from_where_they_are() {
        let (alpha, beta, limit) = (0.0, 1.0, 4.0);
        let swiglu = ExpertActivation::Swiglu { alpha, beta, limit, is_limit_after: false };
        let first = || vec![2.0, 3.0, 8.0, -9.0];
        let cases = [
            (Gate::Interleaved, None, vec![4.0, -6.0]),
            (Gate::Halves, None, vec![5.0, -4.5]),
            (Gate::Apart, Some(vec![0.0, 1.0, 2.0, 3.0]), vec![1.0, 3.0, 6.0, -18.0]),
        ];
        for (gate, linear, expected) in cases {
            assert_eq!(swiglu.between(gate, first(), linear, 4), Ok(expected), "{gate:?}");
        }
        let swiglu = ExpertActivation::Swiglu { alpha, beta, limit: 3.0, is_limit_after: true };
        let y = swiglu.between(Gate::Halves, vec![4.0, 8.0, 1.0, -9.0], None, 4);
        assert_eq!(y, Ok(vec![4.0, -6.0]));
        let relu = ExpertActivation::Relu;
        let y = relu.between(Gate::Apart, first(), None, 4);
        assert_eq!(y, Ok(vec![2.0, 3.0, 8.0, 0.0]));
        let linear = Some(vec![-1.0; 4]);
        let y = relu.between(Gate::Apart, first(), linear, 4);
        assert_eq!(y, Ok(vec![-2.0, -3.0, -8.0, -0.0]));
    }
}
