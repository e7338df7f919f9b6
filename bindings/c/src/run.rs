//! Runs of a session, synchronous and asynchronous.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;

use ort_session::{BoundOutputs, InputValue, RunInputs};
use ort_sys::RunAsyncCallbackFn;

use crate::error::Error;
use crate::ffi::{Callback, Shared, Slots, caught, export};
use crate::memory_report;
use crate::run_options::{OfRun, RunOptions};
use crate::session::{Session, with_listener};
use crate::value::Value;

/// The inputs and outputs of a run.
pub(crate) struct Request<'a> {
    pub(crate) inputs: &'a [(&'a str, &'a Value)],
    /// Names, and existing values, which a run writes to.
    pub(crate) outputs: &'a [(&'a str, Option<&'a Value>)],
    pub(crate) options: OfRun,
}

impl Request<'_> {
    fn inputs(&self) -> Result<RunInputs<'_>, Error> {
        let mut views: Vec<(&str, InputValue<'_>)> = Vec::with_capacity(self.inputs.len());
        let adapted = self.options.adapters.iter().flat_map(|adapter| adapter.parameters());
        for (name, tensor) in adapted {
            views.retain(|(other, _)| *other != name);
            views.push((name, tensor.into()));
        }
        let n_adapted = views.len();
        for (name, value) in self.inputs {
            if views[..n_adapted].iter().all(|(other, _)| other != name) {
                views.push((name, value.input()?));
            }
        }
        Ok(views.into())
    }
}

impl Session {
    /// Runs the model. Returns the outputs that were not provided, with their indices.
    pub(crate) fn run(&self, request: &Request<'_>) -> Result<Vec<(usize, Value)>, Error> {
        let Request { inputs, outputs, options } = request;
        let views = request.inputs()?;
        // An output that is also read, or written twice, is copied at the end of the run.
        let is_free = |at: usize, value: &Value| {
            let earlier = outputs[..at].iter().filter_map(|(_, other)| *other);
            let mut others = inputs.iter().map(|(_, input)| *input).chain(earlier);
            !others.any(|other| other.overlaps(value))
        };
        let (mut bound, mut made) = (BoundOutputs::default(), Vec::with_capacity(outputs.len()));
        for (at, (name, value)) in outputs.iter().enumerate() {
            let memory = match value {
                Some(value) if is_free(at, value) => value.output()?,
                _ => None,
            };
            match memory {
                Some(memory) => bound = bound.with(*name, memory),
                None => made.push((at, *name, *value)),
            }
        }
        let memory_report = options.memory_report.as_deref();
        let options = options.options.clone().outputs(made.iter().map(|(_, name, _)| *name));
        let session = self.ready()?;
        let run = || session.run_into(views, bound, &options);
        let values = with_listener(self.listener.as_ref(), run)?.into_values();
        if let Some(path) = memory_report {
            memory_report::write(session, path)?;
        }
        let mut new = Vec::with_capacity(made.len());
        for ((at, _, there), value) in made.into_iter().zip(values) {
            match there {
                Some(there) => there.assign(value)?,
                None => new.push((at, Value::of_owned(value))),
            }
        }
        Ok(new)
    }
}

fn pairs<'a, T: Copy>(names: &[&'a str], values: &[T]) -> Vec<(&'a str, T)> {
    names.iter().copied().zip(values.iter().copied()).collect()
}

export! {
    fn Run(
        session: Shared<'_, Session>,
        run_options: Option<&RunOptions>,
        input_names: Vec<&str>[input_len],
        inputs: Vec<&Value>[input_len],
        input_len: usize,
        output_names: Vec<&str>[output_names_len],
        output_names_len: usize,
        outputs: Slots<'_, Value>[output_names_len],
    ) {
        let (_, mut outputs) = (input_len, outputs);
        if output_names_len == 0 {
            return Err(Error::argument("output_names_len", "is 0: a run needs an output"));
        }
        let there: Vec<_> = (0..output_names_len).map(|at| outputs.get(at)).collect();
        let made = session.run(&Request {
            inputs: &pairs(&input_names, &inputs),
            outputs: &pairs(&output_names, &there),
            options: run_options.map(RunOptions::of_run).unwrap_or_default(),
        })?;
        made.into_iter().for_each(|(at, value)| outputs.set(at, value));
        Ok(())
    }

    /// The run has its own thread, which also calls the function.
    fn RunAsync(
        session: Shared<'_, Session>,
        run_options: Option<&RunOptions>,
        input_names: Vec<&str>[input_len],
        input: Vec<&Value>[input_len],
        input_len: usize,
        output_names: Vec<&str>[output_names_len],
        output_names_len: usize,
        output: Slots<'_, Value>[output_names_len],
        run_async_callback: RunAsyncCallbackFn,
        user_data: *mut c_void,
    ) {
        let _ = input_len;
        let inputs: Vec<_> = pairs(&input_names, &input);
        let inputs: Vec<_> = inputs.iter().map(|(n, it)| ((*n).to_owned(), (*it).clone())).collect();
        let there = (0..output_names_len).map(|at| output.get(at).cloned());
        let names = output_names.iter().map(|name| (*name).to_owned());
        let outputs: Vec<_> = names.zip(there).collect();
        let options = run_options.map(RunOptions::of_run).unwrap_or_default();
        let callback = Callback::new(run_async_callback, user_data, output)?;
        let session = Session::clone(&session);
        let run = move || {
            let inputs: Vec<_> = inputs.iter().map(|(n, value)| (n.as_str(), value)).collect();
            let outputs: Vec<_> = outputs.iter().map(|(n, it)| (n.as_str(), it.as_ref())).collect();
            let request = Request { inputs: &inputs, outputs: &outputs, options };
            callback.call(caught(|| session.run(&request)));
        };
        let thread = std::thread::Builder::new().name("ort-run-async".to_owned()).spawn(run);
        thread.map(drop).map_err(|error| Error::fail(format!("cannot start a thread for the run: {error}")))
    }
}
