//! Loop: runs a subgraph repeatedly. The plan runs it; this file only infers its outputs.

// collects are bounded: by the body's outputs

use std::sync::Arc;

use ort_graph::{Behaviour, Control, Dim, Fact, Facts, Graph, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::join_facts;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Loop",
    versions: (1, 25),
    types: DType::is_any,
    build: Loop::build,
}];

/// Loop: `(cond, v…, s…) = body(i, cond, v…)` for `i` from 0 on, while `i` is below input 0 and
/// `cond` is true; input 0 may be absent, and so may the first `cond`, input 1, which is true
/// then. Inputs 2 and up are the first `v`. The outputs are the last `v`, then each `s` of all
/// iterations, stacked along a new first axis.
///
/// Source: ONNX operator set, Loop-25.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// How many values are carried from one iteration to the next.
    pub n_carried: usize,
}

impl Loop {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let body = spec.graph("body")?.ok_or(OpError::MissingAttribute { name: "body" })?;
        let n_carried = spec.inputs.len().saturating_sub(2);
        check_body(body, 2 + n_carried, 1 + spec.n_outputs.max(n_carried))?;
        Ok(Arc::new(Self { n_carried }))
    }
}

/// Checks that a body has `n_inputs` inputs and at least `n_outputs` outputs.
pub(crate) fn check_body(body: &Graph, n_inputs: usize, n_outputs: usize) -> Result<(), OpError> {
    let found = (body.inputs().len(), body.outputs().len());
    if found.0 == n_inputs && found.1 >= n_outputs {
        return Ok(());
    }
    let found = format!("a graph with {} inputs and {} outputs", found.0, found.1);
    Err(OpError::AttributeValue { name: "body", found })
}

/// The fact of output `index` of a subgraph. Its symbols may differ from one run to the next.
pub(crate) fn body_output(body: &Graph, index: usize) -> Fact {
    let fact = body.outputs().get(index).map_or(Fact::UNKNOWN, |&id| body.fact(id).clone());
    Fact { constant: None, ..fact }
}

/// A dimension that is the same in every iteration.
pub(crate) fn invariant(dim: &Dim) -> Dim {
    dim.known().map_or(Dim::Unknown, Dim::Known)
}

impl Operator for Loop {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.expect_dtype(0, DType::I64)?;
        inputs.expect_dtype(1, DType::Bool)?;
        let body = inputs.subgraph("body")?;
        let n_scanned = body.outputs().len().saturating_sub(1 + self.n_carried);
        let carried =
            (0..self.n_carried).map(|i| join_facts(inputs.fact(2 + i)?, &body_output(body, 1 + i)));
        let scanned =
            (0..n_scanned).map(|i| Ok(stacked(&body_output(body, 1 + self.n_carried + i))));
        carried.chain(scanned).collect()
    }

    fn eval(&self, _inputs: Inputs<'_>, _outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "Loop outside a plan" })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { control: Some(Control::Loop), ..Behaviour::default() }
    }
}

/// As many of `item` as there are iterations.
fn stacked(item: &Fact) -> Fact {
    let Some(dtype) = item.dtype() else { return Fact::UNKNOWN };
    let Some(dims) = item.dims() else { return Fact::unranked(dtype) };
    Fact::tensor(dtype, std::iter::once(Dim::Unknown).chain(dims.iter().map(invariant)))
}

#[cfg(test)]
mod tests {
    use ort_graph::{Attr, Attrs};

    use super::*;

    fn graph(inputs: &[Fact], outputs: &[Fact]) -> Graph {
        let mut graph = Graph::new();
        let mut add = |facts: &[Fact]| -> Vec<_> {
            facts.iter().map(|fact| graph.add_value("", fact.clone()).unwrap()).collect()
        };
        let (inputs, outputs) = (add(inputs), add(outputs));
        graph.set_inputs(inputs);
        graph.set_outputs(outputs);
        graph
    }

    #[test]
    fn carried_values_join_and_others_are_stacked() {
        let cond = Fact::shaped(DType::Bool, &[]);
        let item = Fact::tensor(DType::I8, [Dim::Known(2), Dim::Symbol("k".into())]);
        let grown = Fact::shaped(DType::F32, &[1, 4]);
        let body = graph(
            &[Fact::shaped(DType::I64, &[]), cond.clone(), Fact::unranked(DType::F32)],
            &[cond, grown, item],
        );
        let initial = Fact::shaped(DType::F32, &[1, 3]);
        let op = Loop { n_carried: 1 };
        let inputs = [None, None, Some(&initial)];
        let subgraphs = [("body", &body)];
        let facts = op.infer(&Facts::new(&inputs).with_subgraphs(&subgraphs)).unwrap();
        let known = Dim::Known;
        assert_eq!(facts[0], Fact::tensor(DType::F32, [known(1), Dim::Unknown]));
        assert_eq!(facts[1], Fact::tensor(DType::I8, [Dim::Unknown, known(2), Dim::Unknown]));
    }

    #[test]
    fn a_body_of_other_inputs_is_refused() {
        let body = graph(&[Fact::UNKNOWN], &[Fact::UNKNOWN]);
        let attrs = Attrs::new().with("body", Attr::Graph(Box::new(body)));
        let error = Loop::build(&NodeSpec::new(25, &[true, true], 0, &attrs)).unwrap_err();
        let expected = "a graph with 1 inputs and 1 outputs";
        assert_eq!(
            error.to_string(),
            format!("attribute `body` has the unsupported value {expected}")
        );
    }
}
