//! One call of a function: its body with the names and attributes of the calling node.

use std::collections::{HashMap, HashSet};

use crate::schema::{AttributeProto, FunctionProto, GraphProto, NodeProto};

/// The used names of values, each with the number for the next similar name.
pub(super) struct Names(HashMap<String, u64>);

impl Names {
    pub(super) fn new(taken: HashSet<String>) -> Self {
        Self(taken.into_iter().map(|name| (name, 1)).collect())
    }

    /// An unused name like this one.
    fn fresh(&mut self, name: String) -> String {
        let Some(&next) = self.0.get(&name) else {
            self.0.insert(name.clone(), 1);
            return name;
        };
        let numbered = (next..).map(|n| (n, format!("{name}_{n}")));
        let free = { numbered }.find(|(_, numbered)| !self.0.contains_key(numbered));
        let (n, free) = free.unwrap_or_default();
        self.0.insert(name, n + 1);
        self.0.insert(free.clone(), 1);
        free
    }
}

/// A call of a function.
pub(super) struct Instance<'f> {
    node: &'f NodeProto,
    function: &'f FunctionProto,
    names: &'f mut Names,
    /// The names in the caller by those in the function; the innermost graph is last.
    scopes: Vec<HashMap<&'f str, String>>,
}

impl<'f> Instance<'f> {
    pub(super) fn new(
        node: &'f NodeProto,
        function: &'f FunctionProto,
        names: &'f mut Names,
    ) -> Self {
        let given = |formal: &'f String, i: usize| {
            (formal.as_str(), node.input.get(i).cloned().unwrap_or_default())
        };
        let inputs = function.input.iter().enumerate().map(|(i, formal)| given(formal, i));
        let scopes = vec![inputs.collect()];
        Self { node, function, names, scopes }
    }

    /// The nodes that replace the call.
    pub(super) fn body(mut self) -> Vec<NodeProto> {
        let function = self.function;
        // An output that is also an input of the function or another output becomes a copy.
        let mut copies = Vec::new();
        for (formal, actual) in function.output.iter().zip(&self.node.output) {
            if actual.is_empty() {
                continue;
            }
            match self.scopes[0].get(formal.as_str()) {
                Some(from) => copies.push(copy(from, actual)),
                None => {
                    self.scopes[0].insert(formal, actual.clone());
                }
            }
        }
        self.define(function.node.iter().flat_map(|node| &node.output));
        let mut nodes: Vec<_> = function.node.iter().map(|node| self.instantiated(node)).collect();
        nodes.extend(copies);
        nodes
    }

    fn label(&self) -> &'f str {
        if self.node.name.is_empty() { &self.node.op_type } else { &self.node.name }
    }

    /// Renames the names that the innermost graph defines.
    fn define(&mut self, names: impl Iterator<Item = &'f String>) {
        let label = self.label();
        for name in names.filter(|name| !name.is_empty()) {
            let scope = self.scopes.last_mut();
            let Some(scope) = scope.filter(|scope| !scope.contains_key(name.as_str())) else {
                continue;
            };
            scope.insert(name, self.names.fresh(format!("{label}/{name}")));
        }
    }

    /// The new name for a name of the function. One that is not defined stays undefined.
    fn name(&self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        found.cloned().unwrap_or_else(|| format!("{}/{name}", self.label()))
    }

    fn instantiated(&mut self, node: &'f NodeProto) -> NodeProto {
        let names = |names: &[String]| names.iter().map(|name| self.name(name)).collect();
        let (input, output) = (names(&node.input), names(&node.output));
        let label = if node.name.is_empty() { &node.op_type } else { &node.name };
        NodeProto {
            input,
            output,
            name: format!("{}/{label}", self.label()),
            op_type: node.op_type.clone(),
            attribute: node.attribute.iter().filter_map(|it| self.attribute(it)).collect(),
            domain: node.domain.clone(),
            overload: node.overload.clone(),
            since_version: 0,
        }
    }

    /// An attribute of the body; `None` if it refers to an attribute that the node leaves out.
    fn attribute(&mut self, attribute: &'f AttributeProto) -> Option<AttributeProto> {
        if !attribute.ref_attr_name.is_empty() {
            let is_it = |it: &&AttributeProto| it.name == attribute.ref_attr_name;
            let given = self.node.attribute.iter().find(is_it);
            let given = given.or_else(|| self.function.attribute_proto.iter().find(is_it))?;
            return Some(AttributeProto { name: attribute.name.clone(), ..given.clone() });
        }
        if attribute.g.is_none() && attribute.graphs.is_empty() {
            return Some(attribute.clone());
        }
        let g = attribute.g.as_ref().map(|graph| Box::new(self.graph(graph)));
        let graphs = attribute.graphs.iter().map(|graph| self.graph(graph)).collect();
        let (name, r#type) = (attribute.name.clone(), attribute.r#type);
        Some(AttributeProto { name, r#type, g, graphs, ..AttributeProto::default() })
    }

    fn graph(&mut self, graph: &'f GraphProto) -> GraphProto {
        self.scopes.push(HashMap::new());
        let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
        self.define(graph.input.iter().map(|value| &value.name));
        self.define(graph.initializer.iter().chain(sparse).map(|tensor| &tensor.name));
        self.define(graph.node.iter().flat_map(|node| &node.output));
        let node = graph.node.iter().map(|node| self.instantiated(node)).collect();
        let mut renamed = GraphProto { node, ..Self::without_nodes(graph) };
        let sparse = renamed.sparse_initializer.iter_mut().filter_map(|it| it.values.as_mut());
        for tensor in renamed.initializer.iter_mut().chain(sparse) {
            tensor.name = self.name(&tensor.name);
        }
        let values = renamed.input.iter_mut().chain(&mut renamed.output);
        for value in values.chain(&mut renamed.value_info) {
            value.name = self.name(&value.name);
        }
        self.scopes.pop();
        renamed
    }

    fn without_nodes(graph: &GraphProto) -> GraphProto {
        GraphProto {
            node: Vec::new(),
            name: graph.name.clone(),
            initializer: graph.initializer.clone(),
            doc_string: String::new(),
            input: graph.input.clone(),
            output: graph.output.clone(),
            value_info: graph.value_info.clone(),
            sparse_initializer: graph.sparse_initializer.clone(),
        }
    }
}

fn copy(from: &str, to: &str) -> NodeProto {
    NodeProto {
        input: vec![from.to_owned()],
        output: vec![to.to_owned()],
        op_type: "Identity".to_owned(),
        ..NodeProto::default()
    }
}
