//! Why a graph with data in blocks cannot be lowered.

use ort_graph::{CycleError, OpError, PatchError};
use ort_tensor::TensorError;

/// A graph whose com.microsoft.nchwc nodes cannot be understood.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NchwcError {
    /// Every block size that there is contradicts some node.
    #[error("no block size fits the com.microsoft.nchwc nodes: {}", listed(contradictions))]
    Contradiction {
        /// The first contradiction of each block size.
        contradictions: Vec<Contradiction>,
    },
    /// Both block sizes are consistent with every node, and the filters do not tell.
    #[error(
        "the file does not state the block size of its com.microsoft.nchwc nodes, and nothing in \
         it decides between 8 and 16 ({}; {n_for_16} of {n_votes} votes of their filters are for \
         16): state it as `session.nchwc_block_size`",
        some(nodes)
    )]
    Undecided {
        /// The nodes with filters.
        nodes: Vec<String>,
        /// How many votes the filters have.
        n_votes: usize,
        /// How many of them are for 16.
        n_for_16: usize,
    },
    /// The block size that was stated is none.
    #[error("the block size is 8 or 16, not {found}")]
    BlockSize {
        /// What was stated.
        found: usize,
    },
    /// A node that no file in this form can have.
    #[error("node `{node}` ({op_type}): {what}")]
    Node {
        /// The node's name, or its operator if it has none.
        node: String,
        /// The operator.
        op_type: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A filter that is not what its node says.
    #[error(transparent)]
    Filter(#[from] OpError),
    /// The plain graph is not valid.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// Nodes form a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
}

/// A node that contradicts a block size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{block_size} not, because of node `{node}`: {what}")]
pub struct Contradiction {
    /// The block size.
    pub block_size: usize,
    /// The node's name, or its operator if it has none.
    pub node: String,
    /// What would not be as it is.
    pub what: &'static str,
}

impl From<TensorError> for NchwcError {
    fn from(error: TensorError) -> Self {
        NchwcError::Filter(error.into())
    }
}

fn listed(contradictions: &[Contradiction]) -> String {
    contradictions.iter().map(Contradiction::to_string).collect::<Vec<_>>().join("; ")
}

/// The first few names, and how many more there are.
fn some(nodes: &[String]) -> String {
    const N_NAMED: usize = 3;
    let named: Vec<String> = nodes.iter().take(N_NAMED).map(|node| format!("`{node}`")).collect();
    let more = nodes.len().saturating_sub(N_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}
