//! The values around one to be stored in another order of axes, and the nodes that could be transposed with it.
//!
//! A region contains values with the order in which each could be stored instead, and the nodes
//! between them that could then be transposed. Each node is transposed or not; a value is needed transposed, as it
//! was, or both, and a Transpose is inserted where its producer computes the other form. The cheapest choice is a
//! minimum cut: transposed nodes are on the first side of it.

use std::collections::hash_map::Entry;

use ort_graph::{Graph, IdMap, IdSet, NodeId, ValueId};

use super::cost;
use super::form::{Operand, Place, Side, TransposedNode};
use super::handlers;
use super::perm::Perm;
use crate::cut::{NEVER, Network, Vertex};

/// The most nodes of a region, which limits the work for a Transpose.
const MOST_NODES: usize = 128;
/// Values with more readers do not belong to regions.
const MOST_READERS: usize = 128;

/// Values that could be stored in another order.
#[derive(Debug)]
pub(super) struct Region<'g> {
    pub(super) graph: &'g Graph,
    may_use_nhwc: bool,
    /// In the order in which they were found.
    values: Vec<ValueId>,
    perms: IdMap<ValueId, Perm>,
    /// The transposed forms of the visited nodes, if they have one.
    forms: IdMap<NodeId, Option<TransposedNode>>,
    n_forms: usize,
}

/// The source of a value.
#[derive(Debug)]
pub(super) enum Source {
    /// A node of the region.
    Node(NodeId),
    /// A Transpose of another value, in this order.
    Transpose(ValueId, Perm),
    /// A constant: a Transpose of it is folded.
    Constant,
    /// A value at the border of the region.
    Given,
}

/// A reader of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A node of the region, or a Transpose, which can read either form.
    Free(NodeId),
    /// A reader that needs the original form.
    Fixed,
}

impl<'g> Region<'g> {
    /// The region of a value that could be stored in this order.
    pub(super) fn around(
        graph: &'g Graph,
        (seed, perm): (ValueId, Perm),
        may_use_nhwc: bool,
    ) -> Self {
        let is_seed = graph.consumers(seed).len() <= MOST_READERS;
        let values = is_seed.then_some(seed).into_iter().collect();
        let perms = std::iter::once((seed, perm)).collect();
        let forms = IdMap::default();
        let mut region = Self { graph, may_use_nhwc, values, perms, forms, n_forms: 0 };
        let mut at = 0;
        while let Some(&value) = region.values.get(at) {
            region.visit_neighbours(value);
            at += 1;
        }
        region
    }

    fn visit_neighbours(&mut self, value: ValueId) {
        if let Some((node, slot)) = self.graph.producer(value) {
            self.join(node, Side::Output(slot), value);
        }
        for &node in self.graph.consumers(value) {
            let inputs = &self.graph.node(node).inputs;
            if let Some(slot) = inputs.iter().position(|input| *input == Some(value)) {
                self.join(node, Side::Input(slot), value);
            }
        }
    }

    /// Adds a node if it can be transposed, with its operands and results.
    fn join(&mut self, id: NodeId, side: Side, value: ValueId) {
        let is_full = self.n_forms == MOST_NODES;
        if is_full || self.forms.contains_key(&id) || is_transpose(self.graph, id) {
            return;
        }
        let node = self.graph.node(id);
        let (graph, may_use_nhwc) = (self.graph, self.may_use_nhwc);
        let place = Place { graph, node, side, perm: &self.perms[&value], may_use_nhwc };
        let form = handlers::form(&place).filter(|form| self.agrees(id, form, side));
        if let Some(form) = &form {
            self.n_forms += 1;
            for (value, perm) in transposed_values(graph, id, form) {
                if let Entry::Vacant(entry) = self.perms.entry(value) {
                    entry.insert(perm.clone());
                    self.values.push(value);
                }
            }
        }
        self.forms.insert(id, form);
    }

