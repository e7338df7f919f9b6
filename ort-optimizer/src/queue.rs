//! The nodes that a pass has yet to visit.
//!
//! Most passes begin at few operators, and require others in the graph. So nodes are classified by operator once, and
//! a pass finds its nodes without comparing names.

use std::collections::{HashMap, VecDeque};

use ort_graph::{CycleError, Graph, NodeId};

use crate::pass::Rewrite;

/// At which operators each pass can begin, and which it needs.
pub(crate) struct Roots {
    kinds: HashMap<&'static str, usize>,
    /// By kind and pass. Kind 0 is every operator that no pass names.
    begins: Vec<Vec<bool>>,
    /// By pass, the kinds without which it finds nothing.
    needs: Vec<Vec<usize>>,
}

impl Roots {
    pub(crate) fn of(passes: &[Box<dyn Rewrite>]) -> Self {
        let operators: Vec<_> = passes.iter().map(|pass| pass.roots()).collect();
        let anywhere: Vec<bool> = operators.iter().map(Option::is_none).collect();
        let begins = vec![anywhere.clone()];
        let mut roots = Self { kinds: HashMap::new(), begins, needs: Vec::new() };
        for (index, pass) in passes.iter().enumerate() {
            for operator in operators[index].iter().flatten() {
                let kind = roots.kind_of_pass(operator, &anywhere);
                roots.begins[kind][index] = true;
            }
            let needs = pass.needs().into_iter();
            let needs = needs.map(|operator| roots.kind_of_pass(operator, &anywhere)).collect();
            roots.needs.push(needs);
        }
        roots
    }

    /// The kind of an operator that a pass names.
    fn kind_of_pass(&mut self, operator: &'static str, anywhere: &[bool]) -> usize {
        let next = self.begins.len();
        let kind = *self.kinds.entry(operator).or_insert(next);
        if kind == next {
            self.begins.push(anywhere.to_vec());
        }
        kind
    }

    fn kind(&self, operator: &str) -> usize {
        self.kinds.get(operator).copied().unwrap_or(0)
    }
}

/// The nodes of a graph in order, each with the kind of its operator, as long as only patches change the graph.
#[derive(Default)]
pub(crate) struct Order {
    /// `None` where the graph has changed since.
    order: Option<Vec<(NodeId, usize)>>,
    /// By node; never outdated.
    kinds: Vec<Option<usize>>,
    /// By kind, whether there is such a node.
    has: Vec<bool>,
}

impl Order {
    /// The graph has changed.
    pub(crate) fn outdate(&mut self) {
        self.order = None;
    }

    /// The nodes at which a pass can begin.
    fn nodes(
        &mut self,
        graph: &Graph,
        (roots, pass): (&Roots, usize),
    ) -> Result<impl Iterator<Item = NodeId>, CycleError> {
        if self.order.is_none() {
            let order = graph.topological_order()?;
            let n_slots = order.iter().map(|id| id.index() + 1).max().unwrap_or(0);
            self.kinds.resize(n_slots.max(self.kinds.len()), None);
            self.has = vec![false; roots.begins.len()];
            let kind = |id: NodeId| {
                let kind = &mut self.kinds[id.index()];
                let kind = *kind.get_or_insert_with(|| roots.kind(&graph.node(id).op_type));
                self.has[kind] = true;
                (id, kind)
            };
            self.order = Some(order.into_iter().map(kind).collect());
        }
        let has_all = roots.needs[pass].iter().all(|&kind| self.has[kind]);
        let nodes = self.order.as_deref().filter(|_| has_all).unwrap_or_default().iter();
        Ok(nodes.filter(move |(_, kind)| roots.begins[*kind][pass]).map(|(id, _)| *id))
    }
}

/// The nodes that a pass has yet to visit, each at most once.
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
        let nodes: VecDeque<_> = order.nodes(graph, (roots, pass))?.collect();
        let n_slots = nodes.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        let mut is_queued = vec![false; n_slots];
        nodes.iter().for_each(|id| is_queued[id.index()] = true);
        Ok(Self { roots, pass, nodes, is_queued })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Appends those at which the pass can begin.
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
    use ort_graph::Patch;

    use super::*;
    use crate::pass::{Refusal, Site};
    use crate::testing::parse;

    struct Begins(Option<&'static [&'static str]>, &'static [&'static str]);

    impl Rewrite for Begins {
        fn roots(&self) -> Option<Vec<&'static str>> {
            self.0.map(<[_]>::to_vec)
        }

        fn needs(&self) -> Vec<&'static str> {
            self.1.to_vec()
        }

        fn visit(&mut self, _: &Site<'_>) -> Result<Option<Patch>, Refusal> {
            Ok(None)
        }
    }

    #[test]
    fn a_pass_finds_its_nodes_in_order_if_the_needed_operators_exist() {
        let text = "graph(x: float[2]) -> (c) { a = Relu-14 (x) b = Neg-13 (a) c = Relu-14 (b) }";
        let graph = parse(text);
        let passes = [
            (Begins(Some(&["Relu", "Tanh"]), &[]), &[0, 2][..]),
            (Begins(None, &[]), &[0, 1, 2]),
            (Begins(None, &["Relu", "Neg"]), &[0, 1, 2]),
            (Begins(None, &["Relu", "Erf"]), &[]),
            (Begins(Some(&["Neg"]), &["Relu"]), &[1]),
            (Begins(Some(&["Tanh"]), &[]), &[]),
        ];
        let (passes, expected): (Vec<_>, Vec<_>) = passes
            .into_iter()
            .map(|(pass, nodes)| (Box::new(pass) as Box<dyn Rewrite>, nodes))
            .unzip();
        let (roots, mut order) = (Roots::of(&passes), Order::default());
        for (pass, expected) in expected.into_iter().enumerate() {
            let mut queue = Queue::new((&roots, pass), &graph, &mut order).unwrap();
            assert_eq!(queue.is_empty(), expected.is_empty(), "{pass}");
            // Queued nodes are not queued twice.
            queue.extend(&graph, expected.iter().filter_map(|&node| NodeId::new(node)));
            let found: Vec<usize> = std::iter::from_fn(|| queue.pop()).map(NodeId::index).collect();
            assert_eq!(found, expected, "{pass}");
        }
    }
}
