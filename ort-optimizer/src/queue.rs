//! The nodes that a pass has yet to visit.
//!
//! Most passes begin at few operators, and require others in the graph. So nodes are classified by operator once, and
//! a pass finds its nodes without comparing names.

use std::collections::VecDeque;

use ort_graph::{CycleError, Graph, IdMap, NodeId};

use crate::pass::{Formula, Rewrite};

/// At which operators each pass can begin, and what it finds.
pub(crate) struct Roots {
    /// By operator. No file chooses these.
    kinds: IdMap<&'static str, usize>,
    /// By kind and pass. Kind 0 is every operator that no pass names.
    begins: Vec<Vec<bool>>,
    /// By pass, the kinds at which it begins.
    of_passes: Vec<Vec<usize>>,
    /// By pass, the formulas that it finds.
    formulas: Vec<Vec<FormulaKinds>>,
}

/// The kinds of a [`Formula`].
struct FormulaKinds {
    needs: Vec<usize>,
    makes: Vec<usize>,
}

impl Roots {
    pub(crate) fn of(passes: &[Box<dyn Rewrite>]) -> Self {
        let operators: Vec<_> = passes.iter().map(|pass| pass.roots()).collect();
        let anywhere: Vec<bool> = operators.iter().map(Option::is_none).collect();
        let begins = vec![anywhere.clone()];
        let (kinds, of_passes, formulas) = (IdMap::default(), Vec::new(), Vec::new());
        let mut roots = Self { kinds, begins, of_passes, formulas };
        for (index, pass) in passes.iter().enumerate() {
            for operator in operators[index].iter().flatten() {
                let kind = roots.kind_of_pass(operator, &anywhere);
                roots.begins[kind][index] = true;
            }
            let mut kinds = |operators: Vec<&'static str>| {
                let kinds = operators.into_iter();
                kinds.map(|operator| roots.kind_of_pass(operator, &anywhere)).collect()
            };
            let formulas = pass.formulas().into_iter().map(|Formula { needs, makes }| {
                FormulaKinds { needs: kinds(needs), makes: kinds(makes) }
            });
            let formulas = formulas.collect();
            roots.formulas.push(formulas);
        }
        roots.of_passes = vec![Vec::new(); passes.len()];
        for (kind, begins) in roots.begins.iter().enumerate() {
            let of_passes = roots.of_passes.iter_mut().zip(begins);
            of_passes.filter(|(_, begins)| **begins).for_each(|(kinds, _)| kinds.push(kind));
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

    /// Which formulas of a pass may be found in a graph that has nodes of some kinds, and more as soon as one is found.
    fn may_hold(&self, pass: usize, mut has: Vec<bool>) -> Vec<bool> {
        let formulas = &self.formulas[pass];
        let mut may_hold = vec![false; formulas.len()];
        let mut is_found = true;
        while std::mem::take(&mut is_found) {
            for (formula, may_hold) in formulas.iter().zip(&mut may_hold) {
                if !*may_hold && formula.needs.iter().all(|&kind| has[kind]) {
                    (*may_hold, is_found) = (true, true);
                    formula.makes.iter().for_each(|&kind| has[kind] = true);
                }
            }
        }
        may_hold
    }
}

/// The nodes of a graph by the kind of their operator, as long as only patches change the graph.
#[derive(Default)]
pub(crate) struct Order {
    /// `None` where the graph has changed since.
    sorted: Option<Sorted>,
    /// By node; never outdated.
    kinds: Vec<Option<usize>>,
}

struct Sorted {
    /// By kind, nodes in order, each with its place.
    of_kinds: Vec<Vec<(usize, NodeId)>>,
    /// By kind, whether there is such a node.
    has: Vec<bool>,
}

impl Order {
    /// The graph has changed.
    pub(crate) fn outdate(&mut self) {
        self.sorted = None;
    }

    /// The nodes at which a pass can begin, in order, and which of its formulas the graph may contain.
    fn nodes(
        &mut self,
        graph: &Graph,
        (roots, pass): (&Roots, usize),
    ) -> Result<(VecDeque<NodeId>, Vec<bool>), CycleError> {
        let sorted = match self.sorted.take() {
            Some(sorted) => sorted,
            None => self.sort(graph, roots)?,
        };
        let Sorted { of_kinds, has } = self.sorted.insert(sorted);
        let may_hold = roots.may_hold(pass, has.clone());
        let kinds = roots.of_passes[pass].iter().filter(|_| may_hold.contains(&true));
        let mut nodes: Vec<(usize, NodeId)> =
            kinds.flat_map(|&kind| &of_kinds[kind]).copied().collect();
        nodes.sort_unstable_by_key(|(place, _)| *place);
        Ok((nodes.into_iter().map(|(_, id)| id).collect(), may_hold))
    }

