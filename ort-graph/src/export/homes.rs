//! Constants that several graphs hold. Import gives a subgraph its own handle on a constant of the enclosing graph; a
//! file has such a constant once, in the outermost graph.

// collects are bounded: as long as the graph's lists

use std::collections::{HashMap, HashSet};

use ort_tensor::{DType, Tensor};

use crate::graph::Graph;
use crate::ids::ValueId;

/// A value, and the graph it is a value of.
pub(super) type Place<'g> = (&'g Graph, ValueId);

/// Where the elements of a tensor lie, and what they are.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Storage<'g> {
    address: usize,
    dtype: DType,
    shape: &'g [usize],
}

impl<'g> Storage<'g> {
    /// `None` for a tensor without elements, which has no storage.
    pub(super) fn of(tensor: &'g Tensor) -> Option<Self> {
        let storage =
            Self { address: tensor.address(), dtype: tensor.dtype(), shape: tensor.shape() };
        (!tensor.is_empty()).then_some(storage)
    }
}

/// Whether two tensors are the same elements in the same place.
pub(super) fn is_same_storage(a: &Tensor, b: &Tensor) -> bool {
    Storage::of(a).is_some_and(|storage| Some(storage) == Storage::of(b))
}

/// The constants that subgraphs of `graph`, but not `graph` itself, share with each other: the first
/// holder of each, in the order in which they are met.
pub(super) fn shared_constants(graph: &Graph) -> Vec<Place<'_>> {
    let mut held = Held::default();
    held.subgraphs_of(graph);
    let contents = graph.value_ids().filter_map(|id| graph.fact(id).constant.as_ref());
    let own: HashSet<Storage<'_>> = contents.filter_map(Storage::of).collect();
    let shared = held
        .first
        .into_iter()
        .filter(|(storage, _)| held.n_holders.get(storage) > Some(&1) && !own.contains(storage));
    shared.map(|(_, place)| place).collect()
}

/// Constants of subgraphs.
#[derive(Default)]
struct Held<'g> {
    first: Vec<(Storage<'g>, Place<'g>)>,
    n_holders: HashMap<Storage<'g>, usize>,
}

impl<'g> Held<'g> {
    fn subgraphs_of(&mut self, graph: &'g Graph) {
        for subgraph in graph.node_ids().flat_map(|id| graph.node(id).attrs.subgraphs()) {
            // A graph must itself hold what it returns.
            let is_returned = |id: &ValueId| subgraph.is_output(*id);
            for (id, tensor) in constants(subgraph).filter(|(id, _)| !is_returned(id)) {
                let (Some(storage), Some(first)) = (Storage::of(tensor), Storage::of(tensor))
                else {
                    continue;
                };
                let n_holders = self.n_holders.entry(storage).or_default();
                *n_holders += 1;
                if *n_holders == 1 {
                    self.first.push((first, (subgraph, id)));
                }
            }
            self.subgraphs_of(subgraph);
        }
    }
}

/// The graph's own constants.
fn constants(graph: &Graph) -> impl Iterator<Item = (ValueId, &Tensor)> {
    let captured: HashSet<ValueId> = graph.captures().iter().map(|&(here, _)| here).collect();
    graph.value_ids().filter_map(move |id| {
        let is_own = !graph.value(id).name.is_empty() && !captured.contains(&id);
        graph.constant(id).filter(|_| is_own).map(|tensor| (id, tensor))
    })
}
