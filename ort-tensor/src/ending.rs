//! Cancellation: long loops check whether the run was cancelled or timed out.
//!
//! Like an allowance, the check is thread-local: an operator's `eval` and its callees have no parameter
//! for it.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use crate::TensorError;

/// A source of cancellation.
pub trait Ending: Debug + Send + Sync {
    /// Whether the computation must stop.
    fn is_ended(&self) -> bool;
}

thread_local! {
    static ENDING: RefCell<Option<Arc<dyn Ending>>> = const { RefCell::new(None) };
}

/// Calls `body`, during which [`go_on`] checks `ending`.
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

/// Whether this thread can be cancelled, so that checking is worthwhile.
pub fn can_end() -> bool {
    ENDING.with_borrow(Option::is_some)
}

/// Checks for cancellation. It costs as much as reading the clock: loops call it every few
/// thousand operations.
///
/// # Errors
/// [`TensorError::Ended`] if the computation must stop.
pub fn go_on() -> Result<(), TensorError> {
    let is_ended = ENDING.with_borrow(|ending| ending.as_ref().is_some_and(|e| e.is_ended()));
    if is_ended { Err(TensorError::Ended) } else { Ok(()) }
}

/// Calls `f` with the start of each piece of `x` and the piece, in order; a piece takes at most milliseconds.
///
/// # Errors
/// [`TensorError::Ended`] if the computation must stop.
pub fn by_pieces<T>(x: &mut [T], mut f: impl FnMut(usize, &mut [T])) -> Result<(), TensorError> {
    for (i, piece) in x.chunks_mut(Pace::STEP).enumerate() {
        if i > 0 {
            go_on()?;
        }
        f(i * Pace::STEP, piece);
    }
    Ok(())
}

/// Counts work, and calls [`go_on`] every now and then.
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
    /// Operations between two checks: a loop executes this many within milliseconds.
    pub const STEP: usize = 1 << 16;

    /// A counter at zero.
    pub const fn new() -> Self {
        Self { left: Self::STEP }
    }

    /// Counts `n` operations before they are executed, and checks for cancellation every [`Pace::STEP`].
    ///
    /// # Errors
    /// [`TensorError::Ended`], if the run was cancelled or timed out.
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
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    pub(crate) struct Switch(pub(crate) AtomicBool);

    impl Ending for Switch {
        fn is_ended(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn only_cancelled_computations_stop() {
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
    fn pace_checks_once_every_step() {
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
