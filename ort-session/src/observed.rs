//! Events, spans and traces around a run.

use std::fmt;
use std::path::Path;

use tracing::info_span;
use web_time::{Instant, SystemTime};

use crate::check::type_of;
use crate::inputs::RunInputs;
use crate::log::{Events, Severity};
use crate::outputs::Outputs;
use crate::profile::{RunTimes, Trace};
use crate::run::{RunError, Targets};
use crate::session::{Request, Session};

impl Session {
    /// Runs a request, and emits its events.
    pub(crate) fn observed(
        &self,
        request: Request<'_>,
        targets: &mut Targets<'_>,
    ) -> Result<Outputs, RunError> {
        let tag = request.options.tag.as_str();
        let _span = (!tag.is_empty()).then(|| info_span!("run", tag).entered());
        let events = self.log.of_run(request.options.events);
        events.event(Severity::Verbose, format_args!("a run begins"));
        events.detail(format_args!("its inputs are {}", Listed(request.inputs)));
        let outputs = self.profiled(request, targets, events);
        match &outputs {
            Ok(_) => events.event(Severity::Verbose, format_args!("the run is done")),
            Err(error @ (RunError::Cancelled { .. } | RunError::DeadlineExceeded { .. })) => {
                events.event(Severity::Info, format_args!("{error}"));
            }
            Err(error) => events.event(Severity::Error, format_args!("the run failed: {error}")),
        }
        outputs
    }

    /// Runs a request, and records it if the session or the run is profiled.
    fn profiled(
        &self,
        request: Request<'_>,
        targets: &mut Targets<'_>,
        events: Events<'_>,
    ) -> Result<Outputs, RunError> {
        let Request { options, .. } = request;
        let (origin, prefix) = (self.profiler.origin(), options.profile.as_deref());
        if origin.is_none() && prefix.is_none() {
            return self.run_recorded(request, targets, None);
        }
        let begin = Instant::now();
        let origin = origin.unwrap_or(begin);
        let recorder = self.recorder(origin);
        let outputs = self.run_recorded(request, targets, Some(&recorder));
        let run = RunTimes::until_now(recorder, begin, options.tag.clone());
        if let Some(prefix) = prefix {
            write(&run, prefix, events);
        }
        self.profiler.note_run(run);
        outputs
    }
}

/// Writes the trace of one run. An error is only a warning.
fn write(run: &RunTimes, prefix: &Path, events: Events<'_>) {
    match Trace::of_run(run).write_dated(prefix, SystemTime::now()) {
        Ok(path) => {
            let text = format_args!("the trace of the run is in {}", path.display());
            events.event(Severity::Verbose, text);
        }
        Err(error) => {
            events.event(
                Severity::Warning,
                format_args!("the trace of the run cannot be written: {error}"),
            );
        }
    }
}

/// The names and types of inputs.
struct Listed<'a>(&'a RunInputs<'a>);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.entries.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match name {
                Some(name) => write!(f, "`{name}` ")?,
                None => write!(f, "{i} ")?,
            }
            write!(f, "{}", type_of(value.view()))?;
        }
        Ok(())
    }
}
