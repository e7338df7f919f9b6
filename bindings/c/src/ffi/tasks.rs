//! Functions of programs that other threads call: at the end of a run, and for parts of a kernel's work.

#![expect(unsafe_code, reason = "a program's pointers move to another thread")]

use std::ffi::c_void;
use std::ptr::null_mut;

use ort_sys::{OrtStatusPtr, OrtValue, RunAsyncCallbackFn};

use super::handle::into_handle;
use super::out::Slots;
use crate::error::Error;
use crate::value::Value;

/// A function to call at the end of a run, and the array for its outputs.
pub(crate) struct Callback {
    function: RunAsyncCallbackFn,
    user_data: *mut c_void,
    outputs: *mut *mut OrtValue,
    n_outputs: usize,
}

// SAFETY: the C API requires programs to keep `outputs` until the function is called, and to accept a call from any
// thread.
unsafe impl Send for Callback {}

impl Callback {
    pub(crate) fn new(
        function: RunAsyncCallbackFn,
        user_data: *mut c_void,
        outputs: Slots<'_, Value>,
    ) -> Result<Self, Error> {
        if function.is_none() {
            return Err(Error::null("run_async_callback"));
        }
        let (outputs, n_outputs) = outputs.into_raw();
        Ok(Self { function, user_data, outputs, n_outputs })
    }

    /// Writes the outputs that the program did not provide, and calls the function.
    pub(crate) fn call(self, outputs: Result<Vec<(usize, Value)>, Error>) {
        let Some(function) = self.function else { return };
        let made = match outputs {
            Ok(made) => made,
            Err(error) => {
                let status = OrtStatusPtr(into_handle(error));
                // SAFETY: the program passed the function, to be called like that.
                return unsafe { function(self.user_data, null_mut(), 0, status) };
            }
        };
        for (index, value) in made {
            // SAFETY: the program keeps the array of outputs until the function is called.
            unsafe { self.outputs.wrapping_add(index).write(into_handle(value)) };
        }
        // SAFETY: the program passed the function, to be called like that.
        unsafe { function(self.user_data, self.outputs, self.n_outputs, OrtStatusPtr::default()) }
    }
}

/// A function for one part of a kernel's work.
pub(crate) type PartFn = unsafe extern "C" fn(*mut c_void, usize);

/// Such a function, with its user pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    function: PartFn,
    user_data: *mut c_void,
}

// SAFETY: the C API requires such functions to be thread-safe.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    pub(crate) const fn new(function: PartFn, user_data: *mut c_void) -> Self {
        Self { function, user_data }
    }

    pub(crate) fn call(&self, index: usize) {
        // SAFETY: the program passed the function, to be called like that.
        unsafe { (self.function)(self.user_data, index) }
    }
}
