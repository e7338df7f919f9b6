//! Calls through the table, by pointers, as C makes them.

#![expect(unsafe_code, reason = "the table is C's")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::LazyLock;

use onnxruntime::ort_sys::{
    OrtApi, OrtApiBase, OrtCompileApi, OrtErrorCode, OrtGetInitializerLocationFunc, OrtModel,
    OrtModelCompilationOptions, OrtSessionOptions, OrtStatusPtr, OrtThreadWorkerFn,
    OrtWriteBufferFunc, OrtWriteNamedBufferFunc,
};

/// The table.
pub(crate) static API: LazyLock<OrtApi> = LazyLock::new(onnxruntime::api);

/// Calls a function of the table. Tests pass only pointers that the function allows: to live objects, or null.
macro_rules! call {
    ($function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the pointers among the arguments are null, or point to what the function requires.
        unsafe { ($crate::call::API.$function)($($arg),*) }
    };
}

/// Calls a function of another table.
macro_rules! of {
    ($api:ident.$function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: as above.
        unsafe { ($api().$function)($($arg),*) }
    };
}

/// Calls a function that succeeds and has an out parameter at the end; returns the result.
macro_rules! made {
    ($function:ident($($arg:expr),* $(,)?)) => {{
        let mut out = $crate::call::empty();
        $crate::call::ok(call!($function($($arg,)* &raw mut out)));
        out
    }};
}

pub(crate) use {call, made, of};

/// Options of a compilation.
pub(crate) type Options = *mut OrtModelCompilationOptions;

/// The compile API with the functions since version 1.23, which the declarations lack.
#[repr(C)]
pub(crate) struct Newer {
    pub(crate) api: OrtCompileApi,
    pub(crate) set_flags: unsafe extern "system" fn(Options, u32) -> OrtStatusPtr,
    pub(crate) set_binary:
        unsafe extern "system" fn(Options, *const c_char, *const c_char) -> OrtStatusPtr,
    pub(crate) set_level: unsafe extern "system" fn(Options, i32) -> OrtStatusPtr,
    pub(crate) set_write:
        unsafe extern "system" fn(Options, OrtWriteBufferFunc, *mut c_void) -> OrtStatusPtr,
    pub(crate) set_location: unsafe extern "system" fn(
        Options,
        OrtGetInitializerLocationFunc,
        *mut c_void,
    ) -> OrtStatusPtr,
    pub(crate) set_model: unsafe extern "system" fn(Options, *const OrtModel) -> OrtStatusPtr,
    pub(crate) set_data_write:
        unsafe extern "system" fn(Options, OrtWriteNamedBufferFunc, *mut c_void) -> OrtStatusPtr,
    pub(crate) newer: unsafe extern "system" fn() -> OrtStatusPtr,
}

/// The initial value of an out parameter: zero.
pub(crate) fn empty<T>() -> T {
    // SAFETY: it is used only for pointers and numbers, for which zero is valid.
    unsafe { std::mem::zeroed() }
}

/// Asserts that a call succeeded.
#[track_caller]
pub(crate) fn ok(status: OrtStatusPtr) {
    if !status.0.is_null() {
        let (code, message) = failed(status);
        assert_eq!(code, OrtErrorCode::ORT_OK, "{message}");
    }
}

/// The code and message of a call that failed.
#[track_caller]
pub(crate) fn failed(status: OrtStatusPtr) -> (OrtErrorCode, String) {
    assert!(!status.0.is_null(), "the call succeeded");
    let (code, message) = (call!(GetErrorCode(status.0)), call!(GetErrorMessage(status.0)));
    let message = text(message);
    call!(ReleaseStatus(status.0));
    (code, message)
}

/// Asserts that an argument was rejected, by its name.
#[track_caller]
pub(crate) fn rejected(status: OrtStatusPtr, name: &str) {
    let (code, message) = failed(status);
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT, "{message}");
    assert!(message.contains(&format!("`{name}`")), "{message}");
}

/// A string returned to C.
pub(crate) fn text(text: *const c_char) -> String {
    assert!(!text.is_null());
    // SAFETY: the library returns NUL-terminated strings.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A string from an allocator.
pub(crate) fn from_allocator(pointer: *mut c_char) -> String {
    let (text, mut allocator) = (text(pointer), null_mut());
    ok(call!(GetAllocatorWithDefaultOptions(&raw mut allocator)));
    ok(call!(AllocatorFree(allocator, pointer.cast())));
    text
}

/// Items returned to C.
pub(crate) fn items<'a, T>(items: *const T, n: usize) -> &'a [T] {
    assert!(!items.is_null() && items.is_aligned());
    // SAFETY: the library states their number.
    unsafe { std::slice::from_raw_parts(items, n) }
}

/// Elements of an output, to write.
pub(crate) fn items_mut<'a, T>(items: *mut T, n: usize) -> &'a mut [T] {
    assert!(!items.is_null() && items.is_aligned());
    // SAFETY: the library states their number, and nothing else reads them meanwhile.
    unsafe { std::slice::from_raw_parts_mut(items, n) }
}

/// Does the work of a thread of the library's.
pub(crate) fn work(function: OrtThreadWorkerFn, work: *mut c_void) {
    // SAFETY: the library passed both, to be called once.
    unsafe { function(work) }
}

/// Drops a value that was boxed for C.
pub(crate) fn free<T>(boxed: *mut T) {
    // SAFETY: tests box what they pass, and free it once.
    drop(unsafe { Box::from_raw(boxed) });
}

/// Registers operators by the name of this function: adds an entry to the options, or fails if there is one.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
pub(crate) extern "system" fn register_ops_of_the_tests(
    options: *mut OrtSessionOptions,
    base: *const OrtApiBase,
) -> OrtStatusPtr {
    assert!(!base.is_null());
    let mut is_there = 0;
    ok(call!(HasSessionConfigEntry(options, c"registered".as_ptr(), &raw mut is_there)));
    if is_there != 0 {
        return call!(CreateStatus(OrtErrorCode::ORT_FAIL, c"registered twice".as_ptr()));
    }
    call!(AddSessionConfigEntry(options, c"registered".as_ptr(), c"1".as_ptr()))
}

/// A C string.
pub(crate) fn c(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
