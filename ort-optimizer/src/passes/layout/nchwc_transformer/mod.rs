//! NchwcTransformer: images stay in NCHWc through the whole network.
//!
//! A block has as many channels as a vector register of the machine has floats, contiguous in memory:
//! `[N][C/B][H][W][B]`. Convolutions then read and write whole vectors without copying windows to columns. B is
//! [`Options::layout_block`](crate::Options::layout_block); without it the pass does nothing.
//!
//! ```text
//! survey    which nodes support NCHWc, and how
//! plan      which nodes to convert: those that minimize the total time (a minimum cut)
//! build     one patch: values in NCHWc and in NCHW, each made once, and reorders between them; without nodes that
//! turn out to be impossible, after which the plan is repeated
//! ```
//!
//! | NCHW | NCHWc |
//! |---|---|
//! | Conv, FusedConv | com.microsoft.nchwc:Conv, filters and biases reordered and padded with zeros |
//! | an activation or Add after a convolution without other readers | part of the convolution |
//! | BatchNormalization; Mul, Add, Sub with a number for each channel | Conv with a filter of one number for each channel |
//! | MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, ReduceMax and ReduceMean over spatial axes, Resize by
//! whole factors | those of com.microsoft.nchwc |
//! | functions of elements, of one image or of several of the same channels | themselves; where one may be broadcast along the other, on `[N, C/B, H, W, B]` |
//! | Concat, Split, Slice of channels | themselves, on whole blocks |
//! | Transpose between channels first and last | reorders |
//! | Shape | itself, with the number of channels corrected |
//!
//! A value in NCHWc keeps its shape except for the padding, which need not be at the end: after Concat it is between
//! channels, where the next filters have zeros. Padding holds what operators make of zeros; a node that would make it
//! infinite stays in NCHW. (Infinities among the channels of an image itself may become NaN in the padding, and reach
//! other channels from there, as in ONNX Runtime.)
//!
//! At level `layout` ONNX Runtime loads all forms, if its block size is the same. At level `all` there are more,
//! which it does not document or have: HardSwish and QuickGelu in convolutions, and reorders of numbers of channels
//! that are no multiple of four. (`block_size` is ours as well, and not written to files.)
//!
//! Source: ONNX Runtime 1.31, `NchwcTransformer`. It converts node by node whatever it can, and back for broadcasts,
//! for padded channels in Concat and pools, and for most functions.

mod activations;
mod axes;
mod build;
mod channels;
mod extents;
mod filters;
mod nodes;
mod numbers;
mod operators;
mod plan;
mod survey;
#[cfg(test)]
mod tests;
mod upsample;

use ort_graph::{IdMap, IdSet, NodeId, Patch};

use self::survey::{Kind, Survey};
use crate::nchwc::DOMAIN;
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};

pub(crate) const PASS: Pass = Pass {
    name: "NchwcTransformer",
    level: Level::Layout,
    exactness: Exactness::Rounding,
    start: || Box::new(NchwcTransformer { refused: None, n_nodes: 0 }),
};

/// A plan is repeated when nodes turn out to be impossible, but not more often than this.
const MAX_PLANS: usize = 16;

struct NchwcTransformer {
    /// Why nodes were left in NCHW, once the graph was surveyed.
    refused: Option<IdMap<NodeId, Refusal>>,
    /// How many nodes the patch converts.
    n_nodes: usize,
}

impl Rewrite for NchwcTransformer {
    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        if let Some(refused) = &self.refused {
            return refused.get(&site.id).map_or(Ok(None), |&refusal| Err(refusal));
        }
        let (patch, refused) = self.transform(site);
        let refusal = refused.get(&site.id).copied();
        self.refused = Some(refused);
        match (patch, refusal) {
            (Some(patch), _) => Ok(Some(patch)),
            (None, Some(refusal)) => Err(refusal),
            (None, None) => Ok(None),
        }
    }

    fn n_rewrites(&self) -> usize {
        self.n_nodes
    }

    fn end(&mut self) {
        self.refused = None;
    }
}

impl NchwcTransformer {
    fn transform(&mut self, site: &Site<'_>) -> (Option<Patch>, IdMap<NodeId, Refusal>) {
        let Some(survey) = Survey::of(site.graph, site.options) else {
            return (None, IdMap::default());
        };
        let is_done = site.graph.node_ids().any(|id| site.graph.node(id).domain == DOMAIN);
        let mut refused = survey.refused.clone();
        let mut pinned = IdSet::default();
        for _ in 0..if is_done { 0 } else { MAX_PLANS } {
            let chosen = plan::choose(&survey, &pinned);
            let in_order = survey.order.iter().filter(|id| chosen.contains(id)).copied();
            let chosen: IdSet<NodeId> = in_order.take(site.rewrites_left).collect();
            if chosen.is_empty() {
                break;
            }
            match build::build(&survey, &chosen) {
                Ok(patch) => {
                    self.n_nodes = chosen.len();
                    refuse_convs(&survey, &chosen, &mut refused);
                    return (Some(patch), refused);
                }
                Err(unable) => {
                    pinned.extend(unable.iter().map(|(id, _)| *id));
                    refused.extend(unable);
                }
            }
        }
        refuse_convs(&survey, &IdSet::default(), &mut refused);
        (None, refused)
    }
}

/// Reports each remaining NCHW convolution as unprofitable, unless there is another reason.
fn refuse_convs(survey: &Survey<'_>, chosen: &IdSet<NodeId>, refused: &mut IdMap<NodeId, Refusal>) {
    let convs = survey.kinds.iter().filter(|(_, kind)| matches!(kind, Kind::Conv(_)));
    for (id, _) in convs.filter(|(id, _)| !chosen.contains(id)) {
        refused.entry(*id).or_insert(Refusal("reordering would take longer than it gains"));
    }
}
