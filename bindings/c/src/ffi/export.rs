//! Functions for the table: C entry points around functions in safe Rust.
//!
//! `export!` declares functions that take converted arguments. `name: Type` is one argument of C, and
//! `name: Type[n]` one that has as many items as the argument `n` says. A body ends with a `Result`, which
//! becomes a status. With `-> Type = default`, it is a `Result` of what C gets, which is the default on an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ort_sys::OrtStatusPtr;

use super::handle::into_handle;
use crate::error::Error;

/// Runs a function and returns its status. A panic becomes an error and does not unwind into C.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Error>) -> OrtStatusPtr {
    match caught(body) {
        Ok(()) => OrtStatusPtr::default(),
        Err(error) => OrtStatusPtr(into_handle(error)),
    }
}

/// Runs a function that returns a value instead of a status.
pub(crate) fn guard_value<T>(default: T, body: impl FnOnce() -> Result<T, Error>) -> T {
    caught(body).unwrap_or(default)
}

/// The result of a function; a panic becomes an error.
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::runtime(format!("panicked: {}", text.unwrap_or_default())))
    })
}

/// The argument as C passes it.
macro_rules! raw {
    ($ty:ty) => {
        <$ty as $crate::ffi::Arg>::Raw
    };
    ($ty:ty, $n:ident) => {
        <$ty as $crate::ffi::Counted>::Raw
    };
}

/// The argument as the function takes it.
macro_rules! converted {
    ($arg:ident: $ty:ty) => {
        // SAFETY: the C API requires of its callers what the conversion needs.
        unsafe { <$ty as $crate::ffi::Arg>::of($arg, stringify!($arg)) }?
    };
    ($arg:ident: $ty:ty, $n:ident) => {{
        let n = usize::try_from($n).map_err(|_| Error::argument(stringify!($n), "is negative"))?;
        // SAFETY: the C API requires of its callers what the conversion needs, for the stated number of items.
        unsafe { <$ty as $crate::ffi::Counted>::of($arg, n, stringify!($arg)) }?
    }};
}

macro_rules! export {
    () => {};
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty $([$n:ident])?),* $(,)?) $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        pub(crate) unsafe extern "system" fn $name(
            $($arg: $crate::ffi::raw!($ty $(, $n)?)),*
        ) -> ort_sys::OrtStatusPtr {
            $crate::ffi::guard(move || {
                $(let $arg = $crate::ffi::converted!($arg: $ty $(, $n)?);)*
                $body
            })
        }
        $crate::ffi::export! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $ty:ty $([$n:ident])?),* $(,)?) -> $ret:ty = $default:expr; $body:block
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        pub(crate) unsafe extern "system" fn $name(
            $($arg: $crate::ffi::raw!($ty $(, $n)?)),*
        ) -> $ret {
            $crate::ffi::guard_value($default, move || {
                $(let $arg = $crate::ffi::converted!($arg: $ty $(, $n)?);)*
                $body
            })
        }
        $crate::ffi::export! { $($rest)* }
    };
}

/// Casts a function to the type in the table, which has Rust enums where C has enums: integers of the same size. The
/// function itself takes integers, since C may pass any value.
macro_rules! with_enums {
    ($function:path as fn($($arg:ty),*)) => {
        // SAFETY: both are functions of C with arguments of the same sizes and kinds.
        unsafe {
            std::mem::transmute::<unsafe extern "system" fn($($arg),*) -> ort_sys::OrtStatusPtr, _>($function)
        }
    };
}

pub(crate) use {converted, export, raw, with_enums};
