//! Shape and Size: a tensor's dimensions, as a tensor.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor};

use crate::infer::dims_product;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Shape",
        versions: (1, 25),
        types: DType::is_any,
        build: Shape::build,
    },
    OpDef { domain: "", name: "Size", versions: (1, 25), types: DType::is_any, build: Size::build },
];

/// Shape: the dimensions `start..end` of the input, an int64 vector. Both count from the back
/// where they are negative, and are clamped to the rank.
///
/// Source: ONNX operator set, Shape-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The first axis.
    pub start: i64,
    /// The axis after the last; by default the rank.
    pub end: Option<i64>,
}

/// Size: `Π shape`, an int64 scalar.
///
/// Source: ONNX operator set, Size-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size;

impl Shape {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let (start, end) = match spec.since_version {
            ..15 => (None, None),
            _ => (spec.int("start")?, spec.int("end")?),
        };
        Ok(Arc::new(Self { start: start.unwrap_or(0), end }))
    }

    /// The selected dimensions.
    fn part<T>(self, dims: &[T]) -> &[T] {
        let rank = dims.len();
        let clamped = |axis: i64| match usize::try_from(axis) {
            Ok(axis) => axis.min(rank),
            Err(_) => rank.saturating_sub(usize::try_from(axis.unsigned_abs()).unwrap_or(rank)),
        };
        let end = self.end.map_or(rank, clamped);
        dims.get(clamped(self.start)..end).unwrap_or_default()
    }
}

impl Operator for Shape {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_any)?;
        let Some(dims) = inputs.fact(0)?.dims() else {
            return Ok(vec![Fact::tensor(DType::I64, [Dim::Unknown])]);
        };
        let part = self.part(dims);
        let known: Option<Vec<usize>> = part.iter().map(Dim::known).collect();
        Ok(vec![match known {
            Some(shape) => Fact::constant(int64_vector(&shape)?),
            None => Fact::shaped(DType::I64, &[part.len()]),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let shape = int64_vector(self.part(inputs.tensor(0)?.shape()))?;
        Ok(outputs[0].set(shape.into())?)
    }
}

fn int64_vector(shape: &[usize]) -> Result<Tensor, OpError> {
    let dims: Result<Vec<i64>, _> = shape.iter().map(|&n| n.try_into()).collect();
    Ok(Tensor::from_slice(&[shape.len()], &dims.map_err(|_| OpError::TooLarge)?)?)
}

impl Size {
    fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Size))
    }
}

impl Operator for Size {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_any)?;
        let n = inputs.fact(0)?.dims().and_then(|dims| dims_product(dims).known());
        Ok(vec![match n.and_then(|n| i64::try_from(n).ok()) {
            Some(n) => Fact::constant(Tensor::scalar(n)),
            None => Fact::shaped(DType::I64, &[]),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let n = i64::try_from(inputs.tensor(0)?.len()).map_err(|_| OpError::TooLarge)?;
        Ok(outputs[0].set(Tensor::scalar(n).into())?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::{Attr, NodeSpec};

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn start_and_end_are_clamped_to_the_rank() {
        let cases: [(Option<i64>, Option<i64>, &[i64]); 8] = [
            (None, None, &[2, 0, 4]),
            (Some(-1), None, &[4]),
            (None, Some(-1), &[2, 0]),
            (Some(1), Some(2), &[0]),
            (Some(2), Some(1), &[]),
            (Some(i64::MIN), Some(i64::MAX), &[2, 0, 4]),
            (Some(5), None, &[]),
            (Some(-9), Some(-2), &[2]),
        ];
        for (start, end, expected) in cases {
            let x = Tensor::zeros(DType::U2, &[2, 0, 4]).unwrap();
            let mut case = Case::new("Shape", 15);
            for (name, value) in [("start", start), ("end", end)] {
                case = match value {
                    Some(value) => case.attr(name, Attr::Int(value)),
                    None => case,
                };
            }
            assert_eq!(case.tensor(&[x]), Ok(tensor(&[expected.len()], expected)));
        }
    }

    #[test]
    fn the_size_of_a_scalar_is_one() {
        for (shape, size) in [(&[][..], 1_i64), (&[2, 3], 6), (&[3, 0], 0)] {
            let x = Tensor::zeros(DType::String, shape).unwrap();
            assert_eq!(Case::new("Size", 25).tensor(&[x]), Ok(Tensor::scalar(size)));
        }
    }

    #[test]
    fn known_dimensions_are_constants() {
        let attrs = ort_graph::Attrs::new().with("start", Attr::Int(1));
        let op = Shape::build(&NodeSpec::new(25, &[true], 1, &attrs)).unwrap();
        let x = Fact::tensor(DType::F32, [Dim::Symbol("n".into()), Dim::Known(3)]);
        let facts = op.infer(&Facts::new(&[Some(&x)])).unwrap();
        assert_eq!(facts[0].ints(), Some(vec![3]));
        let facts = Size.infer(&Facts::new(&[Some(&x)])).unwrap();
        assert_eq!(facts, [Fact::shaped(DType::I64, &[])]);
    }
}
