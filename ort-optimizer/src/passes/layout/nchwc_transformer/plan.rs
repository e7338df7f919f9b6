//! Which nodes are to work on blocks: those for which all together takes the least time.
//!
//! What an operator takes in planes and in blocks, and what it takes to reorder a value, is estimated in
//! units of one floating-point operation at full speed. Rough numbers will do: all of them scale with the
//! images, so that an image of unknown size may be taken for a usual one. The cheapest choice is a
//! minimal cut of a network, in which `a → b` costs what it says if `a` works on blocks and `b` does not:
//!
//! ```text
//! always → node         what the node takes longer in planes
//! node → never          what it takes longer in blocks, padding included
//! ```
//!
//! A value is there in planes, in blocks, or both. Who works on blocks reads it in blocks, all others
//! in planes, as do the caller and subgraphs; if its maker makes the other form, it is reordered, once
//! for all readers:
//!
//! ```text
//! in blocks → maker     one ReorderInput         reader → in blocks    more than all else
//! maker → in planes     one ReorderOutput        in planes → reader    more than all else
//! ```
//!
//! Little but convolutions and pools gains by blocks, so a region of blocks is there for the sake of
//! some of them, and together they gain more than the reorders around it take: 3·3 filters of 64 channels
//! do alone, pointwise ones and small images hardly ever. What gains nothing follows its neighbours. Ties
//! stay in planes.

use std::collections::BTreeSet;

use ort_graph::{IdMap, IdSet, Node, NodeId, ValueId};

use super::activations;
use super::channels::Channels;
use super::survey::{Filters, Form, Kind, Survey};
use crate::cut::{NEVER, Network, Vertex};

/// To read an element and write it where vectors do not reach.
const REORDER: f64 = 100.0;
/// To start one more node.
const NODE: f64 = 100_000.0;
/// To read and write an element of padding that would not be there in planes, or an element for the
/// sake of a function that a convolution could apply.
const ELEMENT: f64 = 30.0;
/// To put an element where a matrix product wants it, or to write a result.
const COPY: f64 = 16.0;

/// The nodes that are to work on blocks. `pinned` do not.
pub(super) fn choose(survey: &Survey<'_>, pinned: &IdSet<NodeId>) -> IdSet<NodeId> {
    let lies = lies(survey);
    let mut plan =
        Plan { survey, lies: &lies, network: Network::new(), vertices: IdMap::default() };
    let is_free = |id: &&NodeId| survey.kinds.contains_key(id) && !pinned.contains(id);
    let free: Vec<NodeId> = survey.order.iter().filter(is_free).copied().collect();
    for &id in &free {
        let vertex = plan.network.vertex();
        plan.vertices.insert(id, vertex);
        let (gain, loss) = costs(survey, &lies, survey.graph.node(id), &survey.kinds[&id]);
        plan.network.edge(Network::FIRST, vertex, whole(gain));
        plan.network.edge(vertex, Network::SECOND, whole(loss));
    }
    let nodes = free.iter().map(|&id| survey.graph.node(id));
    let values: BTreeSet<ValueId> =
        nodes.flat_map(|node| node.inputs.iter().chain(&node.outputs)).copied().flatten().collect();
    for id in values {
        plan.value(id);
    }
    let Plan { network, vertices, .. } = plan;
    let cut = network.cut();
    free.into_iter().filter(|id| cut.is_first(vertices[id])).collect()
}

/// How the channels of every image would lie, were all in blocks that can be.
fn lies(survey: &Survey<'_>) -> IdMap<ValueId, Channels> {
    let mut lies: IdMap<ValueId, Channels> = IdMap::default();
    let lie = |lies: &IdMap<ValueId, Channels>, id: ValueId| {
        let n = survey.channels(id).unwrap_or(1);
        lies.get(&id).cloned().unwrap_or_else(|| Channels::padded(n, survey.block))
    };
    for id in survey.order.iter().filter(|id| survey.kinds.contains_key(id)) {
        let node = survey.graph.node(*id);
        let Some(&Some(y)) = node.outputs.first() else { continue };
        let mut images = survey.images(node).map(|x| lie(&lies, x));
        let channels = match &survey.kinds[id] {
            Kind::Concat => Some(Channels::concat(&images.collect::<Vec<_>>())),
            Kind::Conv(filters) if filters.form != Form::Depthwise => None,
            Kind::Split(_) | Kind::Slice(..) | Kind::FromLast => None,
            _ => images.next(),
        };
        let channels = channels.filter(|channels| Some(channels.n()) == survey.channels(y));
        channels.into_iter().for_each(|channels| drop(lies.insert(y, channels)));
    }
    for (id, n) in survey.graph.value_ids().filter_map(|id| Some((id, survey.channels(id)?))) {
        lies.entry(id).or_insert_with(|| Channels::padded(n, survey.block));
    }
    lies
}

struct Plan<'s> {
    survey: &'s Survey<'s>,
    lies: &'s IdMap<ValueId, Channels>,
    network: Network,
    vertices: IdMap<NodeId, Vertex>,
}

