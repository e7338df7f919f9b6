//! RandomNormal, RandomUniform, their `Like` forms, and Bernoulli.

// collects are bounded: by the rank and the list of an attribute

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, DType, Inputs, Number, Output, Pace, Shape, TensorViewMut, go_on, with_dtype,
};

use crate::elementwise::{only, shaped_like_first, unsupported};
use crate::floats;
use crate::random::Generator;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Bernoulli",
        versions: (15, 22),
        types: DType::is_float,
        build: Bernoulli::build,
    },
    OpDef {
        domain: "",
        name: "RandomNormal",
        versions: (1, 22),
        types: DType::is_float,
        build: |s| normal(s, false),
    },
    OpDef {
        domain: "",
        name: "RandomNormalLike",
        versions: (1, 22),
        types: DType::is_float,
        build: |s| normal(s, true),
    },
    OpDef {
        domain: "",
        name: "RandomUniform",
        versions: (1, 22),
        types: DType::is_float,
        build: |s| uniform(s, false),
    },
    OpDef {
        domain: "",
        name: "RandomUniformLike",
        versions: (1, 22),
        types: DType::is_float,
        build: |s| uniform(s, true),
    },
];

/// A tensor of random floats. Its shape is the attribute `shape` or that of input 0, its type
/// `dtype` or that of input 0 (float without input).
///
/// With a seed every run gives the same numbers; ONNX Runtime gives different ones in each run.
///
/// Source: ONNX operator set, RandomNormal-22, RandomNormalLike-22, RandomUniform-22,
/// RandomUniformLike-22.
#[derive(Clone, Debug, PartialEq)]
pub struct Random {
    /// The distribution.
    pub distribution: Distribution,
    /// The shape of the result; `None` for that of input 0.
    pub shape: Option<Shape>,
    /// The type of the result, if the attribute is present.
    pub dtype: Option<DType>,
    /// The seed, if the attribute is present.
    pub seed: Option<f32>,
}

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Normal.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        scale: f32,
    },
    /// Uniform between the two.
    Uniform {
        /// The lower bound, which occurs.
        low: f32,
        /// The upper bound.
        high: f32,
    },
}

fn normal(spec: &NodeSpec<'_>, is_like: bool) -> Result<Arc<dyn Operator>, OpError> {
    let mean = spec.float("mean")?.unwrap_or(0.0);
    let scale = spec.float("scale")?.unwrap_or(1.0);
    Random::build(spec, Distribution::Normal { mean, scale }, is_like)
}

fn uniform(spec: &NodeSpec<'_>, is_like: bool) -> Result<Arc<dyn Operator>, OpError> {
    let low = spec.float("low")?.unwrap_or(0.0);
    let high = spec.float("high")?.unwrap_or(1.0);
    Random::build(spec, Distribution::Uniform { low, high }, is_like)
}

impl Random {
    fn build(
        spec: &NodeSpec<'_>,
        distribution: Distribution,
        is_like: bool,
    ) -> Result<Arc<dyn Operator>, OpError> {
        let dtype = spec.dtype("dtype")?;
        if let Some(dtype) = dtype.filter(|dtype| !dtype.is_float()) {
            return Err(OpError::AttributeValue { name: "dtype", found: dtype.to_string() });
        }
        let shape = if is_like { None } else { Some(shape(spec)?) };
        Ok(Arc::new(Self { distribution, shape, dtype, seed: spec.float("seed")? }))
    }

    fn dtype(&self, of_input: DType) -> Result<DType, OpError> {
        let dtype = self.dtype.unwrap_or(of_input);
        if dtype.is_float() { Ok(dtype) } else { Err(unsupported(0, dtype)) }
    }

    fn draw(&self, generator: &mut Generator) -> f64 {
        match self.distribution {
            Distribution::Normal { mean, scale } => {
                f64::from(mean) + f64::from(scale) * generator.normal()
            }
            Distribution::Uniform { low, high } => {
                f64::from(low) + (f64::from(high) - f64::from(low)) * generator.uniform()
            }
        }
    }
}

fn shape(spec: &NodeSpec<'_>) -> Result<Shape, OpError> {
    let dims = spec.ints("shape")?.ok_or(OpError::MissingAttribute { name: "shape" })?;
    let shape: Option<Shape> = dims.iter().map(|&dim| dim.try_into().ok()).collect();
    let wrong = || OpError::AttributeValue { name: "shape", found: format!("{dims:?}") };
    shape.ok_or_else(wrong)
}

