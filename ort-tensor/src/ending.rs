//! The end of a computation before its end: long loops ask whether somebody still waits for them.
//!
//! As with an allowance, the thread has it: an operator's `eval` and whatever that calls have no other
//! place for it.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use crate::TensorError;

/// Knows whether a computation is to end early.
pub trait Ending: Debug + Send + Sync {
    /// Whether it is.
    fn is_ended(&self) -> bool;
}

thread_local! {
    static ENDING: RefCell<Option<Arc<dyn Ending>>> = const { RefCell::new(None) };
}

/// Calls `body`, on whose way [`go_on`] asks `ending`.
pub fn ended_by<R>(ending: &Arc<dyn Ending>, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<dyn Ending>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ENDING.replace(self.0.take());
        }
    }
    let _restore = Restore(ENDING.replace(Some(ending.clone())));
    body()
}

/// That the computation is to go on. It costs as much as to read the clock: loops call it after some
/// thousand operations.
///
/// # Errors
/// If not: [`TensorError::Ended`].
pub fn go_on() -> Result<(), TensorError> {
    let is_ended = ENDING.with_borrow(|ending| ending.as_ref().is_some_and(|e| e.is_ended()));
    if is_ended { Err(TensorError::Ended) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Switch(AtomicBool);

    impl Ending for Switch {
        fn is_ended(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn whoever_is_told_to_end_ends_and_others_go_on() {
        let switch = Arc::new(Switch::default());
        let ending: Arc<dyn Ending> = switch.clone();
        ended_by(&ending, || {
            assert_eq!(go_on(), Ok(()));
            switch.0.store(true, Ordering::Relaxed);
            assert_eq!(go_on(), Err(TensorError::Ended));
            let other: Arc<dyn Ending> = Arc::new(Switch::default());
            ended_by(&other, || assert_eq!(go_on(), Ok(())));
            assert_eq!(go_on(), Err(TensorError::Ended));
        });
        assert_eq!(go_on(), Ok(()));
    }
}
