//! The errors of runs.

use std::time::Duration;

use ort_ep::KernelError;

use crate::error::{InputError, OutputError};
use crate::plan::PlanError;
use crate::state::StateError;

/// A failed run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The inputs do not match the model's.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The requested outputs do not match the model's, or the memory for one does not.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The state does not match the model.
    #[error(transparent)]
    State(#[from] StateError),
    /// Shape inference failed for the inputs.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A node failed.
    #[error("node `{node}` ({op_type}): {error}")]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// The error.
        error: Box<KernelError>,
    },
    /// A node did not compute an output that others need.
    #[error("value `{value}` was not computed")]
    NotComputed {
        /// The value.
        value: String,
    },
    /// A copy of an output that is an input or capture cannot be allocated, or is over the limit of the run.
    #[error("cannot allocate output `{value}`")]
    NoMemory {
        /// The output.
        value: String,
    },
    /// [`Cancel::cancel`](crate::Cancel::cancel) was called.
    #[error("the run{} was cancelled", named(tag))]
    Cancelled {
        /// The [`RunOptions::tag`](crate::RunOptions::tag) of the run.
        tag: String,
    },
    /// The run exceeded its deadline.
    #[error("the run{} exceeded its deadline", named(tag))]
    DeadlineExceeded {
        /// The [`RunOptions::tag`](crate::RunOptions::tag) of the run.
        tag: String,
    },
    /// The run exceeded a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A kernel panicked. The session is intact, and other runs are not affected.
    #[error("node `{node}` ({op_type}) panicked: {message}")]
    Panicked {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// The message of the panic.
        message: String,
    },
}

/// A run that exceeds its [`RunLimits`](crate::RunLimits).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// It needs too much memory for values and scratch.
    #[error("node `{node}`: the run takes {found} bytes of memory, over the limit of {limit}")]
    Bytes {
        /// The limit.
        limit: usize,
        /// The bytes needed or already allocated.
        found: usize,
        /// The node that needs them; at the start of a run the one with the highest need.
        node: String,
    },
    /// It takes too long.
    #[error("node `{node}`: the run has taken {found:?}, over the limit of {limit:?}")]
    Time {
        /// The limit.
        limit: Duration,
        /// The elapsed time.
        found: Duration,
        /// The node that was not started or completed.
        node: String,
    },
    /// Its loops have too many iterations.
    #[error("node `{node}`: iteration {found} of the run's loops, over the limit of {limit}")]
    Iterations {
        /// The limit for all loops of a run together.
        limit: u64,
        /// The number of the iteration that was not started.
        found: u64,
        /// The loop.
        node: String,
    },
}

fn named(tag: &str) -> String {
    if tag.is_empty() { String::new() } else { format!(" `{tag}`") }
}
