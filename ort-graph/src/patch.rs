//! A change of a graph that is built separately, checked, and committed atomically.

// collects are bounded: as long as the graph's lists

use std::collections::{HashMap, HashSet};

use ort_tensor::Tensor;

use crate::fact::{Fact, TypeConflict};
use crate::graph::{Graph, GraphError, NewNode};
use crate::ids::{NodeId, ValueId};
use crate::registry::Registry;

/// New values and nodes, and which old values they replace. Nodes of the patch may read values of
/// the graph and of the patch alike; nodes of the graph read what replaces their inputs, those of
/// the patch read what they name, so a patch can also insert a node after a value.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The size of the graph when the patch was begun: ids of the patch follow.
    sizes: (usize, usize),
    values: Vec<NewValue>,
    nodes: Vec<NewNode>,
    replaced: Vec<(ValueId, ValueId)>,
    swept: Vec<NodeId>,
}

#[derive(Clone, Debug)]
struct NewValue {
    hint: String,
    fact: Fact,
}

/// The names of a graph's values, read when a patch first needs a new one. They hold for as long as
/// only patches change the graph.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: HashSet<String>,
    /// The last number appended to each hint.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The hint if no value has it as its name, or else the hint with a number.
    fn unused(&mut self, graph: &Graph, hint: &str) -> String {
        if self.taken.is_empty() {
            self.taken = graph.value_ids().map(|id| graph.value(id).name.clone()).collect();
        }
        let hint = if hint.is_empty() { "value" } else { hint };
        let number = self.numbers.entry(hint.to_owned()).or_insert(1);
        let mut name = hint.to_owned();
        while !self.taken.insert(name.clone()) {
            *number += 1;
            name = format!("{hint}_{number}");
        }
        name
    }
}

/// What a patch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The new nodes.
    pub added: Vec<NodeId>,
    /// The nodes that became unused and were removed.
    pub removed: Vec<NodeId>,
    /// The nodes whose inputs changed, or of which more is known.
    pub readers: Vec<NodeId>,
    /// Whether anything else is known of what they read than before.
    pub informs: bool,
}

/// A patch that does not fit its graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// Values or nodes have been added to the graph since the patch was begun.
    #[error("the graph has changed since the patch was begun")]
    Stale,
    /// A new value or node cannot be added.
    #[error("new node {op_type}: {error}")]
    Node {
        /// Its operator.
        op_type: String,
        /// Why.
        #[source]
        error: GraphError,
    },
    /// A replacement has another type than what it replaces.
    #[error("the replacement of `{value}`: {conflict}")]
    Type {
        /// The name of the replaced value.
        value: String,
        /// The type of the replaced value (expected) and of the replacement (found).
        conflict: TypeConflict,
    },
    /// An input or captured value, which no node computes, cannot be replaced.
    #[error("`{value}` is an input or captured and cannot be replaced")]
    Given {
        /// The name of the value.
        value: String,
    },
    /// The graph returns the replaced value under its name, which the replacement cannot take
    /// over: it is an input, captured, or returned under another name.
    #[error("`{replacement}` cannot take over the name of the output `{value}`")]
    OutputName {
        /// The name of the output.
        value: String,
        /// The name of the replacement.
        replacement: String,
    },
}

impl Patch {
    /// A patch that changes nothing yet. Until it is committed the graph must stay as it is.
    pub fn new(graph: &Graph) -> Self {
        let (values, nodes) = (Vec::new(), Vec::new());
        Self { sizes: graph.sizes(), values, nodes, replaced: Vec::new(), swept: Vec::new() }
    }

    /// A new value that some node of the patch computes. It keeps the name `hint` unless another value has it or it
    /// takes over a name.
    ///
    /// # Errors
    /// If the graph would be full.
    pub fn value(&mut self, hint: impl Into<String>, fact: Fact) -> Result<ValueId, PatchError> {
        let error = GraphError::TooLarge;
        let id = ValueId::new(self.sizes.0 + self.values.len())
            .ok_or(PatchError::Node { op_type: String::new(), error })?;
        self.values.push(NewValue { hint: hint.into(), fact });
        Ok(id)
    }