    fn sort(&mut self, graph: &Graph, roots: &Roots) -> Result<Sorted, CycleError> {
        let order = graph.topological_order()?;
        let n_slots = order.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        self.kinds.resize(n_slots.max(self.kinds.len()), None);
        let mut of_kinds = vec![Vec::new(); roots.begins.len()];
        for (place, id) in order.into_iter().enumerate() {
            let kind = &mut self.kinds[id.index()];
            let kind = *kind.get_or_insert_with(|| roots.kind(&graph.node(id).op_type));
            of_kinds[kind].push((place, id));
        }
        let has = of_kinds.iter().map(|nodes| !nodes.is_empty()).collect();
        Ok(Sorted { of_kinds, has })
    }
}

/// The nodes that a pass has yet to visit, each at most once.
pub(crate) struct Queue<'r> {
    roots: &'r Roots,
    pass: usize,
    nodes: VecDeque<NodeId>,
    is_queued: Vec<bool>,
    /// Which formulas of the pass the graph may hold.
    pub(crate) may_hold: Vec<bool>,
}

impl<'r> Queue<'r> {
    /// All at which the pass can begin, in topological order.
    pub(crate) fn new(
        (roots, pass): (&'r Roots, usize),
        graph: &Graph,
        order: &mut Order,
    ) -> Result<Self, CycleError> {
        let (nodes, may_hold) = order.nodes(graph, (roots, pass))?;
        let n_slots = nodes.iter().map(|id| id.index() + 1).max().unwrap_or(0);
        let mut is_queued = vec![false; n_slots];
        nodes.iter().for_each(|id| is_queued[id.index()] = true);
        Ok(Self { roots, pass, nodes, is_queued, may_hold })
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

    /// Where it begins, and what its formulas need and make.
    struct Begins(Option<&'static [&'static str]>, &'static [[&'static [&'static str]; 2]]);

    impl Rewrite for Begins {
        fn roots(&self) -> Option<Vec<&'static str>> {
            self.0.map(<[_]>::to_vec)
        }

        fn formulas(&self) -> Vec<Formula> {
            let formula = |[needs, makes]: &[&[_]; 2]| Formula {
                needs: needs.to_vec(),
                makes: makes.to_vec(),
            };
            self.1.iter().map(formula).collect()
        }

        fn visit(&mut self, _: &Site<'_>) -> Result<Option<Patch>, Refusal> {
            Ok(None)
        }
    }

    #[test]
    fn a_pass_finds_its_nodes_in_order_if_the_needed_operators_exist() {
        let text = "graph(x: float[2]) -> (c) { a = Relu-14 (x) b = Neg-13 (a) c = Relu-14 (b) }";
        let graph = parse(text);
        let chain = [[&["Exp"][..], &["Tanh"]], [&["Erf"], &["Exp"]], [&["Neg"], &["Erf"]]];
        let chain: &'static [_] = Box::leak(Box::new(chain));
        let passes = [
            (Begins(Some(&["Relu", "Tanh"]), &[[&[], &[]]]), &[0, 2][..], &[true][..]),
            (Begins(None, &[[&[], &[]]]), &[0, 1, 2], &[true]),
            (Begins(None, &[[&["Relu", "Neg"], &[]]]), &[0, 1, 2], &[true]),
            (Begins(None, &[[&["Relu", "Erf"], &[]]]), &[], &[false]),
            (Begins(None, &[[&["Erf"], &[]], [&["Neg"], &[]]]), &[0, 1, 2], &[false, true]),
            (Begins(Some(&["Neg"]), &[[&["Relu"], &[]]]), &[1], &[true]),
            (Begins(Some(&["Tanh"]), &[[&[], &[]]]), &[], &[true]),
            // What one rewrite makes another may find.
            (Begins(Some(&["Neg"]), chain), &[1], &[true, true, true]),
        ];
        let expected: Vec<_> = passes.iter().map(|&(_, nodes, hold)| (nodes, hold)).collect();
        let passes: Vec<_> =
            passes.into_iter().map(|(pass, ..)| Box::new(pass) as Box<dyn Rewrite>).collect();
        let (roots, mut order) = (Roots::of(&passes), Order::default());
        for (pass, (expected, may_hold)) in expected.into_iter().enumerate() {
            let mut queue = Queue::new((&roots, pass), &graph, &mut order).unwrap();
            assert_eq!(queue.is_empty(), expected.is_empty(), "{pass}");
            assert_eq!(queue.may_hold, may_hold, "{pass}");
            // Queued nodes are not queued twice.
            queue.extend(&graph, expected.iter().filter_map(|&node| NodeId::new(node)));
            let found: Vec<usize> = std::iter::from_fn(|| queue.pop()).map(NodeId::index).collect();
            assert_eq!(found, expected, "{pass}");
        }
    }
}
