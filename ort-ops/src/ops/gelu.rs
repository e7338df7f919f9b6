//! Gelu: `x` times the normal distribution function at `x`; exact or by tanh, with or without
//! a bias.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, Shape, with_dtype};

use crate::broadcast::{Operand, update, zip};
use crate::elementwise::{dtype_of, like_first, map_f64, only, unsupported};

const MICROSOFT: &str = "com.microsoft";

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Gelu",
        versions: (20, 20),
        types: DType::is_float,
        build: Gelu::build,
    },
    OpDef {
        domain: MICROSOFT,
        name: "BiasGelu",
        versions: (1, 1),
        types: DType::is_float,
        build: |_| Gelu::Exact.op(),
    },
    OpDef {
        domain: MICROSOFT,
        name: "FastGelu",
        versions: (1, 1),
        types: DType::is_float,
        build: |_| Gelu::Tanh.op(),
    },
    OpDef {
        domain: MICROSOFT,
        name: "Gelu",
        versions: (1, 1),
        types: DType::is_float,
        build: |_| Gelu::Exact.op(),
    },
];

/// Gelu: `y = z·Φ(z)`, `z = x + bias`. `x`: floats; `bias`, if there is one: `[c]`, `c` being the
/// last dimension of `x`. Computed in double precision and rounded once. Can run in place of `x`.
///
/// Source: ONNX operator set, Gelu-20; com.microsoft, Gelu-1, BiasGelu-1, FastGelu-1 (ONNX Runtime
/// 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// `Φ(z) = (1 + erf(z/√2)) / 2`
    Exact,
    /// `Φ(z) ≈ (1 + tanh(√(2/π)·(z + 0.044715·z³))) / 2`
    Tanh,
}

impl Gelu {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        match spec.string("approximate")? {
            None | Some("none") => Gelu::Exact.op(),
            Some("tanh") => Gelu::Tanh.op(),
            Some(other) => {
                Err(OpError::AttributeValue { name: "approximate", found: other.to_owned() })
            }
        }
    }

    fn op(self) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(self))
    }

    fn apply<T: Number>(
        inputs: Inputs<'_>,
        output: &mut Output<'_>,
        f: impl Fn(f64) -> f64,
    ) -> Result<(), OpError> {
        let Some(bias) = inputs.optional_tensor(1)? else {
            return map_f64::<T>(inputs, output, &f);
        };
        let bias = Operand::<T>::new(bias)?;
        let biased = |x: &T, bias: &T| T::from_f64(f(x.to_f64() + bias.to_f64()));
        if let Some((0, view)) = output.in_place_tensor() {
            return update((view.shape(), view.into_slice()?), bias, &biased);
        }
        let x = Operand::new(inputs.tensor(0)?)?;
        let shape = Shape::from_slice(x.shape);
        zip((&shape, output.tensor(T::DTYPE, &shape)?.into_slice()?), x, bias, &biased)
    }
}

impl Operator for Gelu {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let facts = like_first(inputs, DType::is_float)?;
        let Some(bias) = inputs.get(1) else { return Ok(facts) };
        inputs.expect_dtype(1, inputs.dtype(0, DType::is_float)?)?;
        let (Some(x), Some(bias)) = (inputs.fact(0)?.dims(), bias.dims()) else {
            return Ok(facts);
        };
        let [n_biases] = bias else {
            return Err(OpError::InputRank { index: 1, expected: "1", found: bias.len() });
        };
        match x.last().map(|channels| (channels.known(), n_biases.known())) {
            None => Err(OpError::InputRank { index: 0, expected: "at least 1", found: 0 }),
            Some((Some(channels), Some(n_biases))) if channels != n_biases => {
                let (left, right) = (vec![channels], vec![n_biases]);
                Err(OpError::Shapes { what: "last dimension and bias", left, right })
            }
            Some(_) => Ok(facts),
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let dtype = dtype_of(0, inputs, output)?;
        with_dtype!(dtype, float,
            T => match self {
                Gelu::Exact => Self::apply::<T>(inputs, output, exact),
                Gelu::Tanh => Self::apply::<T>(inputs, output, by_tanh),
            },
            else => Err(unsupported(0, dtype)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

fn exact(x: f64) -> f64 {
    // erfc keeps the digits that 1 + erf loses for negative x.
    0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2)
}

fn by_tanh(x: f64) -> f64 {
    const SQRT_2_OVER_PI: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044_715 * x * x * x)).tanh())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    /// Half an ULP for each of the operations of a formula, erfc, tanh and exp within one.
    const BOUND: f64 = 4.0 * f64::EPSILON;

    #[test]
    fn both_forms_give_known_values() {
        let x = || tensor(&[2], &[1.0_f64, -1.0]);
        let made = Case::new("Gelu", 20).tensor(&[x()]).unwrap();
        for (made, phi) in made.as_slice::<f64>().unwrap().iter().zip([
            // Φ(1) and −Φ(−1)
            0.841_344_746_068_542_9_f64,
            -0.158_655_253_931_457_05,
        ]) {
            assert!((made - phi).abs() <= BOUND * phi.abs(), "{made}, not {phi}");
        }
        assert_eq!(Case::new("Gelu", 1).domain(MICROSOFT).tensor(&[x()]), Ok(made));
        let tanh = Case::new("Gelu", 20).attr("approximate", Attr::String("tanh".into()));
        let fast = Case::new("FastGelu", 1).domain(MICROSOFT);
        let y = tanh.tensor(&[x()]).unwrap();
        assert_eq!(fast.tensor(&[x()]), Ok(y.clone()));
        // Another form of the same formula: z · sigmoid(2·√(2/π)·(z + 0.044715·z³)).
        let exponent = -2.0 * (2.0 / std::f64::consts::PI).sqrt() * 1.044_715;
        let expected = 1.0 / (1.0 + exponent.exp());
        assert!((y.as_slice::<f64>().unwrap()[0] - expected).abs() <= BOUND * expected);
    }

    #[test]
    fn a_bias_is_added_along_the_last_dimension() {
        let (x, bias) =
            (tensor(&[2, 2], &[0.0_f32, 1.0, 2.0, 3.0]), tensor(&[2], &[1.0_f32, -1.0]));
        let sum = tensor(&[2, 2], &[1.0_f32, 0.0, 3.0, 2.0]);
        for (biased, plain) in [("BiasGelu", "Gelu"), ("FastGelu", "FastGelu")] {
            let run = |op, inputs: &[Tensor]| Case::new(op, 1).domain(MICROSOFT).tensor(inputs);
            let expected = run(plain, std::slice::from_ref(&sum));
            assert_eq!(run(biased, &[x.clone(), bias.clone()]), expected);
            assert!(run(biased, &[x.clone(), tensor(&[1], &[1.0_f32])]).is_err());
            assert!(run(biased, &[Tensor::scalar(1.0_f32), bias.clone()]).is_err());
        }
    }
}
