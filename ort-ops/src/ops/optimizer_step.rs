//! One step of training: Adagrad, Adam and Momentum.

// collects are bounded: by the operands

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Pace, Tensor, TensorView, collected, filled};

const DOMAIN: &str = "ai.onnx.preview.training";

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef { domain: DOMAIN, name: "Adagrad", versions: (1, 1), types: is_float, build: adagrad },
    OpDef { domain: DOMAIN, name: "Adam", versions: (1, 1), types: is_float, build: adam },
    OpDef { domain: DOMAIN, name: "Momentum", versions: (1, 1), types: is_float, build: momentum },
];

const fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// A step of gradient descent. The inputs are the learning rate `r`, the number of the step `t`, and for each of n
/// tensors its value `x`, then the gradient `g` of each, then each kind of state; the outputs are the new values, then
/// the new state. Elements are computed in f64.
///
/// With `g + norm_coefficient·x` as `g`:
///
/// - Adagrad: `h += g²`, `x -= r/(1 + t·decay_factor) · g/(√h + epsilon)`.
/// - Adam: `v = alpha·v + (1−alpha)·g`, `h = beta·h + (1−beta)·g²`, `x -= r'·v/(√h + epsilon)`, where `r' = r` if `t` is
///   0 and `r·√(1−beta^t)/(1−alpha^t)` otherwise; then `x *= 1 − norm_coefficient_post`.
/// - Momentum: `v = alpha·v + b·g`, where `b` is 1 if `t` is 0 and `beta` otherwise; `x -= r·v`, or in mode `nesterov`
///   `x -= r·(g + alpha·v)`.
///
/// Source: ONNX operator set ai.onnx.preview.training, version 1.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerStep {
    rule: Rule,
    norm: f32,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Adagrad { decay: f32, epsilon: f32 },
    Adam { alpha: f32, beta: f32, epsilon: f32, norm_post: f32 },
    Momentum { alpha: f32, beta: f32, is_nesterov: bool },
}

fn adagrad(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    let decay = spec.float("decay_factor")?.unwrap_or(0.0);
    let epsilon = spec.float("epsilon")?.unwrap_or(0.0);
    step(spec, Rule::Adagrad { decay, epsilon })
}

fn adam(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    let rule = Rule::Adam {
        alpha: spec.float("alpha")?.unwrap_or(0.9),
        beta: spec.float("beta")?.unwrap_or(0.999),
        epsilon: spec.float("epsilon")?.unwrap_or(0.0),
        norm_post: spec.float("norm_coefficient_post")?.unwrap_or(0.0),
    };
    step(spec, rule)
}

fn momentum(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    let required = |name| spec.float(name)?.ok_or(OpError::MissingAttribute { name });
    let (alpha, beta) = (required("alpha")?, required("beta")?);
    required("norm_coefficient")?;
    let is_nesterov =
        match spec.string("mode")?.ok_or(OpError::MissingAttribute { name: "mode" })? {
            "nesterov" => true,
            "standard" => false,
            other => {
                return Err(OpError::AttributeValue { name: "mode", found: other.to_owned() });
            }
        };
    step(spec, Rule::Momentum { alpha, beta, is_nesterov })
}

fn step(spec: &NodeSpec<'_>, rule: Rule) -> Result<Arc<dyn Operator>, OpError> {
    let norm = spec.float("norm_coefficient")?.unwrap_or(0.0);
    let step = OptimizerStep { rule, norm };
    match spec.inputs.len().checked_sub(2).filter(|n| n.is_multiple_of(2 + step.n_states())) {
        Some(_) => Ok(Arc::new(step)),
        None => {
            let expected = "two, and as many values as gradients and states";
            Err(OpError::InputCount { expected, found: spec.inputs.len() })
        }
    }
}

impl OptimizerStep {
    const fn n_states(&self) -> usize {
        match self.rule {
            Rule::Adam { .. } => 2,
            _ => 1,
        }
    }

    /// The new value, from the old one, its gradient and its state, which is changed.
    fn element(&self, (r, t): (f64, f64), x: f64, g: f64, state: &mut [f64]) -> f64 {
        let g = g + f64::from(self.norm) * x;
        match self.rule {
            Rule::Adagrad { decay, epsilon } => {
                state[0] += g * g;
                let r = r / (1.0 + t * f64::from(decay));
                x - r * g / (state[0].sqrt() + f64::from(epsilon))
            }
            Rule::Adam { alpha, beta, epsilon, norm_post } => {
                let (alpha, beta) = (f64::from(alpha), f64::from(beta));
                state[0] = alpha * state[0] + (1.0 - alpha) * g;
                state[1] = beta * state[1] + (1.0 - beta) * g * g;
                let corrected = (1.0 - beta.powf(t)).sqrt() / (1.0 - alpha.powf(t));
                let r = if t > 0.0 { r * corrected } else { r };
                let x = x - r * state[0] / (state[1].sqrt() + f64::from(epsilon));
                (1.0 - f64::from(norm_post)) * x
            }
            Rule::Momentum { alpha, beta, is_nesterov } => {
                let alpha = f64::from(alpha);
                let beta = if t > 0.0 { f64::from(beta) } else { 1.0 };
                state[0] = alpha * state[0] + beta * g;
                x - r * if is_nesterov { g + alpha * state[0] } else { state[0] }
            }
        }
    }
}

