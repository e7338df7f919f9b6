//! `OrtSession`: created from a file or bytes, with its inputs and outputs.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ort_session::ValueDescription;
use ort_session::model::Model;
use ort_session::{
    Listener, LoadError, LogEvent, ModelBytes, Optimized, SessionBuilder, SessionError, Severity,
};
use ort_sys::{OrtEpDevice, OrtErrorCode, OrtMemoryInfo};

use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Allocator, Block, Memory, Out, OutHandle, Outs, Shared, export, opaque};
use crate::memory_info::CPU;
use crate::memory_report;
use crate::session_options::SessionOptions;
use crate::type_info::TypeInfo;

/// A model that is ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) session: Arc<ort_session::Session>,
    /// Receives its messages, unless the process has a listener.
    pub(crate) listener: Option<Listener>,
    /// The required inputs.
    pub(crate) inputs: Arc<[ValueDescription]>,
    /// The inputs that the model has a default for.
    overridable: Arc<[ValueDescription]>,
    pub(crate) outputs: Arc<[ValueDescription]>,
    /// When profiling started, in nanoseconds; 0 without it.
    profiling_start: u64,
    /// Where its memory is reported when it is released.
    memory_report: Option<PathBuf>,
}

/// `OrtPrepackedWeightsContainer`: weights that sessions share. Accepted; sessions of one mapped file share its
/// weights, and those of one cache folder the packed ones.
#[derive(Debug)]
pub(crate) struct PrepackedWeights;

impl Session {
    pub(crate) fn new(
        session: ort_session::Session,
        listener: Option<Listener>,
        profiling_start: u64,
    ) -> Self {
        let inputs = session.inputs();
        let (overridable, inputs): (Vec<_>, Vec<_>) =
            inputs.into_iter().partition(|input| input.has_default);
        Self {
            outputs: session.outputs().into(),
            inputs: inputs.into(),
            overridable: overridable.into(),
            session: Arc::new(session),
            listener,
            profiling_start,
            memory_report: None,
        }
    }

    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().chain(&*self.overridable).any(|input| input.name == name)
    }
}

