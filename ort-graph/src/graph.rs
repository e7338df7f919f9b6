//! Values and nodes under distinct ids, with the uses of each value kept up to date.

// collects are bounded: as long as the graph's lists

mod compact;
mod edit;
mod inference;

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use ort_tensor::Tensor;
use smallvec::SmallVec;

pub use self::inference::InferError;
use crate::attrs::{Attrs, NodeSpec};
use crate::fact::{Fact, TypeConflict};
use crate::ids::{NodeId, ValueId};
use crate::op::{OpError, Operator};
use crate::order::{self, CycleError};
use crate::registry::{Registry, RegistryError};

/// A graph, or the subgraph of a node.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    values: Vec<ValueInfo>,
    nodes: Vec<Option<Node>>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    captures: Vec<(ValueId, ValueId)>,
}

/// One value of a graph.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Its name, unique in its graph.
    pub name: String,
    /// What is known of it.
    pub fact: Fact,
    /// The contents it has unless a run gives others: an initializer that is also an input.
    pub default: Option<Tensor>,
    /// If it is a constant: its packed forms, stored in the file next to its elements.
    pub packed: Vec<PackedForm>,
    producer: Option<(NodeId, usize)>,
    consumers: SmallVec<[NodeId; 2]>,
    is_input: bool,
    is_output: bool,
}

/// A constant in the layout that some kernel reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedForm {
    /// Identifies the form among all forms: a name given by the kernel, and its parameters.
    pub label: String,
    /// The form, aligned as the bytes of the file are.
    pub bytes: Bytes,
}

/// One node of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name; may be empty or shared.
    pub name: String,
    /// The operator set: empty for ai.onnx.
    pub domain: String,
    /// The operator.
    pub op_type: String,
    /// The version of the operator's specification that it follows.
    pub since_version: i32,
    /// What it reads; `None` for an absent optional input.
    pub inputs: SmallVec<[Option<ValueId>; 4]>,
    /// What it computes; `None` for an unused output.
    pub outputs: SmallVec<[Option<ValueId>; 1]>,
    /// Values of this graph that its subgraphs read.
    pub captured: Vec<ValueId>,
    /// Its attributes, including subgraphs.
    pub attrs: Attrs,
    /// Its semantics.
    pub op: Arc<dyn Operator>,
}

/// A node that is not yet in a graph.
#[derive(Clone, Debug, Default)]
pub struct NewNode {
    /// Its name.
    pub name: String,
    /// The operator set.
    pub domain: String,
    /// The operator.
    pub op_type: String,
    /// The version of the operator's specification.
    pub since_version: i32,
    /// What it reads.
    pub inputs: Vec<Option<ValueId>>,
    /// What it computes: values of the graph that no node computes yet.
    pub outputs: Vec<Option<ValueId>>,
    /// Values of the graph that its subgraphs read.
    pub captured: Vec<ValueId>,
    /// Its attributes.
    pub attrs: Attrs,
}

