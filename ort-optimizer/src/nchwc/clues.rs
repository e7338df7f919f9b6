//! Which block size a file was written with.
//!
//! Each node implies something about the right block size B: channels are padded to the next
//! multiple of B, an input with fewer channels than B stays in NCHW, padding filters are zero at places that depend
//! on B, a Reshape contains B. A block size that contradicts a node is excluded; if one remains, it is certain. Only
//! if both remain do the filters [vote](super::votes), and only if there are too few votes is it assumed.

use std::collections::HashSet;

use ort_graph::{Attr, Node};

use super::assumed::AssumedBlockSize;
use super::error::{Contradiction, NchwcError};
use super::survey::{Filter, FilterKind, Step, Survey, reordered_channels};
use super::{DOMAIN, votes};
use crate::options::Options;

/// The possible block sizes: ONNX Runtime has 16 with AVX-512 (and RISC-V's vectors), else 8.
const BLOCK_SIZES: [usize; 2] = [8, 16];

/// Evidence of a node about the block size.
#[derive(Clone, Copy, Debug)]
enum Clue<'g> {
    /// It is this.
    Stated(usize),
    /// It divides this number of channels.
    Divides(usize),
    /// This many channels, and this many with the padding.
    Pads(usize, usize),
    /// It is more than this, or the input would be in NCHWc.
    More(usize),
    /// It is not more than this, or the input would be in NCHW.
    NotMore(usize),
    /// The filters from this one on are padding.
    ZeroFrom(usize, Filter<'g>),
}

impl Clue<'_> {
    /// What contradicts `block`, if anything.
    fn contradicts(&self, block: usize) -> Option<&'static str> {
        let (holds, what) = match *self {
            Clue::Stated(stated) => (stated == block, "it states another size"),
            Clue::Divides(n) => {
                (n.is_multiple_of(block), "its channels are not a multiple of that")
            }
            Clue::Pads(n, padded) => (
                n.checked_next_multiple_of(block) == Some(padded),
                "its channels would be padded to another number",
            ),
            Clue::More(n) => (n < block, "that many channels would be in NCHWc"),
            Clue::NotMore(n) => (n >= block, "that few channels stay in NCHW"),
            Clue::ZeroFrom(first, filter) => (
                is_zero_from(first, filter, block),
                "its filters would not be zero where channels are padding",
            ),
        };
        (!holds).then_some(what)
    }
}

