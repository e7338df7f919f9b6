//! Runs that go on after the call that began them.

#![expect(unsafe_code, reason = "pointers of a program go to another thread")]

use std::ffi::c_void;
use std::ptr::null_mut;

use ort_sys::{OrtStatusPtr, OrtValue, RunAsyncCallbackFn};

use super::handle::given;
use super::out::Slots;
use crate::error::Error;
use crate::value::Value;

/// A function to call when a run is over, and where its outputs go.
pub(crate) struct Callback {
    function: RunAsyncCallbackFn,
    user_data: *mut c_void,
    outputs: *mut *mut OrtValue,
    n_outputs: usize,
}

// SAFETY: the C API obliges programs to keep `outputs` until the function is called, and to expect that from any
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

    /// Writes the outputs that the program did not give, and calls the function.
    pub(crate) fn call(self, outputs: Result<Vec<(usize, Value)>, Error>) {
        let Some(function) = self.function else { return };
        let made = match outputs {
            Ok(made) => made,
            Err(error) => {
                let status = OrtStatusPtr(given(error));
                // SAFETY: the program gave the function, to be called like that.
                return unsafe { function(self.user_data, null_mut(), 0, status) };
            }
        };
        for (index, value) in made {
            // SAFETY: the program keeps room for as many outputs until the function is called.
            unsafe { self.outputs.wrapping_add(index).write(given(value)) };
        }
        // SAFETY: the program gave the function, to be called like that.
        unsafe { function(self.user_data, self.outputs, self.n_outputs, OrtStatusPtr::default()) }
    }
}
