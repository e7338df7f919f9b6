//! Names in a file: one value a name, wherever it stands.

// collects are bounded: as long as the graph's lists

use std::borrow::Cow;
use std::collections::HashMap;

use ort_tensor::Tensor;

use super::homes::{Place, Storage, homeless, is_same_storage};
use crate::fact::Type;
use crate::graph::Graph;
use crate::ids::{NodeId, ValueId};
use crate::order::CycleError;

/// A graph that is being exported, and those around it.
pub(super) struct Scope<'g, 's> {
    pub(super) graph: &'g Graph,
    around: Option<&'s Scope<'g, 's>>,
    /// Its nodes, each after those whose outputs it reads.
    pub(super) nodes: Vec<NodeId>,
    /// What each value is called; `None` for one that edits left behind.
    names: Vec<Option<Cow<'g, str>>>,
    /// What the file has in this graph: the graph's own values and those it holds for subgraphs.
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
        for place in homeless(graph) {
            scope.place(place);
        }
        let home = |name: &Cow<'g, str>| {
            let &(graph, id) = scope.places.get(name)?;
            Some((Storage::of(graph.fact(id).constant.as_ref()?)?, name.clone()))
        };
        scope.homes = scope.order.iter().filter_map(home).collect();
        Ok(scope)
    }

    /// A subgraph of a node of the graph `around`.
    pub(super) fn within(graph: &'g Graph, around: &'s Scope<'g, 's>) -> Result<Self, CycleError> {
        Self::of(graph, Some(around))
    }

    /// Gives every value its name: captured ones that of the graph around, the graph's own the one
    /// they have if that is free. The graph's own come in the order in which import makes them.
    fn of(graph: &'g Graph, around: Option<&'s Scope<'g, 's>>) -> Result<Self, CycleError> {
        let nodes = graph.topological_order()?;
        // bounded: by the nodes and values of the graph
        let names = vec![None; graph.value_ids().count()];
        let (places, order, homes) = (HashMap::new(), Vec::new(), HashMap::new());
        let mut scope = Self { graph, around, nodes, names, places, order, homes };
        for &(here, there) in graph.captures() {
            scope.names[here.index()] =
                around.and_then(|around| around.names[there.index()].clone());
        }
        for &id in graph.inputs() {
            scope.names[id.index()] = Some(scope.place((graph, id)));
        }
        for id in graph.value_ids().filter(|&id| graph.constant(id).is_some()) {
            if scope.names[id.index()].is_none() && !graph.value(id).name.is_empty() {
                let outer = scope.name_around(id);
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

    /// Gives a value a name that no value has in this graph or those around it.
    fn place(&mut self, (graph, id): Place<'g>) -> Cow<'g, str> {
        let name = graph.value(id).name.as_str();
        let is_free = |text: &str| !text.is_empty() && self.find(text).is_none();
        let is_new = |text: &str| is_free(text) && !self.is_wanted(text);
        let name = if is_free(name) { Cow::Borrowed(name) } else { numbered(name, is_new) };
        self.places.insert(name.clone(), (graph, id));
        self.order.push(name.clone());
        name
    }

    /// Whether a value of this graph has the name, be it one that is not placed yet.
    fn is_wanted(&self, name: &str) -> bool {
        self.graph.value_ids().any(|id| self.graph.value(id).name == name)
    }

    /// The name under which a graph around has the same contents, be it that it computes them. A graph
    /// has to hold for itself what it returns.
    fn name_around(&self, id: ValueId) -> Option<Cow<'g, str>> {
        let (around, tensor) = (self.around?, self.graph.constant(id)?);
        if self.graph.is_output(id) {
            return None;
        }
        let name = self.graph.value(id).name.as_str();
        let is_same = |(graph, id): Place<'g>| {
            let contents = graph.fact(id).constant.as_ref();
            graph.constant(id) == Some(tensor)
                || contents.is_some_and(|it| is_same_storage(it, tensor))
        };
        if around.find(name).is_some_and(is_same) {
            return Some(name.into());
        }
        around.home(tensor)
    }

    fn home(&self, tensor: &'g Tensor) -> Option<Cow<'g, str>> {
        match self.around {
            Some(around) => around.home(tensor),
            None => self.homes.get(&Storage::of(tensor)?).cloned(),
        }
    }

    /// The value of this name, in the innermost graph that has one.
    fn find(&self, name: &str) -> Option<Place<'g>> {
        match self.places.get(name) {
            Some(&place) => Some(place),
            None => self.around?.find(name),
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

    /// What a value is called: not at all if it is absent, or nothing but its number is left.
    pub(super) fn name(&self, id: Option<ValueId>) -> Cow<'g, str> {
        id.and_then(|id| self.names[id.index()].clone()).unwrap_or_default()
    }

    /// What the file has in this graph.
    pub(super) fn values(&self) -> impl Iterator<Item = (&Cow<'g, str>, Place<'g>)> {
        self.order.iter().filter_map(|name| Some((name, *self.places.get(name)?)))
    }
}

/// The first of `name_1`, `name_2`, … that is free.
pub(super) fn numbered(name: &str, is_free: impl Fn(&str) -> bool) -> Cow<'static, str> {
    let names = (1..).map(|n: u64| format!("{name}_{n}"));
    Cow::Owned({ names }.find(|name| is_free(name)).unwrap_or_default())
}
