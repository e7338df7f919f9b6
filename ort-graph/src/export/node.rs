//! Graphs and nodes in the form of a file.

// collects are bounded: as long as the graph's lists

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use ort_format::record::{self, AttributeValue};

use super::ExportError;
use super::scope::{Scope, numbered};
use super::types::{tensor, value_info};
use crate::attrs::Attr;
use crate::graph::Node;

/// What all graphs of a file have in common.
pub(super) struct Exporter<'e> {
    opsets: HashMap<&'e str, i64>,
    /// How many formal parameters operators have, by `domain:operator:version`.
    n_formals: HashMap<&'e str, usize>,
    private: &'e [(&'e str, &'e str)],
    is_ours: bool,
}

/// A graph, and the values that it captures.
pub(super) struct Exported<'g> {
    pub(super) graph: record::Graph<'g>,
    outer: BTreeSet<Cow<'g, str>>,
}

impl<'e> Exporter<'e> {
    pub(super) fn new(
        opsets: &[(&'e str, i64)],
        resolver: Option<&'e record::KernelTypeStrResolver<'_>>,
        private: &'e [(&'e str, &'e str)],
        is_ours: bool,
    ) -> Self {
        let entries = resolver.iter().flat_map(|resolver| &resolver.op_kernel_type_str_args);
        let n_formals = entries.map(|entry| (&*entry.op_id, n_formals(entry))).collect();
        Self { opsets: opsets.iter().copied().collect(), n_formals, private, is_ours }
    }

    pub(super) fn graph<'g>(&self, scope: &Scope<'g, '_>) -> Result<Exported<'g>, ExportError> {
        let graph = scope.graph;
        // bounded: by the inputs, or by MAX_FORMALS
        let mut nodes = Vec::with_capacity(graph.n_nodes());
        let mut names = HashSet::new();
        for (index, &id) in scope.nodes.iter().enumerate() {
            let index = u32::try_from(index).map_err(|_| ExportError::TooManyNodes)?;
            let node = self.node(graph.node(id), index, scope)?;
            nodes.push(record::Node { name: node_name(graph.node(id), &mut names), ..node });
        }
        let names = |ids: &[_]| ids.iter().map(|&id| scope.name(Some(id))).collect();
        let (inputs, outputs): (Vec<_>, Vec<_>) = (names(graph.inputs()), names(graph.outputs()));
        let mut outer: BTreeSet<Cow<'g, str>> = outputs.iter().cloned().collect();
        outer.extend(nodes.iter().flat_map(|node| node.inputs.iter().cloned()));
        outer.extend(nodes.iter().flat_map(|node| node.implicit_inputs.iter().cloned()));
        outer.retain(|name| !name.is_empty() && !scope.has(name));
        let graph = record::Graph {
            initializers: initializers(scope)?,
            node_args: node_args(scope, &nodes, &outer)?,
            nodes,
            inputs,
            outputs,
            ..record::Graph::default()
        };
        Ok(Exported { graph, outer })
    }

    fn node<'g>(
        &self,
        node: &'g Node,
        index: u32,
        scope: &Scope<'g, '_>,
    ) -> Result<record::Node<'g>, ExportError> {
        self.check_version(node)?;
        let mut outer = BTreeSet::new();
        let is_private = |name: &str| self.private.contains(&(node.domain.as_str(), name));
        let mut attributes = Vec::new();
        for (name, attr) in node.attrs.iter().filter(|(name, _)| !is_private(name)) {
            let value = self.attribute(attr, node, scope, &mut outer)?;
            attributes.push(record::Attribute::new(name, value));
        }
        Ok(record::Node {
            domain: node.domain.as_str().into(),
            since_version: node.since_version,
            index,
            op_type: node.op_type.as_str().into(),
            inputs: node.inputs.iter().map(|&id| scope.name(id)).collect(),
            outputs: node.outputs.iter().map(|&id| scope.name(id)).collect(),
            attributes,
            input_arg_counts: self.arg_counts(node),
            implicit_inputs: outer.into_iter().collect(),
            ..record::Node::default()
        })
    }

    /// Checks that the node does not follow a newer version than the model imports.
    fn check_version(&self, node: &Node) -> Result<(), ExportError> {
        let imported = self.opsets.get(node.domain.as_str()).copied().unwrap_or(i64::MAX);
        if self.is_ours || i64::from(node.since_version) <= imported {
            return Ok(());
        }
        let domain = if node.domain.is_empty() { "ai.onnx" } else { &node.domain };
        Err(ExportError::Version {
            node: node.label().to_owned(),
            op_type: node.op_type.clone(),
            domain: domain.to_owned(),
            since_version: node.since_version,
            imported,
        })
    }

