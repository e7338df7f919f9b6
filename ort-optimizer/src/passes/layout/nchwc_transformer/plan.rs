//! Which nodes to convert to NCHWc: those that minimize the total time.
//!
//! The times of an operator in NCHW and in NCHWc, and of a reorder, are estimated in units of one floating-point
//! operation at peak performance. Rough numbers suffice: all of them scale with the images, so a usual size can be
//! assumed for an unknown one. The cheapest choice is a minimum cut of a network, in which `a → b` adds its cost if
//! `a` works in NCHWc and `b` does not:
//!
//! ```text
//! always → node         the node's extra time in NCHW
//! node → never          its extra time in NCHWc, padding included
//! ```
//!
//! A value exists in NCHW, in NCHWc, or both. Nodes in NCHWc read it in NCHWc, all others in NCHW, as do the caller
//! and subgraphs; if its producer computes the other form, it is reordered, once for all readers:
//!
//! ```text
//! NCHWc → producer      one ReorderInput         reader → NCHWc       more than all else
//! producer → NCHW       one ReorderOutput        NCHW → reader        more than all else
//! ```
//!
//! Only convolutions and pools gain much from NCHWc, so a region in NCHWc contains some that together gain more than
//! the reorders around it cost: 3·3 filters of 64 channels do alone, pointwise ones and small images hardly ever.
//! Other nodes follow their neighbours. Ties stay in NCHW.

use std::collections::BTreeSet;

use ort_graph::{IdMap, IdSet, Node, NodeId, ValueId};

use super::activations;
use super::channels::Channels;
use super::survey::{Filters, Form, Kind, Survey};
use crate::cut::{NEVER, Network, Vertex};

/// To reorder an element of a large image, which comes from memory, and of one that the second-level cache holds.
const REORDER: [f64; 2] = [100.0, 40.0];
/// The elements of an image that the second-level cache holds: 512 KiB.
const CACHED: f64 = 131_072.0;
/// To start one more node.
const NODE: f64 = 100_000.0;
/// To read and write an element of padding that NCHW would not have, or an element for a function that a convolution
/// could fuse.
const ELEMENT: f64 = 30.0;
/// To copy an element for a matrix product, or to write a result.
const COPY: f64 = 16.0;

/// To start a row of copies.
const COPY_ROW: f64 = 1000.0;
/// The rows of a tile of a matrix product.
const TILE_ROWS: usize = 14;

