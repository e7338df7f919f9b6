//! The end of a run or of loading, from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends runs and loading from any thread. Clones are one.
///
/// A run looks at it between two steps and between two iterations of a loop: a kernel that has begun
/// ends first. Loading looks at it between the file, the graph, each pass of the optimizer and each
/// node that is compiled.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Not cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends what this was given to, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody called [`Cancel::cancel`].
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
