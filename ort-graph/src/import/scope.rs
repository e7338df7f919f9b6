//! Names: a graph sees its own values, and those of the enclosing graphs.

// collects are bounded: as long as the file's lists

use std::collections::HashMap;

use ort_tensor::{Tensor, go_on};

use super::error::{ImportError, ImportWarning, UnsupportedNode};
use super::order::order;
use super::{ImportLimits, tensor};
use crate::attrs::{Attr, Attrs};
use crate::fact::{Fact, Type};
use crate::graph::{Graph, GraphError, NewNode, PackedForm};
use crate::ids::ValueId;
use crate::op::OpError;
use crate::parsed;
use crate::registry::{Body, Registry, RegistryError};

/// Imports a graph and the subgraphs of its nodes.
pub(super) struct Importer<'a> {
    registry: &'a Registry,
    limits: ImportLimits,
    opsets: &'a HashMap<&'a str, i64>,
    ir_version: i64,
    /// The graphs that are being imported, the outermost first.
    scopes: Vec<Scope<'a>>,
    unsupported: Vec<UnsupportedNode>,
    warnings: Vec<ImportWarning>,
    /// The types of the next graph's inputs, where the file does not state them.
    body_inputs: Vec<Type>,
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
        registry: &'a Registry,
        limits: ImportLimits,
        opsets: &'a HashMap<&'a str, i64>,
        ir_version: i64,
    ) -> Self {
        let (scopes, unsupported, warnings) = (Vec::new(), Vec::new(), Vec::new());
        let body_inputs = Vec::new();
        Self { registry, limits, opsets, ir_version, scopes, unsupported, warnings, body_inputs }
    }

    pub(super) fn finish(self) -> (Vec<UnsupportedNode>, Vec<ImportWarning>) {
        (self.unsupported, self.warnings)
    }

    /// Imports a graph within the scopes that are open.
    pub(super) fn graph(&mut self, graph: &'a parsed::Graph<'a>) -> Result<Graph, ImportError> {
        self.scopes.push(Scope::default());
        for value in &graph.values {
            let ty = value.ty.clone().map_err(|number| ImportError::UnknownDType {
                name: value.name.to_string(),
                number,
            })?;
            self.scope().declared.insert(&value.name, ty);
        }
        self.inputs_and_initializers(graph)?;
        for node in &graph.nodes {
            for name in node.outputs.iter().filter(|name| !name.is_empty()) {
                if self.scope().names.contains_key(&**name) {
                    let error = Box::new(GraphError::ComputedTwice { value: name.to_string() });
                    return Err(node_error(node, error));
                }
                self.define(name)?;
            }
        }
        for index in order(&graph.nodes)? {
            self.node(&graph.nodes[index])?;
        }
        let level = self.scopes.len() - 1;
        // bounded: by the nodes and values of the graph
        let mut outputs = Vec::with_capacity(graph.outputs.len());
        for name in &graph.outputs {
            let user = || "an output of the graph".to_owned();
            outputs.push(self.resolve(level, name, &user)?);
        }
        let mut graph = self.scopes.pop().unwrap_or_default().graph;
        graph.set_outputs(outputs);
        Ok(graph)
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// A new value of the innermost graph, of which nothing is known yet.
    fn define(&mut self, name: &'a str) -> Result<ValueId, ImportError> {
        let scope = self.scope();
        let id = scope.graph.add_value(name, Fact::UNKNOWN)?;
        scope.names.insert(name, id);
        Ok(id)
    }

    fn inputs_and_initializers(&mut self, graph: &'a parsed::Graph<'a>) -> Result<(), ImportError> {
        // bounded: by the nodes and values of the graph
        let mut inputs = Vec::with_capacity(graph.inputs.len());
        let mut body_inputs = std::mem::take(&mut self.body_inputs).into_iter();
        for name in &graph.inputs {
            if name.is_empty() || self.scope().names.contains_key(&**name) {
                return Err(ImportError::Input { name: name.to_string() });
            }
            let id = self.define(name)?;
            let inferred = body_inputs.next().unwrap_or_default();
            let declared = self.scope().declared.get(&**name).cloned().unwrap_or_default();
            let ty = if declared == Type::Unknown { inferred } else { declared };
            self.scope().graph.value_mut(id).fact = ty.into();
            inputs.push(id);
        }
        for tensor in &graph.initializers {
            self.initializer(&tensor.name, tensor::dense(tensor)?, &mut inputs)?;
        }
        graph.forms.iter().try_for_each(|form| self.packed_form(form))?;
        for tensor in &graph.sparse_initializers {
            let dense = tensor::sparse(tensor, self.limits)?;
            self.initializer(&tensor.values.name, dense, &mut inputs)?;
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

    /// Adds a packed form to its constant in this graph.
    fn packed_form(&mut self, form: &parsed::Form<'a>) -> Result<(), ImportError> {
        let scope = self.scope();
        let constant = form.of.and_then(|(constant, label)| {
            let &id = scope.names.get(constant)?;
            scope.graph.constant(id)?;
            Some((id, label.to_owned()))
        });
        let stray = || ImportError::StrayForm { name: form.name.to_string() };
        let (id, label) = constant.ok_or_else(stray)?;
        let bytes = form.bytes.clone();
        scope.graph.value_mut(id).packed.push(PackedForm { label, bytes });
        Ok(())
    }

    fn node(&mut self, node: &'a parsed::Node<'a>) -> Result<(), ImportError> {
        go_on().map_err(|ended| node_error(node, Box::new(GraphError::Inference(ended.into()))))?;
        let level = self.scopes.len() - 1;
        let label = node.label();
        // bounded: by the nodes and values of the graph
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            let user = || format!("node `{label}`");
            let id = if name.is_empty() { None } else { Some(self.resolve(level, name, &user)?) };
            inputs.push(id);
        }
        let since_version = self.since_version(node);
        let attrs = self.attributes(node, &inputs, since_version)?;
        let mut captured: Vec<ValueId> = Vec::new();
        for (_, graph) in attrs.graphs() {
            captured.extend(graph.captures().iter().map(|&(_, there)| there));
        }
        captured.sort_unstable();
        captured.dedup();
        let names = &self.scopes[level].names;
        let outputs: Vec<_> = node.outputs.iter().map(|name| names.get(&**name).copied()).collect();
        let domain = &*node.domain;
        let new = NewNode {
            name: node.name.to_string(),
            domain: domain.to_owned(),
            op_type: node.op_type.to_string(),
            since_version,
            inputs,
            outputs: outputs.clone(),
            captured,
            attrs,
        };
        match self.scopes[level].graph.add_node(new, self.registry) {
            Ok(_) => self.check_declared(&outputs, node),
            Err(error) if let Some(error) = no_operator(&error) => {
                let (domain, op_type) = (domain.to_owned(), node.op_type.to_string());
                let node = label.to_owned();
                let node = UnsupportedNode { node, domain, op_type, since_version, error };
                self.unsupported.push(node);
                self.assume_declared(&outputs);
                Ok(())
            }
            // After an unsupported node, a mismatch means nothing.
            Err(_) if !self.unsupported.is_empty() => {
                self.assume_declared(&outputs);
                Ok(())
            }
            Err(error) => Err(node_error(node, Box::new(error))),
        }
    }

    /// Unifies what is declared of a node's outputs with what was inferred.
    fn check_declared(
        &mut self,
        outputs: &[Option<ValueId>],
        node: &parsed::Node<'a>,
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
                        return Err(node_error(node, error));
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

    fn since_version(&self, node: &parsed::Node<'_>) -> i32 {
        let opset = self.opsets.get(&*node.domain).copied();
        match node.since_version {
            version if version > 0 => version,
            _ => opset.and_then(|version| version.try_into().ok()).unwrap_or(1),
        }
    }

    /// The attributes, graphs last: what their inputs are may follow from what the node reads.
    fn attributes(
        &mut self,
        node: &'a parsed::Node<'a>,
        inputs: &[Option<ValueId>],
        since_version: i32,
    ) -> Result<Attrs, ImportError> {
        let is_graph = |attr: &parsed::Attr<'_>| {
            matches!(attr, parsed::Attr::Graph(_) | parsed::Attr::Graphs(_))
        };
        let mut attrs = Attrs::new();
        for (name, attr) in node.attributes.iter().filter(|(_, attr)| !is_graph(attr)) {
            attrs.set(name.to_string(), self.attribute(node.label(), name, attr)?);
        }
        let outer = std::mem::take(&mut self.body_inputs);
        for (name, attr) in node.attributes.iter().filter(|(_, attr)| is_graph(attr)) {
            let graph = &self.scope().graph;
            let ty = |id: &Option<ValueId>| id.map(|id| graph.fact(id).ty.clone());
            let types: Vec<Type> = inputs.iter().map(|id| ty(id).unwrap_or_default()).collect();
            let (domain, op_type) = (&*node.domain, &*node.op_type);
            let body = Body { domain, op_type, since_version, inputs: &types, attrs: &attrs };
            self.body_inputs = self.registry.body_inputs(&body);
            attrs.set(name.to_string(), self.attribute(node.label(), name, attr)?);
        }
        self.body_inputs = outer;
        Ok(attrs)
    }

    fn attribute(
        &mut self,
        node: &str,
        name: &str,
        attr: &'a parsed::Attr<'a>,
    ) -> Result<Attr, ImportError> {
        Ok(match attr {
            parsed::Attr::Float(value) => Attr::Float(*value),
            parsed::Attr::Int(value) => Attr::Int(*value),
            parsed::Attr::String(value) => Attr::String(value.to_string()),
            parsed::Attr::Tensor(value) => Attr::Tensor(tensor::dense(value)?),
            parsed::Attr::SparseTensor(value) => Attr::Tensor(tensor::sparse(value, self.limits)?),
            parsed::Attr::Graph(value) => Attr::Graph(Box::new(self.graph(value)?)),
            parsed::Attr::Type(value) => Attr::Type(value.clone()),
            parsed::Attr::Floats(values) => Attr::Floats(values.clone()),
            parsed::Attr::Ints(values) => Attr::Ints(values.clone()),
            parsed::Attr::Strings(values) => {
                Attr::Strings(values.iter().map(|value| value.to_string()).collect())
            }
            parsed::Attr::Tensors(values) => {
                Attr::Tensors(values.iter().map(tensor::dense).collect::<Result<_, _>>()?)
            }
            parsed::Attr::Graphs(values) => {
                let graphs = values.iter().map(|value| self.graph(value));
                Attr::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            parsed::Attr::Unknown => {
                let (node, attribute) = (node.to_owned(), name.to_owned());
                return Err(ImportError::Attribute { node, attribute });
            }
        })
    }

    /// The value of this name in the graph at `level`, captured from the enclosing graphs if it is not the graph's
    /// own. A captured constant becomes a constant of the graph itself.
    fn resolve(
        &mut self,
        level: usize,
        name: &'a str,
        user: &dyn Fn() -> String,
    ) -> Result<ValueId, ImportError> {
        if let Some(&id) = self.scopes[level].names.get(name) {
            return Ok(id);
        }
        let unknown = || ImportError::UnknownValue { user: user(), value: name.to_owned() };
        let outer_level = level.checked_sub(1).ok_or_else(unknown)?;
        let outer = self.resolve(outer_level, name, user)?;
        let (enclosing, inner) = self.scopes.split_at_mut(level);
        let id = inner[0].graph.add_captured(name, &enclosing[outer_level].graph, outer)?;
        inner[0].names.insert(name, id);
        Ok(id)
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

fn node_error(node: &parsed::Node<'_>, error: Box<GraphError>) -> ImportError {
    ImportError::Node { node: node.label().to_owned(), op_type: node.op_type.to_string(), error }
}
