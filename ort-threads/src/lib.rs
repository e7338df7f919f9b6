//! A fork-join thread pool: the caller executes the parts of a step, and [`Workers`] take parts as well.
//!
//! ```text
//! caller:  open a job → take parts, first to last → close it → wait for workers that are inside
//! worker:  look for an open job → enter → take parts, last to first → leave → spin → sleep
//! ```
//!
//! Workers may enter a job until all of its parts are taken: a worker that wakes in the middle of a
//! step finds its work without the caller's help, and the caller does not wait for a worker that arrives too late.
//! So a caller is not delayed by workers that sleep, that are busy with another caller's job, or that
//! the system does not schedule, and any number of callers share them.
//!
//! # When to use it alone
//!
//! For parallel loops of a few microseconds, whose caller must not wait for a sleeping worker.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use std::time::Duration;
//! use ort_threads::{Spin, Workers};
//!
//! # fn main() -> Result<(), ort_threads::StartError> {
//! let spin = Spin { in_runs: Duration::from_millis(1), between_runs: Duration::from_micros(50) };
//! let workers = Workers::new(1, spin, |_| Ok(()))?;
//! let sum = AtomicUsize::new(0);
//! workers.for_each(100, &|i| { sum.fetch_add(i, Ordering::Relaxed); }, &|body| body());
//! assert_eq!(sum.into_inner(), 4950);
//! # Ok(())
//! # }
//! ```

mod job;
mod jobs;
mod parts;
mod workers;

pub use crate::job::Around;
pub use crate::parts::Parts;
pub use crate::workers::{InRun, Join, Spawn, Spin, StartError, SystemThreads, Workers};

/// Workers and errors are sent between threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<Workers>();
    is_send_and_sync::<StartError>();
};

#[cfg(test)]
mod tests;
