//! The end of a computation before its end: long loops check whether the run has ended.
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

/// Whether the computation may be ended early, so that it is worth to ask.
pub fn can_end() -> bool {
    ENDING.with_borrow(Option::is_some)
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

/// Work that asks [`go_on`] every now and then.
///
/// ```
/// # fn main() -> Result<(), ort_tensor::TensorError> {
/// use ort_tensor::Pace;
///
/// let (rows, mut sum, mut pace) = ([[1.0_f32; 100]; 100], 0.0, Pace::new());
/// for row in &rows {
///     pace.go(row.len())?;
///     sum += row.iter().sum::<f32>();
/// }
/// # assert_eq!(sum, 1e4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    left: usize,
}

impl Pace {
    /// So many elements that a loop goes over are done within milliseconds.
    pub const STEP: usize = 1 << 16;

    /// Nothing is done yet.
    pub const fn new() -> Self {
        Self { left: Self::STEP }
    }

    /// Counts `n` operations that are about to be done, and asks if that makes [`Pace::STEP`] since it last did.
    ///
    /// # Errors
    /// [`TensorError::Ended`], if the run has ended.
    #[inline]
    pub fn go(&mut self, n: usize) -> Result<(), TensorError> {
        match self.left.checked_sub(n) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = Self::STEP;
                go_on()
            }
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
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
            assert_eq!((can_end(), go_on()), (true, Ok(())));
            switch.0.store(true, Ordering::Relaxed);
            assert_eq!(go_on(), Err(TensorError::Ended));
            let other: Arc<dyn Ending> = Arc::new(Switch::default());
            ended_by(&other, || assert_eq!(go_on(), Ok(())));
            assert_eq!(go_on(), Err(TensorError::Ended));
        });
        assert_eq!((can_end(), go_on()), (false, Ok(())));
    }

    #[test]
    fn work_asks_after_each_step_of_it() {
        let switch = Arc::new(Switch(AtomicBool::new(true)));
        let ending: Arc<dyn Ending> = switch;
        ended_by(&ending, || {
            let mut pace = Pace::new();
            assert_eq!((pace.go(Pace::STEP), pace.go(0)), (Ok(()), Ok(())));
            assert_eq!(pace.go(1), Err(TensorError::Ended));
            assert_eq!(pace.go(usize::MAX), Err(TensorError::Ended));
        });
    }
}
