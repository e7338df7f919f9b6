//! Where the model of a session comes from: a file, bytes, or a program that made it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ort_session::model::Model;
use ort_session::{Listener, LoadError, ModelBytes, Optimized, SessionBuilder, SessionError};
use ort_sys::OrtErrorCode;

use crate::assignment::{self, Assignments};
use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Block, Memory};
use crate::memory_report;
use crate::session::{Session, now, with_listener};
use crate::session_options::SessionOptions;

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
        self.built(builder, listener, options)
    }

    /// The same with settings that were made before.
    pub(crate) fn built(
        self,
        builder: SessionBuilder,
        listener: Option<Listener>,
        options: &SessionOptions,
    ) -> Result<Session, Error> {
        let profiling_start = if options.is_profiled() { now() } else { 0 };
        let session = with_listener(listener.as_ref(), || self.loaded(builder, options))?;
        let memory_report = options.entries.get(memory_report::KEY).map(PathBuf::from);
        let records = options.entries.get(assignment::KEY).is_some_and(|value| value == "1");
        let assignments = records.then(|| Arc::new(Assignments::of(&session)));
        let mut session = Session::new(session, listener, profiling_start);
        (session.memory_report, session.assignments) = (memory_report, assignments);
        Ok(session)
    }

    /// The model, to change it.
    pub(crate) fn model(
        self,
        builder: &SessionBuilder,
        options: &SessionOptions,
    ) -> Result<Model<'static>, Error> {
        match self {
            Source::Bytes(bytes) => Ok(builder.read_model(to_bytes(bytes, options)?)?),
            Source::File(file) => {
                builder.read_model_from_file(file).map_err(|it| of_file(it, file))
            }
            Source::Model(model) => Ok(*model),
        }
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
