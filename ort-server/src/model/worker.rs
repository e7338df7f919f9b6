//! A thread that runs the requests of a model, one batch at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use ort_session::{Cancel, RunError, RunInputs, RunOptions, Severity, Tensor, Value};

use super::batch::{self, concatenated, split};
use super::queue::Job;
use super::{CancelOnDrop, Runner};
use crate::failure::Failure;
use crate::request::{Outputs, Request};
use crate::statistics::RunTimes;
use crate::trace::{Attribute, Part};

/// Runs requests until the queue is closed and empty.
pub(super) fn run(model: &Runner) {
    while let Some(jobs) = model.queue.pop() {
        let (cancelled, jobs): (Vec<_>, _) =
            jobs.into_iter().partition(|job| job.cancel.is_cancelled());
        for job in cancelled {
            job.answer(Err(Failure::Cancelled));
        }
        // Kernels do not unwind into their caller; this is for bugs of the code around them. The requests are answered
        // by dropping their channels.
        if catch_unwind(AssertUnwindSafe(|| answer(model, jobs))).is_err() {
            tracing::error!(model = model.name, "a request panicked outside of its run");
        }
    }
}

fn answer(model: &Runner, mut jobs: Vec<Job>) {
    let start = Instant::now();
    for job in &jobs {
        model.statistics.waited(start.saturating_duration_since(job.queued));
        if let Some(span) = &job.request.span {
            let (name, attributes) = ("queue", Vec::new());
            span.child(Part { name, start: job.queued, end: start, attributes, has_failed: false });
        }
    }
    if jobs.len() > 1 {
        match batched(model, &jobs) {
            Ok(answers) => {
                for (job, outputs) in jobs.into_iter().zip(answers) {
                    job.answer(Ok(outputs));
                }
                return;
            }
            Err(failure) => {
                tracing::debug!(model = model.name, %failure, "a batch failed; its requests run alone");
            }
        }
    }
    for job in jobs.drain(..) {
        let outputs = alone(model, &job);
        job.answer(outputs);
    }
}

fn alone(model: &Runner, job: &Job) -> Result<Outputs, Failure> {
    let taken = Instant::now();
    let Request { inputs, outputs: requested, deadline, .. } = &job.request;
    model.queue.started(&job.cancel);
    let options = RunOptions::new().cancel(&job.cancel).deadline(*deadline);
    let n = batch::rows(&job.request).filter(|_| model.scheduling.batching.is_some());
    let (n_rows, jobs) = (n.unwrap_or(1), std::slice::from_ref(job));
    Run { inputs, requested, n_rows, jobs, taken }.of(model, options, Ok)
}

/// The outputs of each request, from one run. It has the latest deadline of the requests, and goes on if a caller stops waiting.
fn batched(model: &Runner, jobs: &[Job]) -> Result<Vec<Outputs>, Failure> {
    let taken = Instant::now();
    let requests: Vec<_> = jobs.iter().map(|job| &job.request).collect();
    let rows: Vec<_> = requests.iter().filter_map(|request| batch::rows(request)).collect();
    let inputs = concatenated(&requests);
    let inputs = inputs.map_err(|error| Failure::Request(error.to_string()))?;
    let cancel = CancelOnDrop(Cancel::new());
    model.queue.started(&cancel.0);
    let mut options = RunOptions::new().cancel(&cancel.0);
    if let Some(deadline) = requests.iter().map(|request| request.deadline).max() {
        options = options.deadline(deadline);
    }
    let requested = requests.first().map_or(&[][..], |request| &request.outputs);
    let run = Run { inputs: &inputs, requested, n_rows: rows.iter().sum(), jobs, taken };
    run.of(model, options, |outputs| split(&outputs, &rows))
}

/// A run of the model for one request, or for several.
struct Run<'a> {
    inputs: &'a [(String, Tensor)],
    requested: &'a [String],
    n_rows: usize,
    jobs: &'a [Job],
    /// When the requests were taken from the queue.
    taken: Instant,
}

impl Run<'_> {
    /// What `split` makes of the outputs.
    fn of<T>(
        &self,
        model: &Runner,
        mut options: RunOptions,
        split: impl FnOnce(Outputs) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(names) = model.description.selected(self.requested) {
            options = options.outputs(names);
        }
        // A request that fails is answered with the reason; clients do not fill the log.
        if !tracing::enabled!(tracing::Level::DEBUG) {
            options = options.log_severity(Severity::Fatal);
        }
        let inputs: RunInputs<'_> =
            self.inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let start = Instant::now();
        let outputs = model.session.run_with(inputs, &options);
        let end = Instant::now();
        self.trace(start, end, outputs.is_err());
        let outputs = outputs.map_err(|error| match error {
            RunError::Cancelled { .. } => Failure::Cancelled,
            error => Failure::Run(error),
        })?;
        let names: Vec<_> = outputs.iter().map(|(name, _)| name.to_owned()).collect();
        let tensor = |(name, value): (String, Value)| match value {
            Value::Tensor(tensor) => Ok((name, tensor)),
            other => Err(Failure::output(&name, format!("it is a {}, not a tensor", other.kind()))),
        };
        let outputs = names.into_iter().zip(outputs.into_values()).map(tensor);
        let answers = split(outputs.collect::<Result<_, _>>()?)?;
        let times = RunTimes { taken: self.taken, start, end, done: Instant::now() };
        model.statistics.add_run(&times, self.n_rows, self.jobs.len());
        Ok(answers)
    }

    fn trace(&self, start: Instant, end: Instant, has_failed: bool) {
        for span in self.jobs.iter().filter_map(|job| job.request.span.as_ref()) {
            let attributes = vec![
                ("ort.batch.size", Attribute::from(self.n_rows)),
                ("ort.batch.requests", Attribute::from(self.jobs.len())),
            ];
            span.child(Part { name: "compute", start, end, attributes, has_failed });
        }
    }
}
