//! Structs that programs fill in.

#![expect(unsafe_code, reason = "structs of C have pointers in them")]

use ort_sys::OrtEnvCreationOptions;

use super::arg::Arg;
use super::logger::Logger;
use crate::error::Error;
use crate::threading::Threading;

/// The options of an environment.
pub(crate) struct EnvOptions<'a> {
    pub(crate) severity: i32,
    pub(crate) logger: Option<Logger>,
    pub(crate) threading: Option<&'a Threading>,
}

impl Arg for EnvOptions<'_> {
    type Raw = *const OrtEnvCreationOptions;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: it is null, or points to a struct that lives during the call.
        let options = unsafe { raw.as_ref() }.ok_or_else(|| Error::null(name))?;
        let logger = options.custom_logging_function;
        let logger = logger.map(|function| Logger::new(function, options.custom_logging_param));
        let severity = options.logging_severity_level;
        // SAFETY: it is null, or an object of the library.
        let threading = unsafe { Arg::of(options.threading_options, "threading_options") }?;
        Ok(Self { severity, logger, threading })
    }
}
