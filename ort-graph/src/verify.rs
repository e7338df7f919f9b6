//! The invariants of every graph, as a function that tests call after each rewrite.

// collects are bounded: as long as the graph's lists

use std::collections::HashSet;

use crate::graph::{Graph, GraphError};
use crate::ids::{NodeId, ValueId};
use crate::order::CycleError;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A value's list of consumers is wrong.
    #[error("value `{value}`: its consumers are {listed:?}, but {actual:?} read it")]
    Consumers {
        /// The name of the value.
        value: String,
        /// The listed nodes.
        listed: Vec<NodeId>,
        /// The nodes that read it.
        actual: Vec<NodeId>,
    },
    /// A value and a node disagree about the value's producer.
    #[error("value `{value}` has another producer than the node that computes it")]
    Producer {
        /// The name of the value.
        value: String,
    },
    /// A value that is read or returned, but is never defined.
    #[error("value `{value}` is neither computed, nor given, nor constant")]
    Undefined {
        /// The name of the value.
        value: String,
    },
    /// An input that is computed or constant.
    #[error("input `{value}` is computed or constant")]
    Input {
        /// The name of the input.
        value: String,
    },
    /// Two values that are read, given or returned have one name, or one has none.
    #[error("the name `{name}` is empty or shared")]
    Name {
        /// The name.
        name: String,
    },
    /// The facts of a node's outputs contradict those of its inputs.
    #[error("node `{node}`: {error}")]
    Facts {
        /// The name of the node, or its operator.
        node: String,
        /// What contradicts what.
        #[source]
        error: GraphError,
    },
    /// A node's list of captured values is not what its subgraphs capture.
    #[error("node `{node}` lists other captured values than its subgraphs capture")]
    Captured {
        /// The name of the node, or its operator.
        node: String,
    },
    /// A captured value of which graph and subgraph have contradicting facts.
    #[error("captured value `{value}` has contradicting facts in the enclosing graph")]
    Capture {
        /// Its name in the subgraph.
        value: String,
    },
    /// Nodes form a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
    /// A subgraph is invalid.
    #[error("in node `{node}`: {error}")]
    Subgraph {
        /// The name of the node, or its operator.
        node: String,
        /// What is wrong.
        #[source]
        error: Box<VerifyError>,
    },
}

impl Graph {
    /// Checks every invariant of the graph and its subgraphs.
    ///
    /// # Errors
    /// The first that is violated.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.verify_uses()?;
        self.verify_values()?;
        for id in self.node_ids() {
            let node = self.node(id);
            let label = || node.label().to_owned();
            self.infers(id).map_err(|error| VerifyError::Facts { node: label(), error })?;
            let captures = || node.attrs.graphs().flat_map(|(_, graph)| graph.captures());
            let captured: HashSet<ValueId> = captures().map(|&(_, there)| there).collect();
            if captured != node.captured.iter().copied().collect() {
                return Err(VerifyError::Captured { node: label() });
            }
            for (_, graph) in node.attrs.graphs() {
                let verified = self.verify_captures(graph).and_then(|()| graph.verify());
                verified.map_err(|error| VerifyError::Subgraph {
                    node: label(),
                    error: Box::new(error),
                })?;
            }
        }
        self.topological_order()?;
        Ok(())
    }

    fn name_of(&self, id: ValueId) -> String {
        self.value(id).name.clone()
    }

    fn verify_uses(&self) -> Result<(), VerifyError> {
        let n_values = self.value_ids().count();
        // bounded: by the nodes and values of the graph
        let mut readers: Vec<Vec<NodeId>> = vec![Vec::new(); n_values];
        // bounded: by the nodes and values of the graph
        let mut computed = vec![None; n_values];
        for id in self.node_ids() {
            let node = self.node(id);
            node.reads().for_each(|value| readers[value.index()].push(id));
            for (slot, output) in node.outputs.iter().enumerate() {
                let Some(output) = *output else { continue };
                if computed[output.index()].replace((id, slot)).is_some() {
                    return Err(VerifyError::Producer { value: self.name_of(output) });
                }
            }
        }
        for (id, actual) in self.value_ids().zip(readers) {
            if self.producer(id) != computed[id.index()] {
                return Err(VerifyError::Producer { value: self.name_of(id) });
            }
            let mut listed = self.consumers(id).to_vec();
            listed.sort_unstable();
            if listed != actual {
                return Err(VerifyError::Consumers { value: self.name_of(id), listed, actual });
            }
        }
        Ok(())
    }

    fn verify_values(&self) -> Result<(), VerifyError> {
        let inputs: HashSet<ValueId> = self.inputs().iter().copied().collect();
        let outputs: HashSet<ValueId> = self.outputs().iter().copied().collect();
        let captured: HashSet<ValueId> = self.captures().iter().map(|&(here, _)| here).collect();
        let mut names = HashSet::new();
        for id in self.value_ids() {
            let value = self.value(id);
            let is_input = inputs.contains(&id);
            debug_assert_eq!(is_input, self.is_input(id), "{}", value.name);
            debug_assert_eq!(outputs.contains(&id), self.is_output(id), "{}", value.name);
            let is_computed = self.producer(id).is_some();
            if is_input && (is_computed || self.constant(id).is_some()) {
                return Err(VerifyError::Input { value: value.name.clone() });
            }
            let is_used = self.is_used(id);
            let is_given = is_input || captured.contains(&id);
            let is_defined =
                is_computed != is_given || (!is_computed && self.constant(id).is_some());
            if is_used && !is_defined {
                return Err(VerifyError::Undefined { value: value.name.clone() });
            }
            let is_live = is_used || is_given;
            if is_live && (value.name.is_empty() || !names.insert(value.name.as_str())) {
                return Err(VerifyError::Name { name: value.name.clone() });
            }
        }
        Ok(())
    }

    fn verify_captures(&self, subgraph: &Graph) -> Result<(), VerifyError> {
        let n_values = self.value_ids().count();
        for &(here, there) in subgraph.captures() {
            let fits = there.index() < n_values
                && subgraph.producer(here).is_none()
                && self.fact(there).unify(subgraph.fact(here)).is_ok();
            if !fits {
                return Err(VerifyError::Capture { value: subgraph.name_of(here) });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::parse;

    #[test]
    fn a_violated_invariant_is_named() {
        let breaks: [(fn(&mut Graph, ValueId, ValueId), &str); 5] = [
            (
                |graph, x, y| graph.value_mut(y).name = graph.name_of(x),
                "the name `x` is empty or shared",
            ),
            (|graph, _, y| graph.value_mut(y).name.clear(), "the name `` is empty or shared"),
            (
                |graph, x, _| graph.value_mut(x).fact = Fact::constant(Tensor::scalar(1_i8)),
                "input `x` is computed or constant",
            ),
            (
                |graph, _, _| {
                    let z = graph.add_value("z", Fact::UNKNOWN).unwrap();
                    graph.set_outputs(vec![z]);
                },
                "value `z` is neither computed, nor given, nor constant",
            ),
            (
                |graph, _, _| graph.set_inputs(Vec::new()),
                "value `x` is neither computed, nor given, nor constant",
            ),
        ];
        for (break_it, expected) in breaks {
            let mut graph = parse("graph(x: float[2]) -> (y) { y = Op-1 (x) }");
            let (x, y) = (graph.inputs()[0], graph.outputs()[0]);
            break_it(&mut graph, x, y);
            assert_eq!(graph.verify().unwrap_err().to_string(), expected);
        }
    }
}
