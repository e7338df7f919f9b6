//! Fork and join: the caller works through the parts of a step, and [`Workers`] take parts as well.
//!
//! ```text
//! caller:  open a job → take parts, first to last → close it → wait for those who are inside
//! worker:  look for an open job → enter → take parts, last to first → leave → spin → sleep
//! ```
//!
//! A job stays open to whoever comes until its parts are gone: a worker that wakes in the middle of a
//! step finds its work without the caller's help, and a worker that comes too late is not waited for.
//! So a caller loses nothing to workers that sleep, that are busy with another caller's job, or that
//! the system does not run, and any number of callers share them.

mod job;
mod jobs;
mod parts;
mod workers;

pub use crate::job::Around;
pub use crate::parts::Parts;
pub use crate::workers::{InRun, Spin, StartError, Workers};

#[cfg(test)]
mod tests;
