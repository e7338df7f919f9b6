//! If: runs one of two subgraphs. The plan runs it; this file only infers its outputs.

// collects are bounded: by the body's outputs

use std::sync::Arc;

use ort_graph::{Behaviour, Control, Fact, Facts, Graph, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::infer::join_facts;

/// The definitions of this file.
pub const DEFS: &[OpDef] =
    &[OpDef { domain: "", name: "If", versions: (1, 25), types: DType::is_any, build: If::build }];

/// If: `y = cond ? then_branch() : else_branch()`. The branches have no inputs except what they capture.
///
/// Source: ONNX operator set, If-25.
#[derive(Clone, Copy, Debug)]
pub struct If;

impl If {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        for name in ["then_branch", "else_branch"] {
            let branch = spec.graph(name)?.ok_or(OpError::MissingAttribute { name })?;
            if branch.outputs().len() != spec.n_outputs {
                let found = format!("a graph with {} outputs", branch.outputs().len());
                return Err(OpError::AttributeValue { name, found });
            }
        }
        Ok(Arc::new(If))
    }
}

impl Operator for If {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        inputs.expect_dtype(0, DType::Bool)?;
        let (a, b) = (inputs.subgraph("then_branch")?, inputs.subgraph("else_branch")?);
        let fact = |graph: &Graph, i: usize| graph.fact(graph.outputs()[i]).clone();
        (0..a.outputs().len().min(b.outputs().len()))
            .map(|i| join_facts(&fact(a, i), &fact(b, i)))
            .collect()
    }

    fn eval(&self, _inputs: Inputs<'_>, _outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        Err(OpError::Unsupported { what: "If outside a plan" })
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { control: Some(Control::If), ..Behaviour::default() }
    }
}