impl Operator for Random {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        match &self.shape {
            Some(shape) => Ok(vec![Fact::shaped(self.dtype(DType::F32)?, shape)]),
            None => {
                let dtype = self.dtype(inputs.dtype(0, DType::is_any)?)?;
                Ok(vec![shaped_like_first(inputs, dtype)?])
            }
        }
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let output = only(outputs)?;
        let y = match &self.shape {
            Some(shape) => output.tensor(self.dtype(DType::F32)?, shape)?,
            None => {
                let x = inputs.tensor(0)?;
                output.tensor(self.dtype(x.dtype())?, x.shape())?
            }
        };
        let mut generator = Generator::new(self.seed);
        fill(y, || self.draw(&mut generator))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_deterministic: false, ..Behaviour::default() }
    }
}

/// Bernoulli: `y[i] = 1` with probability `x[i]`, else 0. `x`: floats; the result is a number type
/// or bool: `dtype`, by default the type of `x`. Seeds as in [`Random`].
///
/// Source: ONNX operator set, Bernoulli-22.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bernoulli {
    /// The type of the result, if the attribute is present.
    pub dtype: Option<DType>,
    /// The seed, if the attribute is present.
    pub seed: Option<f32>,
}

impl Bernoulli {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let dtype = spec.dtype("dtype")?;
        if let Some(dtype) = dtype.filter(|&dtype| !dtype.is_number() && dtype != DType::Bool) {
            return Err(OpError::AttributeValue { name: "dtype", found: dtype.to_string() });
        }
        Ok(Arc::new(Self { dtype, seed: spec.float("seed")? }))
    }
}

impl Operator for Bernoulli {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let own = inputs.dtype(0, DType::is_float)?;
        Ok(vec![shaped_like_first(inputs, self.dtype.unwrap_or(own))?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let probabilities = floats::read(x)?;
        let y = only(outputs)?.tensor(self.dtype.unwrap_or(x.dtype()), x.shape())?;
        let mut generator = Generator::new(self.seed);
        let mut probabilities = probabilities.iter();
        fill(y, || {
            let is_one = probabilities.next().is_some_and(|&p| generator.uniform() < p);
            if is_one { 1.0 } else { 0.0 }
        })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_deterministic: false, ..Behaviour::default() }
    }
}

/// `y[i] = draw()`, rounded once.
fn fill(y: TensorViewMut<'_>, mut draw: impl FnMut() -> f64) -> Result<(), OpError> {
    let dtype = y.dtype();
    with_dtype!(dtype, number,
        T => fill_slice(y.into_slice::<T>()?, || <T as Number>::from_f64(draw())),
        else => with_dtype!(dtype, [Bool],
            T => fill_slice(y.into_slice::<T>()?, || T::from(draw() != 0.0)),
            else => Err(unsupported(0, dtype))))
}

fn fill_slice<T>(y: &mut [T], mut draw: impl FnMut() -> T) -> Result<(), OpError> {
    for y in y.chunks_mut(Pace::STEP) {
        go_on()?;
        y.fill_with(&mut draw);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    fn seeded(op: &'static str) -> Case {
        Case::new(op, 22).attr("seed", Attr::Float(5.0))
    }

    #[test]
    fn a_seed_repeats_what_no_seed_does_not() {
        let shape = || Attr::Ints(vec![2, 50]);
        for op in ["RandomNormal", "RandomUniform"] {
            let draw = |case: Case| case.attr("shape", shape()).run(&[]).unwrap();
            assert_eq!(draw(seeded(op)), draw(seeded(op)));
            assert_ne!(draw(Case::new(op, 22)), draw(Case::new(op, 22)));
        }
    }

    #[test]
    fn numbers_lie_where_the_attributes_say() {
        let x = Tensor::zeros(DType::F64, &[100]).unwrap();
        let bounds = seeded("RandomUniformLike").attr("low", Attr::Float(-3.0));
        let y = bounds.attr("high", Attr::Float(-2.0)).tensor(&[x]).unwrap();
        assert!(y.as_slice::<f64>().unwrap().iter().all(|y| (-3.0..-2.0).contains(y)));
        let named = seeded("RandomNormalLike").attr("dtype", Attr::Int(DType::F16.onnx().into()));
        let y = named.tensor(&[tensor(&[2], &[1_i32, 2])]).unwrap();
        assert_eq!((y.dtype(), y.shape()), (DType::F16, &[2][..]));
        assert!(seeded("RandomNormalLike").tensor(&[tensor(&[2], &[1_i32, 2])]).is_err());
        assert!(seeded("RandomNormal").attr("shape", Attr::Ints(vec![-1])).run(&[]).is_err());
    }

    #[test]
    fn certain_events_are_certain() {
        let x = tensor(&[4], &[0.0_f32, 1.0, 0.0, 1.0]);
        let bools = seeded("Bernoulli").attr("dtype", Attr::Int(DType::Bool.onnx().into()));
        let y = tensor(&[4], &[false, true, false, true].map(Bool::from));
        assert_eq!(bools.tensor(std::slice::from_ref(&x)), Ok(y));
        assert_eq!(Case::new("Bernoulli", 15).tensor(std::slice::from_ref(&x)), Ok(x));
    }
}
