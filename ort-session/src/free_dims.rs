//! Free dimensions of inputs, which a session fixes before optimizing.

// collects are bounded: as long as the graph's lists

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ort_graph::parsed;
use ort_graph::{CycleError, Dim, Graph, Type, ValueId};

use crate::nearest::nearest;

/// Sizes of free dimensions, by name and by denotation.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeDims {
    pub(crate) by_name: BTreeMap<String, usize>,
    pub(crate) by_denotation: BTreeMap<String, usize>,
}

/// Sizes that do not match the inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreeDimensionError {
    /// No input has a dimension of this name or denotation.
    #[error("no input has a free dimension `{name}`{}", did_you_mean(nearest.as_deref()))]
    Unknown {
        /// The name or denotation.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// A dimension has another size than the override, by the file or another override.
    #[error("dimension `{name}` of input `{input}` is {found}, not {given}")]
    Conflict {
        /// The name or denotation.
        name: String,
        /// The input.
        input: String,
        /// The size of the override.
        given: usize,
        /// The actual size.
        found: usize,
    },
    /// The graph has a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// By value, what a file says that its dimensions denote.
type Denotations = Vec<(String, Vec<String>)>;

impl FreeDims {
    /// The denotations in this file; none if no dimension is fixed by denotation.
    pub(crate) fn denotations(&self, file: &parsed::Graph<'_>) -> Denotations {
        let values = file.values.iter().filter(|_| !self.by_denotation.is_empty());
        let of = |value: &parsed::Value<'_>| {
            let denotations = value.denotations.iter().map(|text| text.to_string()).collect();
            (value.name.to_string(), denotations)
        };
        values.map(of).collect()
    }

    /// Fixes the dimensions, and those derived from them, by the denotations in a file.
    pub(crate) fn fix(
        &self,
        graph: &mut Graph,
        denotations: &Denotations,
    ) -> Result<(), FreeDimensionError> {
        if self.by_name.is_empty() && self.by_denotation.is_empty() {
            return Ok(());
        }
        let sizes = self.sizes(graph, denotations)?;
        Ok(sizes.fix(graph)?)
    }

    /// The overrides as one line: files packed with others are not used. A name may contain anything.
    pub(crate) fn to_text(&self) -> String {
        let of = |what: &str, sizes: &BTreeMap<String, usize>| {
            let each = sizes.iter().map(|(name, n)| format!("{what}{name:?}={n}"));
            each.collect::<Vec<_>>().join(" ")
        };
        [of("", &self.by_name), of("denoting ", &self.by_denotation)].join(" ").trim().to_owned()
    }

    fn sizes(&self, graph: &Graph, of: &Denotations) -> Result<Sizes, FreeDimensionError> {
        let inputs: Vec<Input<'_>> =
            graph.inputs().iter().map(|&id| Input::of(graph, id, of)).collect();
        let mut sizes = Sizes::default();
        for (name, &given) in &self.by_name {
            let names = || inputs.iter().flat_map(|input| input.dims).filter_map(symbol);
            let found = names().find(|symbol| ***symbol == **name);
            let Some(symbol) = found else {
                let nearest = nearest(name, names().map(|symbol| &**symbol)).map(str::to_owned);
                return Err(FreeDimensionError::Unknown { name: name.clone(), nearest });
            };
            sizes.by_symbol.insert(symbol.clone(), given);
        }
        for (name, &given) in &self.by_denotation {
            let mut is_known = false;
            for input in &inputs {
                for axis in input.denoted(name) {
                    sizes.give(input, axis, (name, given))?;
                    is_known = true;
                }
            }
            if !is_known {
                let known = inputs.iter().flat_map(|input| &input.denotations).copied();
                let nearest = nearest(name, known.filter(|it| !it.is_empty())).map(str::to_owned);
                return Err(FreeDimensionError::Unknown { name: name.clone(), nearest });
            }
        }
        Ok(sizes)
    }
}

/// An input: its dimensions, and their denotations.
struct Input<'a> {
    id: ValueId,
    name: &'a str,
    dims: &'a [Dim],
    denotations: Vec<&'a str>,
}

impl<'a> Input<'a> {
    fn of(graph: &'a Graph, id: ValueId, denotations: &'a Denotations) -> Self {
        let (name, dims) = (&*graph.value(id).name, graph.fact(id).dims().unwrap_or_default());
        let declared = denotations.iter().find(|(declared, _)| declared == name);
        let denotations = declared.into_iter().flat_map(|(_, it)| it);
        let denotations = denotations.map(String::as_str).collect();
        Self { id, name, dims, denotations }
    }

