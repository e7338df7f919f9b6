//! Libraries of custom operators, which are loaded while a program runs.

#![expect(unsafe_code, reason = "functions of the system's loader, and those of libraries")]

use std::ffi::c_void;
use std::path::Path;

#[cfg(unix)]
use libloading::os::unix::Library as Loaded;
#[cfg(windows)]
use libloading::os::windows::Library as Loaded;
use ort_sys::{OrtApiBase, OrtSessionOptions, OrtStatusPtr};

use super::entry::OrtGetApiBase;
use super::taken::result;
use crate::error::Error;

type Register =
    unsafe extern "system" fn(*mut OrtSessionOptions, *const OrtApiBase) -> OrtStatusPtr;

/// A loaded library, which is closed with this value.
#[derive(Debug)]
pub(crate) struct Library {
    loaded: Loaded,
    name: String,
}

impl Library {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        // SAFETY: the program asks for the code that the library runs when it is loaded.
        let loaded = unsafe { Loaded::new(path) };
        let failed = |error| Error::fail(format!("Failed to load library {name}: {error}"));
        Ok(Self { loaded: loaded.map_err(failed)?, name })
    }

    /// The program itself, with all that it has loaded for everyone.
    pub(crate) fn of_process() -> Result<Self, Error> {
        #[cfg(unix)]
        let loaded = Loaded::this();
        #[cfg(windows)]
        let loaded = Loaded::this().map_err(|error| Error::fail(error.to_string()))?;
        Ok(Self { loaded, name: "the process".to_owned() })
    }

    /// Calls a function of the library that registers operators. From then on the library stays loaded; the result is its
    /// handle.
    pub(crate) fn register(
        self,
        options: *mut OrtSessionOptions,
        function: &str,
    ) -> Result<*mut c_void, Error> {
        if options.is_null() {
            return Err(Error::null("options"));
        }
        // SAFETY: the C API specifies the type of such functions.
        let found = unsafe { self.loaded.get::<Register>(function.as_bytes()) };
        let none =
            |error| Error::fail(format!("{} has no function {function}: {error}", self.name));
        let register = *found.map_err(none)?;
        let handle = self.loaded.into_raw();
        // SAFETY: the function is called with live options.
        result(unsafe { register(options, OrtGetApiBase()) })?;
        Ok(handle_of(handle))
    }
}

#[cfg(unix)]
const fn handle_of(handle: *mut c_void) -> *mut c_void {
    handle
}

/// Windows' handle of a module is its address.
#[cfg(windows)]
fn handle_of(handle: impl TryInto<usize>) -> *mut c_void {
    std::ptr::without_provenance_mut(handle.try_into().unwrap_or_default())
}
