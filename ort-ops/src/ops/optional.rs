//! Optional values: created, queried, and unwrapped.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator, Type};
use ort_tensor::{Bool, DType, Inputs, Output, Tensor, Value, ValueView};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "",
        name: "Optional",
        versions: (15, 28),
        types: DType::is_any,
        build: Optional::make,
    },
    OpDef {
        domain: "",
        name: "OptionalGetElement",
        versions: (15, 28),
        types: DType::is_any,
        build: |_| Ok(Arc::new(Optional::GetElement)),
    },
    OpDef {
        domain: "",
        name: "OptionalHasElement",
        versions: (15, 28),
        types: DType::is_any,
        build: |_| Ok(Arc::new(Optional::HasElement)),
    },
];

/// An operator on optional values. A tensor or sequence counts as an optional with that value.
///
/// Source: ONNX operator set, Optional-28, OptionalGetElement-28, OptionalHasElement-28.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Optional {
    /// Optional: the input, as an optional with that value.
    Make,
    /// Optional without an input: an empty optional of the attribute's type.
    Empty(Type),
    /// OptionalGetElement: the value of the optional. It is an error if it is empty.
    GetElement,
    /// OptionalHasElement: whether the input is present and has a value, a boolean scalar.
    HasElement,
}

impl Optional {
    fn make(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let ty = spec.value_type("type")?.cloned();
        if spec.has_input(0) {
            return Ok(Arc::new(Optional::Make));
        }
        let ty = ty.ok_or(OpError::MissingAttribute { name: "type" })?;
        Ok(Arc::new(Optional::Empty(ty)))
    }
}

impl Operator for Optional {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![match self {
            Optional::Make => Type::Optional(Box::new(inputs.fact(0)?.ty.clone())).into(),
            Optional::Empty(ty) => Type::Optional(Box::new(ty.clone())).into(),
            Optional::GetElement => match inputs.fact(0)? {
                Fact { ty: Type::Optional(inner), .. } => Fact::from((**inner).clone()),
                other => other.clone(),
            },
            Optional::HasElement => Fact::shaped(DType::Bool, &[]),
        }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let value = match (self, inputs.get(0)) {
            (Optional::Empty(_), _) => Value::Optional(None),
            (Optional::Make, _) => Value::Optional(Some(Box::new(inputs.value(0)?.to_value()?))),
            (Optional::HasElement, value) => {
                let has = !matches!(value, None | Some(ValueView::Other(Value::Optional(None))));
                Tensor::scalar(Bool::from(has)).into()
            }
            (Optional::GetElement, _) => match inputs.value(0)? {
                ValueView::Other(Value::Optional(Some(inner))) => (**inner).clone(),
                ValueView::Other(Value::Optional(None)) => {
                    return Err(OpError::InputValue { index: 0, what: "the optional is empty" });
                }
                other => other.to_value()?,
            },
        };
        Ok(outputs[0].set(value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, tensor};

    fn run(op_type: &'static str, input: Option<Value>) -> Option<Value> {
        let values = Case::new(op_type, 18).run_values(&[input]);
        values.ok().map(|mut values| values.remove(0))
    }

    #[test]
    fn optionals_are_made_asked_and_opened() {
        let x = || Value::Tensor(tensor(&[1], &[1_f32]));
        let items = || Value::Sequence(vec![x()]);
        let some = |value| Value::Optional(Some(Box::new(value)));
        let flag = |flag: bool| Some(Value::Tensor(Tensor::scalar(Bool::from(flag))));
        for value in [x(), items()] {
            assert_eq!(run("Optional", Some(value.clone())), Some(some(value.clone())));
            assert_eq!(run("OptionalGetElement", Some(some(value.clone()))), Some(value.clone()));
            assert_eq!(run("OptionalGetElement", Some(value.clone())), Some(value.clone()));
            assert_eq!(run("OptionalHasElement", Some(some(value.clone()))), flag(true));
            assert_eq!(run("OptionalHasElement", Some(value)), flag(true));
        }
        assert_eq!(run("OptionalHasElement", Some(Value::Optional(None))), flag(false));
        assert_eq!(run("OptionalHasElement", None), flag(false));
        assert_eq!(run("OptionalGetElement", Some(Value::Optional(None))), None);
        assert_eq!(run("Optional", None), None);
    }
}
