//! Compress: entries of an axis where a condition is true.

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{
    Bool, DType, Inputs, Output, Shape, TensorView, collected, move_elements, n_elements,
};

use crate::infer::normalize_axis;
use crate::ops::gather::gather;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Compress",
    versions: (9, 28),
    types: DType::is_any,
    build: Compress::build,
}];

/// Compress: the entries `i` of `axis` for which `condition[i]` (input 1) is true; without an axis
/// those of the flattened tensor. A condition may be shorter than the axis, and then drops the rest; entries beyond
/// the axis are ignored.
///
/// Source: ONNX operator set, Compress-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compress {
    /// The axis, `−rank..rank`; none to flatten.
    pub axis: Option<i64>,
}

impl Compress {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { axis: spec.int("axis")? }))
    }
}

/// The chosen entries of `n`.
fn chosen(condition: TensorView<'_>, n: usize) -> Result<Vec<usize>, OpError> {
    let flags = condition.as_slice::<Bool>()?;
    Ok(collected(flags.iter().take(n).enumerate().filter(|(_, flag)| flag.get()).map(|(i, _)| i))?)
}

impl Operator for Compress {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, DType::Bool)?;
        let Some(axis) = self.axis else { return Ok(vec![Fact::tensor(dtype, [Dim::Unknown])]) };
        let Some(x) = inputs.fact(0)?.dims() else { return Ok(vec![Fact::unranked(dtype)]) };
        let mut dims: Dims = x.into();
        dims[normalize_axis(axis, x.len())?] = Dim::Unknown;
        Ok(vec![Fact::tensor(dtype, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let (mut shape, axis) = match self.axis {
            Some(axis) => (Shape::from_slice(x.shape()), normalize_axis(axis, x.shape().len())?),
            None => (Shape::from_slice(&[x.len()]), 0),
        };
        let n = shape[axis];
        let chosen = chosen(inputs.tensor(1)?, n)?;
        let run = n_elements(&shape[axis + 1..]).ok_or(OpError::TooLarge)?;
        shape[axis] = chosen.len();
        let y = outputs[0].tensor(x.dtype(), &shape)?;
        Ok(move_elements!(x => y, |src, dst| gather(src, n, run, &chosen, dst))?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn true_conditions_choose() {
        let x = tensor(&[3, 2], &[1_u16, 2, 3, 4, 5, 6]);
        let flags = |flags: &[u8]| {
            let flags: Vec<Bool> = flags.iter().map(|&flag| (flag == 1).into()).collect();
            tensor(&[flags.len()], &flags)
        };
        let cases = [
            (Some(0), flags(&[0, 1, 1]), tensor(&[2, 2], &[3_u16, 4, 5, 6])),
            (Some(-1), flags(&[0, 1]), tensor(&[3, 1], &[2_u16, 4, 6])),
            (Some(0), flags(&[1]), tensor(&[1, 2], &[1_u16, 2])),
            (Some(1), flags(&[0, 0, 1]), tensor::<u16>(&[3, 0], &[])),
            (None, flags(&[0, 1, 0, 0, 1]), tensor(&[2], &[2_u16, 5])),
        ];
        for (axis, condition, expected) in cases {
            let case = Case::new("Compress", 28);
            let case =
                axis.map_or(Case::new("Compress", 9), |axis| case.attr("axis", Attr::Int(axis)));
            assert_eq!(case.tensor(&[x.clone(), condition]), Ok(expected));
        }
    }
}
