//! Collects the profile of a session and its runs, and writes it at the end.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use web_time::{Instant, SystemTime};

use super::file::ProfileError;
use super::thread;
use super::trace::{RunTimes, Span, Trace};

/// The limit of ONNX Runtime.
const MAX_STEPS: usize = 1_000_000;

/// Whether and how a session is profiled.
#[derive(Clone, Debug, Default)]
pub(crate) enum Profiling {
    #[default]
    Off,
    /// For [`Session::take_trace`](crate::Session::take_trace).
    Collect,
    /// To a file whose name has this prefix.
    Write(PathBuf),
}

/// The profiler of a session, or none. All objects made from one model share it; when the last is
/// dropped, a trace that was not taken is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Profiler(Option<Arc<Collector>>);

#[derive(Debug)]
struct Collector {
    origin: Instant,
    /// The prefix of its file's path, and the time in its name, if there is to be one.
    file: Option<(PathBuf, SystemTime)>,
    is_over: AtomicBool,
    trace: Mutex<Trace>,
}

impl Profiler {
    /// Times are relative to now.
    pub(crate) fn new(profiling: Profiling) -> Self {
        let file = match profiling {
            Profiling::Off => return Self(None),
            Profiling::Collect => None,
            Profiling::Write(prefix) => Some((prefix, SystemTime::now())),
        };
        let (is_over, trace) = (AtomicBool::new(false), Mutex::default());
        Self(Some(Arc::new(Collector { origin: Instant::now(), file, is_over, trace })))
    }

    fn collector(&self) -> Option<&Collector> {
        self.0.as_deref().filter(|collector| !collector.is_over.load(Ordering::Relaxed))
    }

    /// Records the duration of `body`.
    pub(crate) fn during<T>(&self, name: &'static str, body: impl FnOnce() -> T) -> T {
        let start = self.collector().map(|_| Instant::now());
        let result = body();
        if let Some(start) = start {
            self.note(name, (start, Instant::now()), Vec::new);
        }
        result
    }

    /// Records a span.
    pub(crate) fn note(
        &self,
        name: impl Into<Cow<'static, str>>,
        (start, end): (Instant, Instant),
        args: impl FnOnce() -> Vec<(&'static str, String)>,
    ) {
        let Some(collector) = self.collector() else { return };
        let time = end.saturating_duration_since(start);
        let start = start.saturating_duration_since(collector.origin);
        let (name, thread, args) = (name.into(), thread::id(), args());
        collector.trace().spans.push(Span { name, start, time, thread, args });
    }

    /// Records a span from the origin until now.
    pub(crate) fn note_whole(&self, name: &'static str) {
        if let Some(collector) = self.collector() {
            self.note(name, (collector.origin, Instant::now()), Vec::new);
        }
    }

    /// The origin of times, if runs are to be recorded.
    pub(crate) fn origin(&self) -> Option<Instant> {
        self.collector().map(|collector| collector.origin)
    }

    /// Records a run.
    pub(crate) fn note_run(&self, run: RunTimes) {
        if let Some(collector) = self.collector() {
            collector.trace().add(run);
        }
    }

    /// Ends profiling and returns the trace.
    pub(crate) fn take(&self) -> Result<Trace, ProfileError> {
        let collector = self.0.as_deref().ok_or(ProfileError::Off)?;
        collector.take().ok_or(ProfileError::Off)
    }

    /// Ends profiling and writes the trace.
    pub(crate) fn write(&self) -> Result<PathBuf, ProfileError> {
        let file = self.0.as_ref().and_then(|collector| collector.file.as_ref());
        let (prefix, time) = file.ok_or(ProfileError::Off)?;
        self.take()?.write_dated(prefix, *time)
    }
}

impl Collector {
    fn trace(&self) -> std::sync::MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The trace, unless it was already taken.
    fn take(&self) -> Option<Trace> {
        let is_first = !self.is_over.swap(true, Ordering::Relaxed);
        is_first.then(|| std::mem::take(&mut *self.trace()))
    }
}

/// A dropped session has no caller to return an error to.
impl Drop for Collector {
    fn drop(&mut self) {
        let Some((prefix, time)) = &self.file else { return };
        if let Some(Err(error)) = self.take().map(|trace| trace.write_dated(prefix, *time)) {
            tracing::warn!(%error, "the trace cannot be written");
        }
    }
}

impl Trace {
    fn add(&mut self, run: RunTimes) {
        let n_steps = self.n_steps + run.steps.len();
        if n_steps <= MAX_STEPS {
            self.n_steps = n_steps;
            return self.runs.push(run);
        }
        if self.n_dropped == 0 {
            tracing::warn!("the trace is full: {MAX_STEPS} steps; later runs are left out");
        }
        self.n_dropped += 1;
    }
}
