//! Arguments: converts what C passes to what our functions take, or to a status that names the argument.

#![expect(unsafe_code, reason = "arguments of C are pointers")]

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;

use ort_session::ModelBytes;
use ort_session::provider::with_room;

use super::handle::Handle;
use crate::error::Error;

/// A converted argument of C.
pub(crate) trait Arg: Sized {
    /// The argument as C passes it.
    type Raw;

    /// Converts the argument, or returns an error that names it.
    ///
    /// # Safety
    /// A pointer is null, or points to what the C API specifies for the argument, which lives during the call; what is
    /// borrowed mutably is not accessed by others during the call.
    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error>;
}

macro_rules! as_they_are {
    ($($ty:ty),* $(,)?) => {$(
        impl Arg for $ty {
            type Raw = Self;

            unsafe fn of(raw: Self, _: &'static str) -> Result<Self, Error> {
                Ok(raw)
            }
        }
    )*};
}

as_they_are!(bool, i32, u32, i64, usize, f32);
as_they_are!(
    Option<ort_sys::OrtLoggingFunction>,
    ort_sys::OrtCustomCreateThreadFn,
    ort_sys::OrtCustomJoinThreadFn,
    ort_sys::EpSelectionDelegate,
    ort_sys::OrtReadNamedBufferFunc,
    ort_sys::OrtWriteBufferFunc,
    ort_sys::OrtWriteNamedBufferFunc,
    ort_sys::OrtGetInitializerLocationFunc,
    ort_sys::RunAsyncCallbackFn,
    Option<super::tasks::PartFn>,
);

impl<T> Arg for *const T {
    type Raw = Self;

    unsafe fn of(raw: Self, _: &'static str) -> Result<Self, Error> {
        Ok(raw)
    }
}

impl<T> Arg for *mut T {
    type Raw = Self;

    unsafe fn of(raw: Self, _: &'static str) -> Result<Self, Error> {
        Ok(raw)
    }
}

impl<T: Handle> Arg for Option<&T> {
    type Raw = *const T::Opaque;

    unsafe fn of(raw: Self::Raw, _: &'static str) -> Result<Self, Error> {
        // SAFETY: it is null, or a pointer that the library gave out for a live `T`.
        Ok(unsafe { raw.cast::<T>().as_ref() })
    }
}

impl<T: Handle> Arg for &T {
    type Raw = *const T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Option::<Self>::of(raw, name) }?.ok_or_else(|| Error::null(name))
    }
}

/// Behind a mutable pointer, but shared: other threads may use it at the same time.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, T>(&'a T);

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<T: Handle> Arg for Shared<'_, T> {
    type Raw = *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { <&T>::of(raw.cast_const(), name) }.map(Self)
    }
}

impl<T: Handle> Arg for &mut T {
    type Raw = *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: it is null, or a pointer that the library gave out for a live `T`, which is not accessed by
        // others during the call.
        unsafe { raw.cast::<T>().as_mut() }.ok_or_else(|| Error::null(name))
    }
}

/// A handle that C releases: ownership passes to the function.
impl<T: Handle> Arg for Option<Box<T>> {
    type Raw = *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, _: &'static str) -> Result<Self, Error> {
        let raw = raw.cast::<T>();
        // SAFETY: it comes from `into_handle`, which boxed it, and is released once.
        Ok((!raw.is_null()).then(|| unsafe { Box::from_raw(raw) }))
    }
}

impl Arg for Option<&str> {
    type Raw = *const c_char;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: it is a NUL-terminated string that lives during the call.
        let text = unsafe { CStr::from_ptr(raw) };
        let text = text.to_str().map_err(|_| Error::argument(name, "is not UTF-8"))?;
        Ok(Some(text))
    }
}

impl Arg for &str {
    type Raw = *const c_char;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Option::<Self>::of(raw, name) }?.ok_or_else(|| Error::null(name))
    }
}

#[cfg(not(windows))]
impl Arg for &Path {
    type Raw = *const ort_sys::os_char;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        use std::os::unix::ffi::OsStrExt;

        if raw.is_null() {
            return Err(Error::null(name));
        }
        // SAFETY: it is a NUL-terminated string that lives during the call.
        let text = unsafe { CStr::from_ptr(raw) };
        Ok(Path::new(std::ffi::OsStr::from_bytes(text.to_bytes())))
    }
}

/// A converted array argument, whose length is another argument.
pub(crate) trait Counted: Sized {
    /// The pointer as C passes it.
    type Raw;

    /// Converts the argument, or returns an error that names it.
    ///
    /// # Safety
    /// As [`Arg::of`]; a non-null pointer points to `n` items as the C API specifies.
    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error>;
}

/// Numbers that C passes in arrays: every bit pattern is valid.
pub(crate) trait Plain: Copy {}

impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for f32 {}
impl Plain for usize {}
impl Plain for *mut c_char {}
impl<T> Plain for *const T {}

