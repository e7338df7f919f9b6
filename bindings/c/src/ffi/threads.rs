//! Threads that a program creates and joins.

#![expect(unsafe_code, reason = "functions of C, and the work that a thread gets as a pointer")]

use std::ffi::c_void;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;

use ort_session::{Join, Spawn};
use ort_sys::{OrtCustomCreateThreadFn, OrtCustomJoinThreadFn, OrtCustomThreadHandle};

use crate::error::Error;

/// A pointer that is passed on to functions of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserData(pub(crate) *mut c_void);

// SAFETY: the library does not read it, and the C API requires such functions to be thread-safe.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl Default for UserData {
    fn default() -> Self {
        Self(null_mut())
    }
}

/// The functions that create and join threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadFunctions {
    pub(crate) create: OrtCustomCreateThreadFn,
    pub(crate) options: UserData,
    pub(crate) join: OrtCustomJoinThreadFn,
}

impl ThreadFunctions {
    /// The functions for a session, if there are any: one needs the other.
    pub(crate) fn to_spawn(self) -> Result<Option<Arc<dyn Spawn>>, Error> {
        match (self.create, self.join) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Ok(Some(Arc::new(self))),
            (Some(_), None) => Err(Error::invalid("custom join thread function not set")),
            (None, Some(_)) => Err(Error::invalid("custom create thread function not set")),
        }
    }
}

/// A thread of the program.
struct Handle(OrtCustomThreadHandle);

// SAFETY: the library does not read it. It is joined by one thread, once.
unsafe impl Send for Handle {}

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

impl Spawn for ThreadFunctions {
    fn spawn(&self, _name: String, work: Work) -> io::Result<Join> {
        let (Some(create), Some(join)) = (self.create, self.join) else {
            return Err(io::Error::other("a function is missing"));
        };
        let work = Box::into_raw(Box::new(work)).cast::<c_void>();
        // SAFETY: the program passed the function, to be called like that.
        let handle = Handle(unsafe { create(self.options.0, run, work) });
        if handle.0.is_null() {
            // SAFETY: there is no thread that does it.
            drop(unsafe { Box::from_raw(work.cast::<Work>()) });
            return Err(io::Error::other("the program's function returned null"));
        }
        Ok(Box::new(move || {
            let Handle(handle) = { handle };
            // SAFETY: the program passed the function, to be called once with a thread that it has created.
            unsafe { join(handle) };
        }))
    }
}

/// The function that a thread of the program calls, once.
unsafe extern "C" fn run(work: *mut c_void) {
    // SAFETY: `spawn` boxed it for this call.
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    // A panic of a kernel is reported by the run, and never gets here.
    let _ = catch_unwind(AssertUnwindSafe(work));
}
