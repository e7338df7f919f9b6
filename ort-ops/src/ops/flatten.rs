//! Flatten: a tensor as a matrix.

use std::sync::Arc;

use ort_graph::{Behaviour, Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::{dims_product, folded, known_dims, known_shape};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Flatten",
    versions: (1, 25),
    types: DType::is_any,
    build: Flatten::build,
}];

/// Flatten: the dimensions before `axis` become the rows, the others the columns of a matrix.
///
/// Source: ONNX operator set, Flatten-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flatten {
    /// The first axis of the columns, `−rank..=rank`.
    pub axis: i64,
}

impl Flatten {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { axis: spec.int("axis")?.unwrap_or(1) }))
    }

    fn dims(self, x: &[Dim]) -> Result<[Dim; 2], OpError> {
        let (axis, rank) = (self.axis, x.len());
        let from_front = match usize::try_from(axis) {
            Ok(axis) => Some(axis),
            Err(_) => usize::try_from(axis.unsigned_abs()).ok().and_then(|n| rank.checked_sub(n)),
        };
        let split = from_front.and_then(|axis| x.split_at_checked(axis));
        let (rows, columns) = split.ok_or(OpError::Axis { axis, rank })?;
        Ok([dims_product(rows), dims_product(columns)])
    }
}

impl Operator for Flatten {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        let dims = match inputs.fact(0)?.dims() {
            Some(x) => self.dims(x)?,
            None => [Dim::Unknown, Dim::Unknown],
        };
        Ok(folded(self, inputs, vec![Fact::tensor(dtype, dims)]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let shape = known_shape(&self.dims(&known_dims(x.shape()))?)?;
        Ok(outputs[0].tensor(x.dtype(), &shape)?.copy_from(x)?)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_alias: true, ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Tensor};

    use crate::case::Case;

    #[test]
    fn the_axis_splits_rows_from_columns() {
        let cases: [(&[usize], i64, Option<[usize; 2]>); 9] = [
            (&[2, 3, 4], 0, Some([1, 24])),
            (&[2, 3, 4], 2, Some([6, 4])),
            (&[2, 3, 4], 3, Some([24, 1])),
            (&[2, 3, 4], -1, Some([6, 4])),
            (&[2, 3, 4], -3, Some([1, 24])),
            (&[], 0, Some([1, 1])),
            (&[0, 3], 1, Some([0, 3])),
            (&[2, 3], 3, None),
            (&[2, 3], i64::MIN, None),
        ];
        for (x, axis, expected) in cases {
            let x = Tensor::zeros(DType::I4, x).unwrap();
            let y = Case::new("Flatten", 25).attr("axis", Attr::Int(axis)).tensor(&[x]);
            assert_eq!(y.ok().as_ref().map(Tensor::shape), expected.as_ref().map(|s| &s[..]));
        }
    }
}
