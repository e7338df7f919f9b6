//! Squeeze and Unsqueeze: removes or adds dimensions of 1.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Behaviour, Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::{
    expect_few, folded, int_values, known_dims, known_shape, normalize_axes, ranked_fact,
    tensor_fact, vector_len,
};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Squeeze",
        versions: (1, 25),
        types: DType::is_any,
        build: Squeeze::build,
    },
    OpDef {
        domain: "",
        name: "Unsqueeze",
        versions: (1, 25),
        types: DType::is_any,
        build: Unsqueeze::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "ExpandDims",
        versions: (1, 1),
        types: DType::is_any,
        build: expand_dims,
    },
];

/// Squeeze: removes the dimensions at the given axes, which must be 1; without axes, all that are
/// 1. The axes are input 1, an attribute before version 13. An empty list of axes removes nothing.
///
/// Source: ONNX operator set, Squeeze-25.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Squeeze {
    /// The axes, if they are an attribute.
    pub axes: Option<Vec<i64>>,
}

/// Unsqueeze: the axes of the output that input 1 names are new, of one element. They are an
/// attribute before version 13; com.microsoft:ExpandDims takes one axis, as a scalar.
///
/// Source: ONNX operator set, Unsqueeze-25; com.microsoft, ExpandDims-1 (ONNX Runtime 1.31).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsqueeze {
    /// The axes, if they are an attribute.
    pub axes: Option<Vec<i64>>,
    /// The element type of the axes, if they are an input.
    pub axes_type: DType,
}

impl Squeeze {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axes = if spec.since_version < 13 { spec.ints("axes")? } else { None };
        Ok(Arc::new(Self { axes: axes.map(<[i64]>::to_vec) }))
    }

    /// The squeezed dimensions of `x`; `None` if they depend on unknown ones.
    fn dims(x: &[Dim], axes: Option<&[i64]>) -> Result<Option<Dims>, OpError> {
        let Some(axes) = axes else {
            let is_known = x.iter().all(|dim| dim.known().is_some());
            return Ok(
                is_known.then(|| x.iter().filter(|d| **d != Dim::Known(1)).cloned().collect())
            );
        };
        let axes = normalize_axes(axes, x.len())?;
        if let Some(&axis) = axes.iter().find(|&&axis| x[axis].known().is_some_and(|n| n != 1)) {
            let left = x.iter().map(|dim| dim.known().unwrap_or(0)).collect();
            return Err(OpError::Shapes { what: "squeezed axis", left, right: vec![axis] });
        }
        let kept = x.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        Ok(Some(kept.map(|(_, dim)| dim.clone()).collect()))
    }
}

impl Operator for Squeeze {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let x = inputs.fact(0)?.dims();
        let axes = match (&self.axes, inputs.get(1)) {
            (Some(axes), _) => Some(axes.clone()),
            (None, None) => None,
            (None, Some(axes)) => {
                inputs.expect_dtype(1, DType::I64)?;
                let Some(axes) = axes.ints() else {
                    let n = vector_len(inputs, 1)?;
                    let rank = x.zip(n).and_then(|(x, n)| x.len().checked_sub(n));
                    // With no dimension left the shape would be known, and the axes never checked.
                    let rank = rank.filter(|&rank| rank > 0);
                    return Ok(vec![ranked_fact(dtype, rank)]);
                };
                Some(axes)
            }
        };
        let Some(x) = x else { return Ok(vec![Fact::unranked(dtype)]) };
        let fact = tensor_fact(dtype, Self::dims(x, axes.as_deref())?);
        Ok(folded(self, inputs, vec![fact]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axes = match (&self.axes, inputs.optional_tensor(1)?) {
            (None, Some(axes)) => Some(int_values(axes)?),
            (axes, _) => axes.clone(),
        };
        let dims = Self::dims(&known_dims(x.shape()), axes.as_deref())?;
        let shape = known_shape(&dims.ok_or(OpError::TooLarge)?)?;
        Ok(outputs[0].tensor(x.dtype(), &shape)?.copy_from(x)?)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_alias: true, ..Behaviour::default() }
    }
}

