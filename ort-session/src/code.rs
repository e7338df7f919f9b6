//! ONNX Runtime's error codes, for bindings to its APIs.

use ort_graph::ImportError;
use ort_loader::LoadError;

use crate::adapter::AdapterError;
use crate::error::SessionError;
use crate::run::RunError;

/// The code of a status in ONNX Runtime's C API, and the class of an exception in its Python API. Codes
/// without a corresponding error are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// `FAIL`: any other reason.
    Fail = 1,
    /// `INVALID_ARGUMENT`: an invalid argument, input or output.
    InvalidArgument = 2,
    /// `NO_SUCHFILE`: the model's file, or one that it needs, does not exist.
    NoSuchFile = 3,
    /// `RUNTIME_EXCEPTION`: an error of the runtime.
    RuntimeException = 6,
    /// `INVALID_PROTOBUF`: the bytes are not a model.
    InvalidProtobuf = 7,
    /// `NOT_IMPLEMENTED`: the model needs something that is not supported.
    NotImplemented = 9,
    /// `INVALID_GRAPH`: the file is valid, but the model is not.
    InvalidGraph = 10,
    /// `MODEL_LOAD_CANCELED`: loading was cancelled.
    ModelLoadCanceled = 12,
    /// `MODEL_REQUIRES_COMPILATION`: the model is packed for another machine or other options.
    ModelRequiresCompilation = 13,
}

impl SessionError {
    /// The corresponding error code of ONNX Runtime.
    pub fn code(&self) -> ErrorCode {
        match self {
            SessionError::Load(LoadError::Missing { .. }) => ErrorCode::NoSuchFile,
            SessionError::Load(_)
            | SessionError::NotAModel { .. }
            | SessionError::Format(_)
            | SessionError::Onnx(_) => ErrorCode::InvalidProtobuf,
            SessionError::Import(error) if let ImportError::Elements { .. } = &**error => {
                ErrorCode::Fail
            }
            SessionError::Import(_) => ErrorCode::InvalidGraph,
            SessionError::Plan(_) => ErrorCode::NotImplemented,
            SessionError::Cancelled => ErrorCode::ModelLoadCanceled,
            SessionError::IncompatibleTarget { .. } => ErrorCode::ModelRequiresCompilation,
            SessionError::FreeDimension(_)
            | SessionError::StandardOperator { .. }
            | SessionError::UnknownOptimizer { .. }
            | SessionError::Affinities { .. }
            | SessionError::SavedFormat { .. } => ErrorCode::InvalidArgument,
            _ => ErrorCode::Fail,
        }
    }
}

impl AdapterError {
    /// The corresponding error code of ONNX Runtime.
    pub const fn code(&self) -> ErrorCode {
        match self {
            AdapterError::Load(LoadError::Missing { .. }) => ErrorCode::NoSuchFile,
            AdapterError::Load(_) | AdapterError::Save(_) => ErrorCode::Fail,
            _ => ErrorCode::InvalidArgument,
        }
    }
}

impl RunError {
    /// The corresponding error code of ONNX Runtime.
    pub const fn code(&self) -> ErrorCode {
        match self {
            RunError::Input(_) | RunError::Output(_) => ErrorCode::InvalidArgument,
            RunError::Panicked { .. } => ErrorCode::RuntimeException,
            _ => ErrorCode::Fail,
        }
    }
}