    /// A new constant.
    ///
    /// # Errors
    /// If the graph would be full.
    pub fn constant(
        &mut self,
        hint: impl Into<String>,
        tensor: Tensor,
    ) -> Result<ValueId, PatchError> {
        self.value(hint, Fact::constant(tensor))
    }

    /// A new node; it comes after the nodes of the patch that compute what it reads.
    pub fn node(&mut self, node: NewNode) {
        self.nodes.push(node);
    }

    /// Limits new nodes of this domain to version `newest` of their operators, the one that a model imports.
    pub fn limit_version(&mut self, domain: &str, newest: i32) {
        for node in self.nodes.iter_mut().filter(|node| node.domain == domain) {
            node.since_version = node.since_version.min(newest);
        }
    }

    /// A new node with one output, which is returned.
    ///
    /// # Errors
    /// If the graph would be full.
    pub fn output_of(&mut self, node: NewNode) -> Result<ValueId, PatchError> {
        let output = self.value(node.name.clone(), Fact::UNKNOWN)?;
        self.node(NewNode { outputs: vec![Some(output)], ..node });
        Ok(output)
    }

    /// Every node of the graph that reads `old`, every subgraph that captures it, and the graph
    /// itself where it returns it, use `new` instead.
    pub fn replace(&mut self, old: ValueId, new: ValueId) {
        self.replaced.push((old, new));
    }

    /// Removes the node if its outputs are unused, and with it the nodes that served only it.
    /// (Nodes whose outputs are replaced need not be named.)
    pub fn sweep(&mut self, node: NodeId) {
        self.swept.push(node);
    }

    /// Applies the change: adds, checks, replaces, and removes what has become unused. Returned
    /// values keep their names: a replacement takes over the name of what it replaces.
    ///
    /// The caller guarantees that no node comes to depend on its own output: a replacement must not be computed from
    /// what it replaces by nodes of the graph.
    ///
    /// # Errors
    /// If a node is not valid, or a replacement does not fit; the graph is then as it was.
    pub fn commit(self, graph: &mut Graph, registry: &Registry) -> Result<Change, PatchError> {
        self.commit_with(graph, registry, &mut Names::default())
    }

    /// The same for one of many patches of a graph, which share `names`.
    ///
    /// # Errors
    /// If a node is not valid, or a replacement does not fit; the graph is then as it was.
    pub fn commit_with(
        mut self,
        graph: &mut Graph,
        registry: &Registry,
        names: &mut Names,
    ) -> Result<Change, PatchError> {
        if graph.sizes() != self.sizes {
            return Err(PatchError::Stale);
        }
        let checked = self.add(graph, registry).and_then(|added| {
            let facts: Result<Vec<Fact>, _> =
                self.replaced.iter().map(|&(old, new)| self.check(graph, old, new)).collect();
            Ok((added, facts?))
        });
        let (added, facts) = checked.inspect_err(|_| graph.truncate(self.sizes))?;
        let (mut readers, mut informs) = (Vec::new(), false);
        for (&(old, new), fact) in self.replaced.iter().zip(facts) {
            self.swept.extend(graph.producer(old).map(|(node, _)| node));
            informs |= is_news(graph, old, &fact) || is_news(graph, new, &fact);
            readers.extend(self.put(graph, old, new, fact));
        }
        self.name(graph, names);
        let removed = graph.sweep(std::mem::take(&mut self.swept));
        readers.retain(|&node| graph.get_node(node).is_some());
        Ok(Change { added, removed, readers, informs })
    }

    fn add(&mut self, graph: &mut Graph, registry: &Registry) -> Result<Vec<NodeId>, PatchError> {
        for value in &mut self.values {
            let fact = std::mem::replace(&mut value.fact, Fact::UNKNOWN);
            graph
                .add_value("", fact)
                .map_err(|error| PatchError::Node { op_type: String::new(), error })?;
        }
        let nodes = std::mem::take(&mut self.nodes).into_iter();
        let ids = nodes.map(|node| {
            let op_type = node.op_type.clone();
            graph.add_node(node, registry).map_err(|error| PatchError::Node { op_type, error })
        });
        ids.collect()
    }

