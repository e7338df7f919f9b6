//! Why a run failed.

use std::time::Duration;

use ort_ep::KernelError;

use crate::error::{InputError, OutputError};
use crate::plan::PlanError;
use crate::state::StateError;

/// A run that failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The inputs are not the model's.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The outputs asked for are not the model's, or the memory for one does not fit.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The state is not the model's.
    #[error(transparent)]
    State(#[from] StateError),
    /// The shapes do not fit the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A node could not compute.
    #[error("node `{node}` ({op_type}): {error}")]
    Node {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// What is wrong.
        error: Box<KernelError>,
    },
    /// A node did not make an output that others need.
    #[error("value `{value}` was not computed")]
    NotComputed {
        /// The value.
        value: String,
    },
    /// There is no memory for a copy of an output that is not computed: an input, or a capture.
    #[error("there is no memory for output `{value}`")]
    NoMemory {
        /// The output.
        value: String,
    },
    /// The caller called [`Cancel::cancel`](crate::Cancel::cancel).
    #[error("the run{} was cancelled", named(tag))]
    Cancelled {
        /// What [`RunOptions::tag`](crate::RunOptions::tag) called the run.
        tag: String,
    },
    /// The run was not done in time.
    #[error("the run{} was not done by its deadline", named(tag))]
    DeadlineExceeded {
        /// What [`RunOptions::tag`](crate::RunOptions::tag) called the run.
        tag: String,
    },
    /// The run wanted more than it may have.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A kernel panicked. The session is as it was: it runs on, on this thread and all others.
    #[error("node `{node}` ({op_type}) panicked: {message}")]
    Panicked {
        /// The node.
        node: String,
        /// Its operator.
        op_type: String,
        /// What the panic said.
        message: String,
    },
}

/// A run that wanted more than its [`RunLimits`](crate::RunLimits) allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Its values and scratch take too much memory.
    #[error("node `{node}`: the run takes {found} bytes of memory, and {limit} are allowed")]
    Bytes {
        /// How many bytes it may take.
        limit: usize,
        /// How many it would take, or has taken.
        found: usize,
        /// The node for which it takes them; at the start of a run the one that needs most.
        node: String,
    },
    /// It takes too long.
    #[error("node `{node}`: the run takes {found:?} so far, and {limit:?} are allowed")]
    Time {
        /// How long it may take.
        limit: Duration,
        /// How long it took so far.
        found: Duration,
        /// The node that did not start any more.
        node: String,
    },
    /// Its loops go round too often.
    #[error("node `{node}`: iteration {found} of the run's loops, and {limit} are allowed")]
    Iterations {
        /// How many iterations all loops of a run may have together.
        limit: u64,
        /// The number of the one that did not start any more.
        found: u64,
        /// The loop that wanted it.
        node: String,
    },
}

fn named(tag: &str) -> String {
    if tag.is_empty() { String::new() } else { format!(" `{tag}`") }
}