/// The nodes to convert to NCHWc, without `pinned`.
pub(super) fn choose(survey: &Survey<'_>, pinned: &IdSet<NodeId>) -> IdSet<NodeId> {
    let layouts = layouts(survey);
    let mut plan =
        Plan { survey, layouts: &layouts, network: Network::new(), vertices: IdMap::default() };
    let is_free = |id: &&NodeId| survey.kinds.contains_key(id) && !pinned.contains(id);
    let free: Vec<NodeId> = survey.order.iter().filter(is_free).copied().collect();
    for &id in &free {
        let vertex = plan.network.vertex();
        plan.vertices.insert(id, vertex);
        let (gain, loss) = costs(survey, &layouts, survey.graph.node(id), &survey.kinds[&id]);
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

/// The channel layout of every image if all possible nodes were in NCHWc.
fn layouts(survey: &Survey<'_>) -> IdMap<ValueId, Channels> {
    let mut layouts: IdMap<ValueId, Channels> = IdMap::default();
    let layout = |layouts: &IdMap<ValueId, Channels>, id: ValueId| {
        let n = survey.channels(id).unwrap_or(1);
        layouts.get(&id).cloned().unwrap_or_else(|| Channels::padded(n, survey.block))
    };
    for id in survey.order.iter().filter(|id| survey.kinds.contains_key(id)) {
        let node = survey.graph.node(*id);
        let Some(&Some(y)) = node.outputs.first() else { continue };
        let mut images = survey.images(node).map(|x| layout(&layouts, x));
        let channels = match &survey.kinds[id] {
            Kind::Concat => Some(Channels::concat(&images.collect::<Vec<_>>())),
            Kind::Conv(filters) if filters.form != Form::Depthwise => None,
            Kind::Split(_) | Kind::Slice(..) | Kind::FromLast => None,
            _ => images.next(),
        };
        let channels = channels.filter(|channels| Some(channels.n()) == survey.channels(y));
        channels.into_iter().for_each(|channels| drop(layouts.insert(y, channels)));
    }
    for (id, n) in survey.graph.value_ids().filter_map(|id| Some((id, survey.channels(id)?))) {
        layouts.entry(id).or_insert_with(|| Channels::padded(n, survey.block));
    }
    layouts
}

struct Plan<'s> {
    survey: &'s Survey<'s>,
    layouts: &'s IdMap<ValueId, Channels>,
    network: Network,
    vertices: IdMap<NodeId, Vertex>,
}

impl Plan<'_> {
    /// Adds the cost of a value in the forms that its readers need.
    fn value(&mut self, id: ValueId) {
        let Some(channels) = self.survey.channels(id) else { return };
        let graph = self.survey.graph;
        let maker = graph.producer(id).map_or(Network::SECOND, |(node, _)| self.maker(node));
        let padded = self.layouts.get(&id).map_or(channels, Channels::n_padded) as f64;
        let cost = whole(reorder(padded * self.survey.extents.positions(id)));
        // With padding between channels, a Gather is needed as well.
        let is_trailing = self.layouts.get(&id).is_none_or(Channels::is_trailing);
        let leaving = if is_trailing { cost } else { cost.saturating_mul(2) };
        let (nchwc, nchw) = (self.network.vertex(), self.network.vertex());
        let can_reorder = self.survey.can_reorder(channels);
        self.network.edge(nchwc, maker, if can_reorder { cost } else { NEVER });
        self.network.edge(maker, nchw, leaving);
        for &reader in graph.consumers(id) {
            let vertex = self.reader(reader);
            self.network.edge(nchw, vertex, NEVER);
            if !self.reads_nchw(reader, id) {
                self.network.edge(vertex, nchwc, NEVER);
            }
        }
        if graph.is_output(id) {
            self.network.edge(nchw, Network::SECOND, NEVER);
        }
    }

    /// On the first side if the node computes NCHWc.
    fn maker(&self, id: NodeId) -> Vertex {
        match self.survey.kinds.get(&id) {
            Some(Kind::ToLast | Kind::Shape(..)) | None => Network::SECOND,
            Some(_) => self.vertices.get(&id).copied().unwrap_or(Network::SECOND),
        }
    }

    /// On the first side if the node reads NCHWc.
    fn reader(&self, id: NodeId) -> Vertex {
        match self.survey.kinds.get(&id) {
            Some(Kind::FromLast) | None => Network::SECOND,
            Some(_) => self.vertices.get(&id).copied().unwrap_or(Network::SECOND),
        }
    }

    /// Whether the node can read the value in NCHW even if it works in NCHWc.
    fn reads_nchw(&self, id: NodeId, value: ValueId) -> bool {
        let filters = match self.survey.kinds.get(&id) {
            Some(Kind::Conv(filters)) => filters,
            _ => return false,
        };
        let node = self.survey.graph.node(id);
        filters.form == Form::Nchw && node.inputs.get(3).copied().flatten() != Some(value)
    }
}

/// The time to reorder an image of so many elements.
fn reorder(n_elements: f64) -> f64 {
    NODE + REORDER[usize::from(n_elements <= CACHED)] * n_elements
}

fn whole(cost: f64) -> u64 {
    // More than a graph can cost, and far less than `NEVER`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    let whole = cost.clamp(0.0, 1e15) as u64;
    whole
}

