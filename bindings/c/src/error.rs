//! Statuses: why a function failed, with onnxruntime's error codes.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};
use std::fmt::Display;

use ort_session::{
    AdapterError, ConfigError, ErrorCode, ProfileError, RunError, SaveError, SessionError,
    TensorError,
};
use ort_sys::{OrtErrorCode, OrtStatusPtr};

use crate::ffi::{export, into_handle};

/// Why a function failed: the contents of an `OrtStatus`.
#[derive(Debug)]
pub(crate) struct Error {
    code: OrtErrorCode,
    message: CString,
}

impl Error {
    pub(crate) fn new(code: OrtErrorCode, message: impl Display) -> Self {
        Self { code, message: text(&message.to_string()) }
    }

    /// An argument that is null but must not be.
    pub(crate) fn null(name: &'static str) -> Self {
        Self::argument(name, "is null")
    }

    /// An argument that is invalid.
    pub(crate) fn argument(name: &str, what: impl Display) -> Self {
        Self::invalid(format!("argument `{name}` {what}"))
    }

    pub(crate) fn message(&self) -> String {
        self.message.to_string_lossy().into_owned()
    }

    pub(crate) fn invalid(message: impl Display) -> Self {
        Self::new(OrtErrorCode::ORT_INVALID_ARGUMENT, message)
    }

    pub(crate) fn fail(message: impl Display) -> Self {
        Self::new(OrtErrorCode::ORT_FAIL, message)
    }

    pub(crate) fn runtime(message: impl Display) -> Self {
        Self::new(OrtErrorCode::ORT_RUNTIME_EXCEPTION, message)
    }

    pub(crate) fn not_implemented(message: impl Display) -> Self {
        Self::new(OrtErrorCode::ORT_NOT_IMPLEMENTED, message)
    }
}

/// A C string. NUL bytes within the text are left out.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "")).unwrap_or_default())
}

const fn code(code: ErrorCode) -> OrtErrorCode {
    match code {
        ErrorCode::InvalidArgument => OrtErrorCode::ORT_INVALID_ARGUMENT,
        ErrorCode::NoSuchFile => OrtErrorCode::ORT_NO_SUCHFILE,
        ErrorCode::RuntimeException => OrtErrorCode::ORT_RUNTIME_EXCEPTION,
        ErrorCode::InvalidProtobuf => OrtErrorCode::ORT_INVALID_PROTOBUF,
        ErrorCode::NotImplemented => OrtErrorCode::ORT_NOT_IMPLEMENTED,
        ErrorCode::InvalidGraph => OrtErrorCode::ORT_INVALID_GRAPH,
        ErrorCode::ModelLoadCanceled => OrtErrorCode::ORT_MODEL_LOAD_CANCELED,
        ErrorCode::ModelRequiresCompilation => OrtErrorCode::ORT_MODEL_REQUIRES_COMPILATION,
        _ => OrtErrorCode::ORT_FAIL,
    }
}

impl From<AdapterError> for Error {
    fn from(error: AdapterError) -> Self {
        Self::new(code(error.code()), error)
    }
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Self {
        Self::new(code(error.code()), error)
    }
}

impl From<SaveError> for Error {
    fn from(error: SaveError) -> Self {
        SessionError::from(error).into()
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::new(code(error.code()), error)
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::invalid(error)
    }
}

impl From<TensorError> for Error {
    fn from(error: TensorError) -> Self {
        Self::invalid(error)
    }
}

impl From<ProfileError> for Error {
    fn from(error: ProfileError) -> Self {
        Self::fail(error)
    }
}

/// The error code with this number; `ORT_FAIL` if there is none.
pub(crate) const fn code_numbered(number: i32) -> OrtErrorCode {
    use OrtErrorCode::*;

    const ALL: [OrtErrorCode; 16] = [
        ORT_OK,
        ORT_FAIL,
        ORT_INVALID_ARGUMENT,
        ORT_NO_SUCHFILE,
        ORT_NO_MODEL,
        ORT_ENGINE_ERROR,
        ORT_RUNTIME_EXCEPTION,
        ORT_INVALID_PROTOBUF,
        ORT_MODEL_LOADED,
        ORT_NOT_IMPLEMENTED,
        ORT_INVALID_GRAPH,
        ORT_EP_FAIL,
        ORT_MODEL_LOAD_CANCELED,
        ORT_MODEL_REQUIRES_COMPILATION,
        ORT_NOT_FOUND,
        ORT_DEVICE_RESET,
    ];
    let mut i = 0;
    while i < ALL.len() {
        if ALL[i] as i32 == number {
            return ALL[i];
        }
        i += 1;
    }
    ORT_FAIL
}

export! {
    fn CreateStatus(code: i32, msg: Option<&str>) -> OrtStatusPtr = OrtStatusPtr::default(); {
        Ok(OrtStatusPtr(into_handle(Error::new(code_numbered(code), msg.unwrap_or_default()))))
    }

    fn GetErrorCode(status: &Error) -> OrtErrorCode = OrtErrorCode::ORT_OK; {
        Ok(status.code)
    }

    fn GetErrorMessage(status: &Error) -> *const c_char = c"".as_ptr(); {
        Ok(status.message.as_ptr())
    }

    fn ReleaseStatus(status: Option<Box<Error>>) -> () = (); {
        drop(status);
        Ok(())
    }
}
