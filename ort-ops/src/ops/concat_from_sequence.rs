//! ConcatFromSequence: the tensors of a sequence, concatenated or stacked.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator, Type};
use ort_tensor::{DType, Inputs, Output, Shape, TensorError, TensorView, collected, try_collected};

use crate::infer::normalize_axis;
use crate::ops::concat::join;
use crate::ops::sequence::item_type;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ConcatFromSequence",
    versions: (11, 11),
    types: DType::is_any,
    build: ConcatFromSequence::build,
}];

/// ConcatFromSequence: the tensors of input 0 concatenated along `axis`, or stacked along a new axis there. An empty
/// sequence is an error.
///
/// Source: ONNX operator set, ConcatFromSequence-11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcatFromSequence {
    /// The axis, `−rank..rank` of the output.
    pub axis: i64,
    /// Whether the axis is new.
    pub is_new_axis: bool,
}

impl ConcatFromSequence {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.ok_or(OpError::MissingAttribute { name: "axis" })?;
        Ok(Arc::new(Self { axis, is_new_axis: spec.flag("new_axis", false)? }))
    }
}

impl Operator for ConcatFromSequence {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let item = match item_type(inputs, 0)? {
            Type::Tensor(item) => item,
            Type::Unknown => return Ok(vec![Fact::UNKNOWN]),
            other => return Err(OpError::InputType { index: 0, found: Box::new(other.clone()) }),
        };
        let Some(dims) = &item.dims else { return Ok(vec![Fact::unranked(item.dtype)]) };
        let mut dims: Dims = dims.clone();
        if self.is_new_axis {
            dims.insert(normalize_axis(self.axis, dims.len() + 1)?, Dim::Unknown);
        } else {
            let axis = normalize_axis(self.axis, dims.len())?;
            dims[axis] = Dim::Unknown;
        }
        Ok(vec![Fact::tensor(item.dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let items = inputs.value(0)?.sequence()?;
        let tensors = items.iter().map(|item| Ok::<_, TensorError>(item.as_tensor()?.view()));
        let tensors = try_collected(tensors)?;
        let rank = tensors.first().map_or(0, |first| first.shape().len());
        if !self.is_new_axis {
            return join(&tensors, normalize_axis(self.axis, rank.max(1))?, &mut outputs[0]);
        }
        let axis = normalize_axis(self.axis, rank + 1)?;
        let with_axis = |x: &TensorView<'_>| {
            let mut shape = Shape::from_slice(x.shape());
            shape.insert(axis.min(shape.len()), 1);
            shape
        };
        let shapes = collected(tensors.iter().map(with_axis))?;
        let stacked = tensors.iter().zip(&shapes).map(|(x, shape)| x.reshaped(shape));
        join(&try_collected(stacked)?, axis, &mut outputs[0])
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn concat(axis: i64, new_axis: i64, items: Vec<Tensor>) -> Option<Value> {
        let case = Case::new("ConcatFromSequence", 11)
            .attr("axis", Attr::Int(axis))
            .attr("new_axis", Attr::Int(new_axis));
        let items = Value::Sequence(items.into_iter().map(Value::Tensor).collect());
        case.run_values(&[Some(items)]).ok().map(|mut values| values.remove(0))
    }

    #[test]
    fn items_are_joined_or_stacked() {
        let (a, b) = (tensor(&[2], &[1_u8, 2]), tensor(&[2], &[3_u8, 4]));
        let of = |shape: &[usize], data: &[u8]| Some(Value::Tensor(tensor(shape, data)));
        let both = || vec![a.clone(), b.clone()];
        assert_eq!(concat(0, 0, both()), of(&[4], &[1, 2, 3, 4]));
        assert_eq!(concat(0, 1, both()), of(&[2, 2], &[1, 2, 3, 4]));
        assert_eq!(concat(-1, 1, both()), of(&[2, 2], &[1, 3, 2, 4]));
        assert_eq!(concat(0, 1, vec![Tensor::scalar(7_u8)]), of(&[1], &[7]));
        assert_eq!(concat(0, 0, vec![Tensor::scalar(7_u8)]), None);
        assert_eq!(concat(1, 0, both()), None);
        assert_eq!(concat(0, 0, vec![]), None);
        assert_eq!(concat(0, 1, vec![a, tensor(&[1], &[0_u8])]), None);
    }
}