/// A model: its bytes, or the path of its file.
pub(crate) enum Source<'a> {
    Bytes(&'a [u8]),
    File(&'a Path),
    /// Made by the program in memory.
    Model(Box<Model<'static>>),
}

impl Source<'_> {
    pub(crate) fn session(
        self,
        env: &Env,
        options: Option<&SessionOptions>,
    ) -> Result<Session, Error> {
        let defaults = SessionOptions::default();
        let options = options.unwrap_or(&defaults);
        let (builder, listener) = (options.builder(env)?, options.listener(env));
        let profiling_start = if options.is_profiled() { now() } else { 0 };
        let session = with_listener(listener.as_ref(), || self.loaded(builder, options))?;
        let memory_report = options.entries.get(memory_report::KEY).map(PathBuf::from);
        Ok(Session { memory_report, ..Session::new(session, listener, profiling_start) })
    }

    fn loaded(
        self,
        builder: SessionBuilder,
        options: &SessionOptions,
    ) -> Result<ort_session::Session, Error> {
        let Some(path) = &options.optimized_path else {
            return match self {
                Source::Bytes(bytes) => Ok(builder.commit(to_bytes(bytes, options)?)?),
                Source::File(file) => {
                    builder.commit_from_file(file).map_err(|it| of_file(it, file))
                }
                Source::Model(model) => Ok(builder.commit_model(*model)?),
            };
        };
        let optimized = self.optimized(builder, options)?;
        match path.extension().is_some_and(|it| it == "ort") {
            true => optimized.write(path)?,
            false => optimized.write_onnx(path)?,
        };
        Ok(optimized.commit()?)
    }

    pub(crate) fn optimized(
        self,
        builder: SessionBuilder,
        options: &SessionOptions,
    ) -> Result<Optimized, Error> {
        match self {
            Source::Bytes(bytes) => Ok(builder.optimize(to_bytes(bytes, options)?)?),
            Source::File(file) => builder.optimize_from_file(file).map_err(|it| of_file(it, file)),
            Source::Model(model) => Ok(builder.optimize_model(*model)?),
        }
    }
}

/// The bytes: copied, unless the program promises to keep them.
fn to_bytes(bytes: &[u8], options: &SessionOptions) -> Result<ModelBytes, Error> {
    if bytes.is_empty() {
        return Err(Error::argument("model_data", "is empty"));
    }
    let are_kept = |key| options.entries.get(key).is_some_and(|value| value == "1");
    if are_kept("session.use_ort_model_bytes_directly") {
        let block = Block::of_caller(bytes.as_ptr().cast_mut().cast(), bytes.len());
        let block = block.ok_or_else(|| Error::null("model_data"))?;
        return Ok(ModelBytes::from_owner(block));
    }
    Memory(bytes).to_model_bytes()
}

/// The error for a missing file: the model, or one that it needs.
fn of_file(error: SessionError, path: &Path) -> Error {
    match error {
        SessionError::Load(LoadError::Missing { path: missing }) if missing == path => Error::new(
            OrtErrorCode::ORT_NO_SUCHFILE,
            format!("Load model from {0} failed: {0}: no such file", path.display()),
        ),
        SessionError::Load(LoadError::Missing { path }) => {
            Error::fail(format!("the model needs {}: no such file", path.display()))
        }
        error => error.into(),
    }
}

/// Runs `body` while a listener receives its messages.
pub(crate) fn with_listener<R>(listener: Option<&Listener>, body: impl FnOnce() -> R) -> R {
    match listener {
        Some(listener) => listener.listen(body),
        None => body(),
    }
}

/// The time since the epoch in nanoseconds.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn at(values: &[ValueDescription], index: usize) -> Result<&ValueDescription, Error> {
    let none = || Error::argument("index", format!("is {index}, and there are {}", values.len()));
    values.get(index).ok_or_else(none)
}