impl Plan<'_> {
    /// What it takes to have a value in the forms that its readers want.
    fn value(&mut self, id: ValueId) {
        let Some(channels) = self.survey.channels(id) else { return };
        let graph = self.survey.graph;
        let maker = graph.producer(id).map_or(Network::SECOND, |(node, _)| self.maker(node));
        let padded = self.lies.get(&id).map_or(channels, Channels::n_padded) as f64;
        let cost = whole(NODE + REORDER * padded * self.survey.extents.positions(id));
        // What has padding between channels is gathered, too.
        let is_trailing = self.lies.get(&id).is_none_or(Channels::is_trailing);
        let leaving = if is_trailing { cost } else { cost.saturating_mul(2) };
        let (in_blocks, in_planes) = (self.network.vertex(), self.network.vertex());
        let can_reorder = self.survey.can_reorder(channels);
        self.network.edge(in_blocks, maker, if can_reorder { cost } else { NEVER });
        self.network.edge(maker, in_planes, leaving);
        for &reader in graph.consumers(id) {
            let vertex = self.reader(reader);
            self.network.edge(in_planes, vertex, NEVER);
            if !self.takes_planes(reader, id) {
                self.network.edge(vertex, in_blocks, NEVER);
            }
        }
        if graph.is_output(id) {
            self.network.edge(in_planes, Network::SECOND, NEVER);
        }
    }

    /// On the first side if the node makes blocks.
    fn maker(&self, id: NodeId) -> Vertex {
        match self.survey.kinds.get(&id) {
            Some(Kind::ToLast | Kind::Shape(..)) | None => Network::SECOND,
            Some(_) => self.vertices.get(&id).copied().unwrap_or(Network::SECOND),
        }
    }

    /// On the first side if the node reads blocks.
    fn reader(&self, id: NodeId) -> Vertex {
        match self.survey.kinds.get(&id) {
            Some(Kind::FromLast) | None => Network::SECOND,
            Some(_) => self.vertices.get(&id).copied().unwrap_or(Network::SECOND),
        }
    }

    /// Whether the node reads the value in planes as well, even if it works on blocks.
    fn takes_planes(&self, id: NodeId, value: ValueId) -> bool {
        let filters = match self.survey.kinds.get(&id) {
            Some(Kind::Conv(filters)) => filters,
            _ => return false,
        };
        let node = self.survey.graph.node(id);
        filters.form == Form::Planes && node.inputs.get(3).copied().flatten() != Some(value)
    }
}

fn whole(cost: f64) -> u64 {
    // More than a graph can take, and yet far less than never.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    let whole = cost.clamp(0.0, 1e15) as u64;
    whole
}

/// What a node takes longer in planes, and what it takes longer in blocks.
fn costs(
    survey: &Survey<'_>,
    lies: &IdMap<ValueId, Channels>,
    node: &Node,
    kind: &Kind,
) -> (f64, f64) {
    let first = |ids: &[Option<ValueId>]| ids.first().copied().flatten();
    let y = first(&node.outputs).filter(|&y| survey.channels(y).is_some());
    let Some(image) = y.or(first(&node.inputs)) else { return (0.0, 0.0) };
    let channels = survey.channels(image).unwrap_or(1);
    let positions = survey.extents.positions(image);
    let padded = lies.get(&image).map_or(channels, Channels::n_padded);
    let padding = ELEMENT * (padded - channels) as f64 * positions;
    let elements = channels as f64 * positions;
    let reorder = NODE + REORDER * padded as f64 * positions;
    match kind {
        Kind::Conv(filters) => {
            let [planes, blocks] = conv_costs(*filters, survey.block);
            (planes * positions, blocks * positions)
        }
        // Each tap is a vector of channels, not a strided row.
        Kind::Pool { n_taps } => (elements * 4.0 * *n_taps as f64, padding),
        Kind::Upsample(_) => (elements * 4.0, padding),
        Kind::Shape(..) => (0.0, 0.0),
        Kind::Elementwise if is_fused(survey, node) => (elements * ELEMENT, padding),
        // Without blocks they are transpositions.
        Kind::ToLast | Kind::FromLast => (NODE + REORDER * elements, reorder),
        _ => (0.0, padding),
    }
}

/// Whether a convolution in blocks can do the work of a node behind it.
fn is_fused(survey: &Survey<'_>, node: &Node) -> bool {
    let is_conv = |id: ValueId| {
        let maker = survey.graph.producer(id).and_then(|(maker, _)| survey.kinds.get(&maker));
        survey.is_private(id) && matches!(maker, Some(Kind::Conv(_)))
    };
    let is_end = matches!(node.op_type.as_str(), "Add" | "Sum")
        || activations::attrs_of(survey.graph, node, survey.is_free).is_some();
    is_end && survey.images(node).any(is_conv)
}

/// What a convolution takes for a position, in planes and in blocks: fitted to our kernels on a
/// Cascade Lake with AVX-512, whose peak of 160 GFLOP/s is the unit.
fn conv_costs(filters: Filters, block: usize) -> [f64; 2] {
    let Filters { form, group, shape: [o, i, kh, kw], is_minimal } = filters;
    let padded = |n: usize| n.next_multiple_of(block);
    let flops = |o: usize, i: usize| (2 * o * i * kh * kw) as f64;
    let copies = |n: usize| COPY * n as f64;
    // A window becomes a column of a matrix first.
    let planes = 1.12 * flops(o, i) + copies(group * i * kh * kw) + copies(o);
    match form {
        // Neither reuses what it loads; in planes, rows begin and end in the midst of vectors.
        Form::Depthwise => [7.0 * flops(o, 1), 2.7 * flops(padded(o), 1)],
        // Few terms for each result, which takes longer to write than it seems elsewhere.
        Form::Planes => {
            [planes + 28.0 * o as f64, 1.28 * flops(padded(o), i) + 44.0 * padded(o) as f64]
        }
        Form::Dense => {
            // A quarter of the products, and transformations before and after.
            let work = if is_minimal { 0.55 } else { 1.05 };
            [planes, work * flops(padded(o), padded(i)) + copies(padded(o))]
        }
        Form::Grouped => [planes, 1.05 * flops(o, i) + copies(o)],
    }
}