/// A node that cannot be added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The graph has no more ids.
    #[error("a graph holds at most 2^32 - 2 values and as many nodes")]
    TooLarge,
    /// There is no such operator, or the node is not a valid one.
    #[error(transparent)]
    Operator(#[from] RegistryError),
    /// The inputs do not fit the operator.
    #[error(transparent)]
    Inference(#[from] OpError),
    /// The operator has fewer outputs than the node.
    #[error("has {found} outputs, but the operator only {expected}")]
    OutputCount {
        /// How many the operator has.
        expected: usize,
        /// How many the node has.
        found: usize,
    },
    /// The node has no output: every operator has one at least, whether or not it is read.
    #[error("has no outputs")]
    NoOutputs,
    /// The type that was declared is not the type that follows from the inputs.
    #[error("output `{value}`: {conflict}")]
    OutputType {
        /// The name of the value.
        value: String,
        /// The declared type (expected) and the inferred one (found).
        conflict: TypeConflict,
    },
    /// Two nodes compute the same value, or a node computes an input or initializer.
    #[error("value `{value}` is computed twice")]
    ComputedTwice {
        /// The name of the value.
        value: String,
    },
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value that nothing computes yet.
    ///
    /// # Errors
    /// If the graph is full.
    pub fn add_value(
        &mut self,
        name: impl Into<String>,
        fact: Fact,
    ) -> Result<ValueId, GraphError> {
        let id = ValueId::new(self.values.len()).ok_or(GraphError::TooLarge)?;
        let (producer, consumers) = (None, SmallVec::new());
        let (name, default, packed) = (name.into(), None, Vec::new());
        let (is_input, is_output) = (false, false);
        let value =
            ValueInfo { name, fact, default, packed, producer, consumers, is_input, is_output };
        self.values.push(value);
        Ok(id)
    }

    /// Adds an initializer that no run can override.
    ///
    /// # Errors
    /// If the graph is full.
    pub fn add_constant(
        &mut self,
        name: impl Into<String>,
        tensor: Tensor,
    ) -> Result<ValueId, GraphError> {
        self.add_value(name, Fact::constant(tensor))
    }

    /// Adds a node: creates its operator, infers the facts of its outputs and unifies them with
    /// what was declared. Nothing changes on an error.
    ///
    /// # Errors
    /// If there is no such operator, or types and shapes do not fit.
    pub fn add_node(&mut self, new: NewNode, registry: &Registry) -> Result<NodeId, GraphError> {
        if new.outputs.is_empty() {
            return Err(GraphError::NoOutputs);
        }
        let present: SmallVec<[bool; 8]> = new.inputs.iter().map(Option::is_some).collect();
        let spec = NodeSpec::new(new.since_version, &present, new.outputs.len(), &new.attrs);
        let op = registry.build(&new.domain, &new.op_type, &spec)?;
        let id = NodeId::new(self.nodes.len()).ok_or(GraphError::TooLarge)?;
        let node = Node {
            name: new.name,
            domain: if new.domain == "ai.onnx" { String::new() } else { new.domain },
            op_type: new.op_type,
            since_version: new.since_version,
            inputs: new.inputs.into(),
            outputs: new.outputs.into(),
            captured: new.captured,
            attrs: new.attrs,
            op,
        };
        let facts = self.infer_node(&node)?;
        for (index, (&output, fact)) in node.outputs.iter().zip(facts).enumerate() {
            let Some(output) = output else { continue };
            let info = &self.values[output.index()];
            if info.producer.is_some() || info.is_input {
                return Err(GraphError::ComputedTwice { value: info.name.clone() });
            }
            self.values[output.index()].fact = fact;
            self.values[output.index()].producer = Some((id, index));
        }
        for value in node.reads() {
            self.values[value.index()].consumers.push(id);
        }
        self.nodes.push(Some(node));
        Ok(id)
    }

    /// The facts of a node's outputs: what is declared of each, unified with what follows from
    /// the facts of its inputs.
    fn infer_node(&self, node: &Node) -> Result<Vec<Fact>, GraphError> {
        let inferred = self.inferred(node, |value| &self.values[value.index()].fact)?;
        if node.outputs.len() > inferred.len() {
            let (expected, found) = (inferred.len(), node.outputs.len());
            return Err(GraphError::OutputCount { expected, found });
        }
        let unified = node.outputs.iter().zip(inferred).map(|(output, fact)| {
            let Some(output) = output else { return Ok(fact) };
            let info = &self.values[output.index()];
            info.fact
                .unify(&fact)
                .map_err(|conflict| GraphError::OutputType { value: info.name.clone(), conflict })
        });
        unified.collect()
    }

    /// Removes a node; its outputs stay as values that nothing computes.
    pub fn remove_node(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(id.index()).and_then(Option::take) else { return };
        for value in node.reads() {
            let consumers = &mut self.values[value.index()].consumers;
            if let Some(at) = consumers.iter().position(|consumer| *consumer == id) {
                consumers.remove(at);
            }
        }
        for output in node.outputs.iter().flatten() {
            self.values[output.index()].producer = None;
        }
    }

    /// The graph's inputs, including overridable initializers.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Declares the graph's inputs.
    pub fn set_inputs(&mut self, inputs: Vec<ValueId>) {
        for id in std::mem::replace(&mut self.inputs, inputs) {
            self.values[id.index()].is_input = false;
        }
        self.inputs.iter().for_each(|id| self.values[id.index()].is_input = true);
    }

    /// The graph's outputs.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// Declares the graph's outputs.
    pub fn set_outputs(&mut self, outputs: Vec<ValueId>) {
        for id in std::mem::replace(&mut self.outputs, outputs) {
            self.values[id.index()].is_output = false;
        }
        self.outputs.iter().for_each(|id| self.values[id.index()].is_output = true);
    }

    /// For a subgraph: the values it captures, as (here, in the enclosing graph).
    pub fn captures(&self) -> &[(ValueId, ValueId)] {
        &self.captures
    }

    /// Declares that `here` is the value `there` of the enclosing graph.
    pub fn add_capture(&mut self, here: ValueId, there: ValueId) {
        self.captures.push((here, there));
    }

    /// Renumbers captured values after the ids of the enclosing graph changed.
    pub(crate) fn map_captures(&mut self, to: &dyn Fn(ValueId) -> ValueId) {
        for (_, there) in &mut self.captures {
            *there = to(*there);
        }
    }

    /// A value.
    pub fn value(&self, id: ValueId) -> &ValueInfo {
        &self.values[id.index()]
    }

    /// A value, to change its name, fact or default.
    pub fn value_mut(&mut self, id: ValueId) -> &mut ValueInfo {
        &mut self.values[id.index()]
    }

    /// What is known of a value.
    pub fn fact(&self, id: ValueId) -> &Fact {
        &self.values[id.index()].fact
    }

    /// Every value's id.
    pub fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len()).filter_map(ValueId::new)
    }

    /// The contents of an initializer that no run can override.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        let info = self.value(id);
        if info.producer.is_none() && info.default.is_none() {
            info.fact.constant.as_ref()
        } else {
            None
        }
    }

    /// The node and output position that computes a value.
    pub fn producer(&self, id: ValueId) -> Option<(NodeId, usize)> {
        self.value(id).producer
    }

    /// The nodes that read a value or capture it, once per use.
    pub fn consumers(&self, id: ValueId) -> &[NodeId] {
        &self.value(id).consumers
    }

    /// A node. The id must be of a node that is in the graph.
    #[expect(clippy::missing_panics_doc, reason = "an id of a removed node is a bug of ours")]
    #[expect(clippy::expect_used, reason = "an id of a removed node is a bug of ours")]
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes[id.index()].as_ref().expect("invariant: the node is in the graph")
    }

    /// A node, if it has not been removed.
    pub fn get_node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// Every node's id, lowest first.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> {
        let ids = (0..self.nodes.len()).filter_map(NodeId::new);
        ids.filter(|id| self.nodes[id.index()].is_some())
    }

    /// How many nodes there are, subgraphs not counted.
    pub fn n_nodes(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// Every node after those it depends on; ties go to the lowest id.
    ///
    /// # Errors
    /// If nodes form a cycle.
    pub fn topological_order(&self) -> Result<Vec<NodeId>, CycleError> {
        order::topological(self)
    }
}

impl Node {
    /// Every value it depends on: inputs and captured values, with repetitions.
    pub fn reads(&self) -> impl Iterator<Item = ValueId> {
        self.inputs.iter().flatten().chain(&self.captured).copied()
    }

    /// Its operator, if that is a `T`.
    pub fn operator<T: Operator>(&self) -> Option<&T> {
        (&*self.op as &dyn Any).downcast_ref()
    }

    /// Its name, or its operator if it has none.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { &self.op_type } else { &self.name }
    }
}
