//! `OrtSessionOptions`: the options of a session.

#![expect(non_snake_case, reason = "names of the C API")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ort_session::{Cancel, Listener, SessionBuilder, Severity, Tensor, config_keys};
use ort_sys::{ExecutionMode, OrtLoggingFunction};

use crate::custom_ops::{CustomOpDomain, CustomOps};
use crate::custom_provider::CustomProvider;
use crate::env::{Env, listener};
use crate::error::Error;
use crate::ffi::{Logger, Out, OutHandle, Shared, ThreadFunctions, export};
use crate::kernel_info::OfSession;
use crate::kernel_logger::KernelLogger;

/// Options for creating sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionOptions {
    /// Settings from functions, by the equivalent key.
    fields: BTreeMap<&'static str, String>,
    /// Keys set by the program.
    pub(crate) entries: BTreeMap<String, String>,
    dims: Vec<(String, usize)>,
    denoted_dims: Vec<(String, usize)>,
    pub(crate) initializers: Vec<(String, Tensor, bool)>,
    /// External files of the model, in memory.
    pub(crate) files: Vec<(String, ort_session::ModelBytes)>,
    /// The path for the optimized model.
    pub(crate) optimized_path: Option<PathBuf>,
    /// Custom operators.
    pub(crate) domains: Vec<CustomOpDomain>,
    profile_prefix: String,
    /// Receives messages instead of the environment's logger.
    listener: Option<Listener>,
    uses_env_threads: bool,
    /// Create and join threads.
    pub(crate) functions: ThreadFunctions,
    cancel: Cancel,
}

impl SessionOptions {
    fn field(&mut self, key: &'static str, value: impl Into<String>) {
        self.fields.insert(key, value.into());
    }

    pub(crate) fn set_level(&mut self, level: i32) -> Result<(), Error> {
        match level {
            0..=3 | 99 => {
                self.field("session.graph_optimization_level", level.to_string());
                Ok(())
            }
            _ => {
                let text = format!("is {level}, which is not a level");
                Err(Error::argument("graph_optimization_level", text))
            }
        }
    }

    /// A builder with the settings of the environment, of functions and of entries; later ones override earlier ones.
    pub(crate) fn builder(&self, env: &Env) -> Result<SessionBuilder, Error> {
        let mut builder = SessionBuilder::default().cancel(&self.cancel);
        if let Ok(severity) = Severity::try_from(env.severity()) {
            builder = builder.log_severity(severity);
        }
        builder = builder.log_verbosity(0);
        let threading = env.threading.iter().filter(|_| self.uses_env_threads);
        for (key, value) in threading.flat_map(|threading| &threading.keys) {
            builder = builder.config(key, value)?;
        }
        let of_env = env.threading.as_ref().filter(|_| self.uses_env_threads);
        let functions = of_env.map_or(self.functions, |threading| threading.functions);
        if let Some(threads) = functions.to_spawn()? {
            builder = builder.spawn_threads(threads);
        }
        if of_env.is_some() {
            builder = builder.shared_pool(&env.pool);
        }
        for (key, value) in &self.fields {
            builder = builder.config(key, value)?;
        }
        for (key, value) in &self.entries {
            // onnxruntime ignores unknown keys.
            if config_keys().any(|known| known.name == key) {
                builder = builder.config(key, value)?;
            }
        }
        if let Some(folder) = self.entries.get(CACHE_DIR) {
            builder = builder.cache_dir(folder);
        }
        if !self.domains.is_empty() {
            builder = self.with_custom_ops(builder, env);
        }
        for (name, size) in &self.dims {
            builder = builder.free_dimension(name, *size);
        }
        for (denotation, size) in &self.denoted_dims {
            builder = builder.free_dimension_by_denotation(denotation, *size);
        }
        for (name, bytes) in &self.files {
            builder = builder.external_data(name, bytes.clone());
        }
        for (name, tensor, is_external) in &self.initializers {
            builder = match is_external {
                true => builder.external_initializer(name, tensor.clone()),
                false => builder.initializer(name, tensor.clone()),
            };
        }
        Ok(builder)
    }

