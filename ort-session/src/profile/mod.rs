//! What is noted of a session when one wants to know where its time goes: the stages of loading, and
//! the steps of runs.
//!
//! ```text
//! Profiler   one a session: notes spans of loading and whole runs, writes them at the end
//! Recorder   one a run: notes its steps; a session takes them all at once when the run is over
//! Watch      one a step: its time, the shares of other threads in it, and the denormals they met
//! ```
//!
//! Without a recorder a step costs one branch. With one it takes the clock twice, and once more for each
//! time that another thread comes to help. What a step computes is described once for each layout of shapes.

mod file;
mod json;
mod profiler;
mod recorder;
mod thread;
mod trace;
mod work;

pub use self::file::ProfileError;
pub(crate) use self::profiler::{Profiler, Profiling};
pub(crate) use self::recorder::Recorder;
pub use self::trace::{RunTimes, Share, Span, StepTime, Trace};
pub use self::work::StepWork;
pub(crate) use self::work::describe;
