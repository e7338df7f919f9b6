//! Why a graph with data in NCHWc cannot be lowered.

use ort_graph::{CycleError, OpError, PatchError};
use ort_tensor::TensorError;

/// A graph whose com.microsoft.nchwc nodes cannot be lowered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NchwcError {
    /// Every possible block size contradicts some node.
    #[error("no block size fits the com.microsoft.nchwc nodes: {}", listed(contradictions))]
    Contradiction {
        /// The first contradiction of each block size.
        contradictions: Vec<Contradiction>,
    },
    /// The stated block size is invalid.
    #[error("the block size is 8 or 16, not {found}")]
    BlockSize {
        /// What was stated.
        found: usize,
    },
    /// An invalid node.
    #[error("node `{node}` ({op_type}): {what}")]
    Node {
        /// The node's name, or its operator if it has none.
        node: String,
        /// The operator.
        op_type: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A filter that does not fit its node.
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
#[error("not {block_size}, because of node `{node}`: {what}")]
pub struct Contradiction {
    /// The block size.
    pub block_size: usize,
    /// The node's name, or its operator if it has none.
    pub node: String,
    /// The contradiction.
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