/// The block size of a file: the stated one, the only one that contradicts no node, or the one that the filters vote
/// for. If no filter depends on it, it does not matter. Otherwise it is assumed: the likelier one by the filters, or
/// that of this machine.
///
/// # Errors
/// If none fits.
pub(super) fn block_size(
    surveys: &[Survey<'_>],
    options: &Options,
) -> Result<(usize, Option<AssumedBlockSize>), NchwcError> {
    let stated = options.nchwc_block_size;
    if let Some(found) = stated.filter(|stated| !BLOCK_SIZES.contains(stated)) {
        return Err(NchwcError::BlockSize { found });
    }
    let clues: Vec<(&Node, Clue<'_>)> = surveys.iter().flat_map(clues).collect();
    let mut contradictions = Vec::new();
    let mut left = Vec::new();
    for block in BLOCK_SIZES.into_iter().filter(|&block| stated.is_none_or(|b| b == block)) {
        let mut wrong =
            clues.iter().filter_map(|(node, clue)| Some((node, clue.contradicts(block)?)));
        match wrong.next() {
            None => left.push(block),
            Some((node, what)) => {
                let node = node.label().to_owned();
                contradictions.push(Contradiction { block_size: block, node, what });
            }
        }
    }
    match *left.as_slice() {
        [] => Err(NchwcError::Contradiction { contradictions }),
        [block] => Ok((block, None)),
        _ => by_votes(surveys, options.layout_block),
    }
}

fn by_votes(
    surveys: &[Survey<'_>],
    own: Option<usize>,
) -> Result<(usize, Option<AssumedBlockSize>), NchwcError> {
    let filters: Vec<(&Node, Filter<'_>)> = surveys
        .iter()
        .flat_map(|survey| {
            survey.steps.iter().filter_map(|&(id, step)| match step {
                Step::Conv(filter) => Some((survey.graph.node(id), filter)),
                _ => None,
            })
        })
        .collect();
    let mut votes = votes::Votes::default();
    // Filters that several nodes share vote once.
    let mut seen = HashSet::new();
    for (_, filter) in &filters {
        if seen.insert(filter.weights.as_slice::<f32>()?.as_ptr()) {
            votes.count(filter.weights)?;
        }
    }
    if let Some(block) = votes.winner(votes::CERTAIN) {
        return Ok((block, None));
    }
    let mut nodes = Vec::new();
    for (node, filter) in filters {
        if filter.plain(BLOCK_SIZES[0])? != filter.plain(BLOCK_SIZES[1])? {
            nodes.push(node.label().to_owned());
        }
    }
    let steps =
        surveys.iter().flat_map(|survey| survey.steps.iter().map(move |step| (survey, step)));
    for (survey, (id, _)) in steps.filter(|(_, (_, step))| matches!(step, Step::Raw)) {
        nodes.push(survey.graph.node(*id).label().to_owned());
    }
    let own = own.filter(|own| BLOCK_SIZES.contains(own));
    let block_size = votes.winner(votes::LIKELY).or(own).unwrap_or(BLOCK_SIZES[1]);
    let (n_votes, n_for_16) = (votes.n(), votes.n_for_16());
    let assumed = AssumedBlockSize { block_size, nodes, n_votes, n_for_16 };
    Ok((block_size, Some(assumed).filter(|assumed| !assumed.nodes.is_empty())))
}

/// The evidence of a graph's nodes.
fn clues<'s>(survey: &'s Survey<'_>) -> Vec<(&'s Node, Clue<'s>)> {
    let mut clues = Vec::new();
    for &(id, step) in &survey.steps {
        let node = survey.graph.node(id);
        let mut add = |clue| clues.push((node, clue));
        let value = |ids: &[Option<_>]| ids.first().copied().flatten();
        let x = value(&node.inputs).map(|x| survey.known(x)).unwrap_or_default();
        let y = value(&node.outputs).map(|y| survey.known(y)).unwrap_or_default();
        if node.domain == DOMAIN
            && let Some(&Attr::Int(stated)) = node.attrs.get("block_size")
        {
            add(Clue::Stated(usize::try_from(stated).unwrap_or(0)));
        }
        match step {
            Step::Conv(filter) => {
                conv_clues(survey, node, filter).into_iter().for_each(&mut add);
            }
            Step::ReorderInput { channels } => {
                let pads = channels.zip(y.padded).map(|(n, padded)| Clue::Pads(n, padded));
                pads.into_iter().for_each(&mut add);
            }
            Step::ReorderOutput { channels } => {
                x.padded.into_iter().for_each(|padded| add(Clue::Pads(channels, padded)));
            }
            Step::Split(block) => add(Clue::Stated(block)),
            Step::Concat => {
                let inputs = node.inputs.iter().flatten();
                inputs
                    .filter_map(|&id| survey.known(id).padded)
                    .for_each(|n| add(Clue::Divides(n)));
            }
            Step::Shape | Step::Raw => x.padded.into_iter().for_each(|n| add(Clue::Divides(n))),
            Step::Parts => {
                let outputs = node.outputs.iter().flatten();
                outputs
                    .filter_map(|&id| survey.known(id).padded)
                    .for_each(|n| add(Clue::Divides(n)));
            }
            Step::Alike | Step::Merge => {
                y.padded.into_iter().for_each(|n| add(Clue::Divides(n)));
            }
        }
    }
    clues
}

fn conv_clues<'s>(survey: &'s Survey<'_>, node: &'s Node, filter: Filter<'s>) -> Vec<Clue<'s>> {
    let [o, i, ..] = filter.shape();
    let mut clues = vec![Clue::Divides(o)];
    match filter.kind {
        FilterKind::Nchw => clues.push(Clue::More(i)),
        FilterKind::Depthwise => {}
        FilterKind::Grouped => {
            clues.extend([Clue::Divides(i), Clue::Divides(o / filter.group.max(1))]);
        }
        FilterKind::Dense => {
            clues.push(Clue::Divides(i));
            let maker = node.inputs.first().copied().flatten();
            let maker = maker.and_then(|x| survey.graph.producer(x));
            let maker = maker.map(|(id, _)| survey.graph.node(id));
            let reordered = maker.filter(|maker| maker.op_type == "ReorderInput");
            let reordered = reordered.and_then(|maker| reordered_channels(survey.graph, maker));
            clues.extend(reordered.map(Clue::NotMore));
        }
    }
    let y = node.outputs.first().copied().flatten();
    let named = y.and_then(|y| survey.known(y).named).filter(|&named| named < o);
    // Channel scales, as which a depthwise convolution may serve, are padded with ones.
    if let Some(named) = named.filter(|_| filter.kind != FilterKind::Depthwise) {
        clues.push(Clue::ZeroFrom(named, filter));
    }
    clues
}

/// Whether all filters from `first` on are zero, for blocks of this size. Output channels within a block are the
/// innermost axis of both forms, and blocks the outermost.
fn is_zero_from(first: usize, filter: Filter<'_>, block: usize) -> bool {
    let n_filters = filter.shape()[0];
    let Ok(weights) = filter.weights.as_slice::<f32>() else { return false };
    let n_terms = weights.len() / n_filters.max(1);
    (first..n_filters).all(|output| {
        let start = output / block * block * n_terms + output % block;
        let lane = weights.get(start..).unwrap_or_default().iter().step_by(block);
        lane.take(n_terms).all(|&weight| weight == 0.0)
    })
}
