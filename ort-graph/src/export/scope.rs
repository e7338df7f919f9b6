//! Names in a file: each denotes one value.

// collects are bounded: as long as the graph's lists

use std::borrow::Cow;
use std::collections::HashMap;

use ort_tensor::Tensor;

use super::homes::{Place, Storage, is_same_storage, shared_constants};
use crate::fact::Type;
use crate::graph::Graph;
use crate::ids::{NodeId, ValueId};
use crate::order::CycleError;

/// A graph that is being exported, and its enclosing graphs.
pub(super) struct Scope<'g, 's> {
    pub(super) graph: &'g Graph,
    enclosing: Option<&'s Scope<'g, 's>>,
    /// Its nodes, each after those whose outputs it reads.
    pub(super) nodes: Vec<NodeId>,
    /// The name of each value; `None` for one that edits left unused.
    names: Vec<Option<Cow<'g, str>>>,
    /// The values of this graph in the file: its own and those it holds for subgraphs.
    places: HashMap<Cow<'g, str>, Place<'g>>,
    /// The names of the same, in order.
    order: Vec<Cow<'g, str>>,
    /// The names of constants, for subgraphs to find; in the outermost graph only.
    homes: HashMap<Storage<'g>, Cow<'g, str>>,
}

impl<'g, 's> Scope<'g, 's> {
    /// The outermost graph. It holds the constants that its subgraphs share.
    pub(super) fn outermost(graph: &'g Graph) -> Result<Self, CycleError> {
        let mut scope = Self::of(graph, None)?;
        for place in shared_constants(graph) {
            scope.place(place);
        }
        let home = |name: &Cow<'g, str>| {
            let &(graph, id) = scope.places.get(name)?;
            Some((Storage::of(graph.fact(id).constant.as_ref()?)?, name.clone()))
        };
        scope.homes = scope.order.iter().filter_map(home).collect();
        Ok(scope)
    }

    /// A subgraph of a node of the graph `enclosing`.
    pub(super) fn within(
        graph: &'g Graph,
        enclosing: &'s Scope<'g, 's>,
    ) -> Result<Self, CycleError> {
        Self::of(graph, Some(enclosing))
    }

    /// Names every value: captured ones as in the enclosing graph, the graph's own as they are called if that name is
    /// free. The latter come in the order in which import creates them.
    fn of(graph: &'g Graph, enclosing: Option<&'s Scope<'g, 's>>) -> Result<Self, CycleError> {
        let nodes = graph.topological_order()?;
        // bounded: by the nodes and values of the graph
        let names = vec![None; graph.value_ids().count()];
        let (places, order, homes) = (HashMap::new(), Vec::new(), HashMap::new());
        let mut scope = Self { graph, enclosing, nodes, names, places, order, homes };
        for &(here, there) in graph.captures() {
            scope.names[here.index()] =
                enclosing.and_then(|enclosing| enclosing.names[there.index()].clone());
        }
        for &id in graph.inputs() {
            scope.names[id.index()] = Some(scope.place((graph, id)));
        }
        for id in graph.value_ids().filter(|&id| graph.constant(id).is_some()) {
            if scope.names[id.index()].is_none() && !graph.value(id).name.is_empty() {
                let outer = scope.name_in_enclosing(id);
                scope.names[id.index()] = Some(outer.unwrap_or_else(|| scope.place((graph, id))));
            }
        }
        for index in 0..scope.nodes.len() {
            for &id in graph.node(scope.nodes[index]).outputs.iter().flatten() {
                scope.names[id.index()] = Some(scope.place((graph, id)));
            }
        }
        Ok(scope)
    }

    /// Gives a value a name that no value has in this graph or the enclosing ones.
    fn place(&mut self, (graph, id): Place<'g>) -> Cow<'g, str> {
        let name = graph.value(id).name.as_str();
        let is_free = |text: &str| !text.is_empty() && self.find(text).is_none();
        let is_new = |text: &str| is_free(text) && !self.is_wanted(text);
        let name = if is_free(name) { Cow::Borrowed(name) } else { numbered(name, is_new) };
        self.places.insert(name.clone(), (graph, id));
        self.order.push(name.clone());
        name
    }

    /// Whether a value of this graph has the name, even one that is not placed yet.
    fn is_wanted(&self, name: &str) -> bool {
        self.graph.value_ids().any(|id| self.graph.value(id).name == name)
    }

    /// The name under which an enclosing graph has the same contents, as a constant or as a node's output. A graph
    /// must itself hold what it returns.
    fn name_in_enclosing(&self, id: ValueId) -> Option<Cow<'g, str>> {
        let (enclosing, tensor) = (self.enclosing?, self.graph.constant(id)?);
        if self.graph.is_output(id) {
            return None;
        }
        let name = self.graph.value(id).name.as_str();
        let is_same = |(graph, id): Place<'g>| {
            let contents = graph.fact(id).constant.as_ref();
            graph.constant(id) == Some(tensor)
                || contents.is_some_and(|it| is_same_storage(it, tensor))
        };
        if enclosing.find(name).is_some_and(is_same) {
            return Some(name.into());
        }
        enclosing.home(tensor)
    }

    fn home(&self, tensor: &'g Tensor) -> Option<Cow<'g, str>> {
        match self.enclosing {
            Some(enclosing) => enclosing.home(tensor),
            None => self.homes.get(&Storage::of(tensor)?).cloned(),
        }
    }

    /// The value of this name, in the innermost graph that has one.
    fn find(&self, name: &str) -> Option<Place<'g>> {
        match self.places.get(name) {
            Some(&place) => Some(place),
            None => self.enclosing?.find(name),
        }
    }

    /// The type of the value of this name.
    pub(super) fn type_of(&self, name: &str) -> Option<&'g Type> {
        self.find(name).map(|(graph, id)| &graph.fact(id).ty)
    }

    /// Whether the file has a value of this name in this graph.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The name of a value; empty if it is absent or was removed.
    pub(super) fn name(&self, id: Option<ValueId>) -> Cow<'g, str> {
        id.and_then(|id| self.names[id.index()].clone()).unwrap_or_default()
    }

    /// The values of this graph in the file.
    pub(super) fn values(&self) -> impl Iterator<Item = (&Cow<'g, str>, Place<'g>)> {
        self.order.iter().filter_map(|name| Some((name, *self.places.get(name)?)))
    }
}

/// The first of `name_1`, `name_2`, … that is free.
pub(super) fn numbered(name: &str, is_free: impl Fn(&str) -> bool) -> Cow<'static, str> {
    let names = (1..).map(|n: u64| format!("{name}_{n}"));
    Cow::Owned({ names }.find(|name| is_free(name)).unwrap_or_default())
}
