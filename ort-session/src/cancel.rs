//! The end of a run or of loading, from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ort_tensor::Ending;
use web_time::Instant;

/// Ends runs and loading from any thread. Clones are one.
///
/// A run looks at it between two steps, between two iterations of a loop, and between the parts of a step's
/// work. Loading looks at it between the file, the graph, each pass of the optimizer and each node that is
/// compiled, and between the parts of what it computes.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    is_told: Arc<AtomicBool>,
    /// When it is as good as told; of loading with a limit only.
    deadline: Option<Instant>,
}

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends what this was given to, for good.
    pub fn cancel(&self) {
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// Whether somebody called [`Cancel::cancel`].
    pub fn is_cancelled(&self) -> bool {
        self.is_told() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether it was not only the clock.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// The same, for what is to end by then as well.
    pub(crate) fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

impl Ending for Cancel {
    fn is_ended(&self) -> bool {
        self.is_cancelled()
    }
}