    /// Whether a form reads the value it was reached from transposed, and agrees with the known orders.
    fn agrees(&self, id: NodeId, form: &TransposedNode, side: Side) -> bool {
        let is_reached = match side {
            Side::Input(slot) => matches!(form.inputs.get(slot), Some(Operand::Transposed(_))),
            Side::Output(_) => true,
        };
        is_reached
            && transposed_values(self.graph, id, form).all(|(value, perm)| {
                self.perms.get(&value).is_none_or(|known| known == perm)
                    && self.graph.consumers(value).len() <= MOST_READERS
            })
    }

    /// The transposed form of a node.
    pub(super) fn form(&self, node: NodeId) -> Option<&TransposedNode> {
        self.forms.get(&node)?.as_ref()
    }

    /// The order in which a value could be stored, if it is in the region.
    pub(super) fn perm(&self, value: ValueId) -> Option<&Perm> {
        self.perms.get(&value)
    }

    pub(super) fn source(&self, value: ValueId) -> Source {
        if self.graph.constant(value).is_some() {
            return Source::Constant;
        }
        match self.graph.producer(value) {
            Some((node, _)) if self.form(node).is_some() => Source::Node(node),
            Some((node, _)) => transpose(self.graph, node)
                .map_or(Source::Given, |(from, perm, _)| Source::Transpose(from, perm)),
            None => Source::Given,
        }
    }

    /// The readers of a value, possibly with repetitions.
    pub(super) fn readers(&self, value: ValueId) -> Vec<Reader> {
        let is_output = self.graph.is_output(value);
        let mut readers: Vec<Reader> = is_output.then_some(Reader::Fixed).into_iter().collect();
        for &id in self.graph.consumers(value) {
            let node = self.graph.node(id);
            if node.captured.contains(&value) {
                readers.push(Reader::Fixed);
            }
            let slots = node.inputs.iter().enumerate();
            let slots = slots.filter(|(_, input)| **input == Some(value)).map(|(slot, _)| slot);
            readers.extend(slots.map(|slot| self.reader(id, slot)));
        }
        readers
    }

    fn reader(&self, id: NodeId, slot: usize) -> Reader {
        let is_transposed = match self.form(id) {
            Some(form) => matches!(form.inputs.get(slot), Some(Operand::Transposed(_))),
            None => transpose(self.graph, id)
                .is_some_and(|(_, _, result)| !self.perms.contains_key(&result)),
        };
        if is_transposed { Reader::Free(id) } else { Reader::Fixed }
    }

    /// The values, in the order in which they were found.
    pub(super) fn values(&self) -> &[ValueId] {
        &self.values
    }

    /// The nodes to transpose, including Transposes that will read transposed values; `None` if no change is cheaper.
    pub(super) fn cheapest(&self) -> Option<IdSet<NodeId>> {
        let mut network = Network::new();
        let (mut vertices, mut now) = (IdMap::default(), 0);
        for &value in &self.values {
            now += self.add_value(value, &mut vertices, &mut network);
        }
        let cut = network.cut();
        let transposed = vertices.into_iter().filter(|&(_, vertex)| cut.is_first(vertex));
        let transposed: IdSet<NodeId> = transposed.map(|(node, _)| node).collect();
        (cut.cost < now).then_some(transposed)
    }

    /// Adds the cost of giving each reader of a value its form; returns the current cost.
    fn add_value(
        &self,
        value: ValueId,
        vertices: &mut IdMap<NodeId, Vertex>,
        network: &mut Network,
    ) -> u64 {
        let (fact, perm) = (self.graph.fact(value), &self.perms[&value]);
        let moved = cost::of_transpose(fact, &perm.inverse());
        let [plain, transposed] = [network.vertex(), network.vertex()];
        // A reader on the second side needs the original form, and one on the first side the transposed form. Either
        // costs a Transpose if the source is on the other side.
        let mut now = 0;
        match self.source(value) {
            Source::Node(node) => {
                let vertex = self.vertex(node, vertices, network, &mut now);
                network.edge(vertex, plain, moved);
                network.edge(transposed, vertex, moved);
            }
            Source::Transpose(from, _) if self.graph.constant(from).is_some() => {}
            Source::Transpose(from, order) => {
                let joined = order.then(&perm.inverse());
                let existing = cost::of_existing(self.graph, self.graph.fact(from), &order, value);
                now += existing;
                network.edge(Network::FIRST, plain, existing);
                network.edge(
                    transposed,
                    Network::SECOND,
                    cost::of_transpose(self.graph.fact(from), &joined),
                );
            }
            Source::Constant => {}
            Source::Given => network.edge(transposed, Network::SECOND, moved),
        }
        for reader in self.readers(value) {
            let vertex = match reader {
                Reader::Fixed => Network::SECOND,
                Reader::Free(node) => self.vertex(node, vertices, network, &mut now),
            };
            network.edge(plain, vertex, NEVER);
            network.edge(vertex, transposed, NEVER);
        }
        now
    }

