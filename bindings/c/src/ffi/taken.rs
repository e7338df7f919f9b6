//! Objects that the library owns from then on, and buffers that it fills in a later call.

#![expect(unsafe_code, reason = "pointers of C that are kept, or whose objects are")]

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use ort_sys::{OrtAllocator, OrtStatusPtr};

use super::allocator::Allocator;
use super::arg::{Arg, Counted};
use super::handle::Handle;
use crate::error::Error;

/// A handle whose object the function takes, unless it fails before.
pub(crate) struct Taken<T>(NonNull<T>);

impl<T: Handle> Arg for Taken<T> {
    type Raw = *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        NonNull::new(raw.cast()).map(Self).ok_or_else(|| Error::null(name))
    }
}

impl<T> Taken<T> {
    pub(crate) const fn get(&self) -> &T {
        // SAFETY: it is a live object of the library.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn take(self) -> Box<T> {
        // SAFETY: it comes from `into_handle`, and the program does not use it any more.
        unsafe { Box::from_raw(self.0.as_ptr()) }
    }
}

/// What a function of the program returned.
pub(super) fn result(status: OrtStatusPtr) -> Result<(), Error> {
    // SAFETY: a status is one of ours: programs create them through the table.
    let error = unsafe { Option::<Box<Error>>::of(status.0, "status") }?;
    error.map_or(Ok(()), |error| Err(*error))
}

/// Handles whose objects the function takes; it sets them to null.
pub(crate) struct Boxes<T: Handle> {
    taken: Vec<Taken<T>>,
    array: *mut *mut T::Opaque,
}

impl<T: Handle> Counted for Boxes<T> {
    type Raw = *mut *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        let handles = unsafe { <&[*const T::Opaque]>::of(raw.cast_const().cast(), n, name) }?;
        // SAFETY: each is a handle, or null.
        let taken = handles.iter().map(|&handle| unsafe { Taken::of(handle.cast_mut(), name) });
        Ok(Self { taken: taken.collect::<Result<_, _>>()?, array: raw })
    }
}

impl<T: Handle> Boxes<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.taken.iter().map(Taken::get)
    }

    pub(crate) fn take(self) -> Vec<Box<T>> {
        for i in 0..self.taken.len() {
            // SAFETY: the array has as many handles.
            unsafe { self.array.wrapping_add(i).write(null_mut()) };
        }
        self.taken.into_iter().map(Taken::take).collect()
    }
}

/// Where the program wants a buffer of an allocator, and its size.
#[derive(Debug)]
pub(crate) struct Destination {
    allocator: NonNull<OrtAllocator>,
    buffer: NonNull<*mut c_void>,
    size: NonNull<usize>,
}

impl Destination {
    pub(crate) fn new(
        allocator: Allocator<'_>,
        buffer: *mut *mut c_void,
        size: *mut usize,
    ) -> Result<Self, Error> {
        let allocator = allocator.as_non_null();
        let buffer = NonNull::new(buffer).ok_or_else(|| Error::null("output_model_buffer_ptr"))?;
        let size = NonNull::new(size).ok_or_else(|| Error::null("output_model_buffer_size_ptr"))?;
        Ok(Self { allocator, buffer, size })
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        // SAFETY: the program keeps the allocator.
        let allocator = unsafe { Allocator::of(self.allocator.as_ptr(), "allocator") }?;
        let buffer = allocator.bytes(bytes)?;
        // SAFETY: the program keeps the place.
        unsafe { self.buffer.write(buffer.cast()) };
        // SAFETY: as above.
        unsafe { self.size.write(bytes.len()) };
        Ok(())
    }
}
