//! Names: a graph sees its own values, and those of the graphs around it.

use std::collections::HashMap;

use bytes::Bytes;
use ort_format::AttributeValue;
use ort_tensor::Tensor;

use super::error::{ImportError, ImportWarning, UnsupportedNode};
use super::types::declared_type;
use super::{ImportLimits, tensor};
use crate::attrs::{Attr, Attrs};
use crate::fact::{Fact, Type};
use crate::graph::{Graph, GraphError, NewNode, PackedForm};
use crate::ids::ValueId;
use crate::op::OpError;
use crate::order::CycleError;
use crate::registry::{Registry, RegistryError};

/// Imports a graph and the subgraphs of its nodes.
pub(super) struct Importer<'a> {
    bytes: &'a Bytes,
    registry: &'a Registry,
    limits: ImportLimits,
    opsets: &'a HashMap<&'a str, i64>,
    ir_version: i64,
    /// The graphs that are being imported, the outermost first.
    scopes: Vec<Scope<'a>>,
    unsupported: Vec<UnsupportedNode>,
    warnings: Vec<ImportWarning>,
}

/// A graph that is being imported.
#[derive(Default)]
struct Scope<'a> {
    graph: Graph,
    names: HashMap<&'a str, ValueId>,
    /// What the file declares of each value.
    declared: HashMap<&'a str, Type>,
}