    /// The builder with operators of the program, and the provider that runs them.
    fn with_custom_ops(&self, builder: SessionBuilder, env: &Env) -> SessionBuilder {
        let field = |key: &str| self.fields.get(key).cloned();
        let severity = field("session.log_severity_level").and_then(|level| level.parse().ok());
        let severity = Severity::try_from(severity.unwrap_or_else(|| env.severity()));
        let logger = KernelLogger {
            listener: self.listener(env),
            severity: severity.unwrap_or(Severity::Warning),
            id: field("session.log_id").unwrap_or_default(),
        };
        let session = Arc::new(OfSession { logger, entries: self.entries.clone() });
        let ops = Arc::new(CustomOps::of(&self.domains));
        builder.operator_source(ops).provider(Arc::new(CustomProvider(session)))
    }

    /// The listener for the session's messages, unless the process has one.
    pub(crate) fn listener(&self, env: &Env) -> Option<Listener> {
        self.listener.clone().or_else(|| env.listener.clone())
    }

    pub(crate) fn is_profiled(&self) -> bool {
        self.fields.contains_key("session.enable_profiling")
    }
}

/// A flag as the value of a key.
pub(crate) const fn flag(is_on: bool) -> &'static str {
    if is_on { "1" } else { "0" }
}

fn size(dim_value: i64) -> Result<usize, Error> {
    usize::try_from(dim_value).map_err(|_| Error::argument("dim_value", "is negative"))
}

/// A key that only this library has: the folder in which packed models are cached.
const CACHE_DIR: &str = "ort_rs.cache_dir";

const MEM_PATTERN: &str = "session.enable_mem_pattern";
const MEM_ARENA: &str = "session.enable_cpu_mem_arena";
const EXECUTION_MODE: &str = "session.execution_mode";

