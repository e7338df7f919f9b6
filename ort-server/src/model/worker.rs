//! A thread that runs the requests of a model, one batch at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use ort_session::{Cancel, RunError, RunInputs, RunOptions, Tensor, Value};

use super::batch::{self, concatenated, split};
use super::queue::Job;
use super::{CancelOnDrop, Runner};
use crate::failure::Failure;
use crate::request::{Outputs, Request};

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
        model.statistics.queued(start.saturating_duration_since(job.queued));
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
    let Request { inputs, outputs, deadline, .. } = &job.request;
    model.queue.started(&job.cancel);
    let options = RunOptions::new().cancel(&job.cancel).deadline(*deadline);
    let n = batch::rows(&job.request).filter(|_| model.queue.batching.is_some());
    timed(model, inputs, outputs, options, n.unwrap_or(1))
}

/// The outputs of each request, from one run. It has the latest deadline of the requests, and goes on if a caller stops waiting.
fn batched(model: &Runner, jobs: &[Job]) -> Result<Vec<Outputs>, Failure> {
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
    let selected = requests.first().map_or(&[][..], |request| &request.outputs);
    split(&timed(model, &inputs, selected, options, rows.iter().sum())?, &rows)
}

fn timed(
    model: &Runner,
    inputs: &[(String, Tensor)],
    requested: &[String],
    mut options: RunOptions,
    n_rows: usize,
) -> Result<Outputs, Failure> {
    if let Some(names) = model.description.selected(requested) {
        options = options.outputs(names);
    }
    let inputs: RunInputs<'_> =
        inputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let start = Instant::now();
    let outputs = model.session.run_with(inputs, &options).map_err(|error| match error {
        RunError::Cancelled { .. } => Failure::Cancelled,
        error => Failure::Run(error),
    })?;
    model.statistics.ran(start.elapsed(), n_rows);
    let names: Vec<_> = outputs.iter().map(|(name, _)| name.to_owned()).collect();
    let tensor = |(name, value): (String, Value)| match value {
        Value::Tensor(tensor) => Ok((name, tensor)),
        other => Err(Failure::output(&name, format!("it is a {}, not a tensor", other.kind()))),
    };
    names.into_iter().zip(outputs.into_values()).map(tensor).collect()
}
