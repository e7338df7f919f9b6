//! Libraries of custom operators, which are loaded while a program runs.

#![expect(unsafe_code, reason = "functions of the system's loader, and those of libraries")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null;

use ort_sys::{OrtApiBase, OrtSessionOptions, OrtStatusPtr};

use super::arg::Arg;
use super::entry::OrtGetApiBase;
use crate::error::{Error, text};

type Register =
    unsafe extern "system" fn(*mut OrtSessionOptions, *const OrtApiBase) -> OrtStatusPtr;

#[cfg_attr(target_os = "linux", link(name = "dl"))]
unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn dlerror() -> *const c_char;
}

/// Resolve everything at once: the same number on Linux, macOS and the BSDs.
const RTLD_NOW: c_int = 2;

/// A loaded library. It stays loaded.
#[derive(Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
    name: String,
}

impl Library {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bytes = path.as_os_str().as_encoded_bytes();
        let file = CString::new(bytes).map_err(|_| Error::argument("library_path", "has a NUL"))?;
        Self::opened(file.as_ptr(), path.display().to_string())
    }

    /// The program itself, with all that it has loaded for everyone.
    pub(crate) fn of_process() -> Result<Self, Error> {
        Self::opened(null(), "the process".to_owned())
    }

    fn opened(path: *const c_char, name: String) -> Result<Self, Error> {
        // SAFETY: a path, or null for the process.
        let handle = unsafe { dlopen(path, RTLD_NOW) };
        match handle.is_null() {
            true => Err(Error::fail(format!("Failed to load library {name}: {}", problem()))),
            false => Ok(Self { handle, name }),
        }
    }

    pub(crate) const fn handle(&self) -> *mut c_void {
        self.handle
    }

    /// Calls a function of the library that registers operators. A library without it is closed.
    pub(crate) fn register(
        &self,
        options: *mut OrtSessionOptions,
        function: &str,
    ) -> Result<(), Error> {
        if options.is_null() {
            return Err(Error::null("options"));
        }
        let symbol = text(function);
        // SAFETY: the library is open, and the name NUL-terminated.
        let found = unsafe { dlsym(self.handle, symbol.as_ptr()) };
        if found.is_null() {
            let error = format!("{} has no function {function}: {}", self.name, problem());
            // SAFETY: nothing of the library is used.
            unsafe { dlclose(self.handle) };
            return Err(Error::fail(error));
        }
        // SAFETY: the C API specifies the type of such functions.
        let register = unsafe { std::mem::transmute::<*mut c_void, Register>(found) };
        // SAFETY: the function is called with live options.
        let status = unsafe { register(options, OrtGetApiBase()) };
        // SAFETY: a status is one of ours: libraries create them through the table.
        let error = unsafe { Option::<Box<Error>>::of(status.0, "status") }?;
        error.map_or(Ok(()), |error| Err(*error))
    }
}

/// The loader's last message.
fn problem() -> String {
    // SAFETY: no preconditions.
    let message = unsafe { dlerror() };
    if message.is_null() {
        return String::new();
    }
    // SAFETY: the loader's messages are NUL-terminated.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}