export! {
    fn CreateSessionOptions(options: OutHandle<'_, SessionOptions>) {
        options.set(SessionOptions::default());
        Ok(())
    }

    fn CloneSessionOptions(
        in_options: &SessionOptions,
        out_options: OutHandle<'_, SessionOptions>,
    ) {
        out_options.set(in_options.clone());
        Ok(())
    }

    fn ReleaseSessionOptions(options: Option<Box<SessionOptions>>) -> () = (); {
        drop(options);
        Ok(())
    }

    fn SetOptimizedModelFilePath(
        options: &mut SessionOptions,
        optimized_model_filepath: &Path,
    ) {
        let path = optimized_model_filepath.to_owned();
        options.optimized_path = (!path.as_os_str().is_empty()).then_some(path);
        Ok(())
    }

    fn SetSessionExecutionMode(options: &mut SessionOptions, execution_mode: i32) {
        let mode = match execution_mode {
            0 => "sequential",
            1 => "parallel",
            other => return Err(Error::argument("execution_mode", format!("is {other}, which is not a mode"))),
        };
        options.field(EXECUTION_MODE, mode);
        Ok(())
    }

    fn GetSessionExecutionMode(options: &SessionOptions, out: Out<'_, ExecutionMode>) {
        let is_parallel = options.fields.get(EXECUTION_MODE).is_some_and(|mode| mode == "parallel");
        out.set(if is_parallel { ExecutionMode::ORT_PARALLEL } else { ExecutionMode::ORT_SEQUENTIAL });
        Ok(())
    }

    fn EnableProfiling(options: &mut SessionOptions, profile_file_prefix: &Path) {
        let prefix = profile_file_prefix.to_str();
        let prefix = prefix.ok_or_else(|| Error::argument("profile_file_prefix", "is not UTF-8"))?;
        options.profile_prefix = prefix.trim_end_matches('_').to_owned();
        options.field("session.enable_profiling", options.profile_prefix.clone());
        Ok(())
    }

    fn DisableProfiling(options: &mut SessionOptions) {
        options.fields.remove("session.enable_profiling");
        Ok(())
    }

    fn EnableMemPattern(options: &mut SessionOptions) {
        options.field(MEM_PATTERN, "1");
        Ok(())
    }

    fn DisableMemPattern(options: &mut SessionOptions) {
        options.field(MEM_PATTERN, "0");
        Ok(())
    }

    fn GetMemPatternEnabled(options: &SessionOptions, out: Out<'_, i32>) {
        out.set(options.fields.get(MEM_PATTERN).is_none_or(|value| value == "1").into());
        Ok(())
    }

    fn EnableCpuMemArena(options: &mut SessionOptions) {
        options.fields.remove(MEM_ARENA);
        Ok(())
    }

    fn DisableCpuMemArena(options: &mut SessionOptions) {
        options.field(MEM_ARENA, "0");
        Ok(())
    }

    fn SetSessionLogId(options: &mut SessionOptions, logid: &str) {
        options.field("session.log_id", logid);
        Ok(())
    }

    fn SetSessionLogVerbosityLevel(
        options: &mut SessionOptions,
        session_log_verbosity_level: i32,
    ) {
        let level = session_log_verbosity_level.max(0).to_string();
        options.field("session.log_verbosity_level", level);
        Ok(())
    }

    /// −1 is the environment's severity.
    fn SetSessionLogSeverityLevel(options: &mut SessionOptions, session_log_severity_level: i32) {
        match session_log_severity_level {
            -1 => drop(options.fields.remove("session.log_severity_level")),
            level if Severity::try_from(level).is_ok() => {
                options.field("session.log_severity_level", level.to_string());
            }
            level => {
                return Err(Error::argument("session_log_severity_level", format!("is {level}, which is not a severity")));
            }
        }
        Ok(())
    }

    fn SetSessionGraphOptimizationLevel(
        options: &mut SessionOptions,
        graph_optimization_level: i32,
    ) {
        options.set_level(graph_optimization_level)
    }

    fn SetIntraOpNumThreads(options: &mut SessionOptions, intra_op_num_threads: i32) {
        options.field("session.intra_op_num_threads", intra_op_num_threads.max(0).to_string());
        Ok(())
    }

    fn SetInterOpNumThreads(options: &mut SessionOptions, inter_op_num_threads: i32) {
        options.field("session.inter_op_num_threads", inter_op_num_threads.max(0).to_string());
        Ok(())
    }

    /// The session takes the options of the environment's threads. Sessions share threads anyway.
    fn DisablePerSessionThreads(options: &mut SessionOptions) {
        options.uses_env_threads = true;
        Ok(())
    }

    /// Accepted; results never depend on the number of threads.
    fn SetDeterministicCompute(options: &mut SessionOptions, value: bool) {
        options.field("session.use_deterministic_compute", flag(value));
        Ok(())
    }

    fn AddFreeDimensionOverride(
        options: &mut SessionOptions,
        dim_denotation: &str,
        dim_value: i64,
    ) {
        options.denoted_dims.push((dim_denotation.to_owned(), size(dim_value)?));
        Ok(())
    }

    fn AddFreeDimensionOverrideByName(
        options: &mut SessionOptions,
        dim_name: &str,
        dim_value: i64,
    ) {
        options.dims.push((dim_name.to_owned(), size(dim_value)?));
        Ok(())
    }

    fn SetUserLoggingFunction(
        options: &mut SessionOptions,
        user_logging_function: Option<OrtLoggingFunction>,
        user_logging_param: *mut c_void,
    ) {
        let function = user_logging_function.ok_or_else(|| Error::null("user_logging_function"))?;
        options.listener = Some(listener(Logger::new(function, user_logging_param)));
        Ok(())
    }

    /// True cancels the loading of sessions with these options, from any thread.
    fn SessionOptionsSetLoadCancellationFlag(options: Shared<'_, SessionOptions>, cancel: bool) {
        match cancel {
            true => options.cancel.cancel(),
            false if options.cancel.is_cancelled() => {
                return Err(Error::not_implemented("options cannot be reused after a cancellation: create new ones"));
            }
            false => {}
        }
        Ok(())
    }
}
