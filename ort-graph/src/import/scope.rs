//! Names: a graph sees its own values, and those of the enclosing graphs.
//!
//! A parsed graph is taken apart: its strings and lists move into the new graph.

// collects are bounded: as long as the file's lists

use std::collections::HashMap;

use ort_tensor::{Tensor, go_on};

use super::error::{ImportError, ImportWarning, UnsupportedNode, no_operator, node_error};
use super::order::order;
use super::{ImportLimits, tensor};
use crate::attrs::{Attr, Attrs};
use crate::fact::{Fact, Type};
use crate::graph::{Graph, GraphError, NewNode, PackedForm};
use crate::ids::ValueId;
use crate::parsed::{self, Text};
use crate::registry::{Body, Registry};

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
    names: HashMap<Text<'a>, ValueId>,
    /// What the file declares of each value.
    declared: HashMap<Text<'a>, Type>,
}

impl Scope<'_> {
    /// An empty one with memory for this graph.
    fn of(graph: &parsed::Graph<'_>) -> Self {
        let n_outputs: usize = graph.nodes.iter().map(|node| node.outputs.len()).sum();
        let n_values = graph.inputs.len() + graph.initializers.len() + n_outputs;
        let mut scope = Self::default();
        // With room for those that passes add: memory that is not used costs less than moving everything.
        scope.graph.reserve(2 * n_values, 2 * graph.nodes.len()); // bounded: as the file's lists
        scope.names.reserve(n_values); // bounded: the same
        scope.declared.reserve(graph.values.len()); // bounded: the same
        scope
    }
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
    pub(super) fn graph(&mut self, mut graph: parsed::Graph<'a>) -> Result<Graph, ImportError> {
        self.scopes.push(Scope::of(&graph));
        for parsed::Value { name, ty, .. } in graph.values {
            let unknown = |number| ImportError::UnknownDType { name: name.to_string(), number };
            let ty = ty.map_err(unknown)?;
            self.scope().declared.insert(name, ty);
        }
        let mut inputs = self.inputs(graph.inputs)?;
        self.initializers(graph.initializers, &inputs)?;
        graph.forms.into_iter().try_for_each(|form| self.packed_form(form))?;
        for parsed::SparseTensor { values, indices, shape } in graph.sparse_initializers {
            let name = values.name.clone();
            let tensor = parsed::SparseTensor { values, indices, shape };
            self.initializer(name, tensor::sparse(tensor, self.limits)?, &inputs)?;
        }
        inputs.retain(|&input| self.scope().graph.constant(input).is_none());
        self.scope().graph.set_inputs(inputs);
        let order = order(&graph.nodes);
        // bounded: by the nodes and values of the graph
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for mut node in graph.nodes.drain(..) {
            let outputs = self.outputs(&mut node)?;
            nodes.push(Some((node, outputs)));
        }
        for index in order? {
            if let Some((node, outputs)) = nodes[index].take() {
                self.node(node, &outputs)?;
            }
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
    fn define(&mut self, name: Text<'a>) -> Result<ValueId, ImportError> {
        let scope = self.scope();
        let id = scope.graph.add_value(&*name, Fact::UNKNOWN)?;
        scope.names.insert(name, id);
        Ok(id)
    }

    /// Defines the inputs, which come before all other values.
    fn inputs(&mut self, names: Vec<Text<'a>>) -> Result<Vec<ValueId>, ImportError> {
        // bounded: by the nodes and values of the graph
        let mut inputs = Vec::with_capacity(names.len());
        let mut body_inputs = std::mem::take(&mut self.body_inputs).into_iter();
        for name in names {
            if name.is_empty() || self.scope().names.contains_key(&name) {
                return Err(ImportError::Input { name: name.into_owned() });
            }
            let inferred = body_inputs.next().unwrap_or_default();
            let declared = self.scope().declared.get(&name).cloned().unwrap_or_default();
            let id = self.define(name)?;
            let ty = if declared == Type::Unknown { inferred } else { declared };
            self.scope().graph.value_mut(id).fact = ty.into();
            inputs.push(id);
        }
        Ok(inputs)
    }

    fn initializers(
        &mut self,
        tensors: Vec<parsed::Tensor<'a>>,
        inputs: &[ValueId],
    ) -> Result<(), ImportError> {
        for parsed::Tensor { name, dtype, shape, contents } in tensors {
            let tensor = tensor::made(&name, (dtype, &shape), contents)?;
            self.initializer(name, tensor, inputs)?;
        }
        Ok(())
    }

    /// From IR version 4 on, an initializer that is also an input can be overridden; before, every
    /// initializer had to be an input, and none could. What overrides it has the type that the input
    /// declares, if the initializer has it, too.
    fn initializer(
        &mut self,
        name: Text<'a>,
        tensor: Tensor,
        inputs: &[ValueId],
    ) -> Result<(), ImportError> {
        let id = match self.scope().names.get(&name) {
            Some(&id) => id,
            None => self.define(name)?,
        };
        let is_constant = self.ir_version < 4 || inputs.get(id.index()) != Some(&id);
        let value = self.scope().graph.value_mut(id);
        if is_constant {
            value.fact = Fact::constant(tensor);
        } else {
            let ty = Fact::shaped(tensor.dtype(), tensor.shape()).ty;
            let is_declared = value.fact.dtype().is_some() && ty.unify(&value.fact.ty).is_some();
            value.fact = if is_declared { value.fact.ty.clone() } else { ty }.into();
            value.default = Some(tensor);
        }
        Ok(())
    }

    /// Adds a packed form to its constant in this graph.
    fn packed_form(&mut self, form: parsed::Form<'a>) -> Result<(), ImportError> {
        let scope = self.scope();
        let constant = form.of.and_then(|(constant, label)| {
            let &id = scope.names.get(constant)?;
            scope.graph.constant(id)?;
            Some((id, label.to_owned()))
        });
        let stray = || ImportError::StrayForm { name: form.name.to_string() };
        let (id, label) = constant.ok_or_else(stray)?;
        scope.graph.value_mut(id).packed.push(PackedForm { label, bytes: form.bytes });
        Ok(())
    }

    /// Defines what a node makes; `None` for an unused output.
    fn outputs(
        &mut self,
        node: &mut parsed::Node<'a>,
    ) -> Result<Vec<Option<ValueId>>, ImportError> {
        // bounded: by the nodes and values of the graph
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for name in std::mem::take(&mut node.outputs) {
            if !name.is_empty() && self.scope().names.contains_key(&name) {
                let error = Box::new(GraphError::ComputedTwice { value: name.into_owned() });
                return Err(node_error(node, error));
            }
            outputs.push(if name.is_empty() { None } else { Some(self.define(name)?) });
        }
        Ok(outputs)
    }

    fn node(
        &mut self,
        mut node: parsed::Node<'a>,
        outputs: &[Option<ValueId>],
    ) -> Result<(), ImportError> {
        go_on()
            .map_err(|ended| node_error(&node, Box::new(GraphError::Inference(ended.into()))))?;
        let level = self.scopes.len() - 1;
        // bounded: by the nodes and values of the graph
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for name in &node.inputs {
            let user = || format!("node `{}`", node.label());
            let id = if name.is_empty() { None } else { Some(self.resolve(level, name, &user)?) };
            inputs.push(id);
        }
        let since_version = self.since_version(&node);
        let attributes = std::mem::take(&mut node.attributes);
        let attrs = self.attributes((&node, attributes), &inputs, since_version)?;
        let mut captured: Vec<ValueId> = Vec::new();
        for (_, graph) in attrs.graphs() {
            captured.extend(graph.captures().iter().map(|&(_, there)| there));
        }
        captured.sort_unstable();
        captured.dedup();
        let new = NewNode {
            name: node.name.to_string(),
            domain: node.domain.to_string(),
            op_type: node.op_type.to_string(),
            since_version,
            inputs,
            outputs: outputs.to_vec(),
            captured,
            attrs,
        };
        match self.scopes[level].graph.add_node(new, self.registry) {
            Ok(_) => self.check_declared(outputs, &node),
            Err(error) if let Some(error) = no_operator(&error) => {
                let (domain, op_type) = (node.domain.to_string(), node.op_type.to_string());
                let node = node.label().to_owned();
                let node = UnsupportedNode { node, domain, op_type, since_version, error };
                self.unsupported.push(node);
                self.assume_declared(outputs);
                Ok(())
            }
            // After an unsupported node, a mismatch means nothing.
            Err(_) if !self.unsupported.is_empty() => {
                self.assume_declared(outputs);
                Ok(())
            }
            Err(error) => Err(node_error(&node, Box::new(error))),
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
        (node, attributes): (&parsed::Node<'a>, Vec<(Text<'a>, parsed::Attr<'a>)>),
        inputs: &[Option<ValueId>],
        since_version: i32,
    ) -> Result<Attrs, ImportError> {
        let is_graph = |(_, attr): &(Text<'_>, parsed::Attr<'_>)| {
            matches!(attr, parsed::Attr::Graph(_) | parsed::Attr::Graphs(_))
        };
        let mut attrs = Attrs::new();
        let (graphs, others): (Vec<_>, Vec<_>) = attributes.into_iter().partition(is_graph);
        for (name, attr) in others {
            let attr = self.attribute(node.label(), &name, attr)?;
            attrs.set(name, attr);
        }
        let outer = std::mem::take(&mut self.body_inputs);
        for (name, attr) in graphs {
            let graph = &self.scope().graph;
            let ty = |id: &Option<ValueId>| id.map(|id| graph.fact(id).ty.clone());
            let types: Vec<Type> = inputs.iter().map(|id| ty(id).unwrap_or_default()).collect();
            let (domain, op_type) = (&*node.domain, &*node.op_type);
            let body = Body { domain, op_type, since_version, inputs: &types, attrs: &attrs };
            self.body_inputs = self.registry.body_inputs(&body);
            let attr = self.attribute(node.label(), &name, attr)?;
            attrs.set(name, attr);
        }
        self.body_inputs = outer;
        Ok(attrs)
    }

    fn attribute(
        &mut self,
        node: &str,
        name: &str,
        attr: parsed::Attr<'a>,
    ) -> Result<Attr, ImportError> {
        Ok(match attr {
            parsed::Attr::Float(value) => Attr::Float(value),
            parsed::Attr::Int(value) => Attr::Int(value),
            parsed::Attr::String(value) => Attr::String(value.into_owned()),
            parsed::Attr::Tensor(value) => Attr::Tensor(tensor::dense(value)?),
            parsed::Attr::SparseTensor(value) => Attr::Tensor(tensor::sparse(value, self.limits)?),
            parsed::Attr::Graph(value) => Attr::Graph(Box::new(self.graph(value)?)),
            parsed::Attr::Type(value) => Attr::Type(value),
            parsed::Attr::Floats(values) => Attr::Floats(values),
            parsed::Attr::Ints(values) => Attr::Ints(values),
            parsed::Attr::Strings(values) => {
                Attr::Strings(values.into_iter().map(Text::into_owned).collect())
            }
            parsed::Attr::Tensors(values) => {
                Attr::Tensors(values.into_iter().map(tensor::dense).collect::<Result<_, _>>()?)
            }
            parsed::Attr::Graphs(values) => {
                let graphs = values.into_iter().map(|value| self.graph(value));
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
        name: &str,
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
        inner[0].names.insert(Text::Owned(name.to_owned()), id);
        Ok(id)
    }
}
