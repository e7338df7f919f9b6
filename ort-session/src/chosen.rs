//! The requested outputs of a run: from names to values.

// collects are bounded: as long as the graph's lists

use std::borrow::Cow;
use std::sync::Arc;

use ort_graph::{Graph, ValueId};

use crate::error::OutputError;
use crate::nearest::nearest;
use crate::plan::{Plan, Selection};
use crate::run::{Memory, Targets};

/// The requested outputs of a run.
#[derive(Debug)]
pub(crate) struct Chosen<'p> {
    plan: &'p Plan,
    /// `None` for all outputs.
    selection: Option<Arc<Selection>>,
    /// The outputs to return, in order.
    pub(crate) outputs: Cow<'p, [ValueId]>,
    /// Their names.
    pub(crate) names: Arc<[String]>,
}

impl<'p> Chosen<'p> {
    /// All outputs of the plan, with these names.
    pub(crate) fn all(plan: &'p Plan, names: &Arc<[String]>) -> Self {
        let outputs = Cow::Borrowed(plan.graph.outputs());
        Self { plan, selection: None, outputs, names: names.clone() }
    }

    /// The outputs with these names, or all if there are no names, and the memory for some of them.
    pub(crate) fn new<'t>(
        plan: &'p Plan,
        names: Option<&[String]>,
        bound: Vec<(Cow<'_, str>, Memory<'t>)>,
    ) -> Result<(Self, Targets<'t>), OutputError> {
        let graph = &plan.graph;
        let asked = match names {
            None => graph.outputs().to_vec(),
            Some(names) => each_once(graph, names.iter().map(String::as_str))?,
        };
        let ids = each_once(graph, bound.iter().map(|(name, _)| &**name))?;
        let selection = names.map(|_| plan.select(&[asked.as_slice(), &ids].concat()));
        let returned: Vec<_> = asked.into_iter().filter(|id| !ids.contains(id)).collect();
        let names = returned.iter().map(|&id| graph.value(id).name.clone()).collect();
        let memory = bound.into_iter().map(|(_, memory)| memory);
        let targets = Targets::new(ids.into_iter().zip(memory));
        Ok((Self { plan, selection, outputs: Cow::Owned(returned), names }, targets))
    }

    pub(crate) fn selection(&self) -> &Selection {
        self.selection.as_deref().unwrap_or(&self.plan.whole)
    }
}

/// The outputs with these names, which must be distinct.
fn each_once<'a>(
    graph: &Graph,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<ValueId>, OutputError> {
    let mut ids = Vec::new();
    for name in names {
        let id = named(graph, name)?;
        if ids.contains(&id) {
            return Err(OutputError::Duplicate { name: name.to_owned() });
        }
        ids.push(id);
    }
    Ok(ids)
}

fn named(graph: &Graph, name: &str) -> Result<ValueId, OutputError> {
    let name_of = |id: &ValueId| graph.value(*id).name.as_str();
    let found = graph.outputs().iter().find(|id| name_of(id) == name);
    found.copied().ok_or_else(|| OutputError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, graph.outputs().iter().map(name_of)).map(str::to_owned),
        known: graph.outputs().iter().map(|id| format!("`{}`", name_of(id))).collect(),
    })
}
