//! Cancellation of a run or of loading, from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ort_tensor::Ending;
use web_time::Instant;

/// Cancels runs and loading from any thread. Clones share their state.
///
/// A run checks it between two steps, between two iterations of a loop, and between the parts of a step's
/// work. Loading checks it between the file, the graph, each pass of the optimizer and each node that is
/// compiled, and between the parts of what it computes.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    is_explicit: Arc<AtomicBool>,
    /// When it counts as cancelled; only for loading with a time limit.
    deadline: Option<Instant>,
}

impl Cancel {
    /// A new one, not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels everything this was passed to, permanently.
    pub fn cancel(&self) {
        self.is_explicit.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.is_explicit() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether it was cancelled explicitly, not by the deadline.
    pub(crate) fn is_explicit(&self) -> bool {
        self.is_explicit.load(Ordering::Relaxed)
    }

    /// The same, with a deadline.
    pub(crate) fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

impl Ending for Cancel {
    fn is_ended(&self) -> bool {
        self.is_cancelled()
    }
}