    /// What is known of `new` once it replaces `old`.
    fn check(&self, graph: &Graph, old: ValueId, new: ValueId) -> Result<Fact, PatchError> {
        let (from, to) = (graph.value(old), graph.value(new));
        let is_computed = graph.producer(old).is_some();
        if !is_computed && (graph.constant(old).is_none() || is_given(graph, old)) {
            return Err(PatchError::Given { value: from.name.clone() });
        }
        let can_take_name = self.is_new(new) || !(is_given(graph, new) || is_returned(graph, new));
        let names = self.replaced.iter().filter(|&&(old, to)| to == new && is_returned(graph, old));
        if is_returned(graph, old) && (!can_take_name || names.count() > 1) {
            let (value, replacement) = (from.name.clone(), to.name.clone());
            return Err(PatchError::OutputName { value, replacement });
        }
        let unified = from.fact.unify(&to.fact).ok().filter(|_| {
            let (old, new) = (from.fact.dtype(), to.fact.dtype());
            old.is_none() || old == new
        });
        unified.ok_or_else(|| PatchError::Type {
            value: from.name.clone(),
            conflict: TypeConflict {
                expected: Box::new(from.fact.ty.clone()),
                found: Box::new(to.fact.ty.clone()),
            },
        })
    }

    /// Replaces `old` by `new`; returns the affected nodes.
    fn put(&self, graph: &mut Graph, old: ValueId, new: ValueId, fact: Fact) -> Vec<NodeId> {
        let is_old = |node: NodeId| node.index() < self.sizes.1;
        let mut readers = graph.replace_uses_where(old, new, is_old);
        if !is_given(graph, new) && *graph.fact(new) != fact {
            graph.value_mut(new).fact = fact;
            readers = graph.consumers(new).to_vec();
        }
        let takes_name = self.is_new(new) || is_returned(graph, old);
        graph.replace_output(old, new);
        if takes_name {
            let name = std::mem::take(&mut graph.value_mut(old).name);
            let before = std::mem::replace(&mut graph.value_mut(new).name, name);
            graph.value_mut(old).name = before;
        }
        if !graph.is_used(old) {
            graph.detach(old);
        }
        readers
    }

    /// Gives names to values that have none: new ones that replace nothing, and old ones that
    /// lost theirs but are still read.
    fn name(&self, graph: &mut Graph, names: &mut Names) {
        let hints = self.values.iter().enumerate();
        let hints = hints
            .filter_map(|(i, value)| Some((ValueId::new(self.sizes.0 + i)?, value.hint.as_str())));
        let replaced = self.replaced.iter().map(|&(old, _)| (old, "replaced"));
        let unnamed: Vec<(ValueId, &str)> = hints
            .chain(replaced)
            .filter(|&(id, _)| graph.value(id).name.is_empty() && graph.is_used(id))
            .collect();
        if unnamed.is_empty() {
            return;
        }
        for (id, hint) in unnamed {
            let name = names.unused(graph, hint);
            graph.value_mut(id).name = name;
        }
    }

    fn is_new(&self, id: ValueId) -> bool {
        id.index() >= self.sizes.0
    }
}

/// Whether a fact says anything else of a value than what was known. Constants are not compared.
fn is_news(graph: &Graph, id: ValueId, fact: &Fact) -> bool {
    let known = graph.fact(id);
    known.constant.is_some() || fact.constant.is_some() || known.ty != fact.ty
}

/// Whether the value comes from outside: it is an input or captured.
fn is_given(graph: &Graph, id: ValueId) -> bool {
    graph.is_input(id) || graph.captures().iter().any(|&(here, _)| here == id)
}

fn is_returned(graph: &Graph, id: ValueId) -> bool {
    graph.is_output(id)
}

#[cfg(test)]
mod tests;
