//! Logging functions of programs.

#![expect(unsafe_code, reason = "a C function, with its user pointer")]

use std::ffi::{CString, c_void};

use ort_session::Severity;
use ort_sys::{OrtLoggingFunction, OrtLoggingLevel};

use crate::error::text;

/// A logging function and its user pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logger {
    function: OrtLoggingFunction,
    param: *mut c_void,
}

// SAFETY: the C API requires such functions to be thread-safe.
unsafe impl Send for Logger {}
// SAFETY: as above.
unsafe impl Sync for Logger {}

impl Logger {
    pub(crate) const fn new(function: OrtLoggingFunction, param: *mut c_void) -> Self {
        Self { function, param }
    }

    /// Calls the function.
    pub(crate) fn log(&self, severity: Severity, [category, id, place, message]: [&str; 4]) {
        let [category, id, place, message]: [CString; 4] = [category, id, place, message].map(text);
        let (category, id) = (category.as_ptr(), id.as_ptr());
        let (place, message) = (place.as_ptr(), message.as_ptr());
        let (function, level) = (self.function, level(severity));
        // SAFETY: the program passed the function, to be called like that.
        unsafe { function(self.param, level, category, id, place, message) }
    }
}

/// The severity in the C API.
pub(crate) const fn level(severity: Severity) -> OrtLoggingLevel {
    match severity {
        Severity::Verbose => OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE,
        Severity::Info => OrtLoggingLevel::ORT_LOGGING_LEVEL_INFO,
        Severity::Warning => OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING,
        Severity::Error => OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR,
        Severity::Fatal => OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL,
    }
}
