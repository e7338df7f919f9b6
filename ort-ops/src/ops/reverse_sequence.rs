//! ReverseSequence: the beginning of each sequence of a batch in reverse order.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape};

use crate::infer::{folded, int_values, vector_len};
use crate::strided::{self, Strided};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "ReverseSequence",
    versions: (10, 28),
    types: DType::is_any,
    build: ReverseSequence::build,
}];

/// ReverseSequence: in sequence `b` of the batch entry `t` of the time axis is entry
/// `lens[b] − 1 − t` of the input if `t < lens[b]` (input 1), and entry `t` if not.
///
/// Source: ONNX operator set, ReverseSequence-28.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReverseSequence {
    /// The axis of time, 0 or 1; the other is the batch.
    pub time_axis: usize,
}

impl ReverseSequence {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let time = spec.int("time_axis")?.unwrap_or(0);
        let batch = spec.int("batch_axis")?.unwrap_or(1);
        match (time, batch) {
            (0, 1) => Ok(Arc::new(Self { time_axis: 0 })),
            (1, 0) => Ok(Arc::new(Self { time_axis: 1 })),
            _ => {
                let found = format!("{time}, with batch_axis {batch}");
                Err(OpError::AttributeValue { name: "time_axis", found })
            }
        }
    }
}

impl Operator for ReverseSequence {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.dtype(0, DType::is_any)?;
        let x = inputs.fact(0)?;
        if let Some(found @ 0..2) = x.rank() {
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found });
        }
        inputs.fact(1)?;
        inputs.expect_dtype(1, DType::I64)?;
        vector_len(inputs, 1)?;
        Ok(folded(self, inputs, vec![Fact { constant: None, ..x.clone() }]))
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let lens = int_values(inputs.tensor(1)?)?;
        let (time, batch) = (self.time_axis, 1 - self.time_axis);
        if x.shape().len() < 2 || x.shape()[batch] != lens.len() {
            let (left, right) = (x.shape().to_vec(), vec![lens.len()]);
            return Err(OpError::Shapes { what: "the batch and its lengths", left, right });
        }
        let mut y = outputs[0].tensor(x.dtype(), x.shape())?;
        y.reborrow().copy_from(x)?;
        if x.is_empty() {
            return Ok(());
        }
        let layout = Strided::row_major(x.shape());
        let (time_stride, batch_stride) = (layout.strides[time], layout.strides[batch]);
        let mut shape = Shape::from_slice(x.shape());
        shape[batch] = 1;
        for (b, &len) in lens.iter().enumerate() {
            let what = "a length is not from 0 to that of the time axis";
            let len = usize::try_from(len).ok().filter(|&len| len <= x.shape()[time]);
            shape[time] = len.ok_or(OpError::InputValue { index: 1, what })?;
            let mut to = layout.clone();
            to.offset = b * batch_stride.unsigned_abs();
            let mut from = to.clone();
            from.offset += shape[time].saturating_sub(1) * time_stride.unsigned_abs();
            from.strides[time] = -time_stride;
            strided::copy(&shape, x, &from, y.reborrow(), &to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn only_the_beginning_is_reversed() {
        let x = tensor(&[3, 2], &[1_u8, 2, 3, 4, 5, 6]);
        let columns = Case::new("ReverseSequence", 10);
        let y = columns.tensor(&[x.clone(), tensor(&[2], &[3_i64, 2])]);
        assert_eq!(y, Ok(tensor(&[3, 2], &[5_u8, 4, 3, 2, 1, 6])));
        let rows = Case::new("ReverseSequence", 28)
            .attr("time_axis", Attr::Int(1))
            .attr("batch_axis", Attr::Int(0));
        let y = rows.tensor(&[x.clone(), tensor(&[3], &[2_i64, 1, 0])]);
        assert_eq!(y, Ok(tensor(&[3, 2], &[2_u8, 1, 3, 4, 5, 6])));
        assert!(columns.tensor(&[x.clone(), tensor(&[2], &[4_i64, 0])]).is_err());
        assert!(columns.tensor(&[x.clone(), tensor(&[3], &[0_i64; 3])]).is_err());
        assert!(
            columns
                .attr("time_axis", Attr::Int(1))
                .tensor(&[x, tensor(&[2], &[0_i64; 2])])
                .is_err()
        );
    }
}