    /// The vertex of a node, with the cost of its form alone; the cost of the current one is added to `now`.
    fn vertex(
        &self,
        id: NodeId,
        vertices: &mut IdMap<NodeId, Vertex>,
        network: &mut Network,
        now: &mut u64,
    ) -> Vertex {
        if let Some(&vertex) = vertices.get(&id) {
            return vertex;
        }
        let vertex = network.vertex();
        vertices.insert(id, vertex);
        if let Some(form) = self.form(id) {
            let gain = cost::of_bytes(form.gain);
            *now += gain;
            network.edge(Network::FIRST, vertex, gain);
            network.edge(vertex, Network::SECOND, self.extra(id, form));
        } else if let Some((from, perm, result)) = transpose(self.graph, id) {
            let fact = self.graph.fact(from);
            let existing = cost::of_existing(self.graph, fact, &perm, result);
            *now += existing;
            network.edge(Network::FIRST, vertex, existing);
            let joined = self.perms[&from].then(&perm);
            let source = cost::stored(fact, &self.perms[&from]);
            network.edge(vertex, Network::SECOND, cost::of_transpose(&source, &joined));
        }
        vertex
    }

    /// The additional cost of a transposed node.
    fn extra(&self, id: NodeId, form: &TransposedNode) -> u64 {
        let node = self.graph.node(id);
        let operands = form.inputs.iter().zip(&node.inputs);
        let spread = operands.filter_map(|(operand, input)| match (operand, input) {
            (Operand::Spread(perm), Some(input)) => Some(self.spread(*input, perm)),
            _ => None,
        });
        let picks = if form.picks.is_some() { cost::OF_NODE } else { 0 };
        spread.sum::<u64>() + cost::of_bytes(form.penalty) + picks
    }

    /// The cost of expanding an operand of fewer axes to all axes, in this order.
    fn spread(&self, value: ValueId, perm: &Perm) -> u64 {
        let fact = self.graph.fact(value);
        let (Some(rank), None) = (fact.rank(), self.graph.constant(value)) else { return 0 };
        let (order, _) = super::broadcast::spread(rank, perm);
        cost::OF_NODE + cost::of_transpose(fact, &order)
    }
}

/// The operands and results of a node that are stored in other orders.
fn transposed_values<'a>(
    graph: &'a Graph,
    id: NodeId,
    form: &'a TransposedNode,
) -> impl Iterator<Item = (ValueId, &'a Perm)> {
    let node = graph.node(id);
    let operands = node.inputs.iter().zip(&form.inputs).filter_map(|(input, operand)| {
        let Operand::Transposed(perm) = operand else { return None };
        Some(((*input)?, perm))
    });
    let results = node.outputs.iter().zip(&form.outputs);
    let results = results.filter_map(|(output, perm)| Some(((*output)?, perm)));
    operands.chain(results.filter(|(_, perm)| !perm.is_identity()))
}

pub(super) fn is_transpose(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    node.op_type == "Transpose" && node.domain.is_empty()
}

/// The operand of a Transpose, its order, and its result.
pub(super) fn transpose(graph: &Graph, id: NodeId) -> Option<(ValueId, Perm, ValueId)> {
    is_transpose(graph, id).then_some(())?;
    let node = graph.node(id);
    // A file may give it more operands, which are ignored.
    let &[from] = node.inputs.as_slice() else { return None };
    let to = *node.outputs.first()?;
    let rank = graph.fact(from?).rank().or_else(|| graph.fact(to?).rank());
    Some((from?, Perm::of(node, rank)?, to?))
}
