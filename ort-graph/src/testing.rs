//! What tests of this crate use for operators and graphs.

pub(crate) mod arbitrary;

use std::sync::Arc;

use ort_tensor::{DType, Inputs, Output};

use crate::{Fact, Facts, Graph, NodeSpec, OpDef, OpError, Operator, Registry};

/// An operator that takes any attribute, and of whose outputs nothing is known.
#[derive(Debug)]
struct Anything(usize);

fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
    ["a", "b", "c", "body", "other"].into_iter().for_each(|name| spec.ignore(name));
    Ok(Arc::new(Anything(spec.n_outputs)))
}

impl Operator for Anything {
    fn infer(&self, _inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        Ok(vec![Fact::UNKNOWN; self.0])
    }

    fn eval(&self, _inputs: Inputs<'_>, _outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "evaluation" })
    }
}

/// A registry with nothing but operators of which nothing is known.
pub(crate) fn registry() -> Registry {
    let def = |domain, name| OpDef { domain, name, versions: (1, 25), types: DType::is_any, build };
    Registry::new(&[&[def("", "Op"), def("org.example-1", "Odd op")]])
}

/// The graph of a text, verified.
pub(crate) fn parse(text: &str) -> Graph {
    let graph = Graph::parse(text, &registry()).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    graph.verify().unwrap_or_else(|error| panic!("{error}:\n{text}"));
    graph
}
