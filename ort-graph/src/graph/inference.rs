//! Infers the facts of all nodes again, as an import of the graph from a file would.
//!
//! ```text
//! for each node, in order:
//!     its subgraphs, with what is known of the values that they capture
//!     its outputs: what follows from its inputs, and what was known of them where both can hold
//! ```

// collects are bounded: by the operands and subgraphs of a node

use ort_tensor::go_on;
use smallvec::SmallVec;

use super::{Graph, GraphError, Node};
use crate::fact::Fact;
use crate::ids::{NodeId, ValueId};
use crate::op::{Facts, OpError};
use crate::order::CycleError;

/// A graph with a node that does not fit its inputs, so that a file of it would not be imported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The node.
    #[error("node `{node}` ({op_type}): {error}")]
    Node {
        /// Its name, or its operator if it has none.
        node: String,
        /// The operator.
        op_type: String,
        /// What is wrong.
        error: Box<GraphError>,
    },
    /// Nodes form a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
}

impl Graph {
    /// What the operator of `node` infers from the facts that `fact_of` knows.
    ///
    /// # Errors
    /// If types and shapes do not fit, or the product of a shape's dimensions overflows.
    pub fn inferred<'a>(
        &'a self,
        node: &Node,
        fact_of: impl Fn(ValueId) -> &'a Fact,
    ) -> Result<Vec<Fact>, OpError> {
        let inputs: SmallVec<[Option<&Fact>; 8]> =
            node.inputs.iter().map(|input| input.map(&fact_of)).collect();
        let subgraphs: SmallVec<[(&str, &Graph); 2]> = node.attrs.graphs().collect();
        if !inputs.iter().flatten().copied().all(Fact::has_size) {
            return Err(OpError::TooLarge);
        }
        let inferred = node.op.infer(&Facts::new(&inputs).with_subgraphs(&subgraphs))?;
        if inferred.iter().all(Fact::has_size) { Ok(inferred) } else { Err(OpError::TooLarge) }
    }

    /// Infers the facts of all nodes again, those of subgraphs too. Where the inferred and the known facts of an
    /// output contradict each other, the inferred ones prevail, as in an import: so a file of the resulting graph can
    /// be imported.
    ///
    /// # Errors
    /// The first node that does not fit its inputs, which an import would reject, or whose result is of another
    /// type than was known.
    pub fn infer_all(&mut self) -> Result<(), InferError> {
        for id in self.topological_order()? {
            if self.node(id).attrs.graphs().next().is_some() {
                self.edit_subgraphs(id, Graph::infer_all)?;
            }
            self.infer_outputs(id).map_err(|error| {
                let node = self.node(id);
                let (node, op_type) = (node.label().to_owned(), node.op_type.clone());
                InferError::Node { node, op_type, error: Box::new(error) }
            })?;
        }
        Ok(())
    }

    fn infer_outputs(&mut self, id: NodeId) -> Result<(), GraphError> {
        go_on().map_err(|ended| GraphError::Inference(ended.into()))?;
        let facts = self.infer(id)?;
        let outputs = self.node(id).outputs.clone();
        for (output, inferred) in outputs.into_iter().zip(facts) {
            let Some(output) = output else { continue };
            let info = &mut self.values[output.index()];
            info.fact = match inferred.unify(&info.fact) {
                Ok(fact) => fact,
                Err(_) if is_of_one_type(&inferred, &info.fact) => inferred,
                Err(conflict) => {
                    let value = info.name.clone();
                    return Err(GraphError::OutputType { value, conflict });
                }
            };
        }
        Ok(())
    }
}

/// Whether both are tensors of one element type, so that only their shapes differ.
fn is_of_one_type(a: &Fact, b: &Fact) -> bool {
    a.dtype().is_some() && a.dtype() == b.dtype()
}

#[cfg(test)]
mod tests {
    use super::super::{Graph, GraphError, NewNode};
    use crate::testing::registry;

    #[test]
    fn a_node_without_outputs_is_rejected() {
        let new = || NewNode { op_type: "Op".into(), since_version: 1, ..NewNode::default() };
        let mut graph = Graph::new();
        assert!(matches!(graph.add_node(new(), &registry()), Err(GraphError::NoOutputs)));
        assert_eq!(graph.n_nodes(), 0);
        let unnamed = NewNode { outputs: vec![None], ..new() };
        assert!(graph.add_node(unnamed, &registry()).is_ok());
    }
}