    /// The axes with this denotation.
    fn denoted(&self, denotation: &str) -> impl Iterator<Item = usize> {
        let axes = self.denotations.iter().take(self.dims.len()).enumerate();
        axes.filter(move |(_, denoted)| **denoted == denotation).map(|(axis, _)| axis)
    }
}

fn symbol(dim: &Dim) -> Option<&Arc<str>> {
    match dim {
        Dim::Symbol(name) => Some(name),
        _ => None,
    }
}

/// The sizes of symbols, anywhere in the graph, and of unnamed dimensions of inputs.
#[derive(Default)]
struct Sizes {
    by_symbol: HashMap<Arc<str>, usize>,
    by_place: Vec<(ValueId, usize, usize)>,
}

impl Sizes {
    fn give(
        &mut self,
        input: &Input<'_>,
        axis: usize,
        (name, given): (&str, usize),
    ) -> Result<(), FreeDimensionError> {
        let found = match &input.dims[axis] {
            Dim::Known(found) => *found,
            Dim::Symbol(symbol) => *self.by_symbol.entry(symbol.clone()).or_insert(given),
            Dim::Unknown => {
                self.by_place.push((input.id, axis, given));
                given
            }
        };
        if found == given {
            return Ok(());
        }
        let (name, input) = (name.to_owned(), input.name.to_owned());
        Err(FreeDimensionError::Conflict { name, input, given, found })
    }

    fn fix(&self, graph: &mut Graph) -> Result<(), CycleError> {
        for &(id, axis, n) in &self.by_place {
            if let Type::Tensor(tensor) = &mut graph.value_mut(id).fact.ty
                && let Some(dim) = tensor.dims.as_mut().and_then(|dims| dims.get_mut(axis))
            {
                *dim = Dim::Known(n);
            }
        }
        self.fix_symbols(graph)
    }

    /// The results of a node are inferred before the file's symbols for them are fixed: some tools give a
    /// result the symbol of an input of another size.
    fn fix_symbols(&self, graph: &mut Graph) -> Result<(), CycleError> {
        let given: Vec<ValueId> =
            graph.value_ids().filter(|&id| graph.producer(id).is_none()).collect();
        given.into_iter().for_each(|id| self.fix_type(&mut graph.value_mut(id).fact.ty));
        for id in graph.topological_order()? {
            if graph.node(id).attrs.graphs().next().is_some() {
                graph.edit_subgraphs(id, |subgraph| self.fix_symbols(subgraph))?;
            }
            graph.refine(id);
            for output in graph.node(id).outputs.clone().into_iter().flatten() {
                self.fix_type(&mut graph.value_mut(output).fact.ty);
            }
        }
        Ok(())
    }

    fn fix_type(&self, ty: &mut Type) {
        match ty {
            Type::Tensor(tensor) => {
                for dim in tensor.dims.iter_mut().flatten() {
                    if let Some(&n) = symbol(dim).and_then(|name| self.by_symbol.get(name)) {
                        *dim = Dim::Known(n);
                    }
                }
            }
            Type::Sequence(inner) | Type::Optional(inner) | Type::Map { value: inner, .. } => {
                self.fix_type(inner);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_overrides_are_another_text() {
        let of = |by_name: &[(&str, usize)], by_denotation: &[(&str, usize)]| {
            let sizes = |of: &[(&str, usize)]| of.iter().map(|&(k, n)| (k.to_owned(), n)).collect();
            FreeDims { by_name: sizes(by_name), by_denotation: sizes(by_denotation) }.to_text()
        };
        let texts = [
            of(&[], &[]),
            of(&[("a", 1)], &[]),
            of(&[("a", 1), ("b", 2)], &[]),
            of(&[("a=1 b", 2)], &[]),
            of(&[("a\"=1 \"b", 2)], &[]),
            of(&[], &[("a", 1)]),
            of(&[("denoting a", 1)], &[]),
        ];
        for (i, text) in texts.iter().enumerate() {
            assert!(!texts[..i].contains(text), "{text}");
        }
        assert_eq!((&*texts[0], &*texts[5]), ("", "denoting \"a\"=1"));
    }
}
