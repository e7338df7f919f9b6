//! ScatterND: slices written at tuples of indices.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, n_elements};

use crate::infer::folded;
use crate::ops::gather_nd::tuple_offsets;
use crate::scatter::{Reduction, scatter, update_copy};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ScatterND",
    versions: (11, 18),
    types: DType::is_any,
    build: ScatterNd::build,
}];

/// ScatterND: `y = x`, then `y[indices[i…, 0], …, indices[i…, k − 1], :] = f(that, updates[i…, :])`
/// for every tuple of indices in row-major order, where `f` is the reduction. Indices below zero
/// count from the back. Can run in place.
///
/// Source: ONNX operator set, ScatterND-18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterNd {
    /// The combination of an element and its update.
    pub reduction: Reduction,
}

impl ScatterNd {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self { reduction: Reduction::of(spec)? }))
    }
}

impl Operator for ScatterNd {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        if !self.reduction.allows(dtype) {
            return Err(OpError::Unsupported { what: "a reduction of this element type" });
        }
        inputs.dtype(1, DType::is_index)?;
        inputs.fact(2)?;
        inputs.expect_dtype(2, dtype)?;
        let y = Fact { constant: None, ..inputs.fact(0)?.clone() };
        Ok(folded(self, inputs, vec![y]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (indices, updates) = (inputs.tensor(1)?, inputs.tensor(2)?);
        update_copy(inputs, &mut outputs[0], |y| {
            let split = indices
                .shape()
                .split_last()
                .and_then(|(&k, outer)| Some((outer, y.shape().get(k..)?)));
            let fits =
                split.is_some_and(|(outer, slice)| outer.iter().chain(slice).eq(updates.shape()));
            let Some((_, slice)) = split.filter(|_| fits) else {
                let (left, right) = (indices.shape().to_vec(), updates.shape().to_vec());
                return Err(OpError::Shapes { what: "indices and updates", left, right });
            };
            let run = n_elements(slice).ok_or(OpError::TooLarge)?;
            let positions = tuple_offsets(y.shape(), indices, 0)?;
            scatter(self.reduction, (updates, 0), &positions, run, y)
        })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn tuples_choose_elements_or_slices() {
        let case = Case::new("ScatterND", 18);
        let x = tensor(&[2, 2], &[1_u32, 2, 3, 4]);
        let y = case.tensor(&[x.clone(), tensor(&[1, 2], &[-1_i64, 0]), tensor(&[1], &[9_u32])]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[1_u32, 2, 9, 4])));
        let rows = tensor(&[2, 1], &[1_i64, 1]);
        let updates = tensor(&[2, 2], &[5_u32, 6, 7, 8]);
        let y = case.tensor(&[x.clone(), rows.clone(), updates.clone()]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[1_u32, 2, 7, 8])));
        let add = Case::new("ScatterND", 16).attr("reduction", Attr::String("add".into()));
        let y = add.tensor(&[x.clone(), rows.clone(), updates]);
        assert_eq!(y, Ok(tensor(&[2, 2], &[1_u32, 2, 15, 18])));
        let none = case.tensor(&[x.clone(), tensor::<i64>(&[0, 2], &[]), tensor::<u32>(&[0], &[])]);
        assert_eq!(none, Ok(x.clone()));
        assert!(case.tensor(&[x.clone(), rows, tensor(&[2], &[5_u32, 6])]).is_err());
        assert!(case.tensor(&[x, tensor(&[1, 3], &[0_i64; 3]), tensor(&[1], &[5_u32])]).is_err());
    }
}