    /// The value of an attribute; what its graphs capture goes to `outer`.
    fn attribute<'g>(
        &self,
        attr: &'g Attr,
        node: &Node,
        scope: &Scope<'g, '_>,
        outer: &mut BTreeSet<Cow<'g, str>>,
    ) -> Result<AttributeValue<'g>, ExportError> {
        let mut subgraph = |graph| {
            let Exported { graph, outer: names } = self.graph(&Scope::within(graph, scope)?)?;
            if let Some(value) = graph.outputs.iter().find(|&output| names.contains(output)) {
                let (node, value) = (node.label().to_owned(), value.to_string());
                return Err(ExportError::ReturnedCapture { node, value });
            }
            outer.extend(names);
            Ok(graph)
        };
        let constant = |value| tensor(Cow::Borrowed(""), value);
        Ok(match attr {
            Attr::Float(value) => AttributeValue::Float(*value),
            Attr::Int(value) => AttributeValue::Int(*value),
            Attr::String(value) => AttributeValue::String(value.into()),
            Attr::Tensor(value) => AttributeValue::Tensor(constant(value)?),
            Attr::Graph(graph) => AttributeValue::Graph(subgraph(graph)?),
            Attr::Floats(values) => AttributeValue::Floats(values.clone()),
            Attr::Ints(values) => AttributeValue::Ints(values.clone()),
            Attr::Strings(values) => {
                AttributeValue::Strings(values.iter().map(|text| text.as_str().into()).collect())
            }
            Attr::Tensors(values) => {
                AttributeValue::Tensors(values.iter().map(constant).collect::<Result<_, _>>()?)
            }
            Attr::Graphs(graphs) => {
                AttributeValue::Graphs(graphs.iter().map(subgraph).collect::<Result<_, _>>()?)
            }
            Attr::Type(ty) => {
                let (node, ty) = (node.label().to_owned(), Box::new(ty.clone()));
                return Err(ExportError::TypeAttribute { node, ty });
            }
        })
    }

    /// How many inputs go to each formal parameter: one to each, the rest to the last. Where the parameters of an
    /// operator are not known, each input counts as one; a reader that knows them adjusts the counts.
    fn arg_counts(&self, node: &Node) -> Vec<i32> {
        let Node { domain, op_type, since_version, .. } = node;
        let op_id = format!("{domain}:{op_type}:{since_version}");
        let n_inputs = node.inputs.len();
        let n_formals =
            self.n_formals.get(op_id.as_str()).copied().filter(|n| (1..=MAX_FORMALS).contains(n));
        // bounded: by the inputs, or by MAX_FORMALS
        let mut counts = vec![0; n_formals.unwrap_or(n_inputs)];
        for input in 0..n_inputs {
            let formal = input.min(counts.len() - 1);
            counts[formal] += 1;
        }
        counts
    }
}

/// More parameters than any operator has: a file that states a larger count is not believed.
const MAX_FORMALS: usize = 256;

/// A node's name, numbered if another node of the graph has it: ONNX Runtime (1.31) requires names to be empty or
/// unique.
fn node_name<'g>(node: &'g Node, names: &mut HashSet<Cow<'g, str>>) -> Cow<'g, str> {
    let name = Cow::Borrowed(node.name.as_str());
    let is_free = |name: &str| !names.contains(name);
    let name = if is_free(&name) { name } else { numbered(&name, is_free) };
    if !name.is_empty() {
        names.insert(name.clone());
    }
    name
}

/// How many formal inputs an operator has: every one is bound by some constraint.
fn n_formals(entry: &record::OpIdKernelTypeStrArgsEntry<'_>) -> usize {
    let args = entry.kernel_type_str_args.iter().flat_map(|constraint| &constraint.args);
    let inputs = args.filter(|arg| arg.arg_type == ort_format::ArgType::Input);
    let n_formals = inputs.map(|arg| arg.index.saturating_add(1)).max().unwrap_or(0);
    n_formals.try_into().unwrap_or(usize::MAX)
}

/// Constants with their packed forms, and the defaults of inputs.
fn initializers<'g>(scope: &Scope<'g, '_>) -> Result<Vec<record::Tensor<'g>>, ExportError> {
    let mut initializers = Vec::new();
    for (name, (graph, id)) in scope.values() {
        let value = graph.value(id);
        let contents = value.default.as_ref().or_else(|| graph.constant(id));
        initializers.extend(contents.map(|contents| tensor(name.clone(), contents)).transpose()?);
        initializers.extend(
            value
                .packed
                .iter()
                .map(|form| record::Tensor::packed_form(name, &form.label, &form.bytes)),
        );
    }
    Ok(initializers)
}

/// Every value that the graph has or captures, and the one that represents absent arguments.
fn node_args<'g>(
    scope: &Scope<'g, '_>,
    nodes: &[record::Node<'g>],
    outer: &BTreeSet<Cow<'g, str>>,
) -> Result<Vec<record::ValueInfo<'g>>, ExportError> {
    let own = scope.values();
    let own = own.map(|(name, (graph, id))| value_info(name.clone(), &graph.fact(id).ty));
    let forms = scope.values().flat_map(|(name, (graph, id))| {
        let forms = graph.value(id).packed.iter();
        forms.map(|form| Ok(record::ValueInfo::packed_form(name, &form.label, &form.bytes)))
    });
    let outer = outer.iter().filter_map(|name| {
        let ty = scope.type_of(name)?;
        Some(value_info(name.clone(), ty))
    });
    let mut args: Vec<_> = own.chain(forms).chain(outer).collect::<Result<_, _>>()?;
    let arguments = |node: &record::Node<'_>| {
        node.inputs.iter().chain(&node.outputs).any(|name| name.is_empty())
    };
    if nodes.iter().any(arguments) {
        args.push(record::ValueInfo::default());
    }
    Ok(args)
}
