//! NchwcLowering: from NCHWc to NCHW, so that a file runs anywhere.
//!
//! ONNX Runtime's layout pass writes com.microsoft.nchwc nodes into a file, with filters and biases
//! padded and reordered for blocks of B channels. B is 8 or 16, depending on the machine that wrote the file, and the
//! file does not state it. So, at every level and before every other pass:
//!
//! ```text
//! survey   which values are in NCHWc, which of them have the same channels, what reads them
//! clues    evidence of every node; a B that contradicts any is excluded
//! votes    where both fit: which B makes the weights of one filter resemble each other
//! assumed  where too few vote: the likelier B, or that of this machine, and a warning
//! lower    the same graph of plain operators, filters in OIHW, without the padding
//! ```
//!
//! Padding is what no reader uses: channels after the last that a ReorderOutput names or a filter has a non-zero
//! weight for. It is dropped from every value that it reaches. (A channel of infinities or NaN with zero weights
//! only, in the last block, is padding in this sense, too.)
//!
//! Source: ONNX Runtime 1.32, `NchwcTransformer`.

mod assumed;
mod classes;
mod clues;
mod elementwise;
mod error;
mod lower;
mod padding;
mod survey;
#[cfg(test)]
mod tests;
mod view;
mod votes;

use ort_graph::{Graph, NodeId, Registry};
use web_time::Instant;

pub use self::assumed::AssumedBlockSize;
use self::clues::block_size;
pub(crate) use self::elementwise::is_elementwise;
pub use self::error::{Contradiction, NchwcError};
use self::survey::Survey;
use crate::options::{Exactness, Level, Options};
use crate::report::PassReport;

/// The domain of the operators in NCHWc.
pub(crate) const DOMAIN: &str = "com.microsoft.nchwc";

/// The entry of this pass in reports: its name, level and exactness.
pub(crate) const LISTED: (&str, Level, Exactness) =
    ("NchwcLowering", Level::Disable, Exactness::Rounding);

/// What was lowered.
pub(crate) struct Lowered {
    pub(crate) pass: PassReport,
    /// What had to be assumed.
    pub(crate) assumed: Option<AssumedBlockSize>,
}

/// Lowers a graph and its subgraphs, whose block size is stated, inferred or assumed. `None` if there is nothing in
/// NCHWc.
///
/// # Errors
/// If no block size fits, or a node is not one of a known form.
pub(crate) fn lower(
    graph: &mut Graph,
    registry: &Registry,
    options: &Options,
) -> Result<Option<Lowered>, NchwcError> {
    let start = Instant::now();
    let applied = n_nodes(graph);
    if applied == 0 {
        return Ok(None);
    }
    let mut surveys = Vec::new();
    survey_all(graph, &mut surveys)?;
    let (block, assumed) = block_size(&surveys, options)?;
    drop(surveys);
    lower_all(graph, registry, block, options.opset)?;
    let (name, level, exactness) = LISTED;
    let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
    let pass = PassReport { name, level, exactness, applied, refused: Vec::new(), micros };
    Ok(Some(Lowered { pass, assumed }))
}

/// How many nodes of the domain there are, including subgraphs.
fn n_nodes(graph: &Graph) -> usize {
    let nodes = graph.node_ids().map(|id| graph.node(id));
    nodes
        .map(|node| {
            let inner: usize = node.attrs.graphs().map(|(_, graph)| n_nodes(graph)).sum();
            inner + usize::from(node.domain == DOMAIN)
        })
        .sum()
}

fn survey_all<'g>(graph: &'g Graph, surveys: &mut Vec<Survey<'g>>) -> Result<(), NchwcError> {
    surveys.push(Survey::of(graph)?);
    for id in graph.node_ids() {
        for (_, subgraph) in graph.node(id).attrs.graphs() {
            survey_all(subgraph, surveys)?;
        }
    }
    Ok(())
}

fn lower_all(
    graph: &mut Graph,
    registry: &Registry,
    block: usize,
    opset: Option<i64>,
) -> Result<(), NchwcError> {
    lower::lower(graph, registry, block, opset)?;
    let ids: Vec<NodeId> = graph.node_ids().collect();
    for id in ids {
        if graph.node(id).attrs.graphs().next().is_some() {
            graph.edit_subgraphs(id, |subgraph| lower_all(subgraph, registry, block, opset))?;
        }
    }
    Ok(())
}
