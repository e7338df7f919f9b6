//! A budget of bytes, shared by any number of threads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::LoadLimitError;

/// The limit for constants, and how much of it is used.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    limit: Option<usize>,
    taken: AtomicUsize,
    exceeded: OnceLock<LoadLimitError>,
}

impl Budget {
    pub(crate) fn new(limit: Option<usize>, taken: usize) -> Self {
        Self { limit, taken: AtomicUsize::new(taken), exceeded: OnceLock::new() }
    }

    /// Takes bytes for a constant. Returns false if fewer are left; this is remembered, so
    /// that the outcome does not depend on the order of threads.
    pub(crate) fn take(&self, n_bytes: usize, value: &str) -> bool {
        let Some(limit) = self.limit else { return true };
        let add = |taken: usize| Some(taken.saturating_add(n_bytes));
        let before = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        let found = before.unwrap_or_default().saturating_add(n_bytes);
        if found > limit {
            let value = value.to_owned();
            self.exceeded.get_or_init(|| LoadLimitError::Bytes { limit, found, value });
        }
        found <= limit
    }

    /// How much is used.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Checks that no request was denied.
    ///
    /// # Errors
    /// If one was.
    pub(crate) fn check(&self) -> Result<(), LoadLimitError> {
        self.exceeded.get().cloned().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_request_takes_nothing_and_is_remembered() {
        let budget = Budget::new(Some(100), 40);
        assert!(budget.take(60, "a") && budget.check().is_ok());
        assert!(!budget.take(1, "b") && !budget.take(usize::MAX, "c"));
        let expected = LoadLimitError::Bytes { limit: 100, found: 101, value: "b".to_owned() };
        assert_eq!(budget.check(), Err(expected));
        let free = Budget::new(None, usize::MAX);
        assert!(free.take(usize::MAX, "d") && free.check().is_ok());
    }
}