/// A node's extra time in NCHW, and its extra time in NCHWc.
fn costs(
    survey: &Survey<'_>,
    layouts: &IdMap<ValueId, Channels>,
    node: &Node,
    kind: &Kind,
) -> (f64, f64) {
    let first = |ids: &[Option<ValueId>]| ids.first().copied().flatten();
    let y = first(&node.outputs).filter(|&y| survey.channels(y).is_some());
    let Some(image) = y.or(first(&node.inputs)) else { return (0.0, 0.0) };
    let channels = survey.channels(image).unwrap_or(1);
    let positions = survey.extents.positions(image);
    let padded = layouts.get(&image).map_or(channels, Channels::n_padded);
    let padding = ELEMENT * (padded - channels) as f64 * positions;
    let elements = channels as f64 * positions;
    let in_blocks = reorder(padded as f64 * positions);
    match kind {
        Kind::Conv(filters) => {
            let [nchw, blocks] = conv_costs(*filters, survey.block, positions);
            (nchw * positions, blocks * positions)
        }
        // Each tap is a vector of channels, not a strided row.
        Kind::Pool { n_taps } => (elements * 4.0 * *n_taps as f64, padding),
        Kind::Upsample(_) => (elements * 4.0, padding),
        Kind::Shape(..) => (0.0, 0.0),
        Kind::Elementwise if is_fused(survey, node) => (elements * ELEMENT, padding),
        // In NCHW they are transposes.
        Kind::ToLast | Kind::FromLast => (reorder(elements), in_blocks),
        _ => (0.0, padding),
    }
}

/// Whether a convolution in NCHWc can fuse a node after it.
fn is_fused(survey: &Survey<'_>, node: &Node) -> bool {
    let is_conv = |id: ValueId| {
        let maker = survey.graph.producer(id).and_then(|(maker, _)| survey.kinds.get(&maker));
        survey.is_private(id) && matches!(maker, Some(Kind::Conv(_)))
    };
    let is_end = matches!(node.op_type.as_str(), "Add" | "Sum")
        || activations::attrs_of(survey.graph, node, survey.is_free).is_some();
    is_end && survey.images(node).any(is_conv)
}

/// The time of a convolution per position, in NCHW and in NCHWc: fitted to our kernels on a
/// Cascade Lake with AVX-512, whose peak of 160 GFLOP/s is the unit.
fn conv_costs(filters: Filters, block: usize, positions: f64) -> [f64; 2] {
    let Filters { form, group, shape: [o, i, kh, kw], is_minimal } = filters;
    let padded = |n: usize| n.next_multiple_of(block);
    let flops = |o: usize, i: usize| (2 * o * i * kh * kw) as f64;
    let copies = |n: usize| COPY * n as f64;
    // Windows are first copied to columns (im2col), unless there are few channels.
    let few = 1.12 * flops(o, i) + copies(o);
    let nchw = few + copies(group * i * kh * kw);
    match form {
        // Neither reuses what it loads; in NCHW, rows begin and end in the middle of vectors.
        Form::Depthwise => [7.0 * flops(o, 1), 2.7 * flops(padded(o), 1)],
        // Few terms for each result, so that writing dominates.
        Form::Nchw => [few + 28.0 * o as f64, 1.28 * flops(padded(o), i) + 44.0 * padded(o) as f64],
        Form::Dense => {
            // A quarter of the products, and transformations before and after.
            let work = if is_minimal { 0.55 } else { 1.05 };
            [nchw, work * flops(padded(o), padded(i)) + copies(padded(o))]
        }
        Form::Grouped => {
            // A product for each group, whose few filters leave rows of the last tile empty and share few copies.
            let rows = (o / group.max(1)).max(1);
            let empty = (rows.next_multiple_of(TILE_ROWS) - rows) as f64 / rows as f64;
            let starts = COPY_ROW * (group * i * kh * kw) as f64 / positions.max(1.0).sqrt();
            [nchw + empty * flops(o, i) + starts, 1.05 * flops(o, i) + copies(o)]
        }
    }
}
