//! Which nodes a pass has yet to look at.
//!
//! Most passes can begin at few operators, and most graphs have none of them. So each node is sorted by
//! its operator once, and a pass finds its nodes without reading a name.

use std::collections::{HashMap, VecDeque};

use ort_graph::{CycleError, Graph, NodeId};

/// At which operators each pass can begin.
pub(crate) struct Roots {
    kinds: HashMap<&'static str, usize>,
    /// By kind and pass. Kind 0 is every operator that no pass names.
    begins: Vec<Vec<bool>>,
}

impl Roots {
    /// Of passes that say where they can begin; `None` is anywhere.
    pub(crate) fn of(passes: &[Option<Vec<&'static str>>]) -> Self {
        let anywhere: Vec<bool> = passes.iter().map(Option::is_none).collect();
        let mut roots = Self { kinds: HashMap::new(), begins: vec![anywhere.clone()] };
        for (pass, operators) in passes.iter().enumerate() {
            for &operator in operators.iter().flatten() {
                let next = roots.begins.len();
                let kind = *roots.kinds.entry(operator).or_insert(next);
                if kind == next {
                    roots.begins.push(anywhere.clone());
                }
                roots.begins[kind][pass] = true;
            }
        }
        roots
    }

    fn kind(&self, operator: &str) -> usize {
        self.kinds.get(operator).copied().unwrap_or(0)
    }
}

/// The nodes of a graph in order, each with the kind of its operator, for as long as nothing but
/// patches changes the graph.
#[derive(Default)]
pub(crate) struct Order {
    /// `None` where the graph has changed since.
    order: Option<Vec<(NodeId, usize)>>,
    /// By node; it holds for good.
    kinds: Vec<Option<usize>>,
}

impl Order {
    /// The graph has changed.
    pub(crate) fn outdate(&mut self) {
        self.order = None;
    }

    fn nodes(&mut self, graph: &Graph, roots: &Roots) -> Result<&[(NodeId, usize)], CycleError> {
        if self.order.is_none() {
            let order = graph.topological_order()?;
            let n_slots = order.iter().map(|id| id.index() + 1).max().unwrap_or(0);
            self.kinds.resize(n_slots.max(self.kinds.len()), None);
            let kind = |id: NodeId| {
                let kind = &mut self.kinds[id.index()];
                (id, *kind.get_or_insert_with(|| roots.kind(&graph.node(id).op_type)))
            };
            self.order = Some(order.into_iter().map(kind).collect());
        }
        Ok(self.order.as_deref().unwrap_or_default())
    }
}

/// The nodes that a pass has yet to look at, each at most once.
pub(crate) struct Queue<'r> {
    roots: &'r Roots,
    pass: usize,
    nodes: VecDeque<NodeId>,
    is_queued: Vec<bool>,
}

impl<'r> Queue<'r> {
    /// All at which the pass can begin, in topological order.
    pub(crate) fn new(
        (roots, pass): (&'r Roots, usize),
        graph: &Graph,
        order: &mut Order,
    ) -> Result<Self, CycleError> {
        let nodes = order.nodes(graph, roots)?.iter();
        let nodes: VecDeque<_> =
            nodes.filter(|(_, kind)| roots.begins[*kind][pass]).map(|(id, _)| *id).collect();
        let n_slots = nodes.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        let mut is_queued = vec![false; n_slots];
        nodes.iter().for_each(|id| is_queued[id.index()] = true);
        Ok(Self { roots, pass, nodes, is_queued })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Puts those at the end at which the pass can begin.
    pub(crate) fn extend(&mut self, graph: &Graph, ids: impl IntoIterator<Item = NodeId>) {
        for id in ids {
            let Some(node) = graph.get_node(id) else { continue };
            if !self.roots.begins[self.roots.kind(&node.op_type)][self.pass] {
                continue;
            }
            if self.is_queued.len() <= id.index() {
                self.is_queued.resize(id.index() + 1, false);
            }
            if !std::mem::replace(&mut self.is_queued[id.index()], true) {
                self.nodes.push_back(id);
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<NodeId> {
        let id = self.nodes.pop_front()?;
        self.is_queued[id.index()] = false;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn a_pass_finds_its_nodes_in_order() {
        let graph =
            parse("graph(x: float[2]) -> (c) { a = Relu-14 (x) b = Neg-13 (a) c = Relu-14 (b) }");
        let passes = [Some(vec!["Relu", "Tanh"]), None, Some(vec!["Neg"]), Some(vec!["Tanh"])];
        let (roots, mut order) = (Roots::of(&passes), Order::default());
        for (pass, expected) in [(0, &[0, 2][..]), (1, &[0, 1, 2]), (2, &[1]), (3, &[])] {
            let mut queue = Queue::new((&roots, pass), &graph, &mut order).unwrap();
            assert_eq!(queue.is_empty(), expected.is_empty());
            // What is there already is not put there twice.
            queue.extend(&graph, graph.node_ids());
            let found: Vec<usize> = std::iter::from_fn(|| queue.pop()).map(NodeId::index).collect();
            assert_eq!(found, expected, "{pass}");
        }
    }
}