impl<T: Plain> Counted for &[T] {
    type Raw = *const T;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        match (raw.is_null(), n) {
            (_, 0) => Ok(&[]),
            (true, _) => Err(Error::null(name)),
            // SAFETY: there are `n` of them.
            (false, _) => Ok(unsafe { std::slice::from_raw_parts(raw, n) }),
        }
    }
}

/// Bytes that C passes as `void *`.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a>(pub(crate) &'a [u8]);

impl Memory<'_> {
    /// A copy; an error if there is no memory for it.
    pub(crate) fn to_model_bytes(self) -> Result<ModelBytes, Error> {
        let mut copy = with_room(self.0.len())?;
        copy.extend_from_slice(self.0);
        Ok(ModelBytes::from_vec(copy))
    }
}

impl Plain for u8 {}

impl Counted for Memory<'_> {
    type Raw = *const c_void;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { <&[u8]>::of(raw.cast(), n, name) }.map(Self)
    }
}

/// Data whose type is another argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untyped<'a> {
    data: *const c_void,
    life: PhantomData<&'a c_void>,
}

impl Arg for Untyped<'_> {
    type Raw = *const c_void;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        if raw.is_null() {
            Err(Error::null(name))
        } else {
            Ok(Self { data: raw, life: PhantomData })
        }
    }
}

impl<'a> Untyped<'a> {
    /// Numbers.
    pub(crate) fn many<T: Plain>(self, n: usize) -> Result<&'a [T], Error> {
        // SAFETY: the program states the type and the number.
        unsafe { Counted::of(self.data.cast::<T>(), n, "data") }
    }

    /// A number.
    pub(crate) fn one<T: Plain>(self) -> Result<T, Error> {
        Ok(self.many(1)?[0])
    }

    /// Strings.
    pub(crate) fn texts(self, n: usize) -> Result<Vec<&'a str>, Error> {
        // SAFETY: the program states that there are as many.
        unsafe { Counted::of(self.data.cast::<*const c_char>(), n, "data") }
    }

    /// A handle.
    pub(crate) fn handle<T: Handle>(self) -> Result<&'a T, Error> {
        // SAFETY: the program states that it is one.
        unsafe { Arg::of(self.data.cast::<T::Opaque>(), "data") }
    }
}

/// Files in memory, whose sizes are in another argument.
pub(crate) struct Files<'a>(&'a [*mut c_char]);

impl Counted for Files<'_> {
    type Raw = *const *mut c_char;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Counted::of(raw, n, name) }.map(Self)
    }
}

impl<'a> Files<'a> {
    /// The files with these lengths.
    pub(crate) fn of_lengths(self, lengths: &[usize]) -> Result<Vec<Memory<'a>>, Error> {
        let files = self.0.iter().zip(lengths);
        // SAFETY: the program states the lengths, and the bytes live during the call.
        let file = |(&file, &n): (&*mut c_char, &usize)| unsafe {
            Memory::of(file.cast_const().cast(), n, "file buffer")
        };
        files.map(file).collect()
    }
}

/// Strings.
impl<'a> Counted for Vec<&'a str> {
    type Raw = *const *const c_char;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        let texts = unsafe { <&[*const c_char]>::of(raw, n, name) }?;
        // SAFETY: each is a string, or null.
        texts.iter().map(|&text| unsafe { <&'a str>::of(text, name) }).collect()
    }
}

/// Strings in an array behind a mutable pointer.
pub(crate) struct Names<'a>(pub(crate) Vec<&'a str>);

impl Counted for Names<'_> {
    type Raw = *mut *const c_char;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Vec::of(raw.cast_const(), n, name) }.map(Self)
    }
}

/// Handles, of which some may be missing.
impl<'a, T: Handle> Counted for Vec<Option<&'a T>> {
    type Raw = *const *const T::Opaque;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        let handles = unsafe { <&[*const T::Opaque]>::of(raw, n, name) }?;
        // SAFETY: each is a handle, or null.
        handles.iter().map(|&handle| unsafe { Option::<&'a T>::of(handle, name) }).collect()
    }
}

/// Handles.
impl<'a, T: Handle> Counted for Vec<&'a T> {
    type Raw = *const *const T::Opaque;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        let handles = unsafe { Vec::<Option<&'a T>>::of(raw, n, name) }?;
        handles.into_iter().map(|handle| handle.ok_or_else(|| Error::null(name))).collect()
    }
}

/// Handles behind constant pointers, in a mutable array.
pub(crate) struct MutTargets<'a, T>(pub(crate) Vec<&'a T>);

impl<T: Handle> Counted for MutTargets<'_, T> {
    type Raw = *mut *const T::Opaque;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Counted::of(raw.cast_const(), n, name) }.map(Self)
    }
}

/// Handles in a constant array, behind mutable pointers.
pub(crate) struct MutHandles<'a, T>(pub(crate) Vec<&'a T>);

impl<T: Handle> Counted for MutHandles<'_, T> {
    type Raw = *const *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Counted::of(raw.cast::<*const T::Opaque>(), n, name) }.map(Self)
    }
}
