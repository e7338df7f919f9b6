//! Constant: a tensor stored in the node.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Constant",
    versions: (1, 25),
    types: DType::is_any,
    build: Constant::build,
}];

/// Constant: `y = value`, of any of the attributes `value`, `sparse_value` (which import makes dense),
/// `value_float(s)`, `value_int(s)` and `value_string(s)`.
///
/// Source: ONNX operator set, Constant-25.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The contents.
    pub value: Tensor,
}

impl Constant {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let mut found = vec![spec.tensor("value")?, spec.tensor("sparse_value")?];
        found.push(spec.float("value_float")?.map(Tensor::scalar));
        found.push(spec.int("value_int")?.map(Tensor::scalar));
        let floats = spec.floats("value_floats")?;
        found.push(floats.map(|values| Tensor::from_slice(&[values.len()], values)).transpose()?);
        let ints = spec.ints("value_ints")?;
        found.push(ints.map(|values| Tensor::from_slice(&[values.len()], values)).transpose()?);
        let string = spec.string("value_string")?.map(|value| vec![value.to_owned()]);
        found.push(string.map(|value| Tensor::from_strings(&[], value)).transpose()?);
        let strings = spec.strings("value_strings")?.map(<[String]>::to_vec);
        let strings = strings.map(|values| Tensor::from_strings(&[values.len()], values));
        found.push(strings.transpose()?);
        let mut found = found.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(value), None) => Ok(Arc::new(Self { value })),
            (None, _) => Err(OpError::MissingAttribute { name: "value" }),
            (Some(_), Some(_)) => {
                Err(OpError::Unsupported { what: "a constant with several values" })
            }
        }
    }
}

impl Operator for Constant {
    fn infer(&self, _: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![Fact::constant(self.value.clone())])
    }

    fn eval(&self, _: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Ok(outputs[0].set(self.value.clone().into())?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    #[test]
    fn every_attribute_gives_its_type_and_rank() {
        let strings = |shape: &[usize], values: &[&str]| {
            Tensor::from_strings(shape, values.iter().map(|s| (*s).to_owned()).collect()).unwrap()
        };
        let cases = [
            ("value", Attr::Tensor(tensor(&[1, 2], &[1_u8, 2])), tensor(&[1, 2], &[1_u8, 2])),
            ("value_float", Attr::Float(0.5), Tensor::scalar(0.5_f32)),
            ("value_floats", Attr::Floats(vec![]), tensor::<f32>(&[0], &[])),
            ("value_int", Attr::Int(-1), Tensor::scalar(-1_i64)),
            ("value_ints", Attr::Ints(vec![1, 2]), tensor(&[2], &[1_i64, 2])),
            ("value_string", Attr::String("é".into()), strings(&[], &["é"])),
            ("value_strings", Attr::Strings(vec!["a".into()]), strings(&[1], &["a"])),
        ];
        for (name, attr, expected) in cases {
            assert_eq!(Case::new("Constant", 25).attr(name, attr).tensor(&[]), Ok(expected));
        }
    }

    #[test]
    fn there_is_exactly_one_value() {
        let none = Case::new("Constant", 13);
        assert_eq!(none.tensor(&[]).unwrap_err(), "attribute `value` is missing");
        let two = none.attr("value_int", Attr::Int(1)).attr("value_float", Attr::Float(1.0));
        assert_eq!(two.tensor(&[]).unwrap_err(), "a constant with several values is not supported");
    }
}
