//! Profiles of a session: the stages of loading, and
//! the steps of runs.
//!
//! ```text
//! Profiler   one for each session: records stages of loading and runs, writes them at the end
//! Recorder   one for each run: records its steps; a session takes them when the run is over
//! Watch      one for each step: its time, the shares of other threads in it, and the denormals they met
//! ```
//!
//! Without a recorder a step costs one branch. With one it reads the clock twice, and once more for each
//! time that another thread helps. A step is described once for each layout.

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
