//! `OrtIoBinding`: inputs and outputs that are bound to values once, for many runs.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_sys::OrtValue;

use crate::error::Error;
use crate::ffi::{Allocator, Out, OutHandle, Shared, export, into_handle};
use crate::memory_info::MemoryInfo;
use crate::run::Request;
use crate::run_options::{OfRun, RunOptions};
use crate::session::Session;
use crate::value::Value;

/// Bound inputs and outputs.
#[derive(Debug)]
pub(crate) struct IoBinding {
    session: Session,
    bound: Mutex<Bound>,
}

#[derive(Debug, Default)]
struct Bound {
    inputs: Vec<(String, Value)>,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    name: String,
    /// The value that a run writes to; `None` if it allocates a new one.
    to: Option<Value>,
    /// The value from the last run.
    made: Option<Value>,
}

impl IoBinding {
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bind_output(&self, name: &str, to: Option<Value>) -> Result<(), Error> {
        if !self.session.has_output(name) {
            return Err(Error::invalid(format!("Failed to find output name: {name}")));
        }
        let mut bound = self.bound();
        let output = Output { name: name.to_owned(), made: to.clone(), to };
        match bound.outputs.iter_mut().find(|other| other.name == name) {
            Some(old) => *old = output,
            None => bound.outputs.push(output),
        }
        Ok(())
    }

    fn run(&self, session: &Session, options: OfRun) -> Result<(), Error> {
        let mut bound = self.bound();
        let inputs: Vec<_> = bound.inputs.iter().map(|(name, it)| (name.as_str(), it)).collect();
        let outputs = bound.outputs.iter().map(|it| (it.name.as_str(), it.to.as_ref()));
        let outputs: Vec<_> = outputs.collect();
        let made = session.run(&Request { inputs: &inputs, outputs: &outputs, options })?;
        made.into_iter().for_each(|(at, value)| bound.outputs[at].made = Some(value));
        Ok(())
    }
}

export! {
    fn CreateIoBinding(session: Shared<'_, Session>, out: OutHandle<'_, IoBinding>) {
        session.ready()?;
        out.set(IoBinding { session: Session::clone(&session), bound: Mutex::default() });
        Ok(())
    }

    fn ReleaseIoBinding(binding: Option<Box<IoBinding>>) -> () = (); {
        drop(binding);
        Ok(())
    }

    /// The value is shared: the program may release its own.
    fn BindInput(binding_ptr: Shared<'_, IoBinding>, name: &str, val_ptr: &Value) {
        if !binding_ptr.session.has_input(name) {
            return Err(Error::invalid(format!("Failed to find input name: {name}")));
        }
        let (mut bound, value) = (binding_ptr.bound(), val_ptr.clone());
        match bound.inputs.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => bound.inputs.push((name.to_owned(), value)),
        }
        Ok(())
    }

    fn BindOutput(binding_ptr: Shared<'_, IoBinding>, name: &str, val_ptr: &Value) {
        binding_ptr.bind_output(name, Some(val_ptr.clone()))
    }

    fn BindOutputToDevice(
        binding_ptr: Shared<'_, IoBinding>,
        name: &str,
        mem_info_ptr: &MemoryInfo,
    ) {
        mem_info_ptr.expect_cpu()?;
        binding_ptr.bind_output(name, None)
    }

    fn RunWithBinding(
        session: Shared<'_, Session>,
        run_options: Option<&RunOptions>,
        binding_ptr: &IoBinding,
    ) {
        binding_ptr.run(&session, run_options.map(RunOptions::of_run).unwrap_or_default())
    }

    /// The names, concatenated without NULs, and the length of each.
    fn GetBoundOutputNames(
        binding_ptr: &IoBinding,
        allocator: Allocator<'_>,
        buffer: Out<'_, *mut c_char>,
        lengths: Out<'_, *mut usize>,
        count: Out<'_, usize>,
    ) {
        let bound = binding_ptr.bound();
        let names: String = bound.outputs.iter().map(|output| output.name.as_str()).collect();
        let sizes: Vec<_> = bound.outputs.iter().map(|output| output.name.len()).collect();
        buffer.set(allocator.bytes(names.as_bytes())?);
        lengths.set(allocator.array(&sizes)?);
        count.set(sizes.len());
        Ok(())
    }

    /// The values from the last run, or those that a run will write to.
    fn GetBoundOutputValues(
        binding_ptr: &IoBinding,
        allocator: Allocator<'_>,
        output: Out<'_, *mut *mut OrtValue>,
        output_count: Out<'_, usize>,
    ) {
        let bound = binding_ptr.bound();
        let none = |name: &str| Error::fail(format!("output `{name}` has no value before a run"));
        let made = bound.outputs.iter().map(|it| it.made.clone().ok_or_else(|| none(&it.name)));
        let made = made.collect::<Result<Vec<_>, _>>()?;
        let handles: Vec<_> = made.into_iter().map(into_handle).collect();
        output.set(allocator.array(&handles)?);
        output_count.set(bound.outputs.len());
        Ok(())
    }

    fn ClearBoundInputs(binding_ptr: Shared<'_, IoBinding>) -> () = (); {
        binding_ptr.bound().inputs.clear();
        Ok(())
    }

    fn ClearBoundOutputs(binding_ptr: Shared<'_, IoBinding>) -> () = (); {
        binding_ptr.bound().outputs.clear();
        Ok(())
    }

    /// Accepted; the CPU has nothing to wait for.
    fn SynchronizeBoundInputs(_binding_ptr: Shared<'_, IoBinding>) {
        Ok(())
    }

    /// Accepted; the CPU has nothing to wait for.
    fn SynchronizeBoundOutputs(_binding_ptr: Shared<'_, IoBinding>) {
        Ok(())
    }
}
