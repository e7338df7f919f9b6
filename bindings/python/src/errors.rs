//! onnxruntime's exceptions, and the mapping from our errors.

use ort_session::{
    ConfigError, ErrorCode, InputError, LoadError, OutputError, ProfileError, RunError,
    SessionError, TensorError,
};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;

macro_rules! exceptions {
    ($($name:ident = $doc:literal;)*) => {
        $(create_exception!(ort_rs.capi.onnxruntime_pybind11_state, $name, PyException, $doc);)*
    };
}

exceptions! {
    Fail = "A run or a load failed for a reason other than those below.";
    InvalidArgument = "An argument, an input or an output is invalid.";
    NoSuchFile = "The model's file, or one that it needs, does not exist.";
    NoModel = "There is no model.";
    EngineError = "An engine failed; only for compatibility.";
    RuntimeException = "A run failed because of a fault in the runtime.";
    InvalidProtobuf = "The bytes are not a model.";
    ModelLoaded = "A model was loaded before; only for compatibility.";
    NotImplemented = "The model needs something that this runtime does not support.";
    InvalidGraph = "The file is valid, but the model is not.";
    EPFail = "An execution provider failed.";
    ModelLoadCanceled = "Loading was cancelled from another thread.";
    ModelRequiresCompilation = "The model is packed for another machine or other options.";
    DeviceReset = "A device was reset; only for compatibility.";
    NotFound = "Something with the given name does not exist.";
}

/// `text` with onnxruntime's prefix.
fn coded(code: u8, name: &str, text: impl std::fmt::Display) -> String {
    format!("[ONNXRuntimeError] : {code} : {name} : {text}")
}

/// An invalid argument.
pub(crate) fn invalid_argument(text: impl std::fmt::Display) -> PyErr {
    InvalidArgument::new_err(coded(2, "INVALID_ARGUMENT", text))
}

/// Out of memory for a copy.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn no_memory(error: TensorError) -> PyErr {
    PyMemoryError::new_err(error.to_string())
}

/// onnxruntime's exception for values outside of runs.
pub(crate) fn runtime(text: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(text.to_string())
}

pub(crate) fn fail(text: impl std::fmt::Display) -> PyErr {
    Fail::new_err(coded(1, "FAIL", text))
}

/// An invalid key or value of the options.
pub(crate) fn of_config(error: &ConfigError) -> PyErr {
    invalid_argument(error)
}

/// The exception of an error with this code.
fn of_code(code: ErrorCode, text: impl std::fmt::Display) -> PyErr {
    match code {
        ErrorCode::InvalidArgument => invalid_argument(text),
        ErrorCode::NoSuchFile => NoSuchFile::new_err(coded(3, "NO_SUCHFILE", text)),
        ErrorCode::RuntimeException => {
            RuntimeException::new_err(coded(6, "RUNTIME_EXCEPTION", text))
        }
        ErrorCode::InvalidProtobuf => InvalidProtobuf::new_err(coded(7, "INVALID_PROTOBUF", text)),
        ErrorCode::NotImplemented => NotImplemented::new_err(coded(9, "NOT_IMPLEMENTED", text)),
        ErrorCode::InvalidGraph => InvalidGraph::new_err(coded(10, "INVALID_GRAPH", text)),
        ErrorCode::ModelLoadCanceled => {
            ModelLoadCanceled::new_err(coded(12, "MODEL_LOAD_CANCELED", text))
        }
        ErrorCode::ModelRequiresCompilation => {
            ModelRequiresCompilation::new_err(coded(13, "MODEL_REQUIRES_COMPILATION", text))
        }
        _ => fail(text),
    }
}

/// A model that did not load.
pub(crate) fn of_session(error: &SessionError) -> PyErr {
    match error {
        SessionError::Load(LoadError::Missing { path }) => {
            let text = format!("Load model from {0} failed: {0}: no such file", path.display());
            of_code(error.code(), text)
        }
        _ => of_code(error.code(), error),
    }
}

/// A run that failed.
pub(crate) fn of_run(error: &RunError) -> PyErr {
    match error {
        RunError::Input(InputError::Unknown { name, .. }) => {
            invalid_argument(format!("Invalid input name: {name}: {error}"))
        }
        RunError::Output(OutputError::Unknown { name, .. }) => {
            invalid_argument(format!("Invalid output name: {name}: {error}"))
        }
        RunError::Cancelled { .. } => {
            fail(format!("Exiting due to terminate flag being set to true: {error}"))
        }
        _ => of_code(error.code(), error),
    }
}

/// A profile that was not written.
pub(crate) fn of_profile(error: &ProfileError) -> PyErr {
    fail(error)
}
