//! Results, written to the pointers that C passes.

#![expect(unsafe_code, reason = "results are written through C pointers")]

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::arg::{Arg, Counted};
use super::handle::{Handle, into_handle, opaque};
use crate::error::Error;

/// An out parameter, which may be uninitialized.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a, T> {
    to: NonNull<T>,
    life: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    pub(crate) const fn set(self, value: T) {
        // SAFETY: the caller of the library provides space for a `T` there.
        unsafe { self.to.write(value) }
    }
}

impl<T> Arg for Out<'_, T> {
    type Raw = *mut T;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        let to = NonNull::new(raw).ok_or_else(|| Error::null(name))?;
        Ok(Self { to, life: PhantomData })
    }
}

impl<T> Arg for Option<Out<'_, T>> {
    type Raw = *mut T;

    unsafe fn of(raw: Self::Raw, _: &'static str) -> Result<Self, Error> {
        Ok(NonNull::new(raw).map(|to| Out { to, life: PhantomData }))
    }
}

/// An out parameter for a handle that C owns from then on.
pub(crate) struct OutHandle<'a, T: Handle>(Out<'a, *mut T::Opaque>);

impl<T: Handle> OutHandle<'_, T> {
    pub(crate) fn set(self, value: T) {
        self.0.set(into_handle(value));
    }

    pub(crate) const fn set_none(self) {
        self.0.set(std::ptr::null_mut());
    }
}

impl<T: Handle> Arg for OutHandle<'_, T> {
    type Raw = *mut *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Out::of(raw, name) }.map(Self)
    }
}

/// An out parameter for a handle that lives as long as the object it belongs to.
pub(crate) struct OutRef<'a, T: Handle>(Out<'a, *const T::Opaque>);

impl<T: Handle> OutRef<'_, T> {
    pub(crate) const fn set(self, value: &T) {
        self.0.set(opaque(value));
    }

    pub(crate) const fn set_none(self) {
        self.0.set(std::ptr::null());
    }
}

impl<T: Handle> Arg for OutRef<'_, T> {
    type Raw = *mut *const T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Out::of(raw, name) }.map(Self)
    }
}

/// An out parameter for several results.
pub(crate) struct Outs<'a, T> {
    to: *mut T,
    n: usize,
    life: PhantomData<&'a mut T>,
}

impl<T> Outs<'_, T> {
    /// Writes values one after the other, as many as fit.
    pub(crate) fn fill(&self, values: impl IntoIterator<Item = T>) {
        for (i, value) in values.into_iter().take(self.n).enumerate() {
            let to = self.to.wrapping_add(i);
            // SAFETY: `i < n`, and the caller of the library provides space for `n` of them there.
            unsafe { to.write(value) }
        }
    }
}

impl<T> Counted for Outs<'_, T> {
    type Raw = *mut T;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        if raw.is_null() && n > 0 {
            return Err(Error::null(name));
        }
        Ok(Self { to: raw, n, life: PhantomData })
    }
}

/// A buffer with a size from the program, for functions that are called twice: first for the required size.
pub(crate) struct Room<'a, T> {
    to: *mut T,
    life: PhantomData<&'a mut T>,
}

impl<T> Arg for Room<'_, T> {
    type Raw = *mut T;

    unsafe fn of(raw: Self::Raw, _: &'static str) -> Result<Self, Error> {
        Ok(Self { to: raw, life: PhantomData })
    }
}

impl<T: Copy> Room<'_, T> {
    /// Writes the items and their number; only the number if the buffer is null.
    pub(crate) fn items(self, items: &[T], size: Out<'_, usize>) -> Result<(), Error> {
        // SAFETY: the program states the size of the buffer there.
        let n = if self.to.is_null() { 0 } else { unsafe { size.to.read() } };
        size.set(items.len());
        if self.to.is_null() {
            return Ok(());
        }
        if n < items.len() {
            let text = format!("is {n}, and {} are needed", items.len());
            return Err(Error::argument("size", text));
        }
        // SAFETY: the buffer has room for `n`, which are enough, and does not overlap our items.
        unsafe { self.to.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
        Ok(())
    }
}

impl Room<'_, c_char> {
    /// Writes a string with its NUL, and the size of both.
    pub(crate) fn text(self, text: &str, size: Out<'_, usize>) -> Result<(), Error> {
        let text = crate::error::text(text);
        let to = Room { to: self.to.cast(), life: PhantomData };
        to.items(text.as_bytes_with_nul(), size)
    }
}

/// An out parameter for bytes that C passes as `void *`.
pub(crate) struct OutMemory<'a>(pub(crate) Outs<'a, u8>);

impl Counted for OutMemory<'_> {
    type Raw = *mut c_void;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { Outs::of(raw.cast(), n, name) }.map(Self)
    }
}

/// An in-out array of handles, some of which may be set already.
pub(crate) struct Slots<'a, T: Handle>(&'a mut [*mut T::Opaque]);

impl<'a, T: Handle> Slots<'a, T> {
    /// The handle at this index.
    pub(crate) fn get(&self, index: usize) -> Option<&'a T> {
        // SAFETY: it is null, or a handle, which lives as long as the array.
        unsafe { self.0[index].cast::<T>().as_ref() }
    }

    pub(crate) fn set(&mut self, index: usize, value: T) {
        self.0[index] = into_handle(value);
    }

    /// The pointer and the length.
    pub(super) const fn into_raw(self) -> (*mut *mut T::Opaque, usize) {
        (self.0.as_mut_ptr(), self.0.len())
    }
}

impl<T: Handle> Counted for Slots<'_, T> {
    type Raw = *mut *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        match (raw.is_null(), n) {
            (_, 0) => Ok(Self(&mut [])),
            (true, _) => Err(Error::null(name)),
            // SAFETY: there are `n` handles or nulls.
            (false, _) => Ok(Self(unsafe { std::slice::from_raw_parts_mut(raw, n) })),
        }
    }
}
