//! Structs that programs fill in, and one that they read.

#![expect(unsafe_code, reason = "structs of C have pointers in them")]

use std::ffi::c_void;

use ort_sys::{
    OrtCompileApi, OrtEnvCreationOptions, OrtGetInitializerLocationFunc, OrtModel,
    OrtModelCompilationOptions, OrtStatusPtr, OrtWriteBufferFunc, OrtWriteNamedBufferFunc, os_char,
};

use super::arg::Arg;
use super::logger::Logger;
use crate::error::Error;
use crate::threading::Threading;

type Options = *mut OrtModelCompilationOptions;

/// The compile API: the functions of version 1.22, then newer ones, in onnxruntime's order. ort-sys lacks those.
#[repr(C)]
pub(crate) struct CompileApi {
    pub(crate) api: OrtCompileApi,
    pub(crate) set_flags: unsafe extern "system" fn(Options, u32) -> OrtStatusPtr,
    pub(crate) set_ep_context_binary_information:
        unsafe extern "system" fn(Options, *const os_char, *const os_char) -> OrtStatusPtr,
    pub(crate) set_graph_optimization_level:
        unsafe extern "system" fn(Options, i32) -> OrtStatusPtr,
    pub(crate) set_output_model_write_func:
        unsafe extern "system" fn(Options, OrtWriteBufferFunc, *mut c_void) -> OrtStatusPtr,
    pub(crate) set_output_model_get_initializer_location_func:
        unsafe extern "system" fn(
            Options,
            OrtGetInitializerLocationFunc,
            *mut c_void,
        ) -> OrtStatusPtr,
    pub(crate) set_input_model: unsafe extern "system" fn(Options, *const OrtModel) -> OrtStatusPtr,
    pub(crate) set_ep_context_data_write_func:
        unsafe extern "system" fn(Options, OrtWriteNamedBufferFunc, *mut c_void) -> OrtStatusPtr,
}

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