impl Unsqueeze {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axes = if spec.since_version < 13 {
            let axes = spec.ints("axes")?;
            Some(axes.ok_or(OpError::MissingAttribute { name: "axes" })?.to_vec())
        } else {
            None
        };
        Ok(Arc::new(Self { axes, axes_type: DType::I64 }))
    }

    fn dims(x: &[Dim], axes: &[i64]) -> Result<Dims, OpError> {
        expect_few(1, axes)?;
        let rank = x.len() + axes.len();
        let axes = normalize_axes(axes, rank)?;
        let (mut axes, mut x) = (axes.into_iter().peekable(), x.iter().cloned());
        let dim = |i| if axes.next_if_eq(&i).is_some() { Some(Dim::Known(1)) } else { x.next() };
        Ok((0..rank).filter_map(dim).collect())
    }
}

fn expand_dims(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    Ok(Arc::new(Unsqueeze { axes: None, axes_type: DType::I32 }))
}

impl Operator for Unsqueeze {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let x = inputs.fact(0)?.dims();
        let axes = match &self.axes {
            Some(axes) => Some(axes.clone()),
            None => {
                let axes = inputs.fact(1)?;
                inputs.expect_dtype(1, self.axes_type)?;
                // A scalar is one axis: ONNX Runtime accepts that, too.
                let n = if axes.rank() == Some(0) { Some(1) } else { vector_len(inputs, 1)? };
                let Some(axes) = axes.ints() else {
                    return Ok(vec![ranked_fact(dtype, x.zip(n).map(|(x, n)| x.len() + n))]);
                };
                Some(axes)
            }
        };
        let dims = x.zip(axes).map(|(x, axes)| Self::dims(x, &axes)).transpose()?;
        Ok(folded(self, inputs, vec![tensor_fact(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let axes = match &self.axes {
            Some(axes) => axes.clone(),
            None => int_values(inputs.tensor(1)?)?,
        };
        let shape = known_shape(&Self::dims(&known_dims(x.shape()), &axes)?)?;
        Ok(outputs[0].tensor(x.dtype(), &shape)?.copy_from(x)?)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_alias: true, ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use super::*;
    use crate::case::{Case, tensor};

    fn shape_of(op: &'static str, x: &[usize], axes: Option<&[i64]>) -> Option<Vec<usize>> {
        let x = Tensor::zeros(DType::Bool, x).unwrap();
        let input = axes.map(|axes| tensor(&[axes.len()], axes));
        let new = Case::new(op, 25).run_optional(&[Some(x.clone()), input]);
        let old = match axes {
            Some(axes) => Case::new(op, 11).attr("axes", Attr::Ints(axes.to_vec())),
            None => Case::new(op, 11),
        };
        let shape = |tensor: &Tensor| tensor.shape().to_vec();
        let old = old.tensor(&[x]).ok().as_ref().map(shape);
        let new = new.ok().map(|values| shape(values[0].as_tensor().unwrap()));
        assert_eq!(old, new, "as an attribute and as an input");
        new
    }

    #[test]
    fn squeezed_dimensions_are_one() {
        let cases: [(&[usize], Option<&[i64]>, Option<&[usize]>); 7] = [
            (&[1, 3, 1, 5], Some(&[0, -2]), Some(&[3, 5])),
            (&[1, 3, 1, 5], None, Some(&[3, 5])),
            (&[1, 3], Some(&[]), Some(&[1, 3])),
            (&[], None, Some(&[])),
            (&[1, 0], None, Some(&[0])),
            (&[1, 3], Some(&[1]), None),
            (&[1, 3], Some(&[2]), None),
        ];
        for (x, axes, expected) in cases {
            assert_eq!(shape_of("Squeeze", x, axes).as_deref(), expected, "{x:?} at {axes:?}");
        }
    }

    #[test]
    fn unsqueezed_axes_are_those_of_the_output() {
        let cases: [(&[usize], &[i64], Option<&[usize]>); 6] = [
            (&[3, 4], &[0, 3], Some(&[1, 3, 4, 1])),
            (&[3, 4], &[-1, 1], Some(&[3, 1, 4, 1])),
            (&[], &[0], Some(&[1])),
            (&[3], &[], Some(&[3])),
            (&[3], &[0, -3], None),
            (&[3], &[2], None),
        ];
        for (x, axes, expected) in cases {
            let found = shape_of("Unsqueeze", x, Some(axes));
            assert_eq!(found.as_deref(), expected, "{x:?} at {axes:?}");
        }
    }

    #[test]
    fn expand_dims_takes_a_scalar() {
        let case = Case::new("ExpandDims", 1).domain("com.microsoft");
        let y = case.tensor(&[tensor(&[2], &[1_f32, 2.0]), Tensor::scalar(-1_i32)]);
        assert_eq!(y, Ok(tensor(&[2, 1], &[1_f32, 2.0])));
    }
}