export! {
    fn CreateSession(
        env: &Env,
        model_path: &Path,
        options: Option<&SessionOptions>,
        out: OutHandle<'_, Session>,
    ) {
        out.set(Source::File(model_path).session(env, options)?);
        Ok(())
    }

    fn CreateSessionFromArray(
        env: &Env,
        model_data: Memory<'_>[model_data_length],
        model_data_length: usize,
        options: Option<&SessionOptions>,
        out: OutHandle<'_, Session>,
    ) {
        let _ = model_data_length;
        out.set(Source::Bytes(model_data.0).session(env, options)?);
        Ok(())
    }

    fn CreatePrepackedWeightsContainer(out: OutHandle<'_, PrepackedWeights>) {
        out.set(PrepackedWeights);
        Ok(())
    }

    fn ReleasePrepackedWeightsContainer(container: Option<Box<PrepackedWeights>>) -> () = (); {
        drop(container);
        Ok(())
    }

    fn CreateSessionWithPrepackedWeightsContainer(
        env: &Env,
        model_path: &Path,
        options: Option<&SessionOptions>,
        _prepacked_weights_container: Shared<'_, PrepackedWeights>,
        out: OutHandle<'_, Session>,
    ) {
        out.set(Source::File(model_path).session(env, options)?);
        Ok(())
    }

    fn CreateSessionFromArrayWithPrepackedWeightsContainer(
        env: &Env,
        model_data: Memory<'_>[model_data_length],
        model_data_length: usize,
        options: Option<&SessionOptions>,
        _prepacked_weights_container: Shared<'_, PrepackedWeights>,
        out: OutHandle<'_, Session>,
    ) {
        let _ = model_data_length;
        out.set(Source::Bytes(model_data.0).session(env, options)?);
        Ok(())
    }

    fn ReleaseSession(session: Option<Box<Session>>) -> () = (); {
        if let Some(session) = session
            && let Some(path) = &session.memory_report
            && let Err(error) = memory_report::write(&session.session, path)
        {
            let warn = || LogEvent::emit(Severity::Warning, "", &error.message());
            with_listener(session.listener.as_ref(), warn);
        }
        Ok(())
    }

    fn SessionGetInputCount(session: &Session, out: Out<'_, usize>) {
        out.set(session.inputs.len());
        Ok(())
    }

    fn SessionGetOutputCount(session: &Session, out: Out<'_, usize>) {
        out.set(session.outputs.len());
        Ok(())
    }

    fn SessionGetOverridableInitializerCount(session: &Session, out: Out<'_, usize>) {
        out.set(session.overridable.len());
        Ok(())
    }

    fn SessionGetInputTypeInfo(
        session: &Session,
        index: usize,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        type_info.set(TypeInfo::of(&at(&session.inputs, index)?.ty));
        Ok(())
    }

    fn SessionGetOutputTypeInfo(
        session: &Session,
        index: usize,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        type_info.set(TypeInfo::of(&at(&session.outputs, index)?.ty));
        Ok(())
    }

    fn SessionGetOverridableInitializerTypeInfo(
        session: &Session,
        index: usize,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        type_info.set(TypeInfo::of(&at(&session.overridable, index)?.ty));
        Ok(())
    }

    fn SessionGetInputName(
        session: &Session,
        index: usize,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&at(&session.inputs, index)?.name)?);
        Ok(())
    }

    fn SessionGetOutputName(
        session: &Session,
        index: usize,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&at(&session.outputs, index)?.name)?);
        Ok(())
    }

    fn SessionGetOverridableInitializerName(
        session: &Session,
        index: usize,
        allocator: Allocator<'_>,
        value: Out<'_, *mut c_char>,
    ) {
        value.set(allocator.text(&at(&session.overridable, index)?.name)?);
        Ok(())
    }

    /// Returns the name of the file that was written.
    fn SessionEndProfiling(
        session: Shared<'_, Session>,
        allocator: Allocator<'_>,
        out: Out<'_, *mut c_char>,
    ) {
        let path = match session.profiling_start {
            0 => String::new(),
            _ => session.session.end_profiling()?.display().to_string(),
        };
        out.set(allocator.text(&path)?);
        Ok(())
    }

    fn SessionGetProfilingStartTimeNs(session: &Session, out: Out<'_, u64>) {
        out.set(session.profiling_start);
        Ok(())
    }

    fn SessionGetMemoryInfoForInputs(
        session: &Session,
        inputs_memory_info: Outs<'_, *const OrtMemoryInfo>[num_inputs],
        num_inputs: usize,
    ) {
        let _ = num_inputs;
        inputs_memory_info.fill(session.inputs.iter().map(|_| opaque(&CPU)));
        Ok(())
    }

    fn SessionGetMemoryInfoForOutputs(
        session: &Session,
        outputs_memory_info: Outs<'_, *const OrtMemoryInfo>[num_outputs],
        num_outputs: usize,
    ) {
        let _ = num_outputs;
        outputs_memory_info.fill(session.outputs.iter().map(|_| opaque(&CPU)));
        Ok(())
    }

    /// Null: the CPU is not a plugin device.
    fn SessionGetEpDeviceForInputs(
        session: &Session,
        inputs_ep_devices: Outs<'_, *const OrtEpDevice>[num_inputs],
        num_inputs: usize,
    ) {
        let _ = num_inputs;
        inputs_ep_devices.fill(session.inputs.iter().map(|_| std::ptr::null()));
        Ok(())
    }

    /// Null: the CPU is not a plugin device.
    fn SessionGetEpDeviceForOutputs(
        session: &Session,
        outputs_ep_devices: Outs<'_, *const OrtEpDevice>[num_outputs],
        num_outputs: usize,
    ) {
        let _ = num_outputs;
        outputs_ep_devices.fill(session.outputs.iter().map(|_| std::ptr::null()));
        Ok(())
    }
}