impl Operator for OptimizerStep {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let n = (inputs.len() - 2) / (2 + self.n_states());
        let kept = (2..2 + n).chain(2 + 2 * n..inputs.len());
        kept.map(|index| {
            let fact = inputs.fact(index)?;
            inputs.dtype(index, is_float)?;
            Ok(Fact { constant: None, ..fact.clone() })
        })
        .collect()
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let n = (inputs.len() - 2) / (2 + self.n_states());
        let scalar = |index| -> Result<f64, OpError> {
            let values = floats(inputs.tensor(index)?)?;
            let one = OpError::InputValue { index, what: "not a single number" };
            values.first().copied().ok_or(one)
        };
        let (r, t) = (scalar(0)?, scalar(1)?);
        for i in 0..n {
            let at = |part: usize| inputs.tensor(2 + part * n + i);
            let (mut x, g) = (floats(at(0)?)?, floats(at(1)?)?);
            // bounded: as many as the node has
            let mut states = Vec::with_capacity(self.n_states());
            for state in 0..self.n_states() {
                states.push(floats(at(2 + state)?)?);
            }
            if g.len() != x.len() || states.iter().any(|state| state.len() != x.len()) {
                let (left, right) = (at(0)?.shape().to_vec(), at(1)?.shape().to_vec());
                return Err(OpError::Shapes { what: "a value and its gradient", left, right });
            }
            let mut state = filled(0.0, states.len())?;
            let mut pace = Pace::new();
            for (k, (x, g)) in x.iter_mut().zip(g).enumerate() {
                pace.go(1 + states.len())?;
                state.iter_mut().zip(&states).for_each(|(now, all)| *now = all[k]);
                *x = self.element((r, t), *x, g, &mut state);
                state.iter().zip(&mut states).for_each(|(now, all)| all[k] = *now);
            }
            let like = at(0)?;
            for (part, values) in std::iter::once(x).chain(states).enumerate() {
                // A node may leave out those at the end.
                if let Some(output) = outputs.get_mut(part * n + i) {
                    output.set(rounded(like, &values)?.into())?;
                }
            }
        }
        Ok(())
    }
}

fn floats(tensor: TensorView<'_>) -> Result<Vec<f64>, OpError> {
    Ok(match tensor.dtype() {
        DType::F32 => collected(tensor.as_slice::<f32>()?.iter().copied().map(f64::from))?,
        DType::I64 => {
            let exact = |&n: &i64| i32::try_from(n).map_or(f64::INFINITY, f64::from);
            collected(tensor.as_slice::<i64>()?.iter().map(exact))?
        }
        _ => collected(tensor.as_slice::<f64>()?.iter().copied())?,
    })
}

/// Numbers as a tensor of that type and shape.
fn rounded(like: TensorView<'_>, values: &[f64]) -> Result<Tensor, OpError> {
    Ok(match like.dtype() {
        #[expect(clippy::cast_possible_truncation, reason = "rounding is intended")]
        DType::F32 => {
            let rounded = collected(values.iter().map(|&x| x as f32))?;
            Tensor::from_slice(like.shape(), &rounded)?
        }
        _ => Tensor::from_slice(like.shape(), values)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers follow from the formulas by hand.
    #[test]
    fn a_step_is_what_the_formulas_say() {
        let adagrad = OptimizerStep { rule: Rule::Adagrad { decay: 1.0, epsilon: 0.0 }, norm: 0.0 };
        let mut state = [0.0];
        assert_eq!(adagrad.element((1.0, 1.0), 2.0, 4.0, &mut state), 1.5);
        assert_eq!(state, [16.0]);
        let rule = Rule::Momentum { alpha: 0.5, beta: 0.25, is_nesterov: false };
        let momentum = OptimizerStep { rule, norm: 1.0 };
        let mut state = [4.0];
        assert_eq!(momentum.element((0.5, 0.0), 2.0, 2.0, &mut state), -1.0);
        assert_eq!(state, [6.0]);
        let rule = Rule::Adam { alpha: 0.5, beta: 0.75, epsilon: 0.0, norm_post: 0.5 };
        let adam = OptimizerStep { rule, norm: 0.0 };
        let mut state = [0.0, 0.0];
        assert_eq!(adam.element((1.0, 1.0), 3.0, 2.0, &mut state), 1.0);
        assert_eq!(state, [1.0, 1.0]);
    }
}
