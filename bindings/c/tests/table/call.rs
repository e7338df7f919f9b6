//! Calls through the table, by pointers, as C makes them.

#![expect(unsafe_code, reason = "the table is one of C's")]

use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;
use std::sync::LazyLock;

use onnxruntime::ort_sys::{OrtApi, OrtErrorCode, OrtStatusPtr};

/// The table.
pub(crate) static API: LazyLock<OrtApi> = LazyLock::new(onnxruntime::api);

/// Calls a function of the table. Each test passes pointers that the function allows: to what lives, or null.
macro_rules! call {
    ($function:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: the pointers among the arguments are null, or lead to what the function says.
        unsafe { ($crate::call::API.$function)($($arg),*) }
    };
}

/// Calls a function that succeeds, with room for a result at the end; the result.
macro_rules! made {
    ($function:ident($($arg:expr),* $(,)?)) => {{
        let mut out = $crate::call::empty();
        $crate::call::ok(call!($function($($arg,)* &raw mut out)));
        out
    }};
}

pub(crate) use {call, made};

/// What a result is before there is one: zero.
pub(crate) fn empty<T>() -> T {
    // SAFETY: it is used for pointers and numbers alone, of which zero is one.
    unsafe { std::mem::zeroed() }
}

/// That a call succeeded.
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

/// That an argument was refused, by its name.
#[track_caller]
pub(crate) fn refused(status: OrtStatusPtr, name: &str) {
    let (code, message) = failed(status);
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT, "{message}");
    assert!(message.contains(&format!("`{name}`")), "{message}");
}

/// A text that C got.
pub(crate) fn text(text: *const c_char) -> String {
    assert!(!text.is_null());
    // SAFETY: the library gives texts that end with a zero.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A text that an allocator made.
pub(crate) fn given(pointer: *mut c_char) -> String {
    let (text, mut allocator) = (text(pointer), null_mut());
    ok(call!(GetAllocatorWithDefaultOptions(&raw mut allocator)));
    ok(call!(AllocatorFree(allocator, pointer.cast())));
    text
}

/// Items that C got.
pub(crate) fn items<'a, T>(items: *const T, n: usize) -> &'a [T] {
    assert!(!items.is_null() && items.is_aligned());
    // SAFETY: the library says that there are so many.
    unsafe { std::slice::from_raw_parts(items, n) }
}

/// A text for C.
pub(crate) fn c(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}
