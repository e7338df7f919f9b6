//! ScatterElements: one update for each index.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape};

use crate::infer::{folded, normalize_axis};
use crate::ops::gather_elements::{check_indices, index_positions};
use crate::scatter::{Reduction, scatter, update_copy};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "ScatterElements",
        versions: (11, 18),
        types: DType::is_any,
        build: ScatterElements::build,
    },
    OpDef {
        domain: "",
        name: "Scatter",
        versions: (9, 11),
        types: DType::is_any,
        build: ScatterElements::build,
    },
];

/// ScatterElements: `y = x`, then `y[a…, indices[a…, i, b…], b…] = f(that, updates[a…, i, b…])`
/// for every index in row-major order, where `f` is the reduction. Indices below zero count from
/// the back. Scatter is its old name. Can run in place.
///
/// Source: ONNX operator set, ScatterElements-18.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterElements {
    /// The axis, `−rank..rank`.
    pub axis: i64,
    /// The combination of an element and its update.
    pub reduction: Reduction,
}

impl ScatterElements {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let axis = spec.int("axis")?.unwrap_or(0);
        Ok(Arc::new(Self { axis, reduction: Reduction::of(spec)? }))
    }
}

impl Operator for ScatterElements {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_any)?;
        if !self.reduction.allows(dtype) {
            return Err(OpError::Unsupported { what: "a reduction of this element type" });
        }
        inputs.dtype(1, DType::is_index)?;
        inputs.fact(2)?;
        inputs.expect_dtype(2, dtype)?;
        let x = inputs.fact(0)?;
        if let (Some(x), Some(indices)) = (x.dims(), inputs.fact(1)?.dims()) {
            check_indices(x, indices, self.axis)?;
        }
        let y = Fact { constant: None, ..x.clone() };
        Ok(folded(self, inputs, vec![y]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (indices, updates) = (inputs.tensor(1)?, inputs.tensor(2)?);
        if indices.shape() != updates.shape() {
            let (left, right) = (indices.shape().to_vec(), updates.shape().to_vec());
            return Err(OpError::Shapes { what: "indices and updates", left, right });
        }
        update_copy(inputs, &mut outputs[0], |mut y| {
            let shape = Shape::from_slice(y.shape());
            let axis = normalize_axis(self.axis, shape.len())?;
            index_positions(&shape, indices, axis, |first, positions| {
                scatter(self.reduction, (updates, first), positions, 1, y.reborrow())
            })
        })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { in_place: &[(0, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, Tensor, f16};

    use crate::case::{Case, tensor};

    fn reduced(reduction: &str) -> Case {
        Case::new("ScatterElements", 18).attr("reduction", Attr::String(reduction.into()))
    }

    #[test]
    fn updates_go_where_indices_say() {
        let x = tensor(&[3, 3], &[0_i16; 9]);
        let indices = tensor(&[2, 3], &[1_i64, 0, 2, 0, 2, -2]);
        let updates = tensor(&[2, 3], &[10_i16, 11, 12, 20, 21, 22]);
        let y = tensor(&[3, 3], &[20_i16, 11, 0, 10, 0, 22, 0, 21, 12]);
        for op in ["ScatterElements", "Scatter"] {
            let inputs = [x.clone(), indices.clone(), updates.clone()];
            assert_eq!(Case::new(op, 11).tensor(&inputs), Ok(y.clone()));
        }
        let bad = tensor(&[1, 1], &[3_i64]);
        assert!(
            Case::new("ScatterElements", 18).tensor(&[x, bad, tensor(&[1, 1], &[1_i16])]).is_err()
        );
    }

    #[test]
    fn reductions_combine_in_order() {
        let cases = [("add", 6_u8), ("mul", 8), ("max", 4), ("min", 1), ("none", 4)];
        let inputs = |x: Tensor, updates: Tensor| [x, tensor(&[2], &[0_i32, 0]), updates];
        for (reduction, expected) in cases {
            let y =
                reduced(reduction).tensor(&inputs(tensor(&[1], &[1_u8]), tensor(&[2], &[2_u8, 4])));
            let expected = if reduction == "add" { expected + 1 } else { expected };
            assert_eq!(y, Ok(tensor(&[1], &[expected])), "{reduction}");
        }
        let wrapped = inputs(tensor(&[1], &[i8::MAX]), tensor(&[2], &[1_i8, 0]));
        assert_eq!(reduced("add").tensor(&wrapped), Ok(tensor(&[1], &[i8::MIN])));
        let nan = inputs(tensor(&[1], &[1_f32]), tensor(&[2], &[f32::NAN, 2.0]));
        assert!(reduced("max").tensor(&nan).unwrap().as_slice::<f32>().unwrap()[0].is_nan());
        let halves = [1.0, 2.0, 3.0].map(f16::from_f32);
        let y =
            reduced("add").tensor(&inputs(tensor(&[1], &halves[..1]), tensor(&[2], &halves[1..])));
        assert_eq!(y, Ok(tensor(&[1], &[f16::from_f32(6.0)])));
        let flags = [false, true, false].map(Bool::from);
        let y =
            reduced("add").tensor(&inputs(tensor(&[1], &flags[..1]), tensor(&[2], &flags[1..])));
        assert_eq!(y, Ok(tensor(&[1], &flags[1..2])));
        let words = Tensor::zeros(ort_tensor::DType::String, &[2]).unwrap();
        assert!(reduced("add").tensor(&inputs(words.clone(), words)).is_err());
    }
}
