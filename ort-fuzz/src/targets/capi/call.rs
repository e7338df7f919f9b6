//! Calls through the table of the C API, with pointers that are null or lead to live objects, and integers of any value
//! where C has enums.

#![expect(unsafe_code, reason = "the table is C's")]
#![expect(
    clippy::missing_transmute_annotations,
    reason = "the type of the table's field is the annotation"
)]

use std::ffi::c_void;
use std::mem::transmute;
use std::sync::LazyLock;

use super::ort_capi::ort_sys::{
    OrtAllocator, OrtApi, OrtMemoryInfo, OrtSessionOptions, OrtStatusPtr, OrtValue,
};

/// The table.
pub(super) static API: LazyLock<OrtApi> = LazyLock::new(super::ort_capi::api);

/// Calls a function of the table.
macro_rules! call {
    ($function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the pointers among the arguments are null, or point to what the function requires.
        unsafe { ($crate::targets::capi::call::API.$function)($($arg),*) }
    };
}

pub(super) use call;

/// A function that takes a setting of session options as an integer.
type SetOption = unsafe extern "system" fn(*mut OrtSessionOptions, i32) -> OrtStatusPtr;
/// `CreateTensorWithDataAsOrtValue`.
type WithData = unsafe extern "system" fn(
    *const OrtMemoryInfo,
    *mut c_void,
    usize,
    *const i64,
    usize,
    i32,
    *mut *mut OrtValue,
) -> OrtStatusPtr;
/// `CreateTensorAsOrtValue`.
type Create = unsafe extern "system" fn(
    *mut OrtAllocator,
    *const i64,
    usize,
    i32,
    *mut *mut OrtValue,
) -> OrtStatusPtr;

/// Sets the optimization level, or the execution mode.
pub(super) fn set_option(
    options: *mut OrtSessionOptions,
    is_level: bool,
    value: i32,
) -> OrtStatusPtr {
    let function = if is_level {
        // SAFETY: an enum of C is an integer of this size.
        unsafe { transmute::<_, SetOption>(API.SetSessionGraphOptimizationLevel) }
    } else {
        // SAFETY: as above.
        unsafe { transmute::<_, SetOption>(API.SetSessionExecutionMode) }
    };
    // SAFETY: the options are null or live.
    unsafe { function(options, value) }
}

/// A tensor over this memory, which outlives it, of as many bytes as `n_bytes` says, at most those of `data`.
pub(super) fn with_data(
    info: *const OrtMemoryInfo,
    (data, n_bytes): (&mut [u8], usize),
    shape: &[i64],
    dtype: i32,
    out: &mut *mut OrtValue,
) -> OrtStatusPtr {
    // SAFETY: an enum of C is an integer of this size.
    let function = unsafe { transmute::<_, WithData>(API.CreateTensorWithDataAsOrtValue) };
    let n_bytes = n_bytes.min(data.len());
    // SAFETY: the memory info is null or live, and memory and shape are as long as stated.
    unsafe {
        function(info, data.as_mut_ptr().cast(), n_bytes, shape.as_ptr(), shape.len(), dtype, out)
    }
}

/// A tensor of an allocator.
pub(super) fn create(
    allocator: *mut OrtAllocator,
    shape: &[i64],
    dtype: i32,
    out: &mut *mut OrtValue,
) -> OrtStatusPtr {
    // SAFETY: an enum of C is an integer of this size.
    let function = unsafe { transmute::<_, Create>(API.CreateTensorAsOrtValue) };
    // SAFETY: the allocator is null or live, and the shape is as long as stated.
    unsafe { function(allocator, shape.as_ptr(), shape.len(), dtype, out) }
}