impl<'a> Importer<'a> {
    pub(super) fn new(
        bytes: &'a Bytes,
        registry: &'a Registry,
        limits: ImportLimits,
        opsets: &'a HashMap<&'a str, i64>,
        ir_version: i64,
    ) -> Self {
        let (scopes, unsupported, warnings) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, registry, limits, opsets, ir_version, scopes, unsupported, warnings }
    }

    pub(super) fn finish(self) -> (Vec<UnsupportedNode>, Vec<ImportWarning>) {
        (self.unsupported, self.warnings)
    }

    /// Imports a graph within the scopes that are open.
    pub(super) fn graph(&mut self, view: ort_format::Graph<'a>) -> Result<Graph, ImportError> {
        self.scopes.push(Scope::default());
        for value in view.node_args() {
            let ty = declared_type(value.type_info(), value.name())?;
            self.scope().declared.insert(value.name(), ty);
        }
        self.inputs_and_initializers(view)?;
        let nodes: Vec<_> = view.nodes().iter().collect();
        for node in &nodes {
            for name in node.outputs().iter().filter(|name| !name.is_empty()) {
                if self.scope().names.contains_key(name) {
                    let error = Box::new(GraphError::ComputedTwice { value: name.to_owned() });
                    return Err(node_error(*node, error));
                }
                self.define(name)?;
            }
        }
        for &index in &order(&nodes)? {
            self.node(nodes[index])?;
        }
        let level = self.scopes.len() - 1;
        let mut outputs = Vec::with_capacity(view.outputs().len());
        for name in view.outputs() {
            let user = || "an output of the graph".to_owned();
            outputs.push(self.resolve(level, name, user)?);
        }
        let mut graph = self.scopes.pop().unwrap_or_default().graph;
        graph.set_outputs(outputs);
        Ok(graph)
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// A value of the innermost graph that it makes itself; nothing is known of it yet.
    fn define(&mut self, name: &'a str) -> Result<ValueId, ImportError> {
        let scope = self.scope();
        let id = scope.graph.add_value(name, Fact::UNKNOWN)?;
        scope.names.insert(name, id);
        Ok(id)
    }

    fn inputs_and_initializers(&mut self, view: ort_format::Graph<'a>) -> Result<(), ImportError> {
        let mut inputs = Vec::with_capacity(view.inputs().len());
        for name in view.inputs() {
            let id = self.define(name)?;
            let declared = self.scope().declared.get(name).cloned().unwrap_or_default();
            self.scope().graph.value_mut(id).fact = declared.into();
            inputs.push(id);
        }
        let (bytes, limits) = (self.bytes, self.limits);
        let (packed, constants): (Vec<_>, Vec<_>) =
            view.initializers().iter().partition(|tensor| tensor.packed_form().is_some());
        for tensor in constants {
            let contents = tensor::dense_or_withheld(tensor, bytes)?;
            self.initializer(tensor.name(), contents, &mut inputs)?;
        }
        for tensor in packed {
            self.packed_form(tensor)?;
        }
        for tensor in view.sparse_initializers() {
            let name = tensor.values().name();
            self.initializer(name, tensor::sparse(tensor, bytes, limits)?, &mut inputs)?;
        }
        self.scope().graph.set_inputs(inputs);
        Ok(())
    }

    /// From IR version 4 on, an initializer that is also an input can be overridden; before, every
    /// initializer had to be an input, and none could.
    fn initializer(
        &mut self,
        name: &'a str,
        tensor: Tensor,
        inputs: &mut Vec<ValueId>,
    ) -> Result<(), ImportError> {
        let id = match self.scope().names.get(name) {
            Some(&id) => id,
            None => self.define(name)?,
        };
        let is_constant = self.ir_version < 4 || !inputs.contains(&id);
        let value = self.scopes.last_mut().map(|scope| scope.graph.value_mut(id));
        if let Some(value) = value {
            if is_constant {
                value.fact = Fact::constant(tensor);
            } else {
                value.fact = Fact::shaped(tensor.dtype(), tensor.shape());
                value.default = Some(tensor);
            }
        }
        if is_constant {
            inputs.retain(|&input| input != id);
        }
        Ok(())
    }

    /// Adds a form to the constant of this graph that it is made of.
    fn packed_form(&mut self, tensor: ort_format::Tensor<'a>) -> Result<(), ImportError> {
        let bytes = self.bytes;
        let scope = self.scope();
        let form = tensor.packed_form().and_then(|(constant, label)| {
            let &id = scope.names.get(constant)?;
            scope.graph.constant(id)?;
            Some((id, label.to_owned()))
        });
        let stray = || ImportError::StrayForm { name: tensor.name().to_owned() };
        let (id, label) = form.ok_or_else(stray)?;
        let bytes = bytes.slice_ref(tensor.raw_data().unwrap_or_default());
        scope.graph.value_mut(id).packed.push(PackedForm { label, bytes });
        Ok(())
    }

    fn node(&mut self, view: ort_format::Node<'a>) -> Result<(), ImportError> {
        let level = self.scopes.len() - 1;
        let label = label(view);
        let mut attrs = Attrs::new();
        for attribute in view.attributes() {
            attrs.set(attribute.name(), self.attribute(&label, attribute)?);
        }
        let mut captured: Vec<ValueId> = Vec::new();
        for (_, graph) in attrs.graphs() {
            captured.extend(graph.captures().iter().map(|&(_, there)| there));
        }
        captured.sort_unstable();
        captured.dedup();
        let mut inputs = Vec::with_capacity(view.inputs().len());
        for name in view.inputs() {
            let user = || format!("node `{label}`");
            let id = if name.is_empty() { None } else { Some(self.resolve(level, name, user)?) };
            inputs.push(id);
        }
        let names = &self.scopes[level].names;
        let outputs: Vec<_> = view.outputs().iter().map(|name| names.get(name).copied()).collect();
        let domain = if view.domain() == "ai.onnx" { "" } else { view.domain() };
        let opset = self.opsets.get(domain).copied().and_then(|version| version.try_into().ok());
        let since_version = match view.since_version() {
            version if version > 0 => version,
            _ => opset.unwrap_or(1),
        };
        let new = NewNode {
            name: view.name().to_owned(),
            domain: domain.to_owned(),
            op_type: view.op_type().to_owned(),
            since_version,
            inputs,
            outputs: outputs.clone(),
            captured,
            attrs,
        };
        match self.scopes[level].graph.add_node(new, self.registry) {
            Ok(_) => self.check_declared(&outputs, view),
            Err(error) if let Some(error) = no_operator(&error) => {
                let (domain, op_type) = (domain.to_owned(), view.op_type().to_owned());
                let node = UnsupportedNode { node: label, domain, op_type, since_version, error };
                self.unsupported.push(node);
                self.assume_declared(&outputs);
                Ok(())
            }
            // With a node missing before it, a misfit says nothing.
            Err(_) if !self.unsupported.is_empty() => {
                self.assume_declared(&outputs);
                Ok(())
            }
            Err(error) => Err(node_error(view, Box::new(error))),
        }
    }

    /// Takes what is declared of the outputs of a node into what was inferred.
    fn check_declared(
        &mut self,
        outputs: &[Option<ValueId>],
        view: ort_format::Node<'a>,
    ) -> Result<(), ImportError> {
        let level = self.scopes.len() - 1;
        let scope = &mut self.scopes[level];
        for &id in outputs.iter().flatten() {
            let value = scope.graph.value_mut(id);
            let declared = scope.declared.get(value.name.as_str()).cloned().unwrap_or_default();
            match value.fact.unify(&declared.clone().into()) {
                Ok(fact) => value.fact = fact,
                Err(conflict) => {
                    let inferred = value.fact.dtype();
                    let declared = Fact::from(declared).dtype();
                    let value = value.name.clone();
                    if inferred.is_none() || inferred != declared {
                        let error = Box::new(GraphError::OutputType { value, conflict });
                        return Err(node_error(view, error));
                    }
                    self.warnings.push(ImportWarning::DeclaredShape { value, conflict });
                }
            }
        }
        Ok(())
    }

    fn assume_declared(&mut self, outputs: &[Option<ValueId>]) {
        let scope = self.scope();
        for &id in outputs.iter().flatten() {
            let value = scope.graph.value_mut(id);
            let declared = scope.declared.get(value.name.as_str()).cloned();
            value.fact = declared.unwrap_or_default().into();
        }
    }

    fn attribute(
        &mut self,
        node: &str,
        attribute: ort_format::Attribute<'a>,
    ) -> Result<Attr, ImportError> {
        let bytes = self.bytes;
        Ok(match attribute.value() {
            AttributeValue::Float(value) => Attr::Float(value),
            AttributeValue::Int(value) => Attr::Int(value),
            AttributeValue::String(value) => Attr::String(value.to_owned()),
            AttributeValue::Tensor(value) => Attr::Tensor(tensor::dense(value, bytes)?),
            AttributeValue::Graph(value) => Attr::Graph(Box::new(self.graph(value)?)),
            AttributeValue::Floats(values) => Attr::Floats(values.iter().collect()),
            AttributeValue::Ints(values) => Attr::Ints(values.iter().collect()),
            AttributeValue::Strings(values) => {
                Attr::Strings(values.iter().map(str::to_owned).collect())
            }
            AttributeValue::Tensors(values) => {
                let tensors = values.iter().map(|value| tensor::dense(value, bytes));
                Attr::Tensors(tensors.collect::<Result<_, _>>()?)
            }
            AttributeValue::Graphs(values) => {
                let graphs = values.iter().map(|value| self.graph(value));
                Attr::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            _ => {
                let (node, attribute) = (node.to_owned(), attribute.name().to_owned());
                return Err(ImportError::Attribute { node, attribute });
            }
        })
    }

    /// The value of this name in the graph at `level`, captured from the graphs around it if it
    /// is not the graph's own. A captured constant becomes a constant of the graph itself.
    fn resolve(
        &mut self,
        level: usize,
        name: &'a str,
        user: impl Fn() -> String,
    ) -> Result<ValueId, ImportError> {
        if let Some(&id) = self.scopes[level].names.get(name) {
            return Ok(id);
        }
        let unknown = || ImportError::UnknownValue { user: user(), value: name.to_owned() };
        let outer_level = level.checked_sub(1).ok_or_else(unknown)?;
        let outer = self.resolve(outer_level, name, &user as &dyn Fn() -> String)?;
        let (around, inner) = self.scopes.split_at_mut(level);
        let id = inner[0].graph.add_captured(name, &around[outer_level].graph, outer)?;
        inner[0].names.insert(name, id);
        Ok(id)
    }
}

/// The nodes in an order in which each comes after those whose outputs it reads, as far as names
/// (those of captured values included) tell; among nodes that are ready, the first in the file.
fn order(nodes: &[ort_format::Node<'_>]) -> Result<Vec<usize>, ImportError> {
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (i, node) in nodes.iter().enumerate() {
        makers.extend(node.outputs().iter().filter(|name| !name.is_empty()).map(|name| (name, i)));
    }
    let mut missing = vec![0_usize; nodes.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        for name in node.inputs().iter().chain(node.implicit_inputs().iter()) {
            if let Some(&maker) = makers.get(name) {
                missing[i] += 1;
                readers[maker].push(i);
            }
        }
    }
    let mut ready: std::collections::BinaryHeap<_> =
        (0..nodes.len()).filter(|&i| missing[i] == 0).map(std::cmp::Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(std::cmp::Reverse(i)) = ready.pop() {
        order.push(i);
        for &reader in &readers[i] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(std::cmp::Reverse(reader));
            }
        }
    }
    match missing.iter().position(|&missing| missing != 0) {
        None => Ok(order),
        Some(i) => Err(CycleError { node: label(nodes[i]) }.into()),
    }
}

/// Why a node has no operator, if that is what is wrong: none of its name, version and
/// attributes, or it does not take the type of an input.
fn no_operator(error: &GraphError) -> Option<RegistryError> {
    match error {
        GraphError::Operator(error) => Some(error.clone()),
        GraphError::Inference(error @ OpError::InputType { found, .. })
            if **found != Type::Unknown =>
        {
            Some(error.clone().into())
        }
        _ => None,
    }
}

fn label(node: ort_format::Node<'_>) -> String {
    if node.name().is_empty() { node.op_type().to_owned() } else { node.name().to_owned() }
}

fn node_error(node: ort_format::Node<'_>, error: Box<GraphError>) -> ImportError {
    ImportError::Node { node: label(node), op_type: node.op_type().to_owned(), error }
}
