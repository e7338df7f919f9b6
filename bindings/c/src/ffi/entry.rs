//! The exports of the library: the function that returns the table, and one that provider headers declare.

#![expect(unsafe_code, reason = "functions that C finds by name")]

use std::ffi::{c_char, c_int};
use std::ptr::null;

use ort_sys::{ORT_API_VERSION, OrtApi, OrtApiBase, OrtSessionOptions, OrtStatusPtr};

use super::arg::Arg;
use super::export::guard;
use crate::session_options::SessionOptions;
use crate::table::{API, VERSION};

static BASE: OrtApiBase = OrtApiBase { GetApi: get_api, GetVersionString: version };

/// The entry point of every program.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn OrtGetApiBase() -> *const OrtApiBase {
    &raw const BASE
}

/// The CPU provider is always enabled.
///
/// # Safety
/// As the C API says: `options` are session options, or null.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn OrtSessionOptionsAppendExecutionProvider_CPU(
    options: *mut OrtSessionOptions,
    _use_arena: c_int,
) -> OrtStatusPtr {
    guard(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { <&mut SessionOptions>::of(options, "options") }?;
        Ok(())
    })
}

/// The table, for programs whose headers have this version or an older one: new functions are added at its end.
unsafe extern "system" fn get_api(version: u32) -> *const OrtApi {
    if (1..=ORT_API_VERSION).contains(&version) { &raw const API } else { null() }
}

unsafe extern "system" fn version() -> *const c_char {
    VERSION.as_ptr()
}
