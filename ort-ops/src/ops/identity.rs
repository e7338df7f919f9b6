//! Identity: `y = x`, whatever it is.

use std::sync::Arc;

use ort_graph::{Behaviour, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, ValueView};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Identity",
        versions: (1, 25),
        types: DType::is_any,
        build: Identity::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "SampleOp",
        versions: (1, 1),
        types: DType::is_any,
        build: Identity::build,
    },
];

/// Identity: `y = x`, a tensor, sequence or optional.
///
/// Source: ONNX operator set, Identity-25; com.microsoft, SampleOp-1 (ONNX Runtime 1.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity;

impl Identity {
    fn build(_: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Identity))
    }
}

impl Operator for Identity {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![inputs.fact(0)?.clone()])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        if let Some(x) = outputs[0].take() {
            return Ok(outputs[0].set(x)?);
        }
        match inputs.value(0)? {
            ValueView::Tensor(x) => outputs[0].tensor(x.dtype(), x.shape())?.copy_from(x)?,
            other => outputs[0].set(other.to_value()?)?,
        }
        Ok(())
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { is_alias: true, takes: &[(0, 0)], ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{DType, Tensor, Value};

    use crate::case::{Case, tensor};

    #[test]
    fn every_kind_of_value_stays_what_it_is() {
        let x = || Value::Tensor(tensor(&[2], &[f32::NAN, -0.0]));
        let strings = Tensor::zeros(DType::String, &[0]).unwrap();
        let values = [
            x(),
            Value::Tensor(strings),
            Value::Sequence(vec![x(), x()]),
            Value::Sequence(vec![]),
            Value::Optional(Some(Box::new(x()))),
            Value::Optional(None),
        ];
        for value in values {
            let y = Case::new("Identity", 25).run_values(&[Some(value.clone())]);
            assert_eq!(y, Ok(vec![value]));
        }
        let sample = Case::new("SampleOp", 1).domain("com.microsoft");
        assert_eq!(sample.tensor(&[tensor(&[1], &[7_u32])]), Ok(tensor(&[1], &[7_u32])));
    }
}
