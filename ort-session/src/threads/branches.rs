//! The threads that run branches of a graph in parallel.

use std::time::Duration;

use super::options::{PoolOptions, Spinning};
use super::shared::spin;
use super::{Affinities, Pool};
use crate::builder::SessionBuilder;
use crate::error::SessionError;

/// How a run executes the steps of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ExecutionMode {
    /// One after the other, with all threads on each.
    #[default]
    Sequential,
    /// Independent steps in parallel, as far as threads are available.
    Parallel,
}

/// The maximum number of parallel branches, and their threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct BranchOptions {
    pub(crate) mode: ExecutionMode,
    pub(crate) n_threads: Option<usize>,
    pub(crate) spinning: Spinning,
}

impl BranchOptions {
    /// The pool for branches of a session, whose steps `steps` use `pool`; the same pool
    /// if thread count and spin duration are equal. `None` if branches do not run in parallel.
    pub(crate) fn pool(
        &self,
        steps: &PoolOptions,
        pool: &Pool,
    ) -> Result<Option<Pool>, SessionError> {
        // At most all user-provided threads are used.
        let most = steps.n_given().unwrap_or(usize::MAX);
        let n_threads = self.n_threads.unwrap_or(pool.n_threads()).min(most);
        if self.mode == ExecutionMode::Sequential || n_threads <= 1 {
            return Ok(None);
        }
        let spinning = self.spinning.or(steps.spinning);
        let spin = |spinning: Spinning| spin(spinning.time(), steps.between_runs);
        let has_same_spin = steps.n_given().is_some() || spin(spinning) == spin(steps.spinning);
        if n_threads == pool.n_threads() && has_same_spin {
            return Ok(Some(pool.clone()));
        }
        let affinities = Affinities::default();
        PoolOptions { spinning, affinities, ..steps.clone() }.pool(n_threads).map(Some)
    }
}

/// Branches.
impl SessionBuilder {
    /// Whether independent steps run in parallel; they do not by default. It helps graphs with branches
    /// of small nodes, which leave threads without work. Results are bitwise equal.
    #[must_use]
    pub fn execution_mode(mut self, mode: ExecutionMode) -> Self {
        self.branches.mode = mode;
        self
    }

    /// The number of branches that run in parallel with [`ExecutionMode::Parallel`], the caller's
    /// included; by default the number of threads of a step. With 1, steps run sequentially. Another
    /// number than that of [`SessionBuilder::threads`] requires a second pool; of user-provided
    /// threads, at most all are used.
    #[must_use]
    pub fn inter_op_threads(mut self, n_threads: usize) -> Self {
        self.branches.n_threads = Some(n_threads);
        self
    }

    /// The spin duration of workers that run branches, during a run; by default that of
    /// [`SessionBuilder::spinning`]. Another duration requires a second pool.
    #[must_use]
    pub fn inter_op_spinning(mut self, time: Duration) -> Self {
        self.branches.spinning = Spinning::new(time);
        self
    }
}
