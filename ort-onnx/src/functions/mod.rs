//! Inlines model-local functions, and determines the version of each node's operator,
//! which depends on the function it comes from.
//!
//! A function's body may call others, but not itself. Values in a body get unique names.

mod constants;
mod cost;
mod flex_attention;
mod instance;

use std::collections::{HashMap, HashSet};

use prost::Message;

use self::instance::{Instance, Names};
use crate::decode::Limits;
use crate::error::OnnxError;
use crate::opsets::since_version;
use crate::schema::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
};

/// Inlines all functions of a model, and sets the version of each node's operator.
pub(crate) fn inline(model: &mut ModelProto, limits: &Limits) -> Result<(), OnnxError> {
    let n_bytes = if model.functions.is_empty() { 0 } else { model.encoded_len() };
    let functions = std::mem::take(&mut model.functions);
    let Some(mut graph) = model.graph.take() else { return Err(OnnxError::NoGraph) };
    let mut names = HashSet::new();
    let has_preview = model.opset_import.iter().any(|set| set.domain == "ai.onnx.preview");
    if !functions.is_empty() || has_preview {
        collect(&graph, &mut names);
    }
    let most = n_bytes.saturating_mul(limits.ratio).saturating_add(limits.base);
    let by_name = functions.iter().map(|function| (key_of(function), function)).collect();
    let dtypes = if has_preview { declared(&graph) } else { HashMap::new() };
    let names = Names::new(names);
    let mut inliner = Inliner { functions: by_name, dtypes, names, left: most };
    inliner.graph(&mut graph, &Opsets::of(&model.opset_import), 0)?;
    for set in functions.iter().flat_map(|function| &function.opset_import) {
        let is_same = |other: &OperatorSetIdProto| plain(&other.domain) == plain(&set.domain);
        if !model.opset_import.iter().any(is_same) {
            model.opset_import.push(set.clone());
        }
    }
    model.graph = Some(graph);
    Ok(())
}

/// Domain, name and overload.
type Key<'f> = (&'f str, &'f str, &'f str);

fn key_of(function: &FunctionProto) -> Key<'_> {
    (plain(&function.domain), &function.name, &function.overload)
}

fn key(node: &NodeProto) -> Key<'_> {
    (plain(&node.domain), &node.op_type, &node.overload)
}

/// A domain's name; ONNX's own is empty.
fn plain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The version of each opset that a graph or a function imports.
struct Opsets<'f>(HashMap<&'f str, i64>);

impl<'f> Opsets<'f> {
    fn of(imports: &'f [OperatorSetIdProto]) -> Self {
        Self(imports.iter().map(|set| (plain(&set.domain), set.version)).collect())
    }

    fn since_version(&self, node: &NodeProto) -> i32 {
        let domain = plain(&node.domain);
        since_version(domain, &node.op_type, self.0.get(domain).copied().unwrap_or(1))
    }
}

/// Every name of a value in a graph and its subgraphs.
fn collect(graph: &GraphProto, names: &mut HashSet<String>) {
    names.extend(graph.input.iter().map(|value| value.name.clone()));
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
    names.extend(graph.initializer.iter().chain(sparse).map(|tensor| tensor.name.clone()));
    for node in &graph.node {
        names.extend(node.input.iter().chain(&node.output).cloned());
        for attribute in &node.attribute {
            attribute.g.iter().for_each(|graph| collect(graph, names));
            attribute.graphs.iter().for_each(|graph| collect(graph, names));
        }
    }
}

/// The element types that a graph declares for values.
fn declared(graph: &GraphProto) -> HashMap<String, i32> {
    let values = graph.input.iter().chain(&graph.value_info).chain(&graph.output);
    let dtype = |value: &ValueInfoProto| {
        let tensor = value.r#type.as_ref()?.tensor_type.as_ref()?;
        Some((value.name.clone(), tensor.elem_type))
    };
    values.filter_map(dtype).collect()
}

struct Inliner<'f> {
    functions: HashMap<Key<'f>, &'f FunctionProto>,
    dtypes: HashMap<String, i32>,
    names: Names,
    /// Bytes that inlined bodies may still take.
    left: usize,
}

impl<'f> Inliner<'f> {
    fn graph(
        &mut self,
        graph: &mut GraphProto,
        opsets: &Opsets<'_>,
        depth: usize,
    ) -> Result<(), OnnxError> {
        // Most graphs have no calls, and their nodes stay where they are.
        if graph.node.iter().any(|node| self.is_call(node, opsets)) {
            let nodes = std::mem::take(&mut graph.node);
            graph.node = self.nodes(nodes, opsets, depth)?;
        } else {
            graph.node.iter_mut().try_for_each(|node| self.operator(node, opsets, depth))?;
        }
        constants::lift(graph);
        Ok(())
    }

    /// The nodes with all calls inlined.
    fn nodes(
        &mut self,
        nodes: Vec<NodeProto>,
        opsets: &Opsets<'_>,
        depth: usize,
    ) -> Result<Vec<NodeProto>, OnnxError> {
        let mut expanded = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            if let Some(&function) = self.functions.get(&key(&node)) {
                expanded.extend(self.call(&node, function, depth)?);
                continue;
            }
            if let Some(function) = self.standard(&node, opsets) {
                node.input.extend(function.input.iter().skip(node.input.len()).cloned());
                let body = Instance::new(&node, &function, &mut self.names).body();
                expanded.extend(self.nodes(body, &Opsets::of(&function.opset_import), depth)?);
                continue;
            }
            self.operator(&mut node, opsets, depth)?;
            expanded.push(node);
        }
        Ok(expanded)
    }

    /// Sets the operator version of a node that calls no function, and of the nodes in its subgraphs.
    fn operator(
        &mut self,
        node: &mut NodeProto,
        opsets: &Opsets<'_>,
        depth: usize,
    ) -> Result<(), OnnxError> {
        node.since_version = opsets.since_version(node);
        for attribute in &mut node.attribute {
            let graphs = attribute.g.iter_mut().map(|graph| &mut **graph);
            for graph in graphs.chain(&mut attribute.graphs) {
                self.graph(graph, opsets, depth)?;
            }
        }
        Ok(())
    }

    fn is_call(&self, node: &NodeProto, opsets: &Opsets<'_>) -> bool {
        self.functions.contains_key(&key(node)) || self.standard(node, opsets).is_some()
    }

    /// The body that the standard gives a node's operator, unless it is defined otherwise.
    fn standard(&self, node: &NodeProto, opsets: &Opsets<'_>) -> Option<FunctionProto> {
        let dtype = node.input.first().and_then(|name| self.dtypes.get(name)).copied();
        let opset = opsets.0.get("").copied().unwrap_or(18);
        flex_attention::function(node, dtype, opset)
    }

    fn call(
        &mut self,
        node: &NodeProto,
        function: &'f FunctionProto,
        depth: usize,
    ) -> Result<Vec<NodeProto>, OnnxError> {
        let wrong = |what| OnnxError::Function { function: function.name.clone(), what };
        if depth >= self.functions.len() {
            return Err(wrong("it calls itself"));
        }
        if node.input.len() > function.input.len() || node.output.len() > function.output.len() {
            return Err(wrong("a call has more inputs or outputs than the function"));
        }
        let left = self.left.checked_sub(cost::of_call(node, function));
        self.left = left.ok_or_else(|| wrong("its calls take too much memory"))?;
        let body = Instance::new(node, function, &mut self.names).body();
        self.nodes(body, &Opsets::of(&function.opset_import), depth + 1)
    }
}

#[cfg(test)]
mod tests;
