//! `OrtSession`: created from a file or bytes, with its inputs and outputs.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ort_session::{Listener, LogEvent, ModelInfo, Severity, Type, ValueDescription};
use ort_sys::{OrtEpDevice, OrtMemoryInfo};

use crate::assignment::Assignments;
use crate::editor_session::Draft;
use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Allocator, Memory, Out, OutHandle, Outs, Shared, export, opaque};
use crate::memory_info::CPU;
use crate::memory_report;
use crate::model_source::Source;
use crate::session_options::SessionOptions;
use crate::type_info::TypeInfo;

/// A model that is ready to run, or that a program still changes.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    state: State,
    /// Receives its messages, unless the process has a listener.
    pub(crate) listener: Option<Listener>,
    /// The required inputs.
    inputs: Arc<[Described]>,
    /// The inputs that the model has a default for.
    overridable: Arc<[Described]>,
    outputs: Arc<[Described]>,
    /// When profiling started, in nanoseconds; 0 without it.
    profiling_start: u64,
    /// Where its memory is reported when it is released.
    pub(crate) memory_report: Option<PathBuf>,
    /// Its nodes, if the program wants to know them.
    pub(crate) assignments: Option<Arc<Assignments>>,
}

#[derive(Clone, Debug)]
enum State {
    Ready(Arc<ort_session::Session>),
    Draft(Arc<Draft>),
}

/// An input or output.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Whether the model has a default for the input.
    pub(crate) has_default: bool,
}

impl From<ValueDescription> for Described {
    fn from(of: ValueDescription) -> Self {
        Self { name: of.name, ty: of.ty, has_default: of.has_default }
    }
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
        let of = |values: Vec<ValueDescription>| values.into_iter().map(Into::into).collect();
        let values = (of(session.inputs()), of(session.outputs()));
        let state = State::Ready(Arc::new(session));
        Self { profiling_start, ..Self::of(state, listener, values) }
    }

    /// A session of a model that the program changes before it is built.
    pub(crate) fn of_draft(draft: Draft, listener: Option<Listener>) -> Self {
        let values = draft.described();
        Self::of(State::Draft(Arc::new(draft)), listener, values)
    }

    fn of(
        state: State,
        listener: Option<Listener>,
        (inputs, outputs): (Vec<Described>, Vec<Described>),
    ) -> Self {
        let (overridable, inputs): (Vec<_>, Vec<_>) =
            inputs.into_iter().partition(|input| input.has_default);
        Self {
            state,
            listener,
            inputs: inputs.into(),
            overridable: overridable.into(),
            outputs: outputs.into(),
            profiling_start: 0,
            memory_report: None,
            assignments: None,
        }
    }

    /// The session; an error while the program changes its model.
    pub(crate) fn ready(&self) -> Result<&Arc<ort_session::Session>, Error> {
        match &self.state {
            State::Ready(session) => Ok(session),
            State::Draft(_) => {
                Err(Error::argument("session", "is not finalized: call FinalizeModelEditorSession"))
            }
        }
    }

    /// The model that the program changes; an error if it is not one, or not any more.
    pub(crate) fn draft(&self) -> Result<&Draft, Error> {
        match &self.state {
            State::Draft(draft) => Ok(draft),
            State::Ready(_) => {
                let text = "was not created by CreateModelEditorSession, or is finalized";
                Err(Error::argument("session", text))
            }
        }
    }

    /// What the model's file says.
    pub(crate) fn model(&self) -> &ModelInfo {
        match &self.state {
            State::Ready(session) => &session.metadata().model,
            State::Draft(draft) => draft.info(),
        }
    }

    pub(crate) fn has_input(&self, name: &str) -> bool {
        self.inputs.iter().chain(&*self.overridable).any(|input| input.name == name)
    }

    pub(crate) fn has_output(&self, name: &str) -> bool {
        self.outputs.iter().any(|output| output.name == name)
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
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn at(values: &[Described], index: usize) -> Result<&Described, Error> {
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
            && let Err(error) = session.ready().and_then(|it| memory_report::write(it, path))
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
            _ => session.ready()?.end_profiling()?.display().to_string(),
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
