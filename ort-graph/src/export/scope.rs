//! Names in a file: one value a name, wherever it stands.

use std::borrow::Cow;
use std::collections::HashMap;

use ort_tensor::Tensor;

use crate::fact::Type;
use crate::graph::Graph;
use crate::ids::ValueId;

/// A graph that is being exported, and those around it.
pub(super) struct Scope<'g, 's> {
    pub(super) graph: &'g Graph,
    around: Option<&'s Scope<'g, 's>>,
    /// What each value is called; `None` for one that edits left behind.
    names: Vec<Option<Name<'g>>>,
    /// The graph's own values.
    own: HashMap<Cow<'g, str>, ValueId>,
}

/// What a value is called, and whether a graph around is to be asked what it is.
#[derive(Clone)]
pub(super) struct Name<'g> {
    pub(super) text: Cow<'g, str>,
    pub(super) is_outer: bool,
}

impl<'g, 's> Scope<'g, 's> {
    /// Gives every value its name: captured ones that of the graph around, the graph's own the one
    /// they have if that is free.
    pub(super) fn new(graph: &'g Graph, around: Option<&'s Scope<'g, 's>>) -> Self {
        let names = vec![None; graph.value_ids().count()];
        let mut scope = Self { graph, around, names, own: HashMap::new() };
        for &(here, there) in graph.captures() {
            let outer = around.and_then(|around| around.names[there.index()].clone());
            scope.names[here.index()] = outer.map(|name| Name { is_outer: true, ..name });
        }
        for id in graph.value_ids() {
            if scope.names[id.index()].is_none() && scope.is_there(id) {
                scope.names[id.index()] = Some(scope.name_own(id));
            }
        }
        scope
    }

    fn is_there(&self, id: ValueId) -> bool {
        let graph = self.graph;
        let is_computed = graph.producer(id).is_some();
        let has_contents = graph.constant(id).is_some() && !graph.value(id).name.is_empty();
        is_computed || has_contents || graph.inputs().contains(&id)
    }

    /// A name for a value of the graph's own, which from here on is taken.
    fn name_own(&mut self, id: ValueId) -> Name<'g> {
        let name = self.graph.value(id).name.as_str();
        if let Some(tensor) = self.graph.constant(id)
            && self.is_constant_around(name, tensor)
        {
            return Name { text: name.into(), is_outer: true };
        }
        let is_free = |text: &str| !text.is_empty() && self.find(text).is_none();
        let text = if is_free(name) {
            Cow::Borrowed(name)
        } else {
            let numbered = (1..).map(|n: u64| format!("{name}_{n}"));
            let is_new = |text: &String| is_free(text) && !self.is_wanted(text);
            Cow::Owned({ numbered }.find(is_new).unwrap_or_default())
        };
        self.own.insert(text.clone(), id);
        Name { text, is_outer: false }
    }

    /// Whether a value of this graph has the name, be it one that has yet to be named.
    fn is_wanted(&self, name: &str) -> bool {
        self.graph.value_ids().any(|id| self.graph.value(id).name == name)
    }

    /// Whether `name` means this very constant in a graph around.
    fn is_constant_around(&self, name: &str, tensor: &Tensor) -> bool {
        let found = self.around.and_then(|around| around.find(name));
        found.and_then(|(graph, id)| graph.constant(id)).is_some_and(|there| there == tensor)
    }

    /// The value of this name, in the innermost graph that has one.
    fn find(&self, name: &str) -> Option<(&'g Graph, ValueId)> {
        match self.own.get(name) {
            Some(&id) => Some((self.graph, id)),
            None => self.around?.find(name),
        }
    }

    /// The type of the value of this name.
    pub(super) fn type_of(&self, name: &str) -> Option<&'g Type> {
        self.find(name).map(|(graph, id)| &graph.fact(id).ty)
    }

    /// Whether a value of this name is the graph's own.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.contains_key(name)
    }

    /// What a value is called: not at all if it is absent, or nothing but its number is left.
    pub(super) fn name(&self, id: Option<ValueId>) -> Cow<'g, str> {
        let name = id.and_then(|id| self.names[id.index()].as_ref());
        name.map_or(Cow::Borrowed(""), |name| name.text.clone())
    }

    /// The graph's own values, by id.
    pub(super) fn own_values(&self) -> impl Iterator<Item = (ValueId, Cow<'g, str>)> {
        self.graph.value_ids().filter_map(|id| {
            let name = self.names[id.index()].as_ref().filter(|name| !name.is_outer)?;
            Some((id, name.text.clone()))
        })
    }
}
