//! SequenceMap: runs a subgraph for each item of its sequences. The plan runs it; this file only infers its outputs.

// collects are bounded: by the rank and the body's inputs

use std::sync::Arc;

use ort_graph::{
    Behaviour, Control, Fact, Facts, NodeSpec, OpDef, OpError, Operator, TensorType, Type,
};
use ort_tensor::{DType, Inputs, Output};

use crate::ops::loop_::{body_output, check_body, invariant};
use crate::ops::sequence::{item_type, sequence_of};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "SequenceMap",
    versions: (17, 17),
    types: DType::is_any,
    build: SequenceMap::build,
}];

/// SequenceMap: `y…[i] = body(x[i], …)` for each item of sequence input 0. Other sequence inputs have the same length
/// and pass their item `i`; tensors are passed each time. The outputs are sequences as long as input 0; for an empty
/// one, all are empty.
///
/// Source: ONNX operator set, SequenceMap-17.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceMap;

impl SequenceMap {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let body = spec.graph("body")?.ok_or(OpError::MissingAttribute { name: "body" })?;
        check_body(body, spec.inputs.len(), spec.n_outputs)?;
        Ok(Arc::new(Self))
    }
}

/// The type that the body receives for input `index`.
fn given<'a>(inputs: &Facts<'a>, index: usize) -> Result<&'a Type, OpError> {
    match &inputs.fact(index)?.ty {
        tensor @ Type::Tensor(_) if index > 0 => Ok(tensor),
        _ => item_type(inputs, index),
    }
}

/// A sequence of the body's results: tensors of varying shapes.
fn mapped(item: Fact) -> Fact {
    sequence_of(match item.ty {
        Type::Tensor(TensorType { dtype, dims }) => {
            let dims = dims.map(|dims| dims.iter().map(invariant).collect());
            Type::Tensor(TensorType { dtype, dims })
        }
        _ => Type::Unknown,
    })
}

impl Operator for SequenceMap {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let body = inputs.subgraph("body")?;
        item_type(inputs, 0)?;
        for (index, &input) in body.inputs().iter().enumerate() {
            let found = given(inputs, index)?;
            if found.join(&body.fact(input).ty).is_none() {
                return Err(OpError::InputType { index, found: Box::new(found.clone()) });
            }
        }
        Ok((0..body.outputs().len()).map(|i| mapped(body_output(body, i))).collect())
    }

    fn eval(&self, _inputs: Inputs<'_>, _outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "SequenceMap outside a plan" })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { control: Some(Control::SequenceMap), ..Behaviour::default() }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::{Attr, Attrs, Dim, Graph};

    use super::*;

    /// A body of two inputs of floats; its output has a new dimension.
    fn body() -> Graph {
        let mut graph = Graph::new();
        let floats = Fact::unranked(DType::F32);
        let inputs = ["a", "b"].map(|name| graph.add_value(name, floats.clone()).unwrap());
        let made = Fact::tensor(DType::I8, [Dim::Known(2), Dim::Symbol("k".into())]);
        let output = graph.add_value("c", made).unwrap();
        graph.set_inputs(inputs.to_vec());
        graph.set_outputs(vec![output]);
        graph
    }

    fn infer(inputs: &[Option<&Fact>]) -> Result<Vec<Fact>, String> {
        let body = body();
        let subgraphs = [("body", &body)];
        let facts = Facts::new(inputs).with_subgraphs(&subgraphs);
        SequenceMap.infer(&facts).map_err(|error| error.to_string())
    }

    #[test]
    fn outputs_are_sequences_of_what_the_body_makes() {
        let tensor = Fact::shaped(DType::F32, &[3]);
        let sequence = sequence_of(tensor.ty.clone());
        let unknown = Fact::UNKNOWN;
        let made = Fact::tensor(DType::I8, [Dim::Known(2), Dim::Unknown]);
        for second in [&sequence, &tensor, &unknown] {
            let expected = vec![sequence_of(made.ty.clone())];
            assert_eq!(infer(&[Some(&sequence), Some(second)]), Ok(expected));
        }
    }

    #[test]
    fn the_input_that_does_not_fit_is_named() {
        let sequence = sequence_of(Fact::unranked(DType::F32).ty);
        let ints = sequence_of(Fact::unranked(DType::I64).ty);
        let tensor = Fact::shaped(DType::F32, &[3]);
        let optional = Fact::from(Type::Optional(Box::new(tensor.ty.clone())));
        for (inputs, expected) in [
            ([&tensor, &sequence], "input 0 has the unsupported type float[3]"),
            ([&sequence, &optional], "input 1 has the unsupported type optional(float[3])"),
            ([&sequence, &ints], "input 1 has the unsupported type int64[...]"),
        ] {
            assert_eq!(infer(&inputs.map(Some)), Err(expected.into()));
        }
        assert!(infer(&[Some(&sequence), None]).is_err());
    }

    #[test]
    fn the_body_takes_an_input_for_each() {
        let attrs = Attrs::new().with("body", Attr::Graph(Box::new(body())));
        for (inputs, is_built) in [(&[true][..], false), (&[true, true], true)] {
            let spec = NodeSpec::new(17, inputs, 1, &attrs);
            assert_eq!(SequenceMap::build(&spec).is_ok(), is_built);
        }
    }
}
