//! Results: where C wants them.

#![expect(unsafe_code, reason = "results go to where pointers of C lead")]

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::arg::{Arg, Counted};
use super::handle::{Handle, given, opaque};
use crate::error::Error;

/// Room for one result, which may hold anything before.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a, T> {
    to: NonNull<T>,
    life: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    pub(crate) const fn set(self, value: T) {
        // SAFETY: the caller of the library has room for a `T` there.
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

/// Room for a handle that C owns from then on.
pub(crate) struct OutHandle<'a, T: Handle>(Out<'a, *mut T::Opaque>);

impl<T: Handle> OutHandle<'_, T> {
    pub(crate) fn set(self, value: T) {
        self.0.set(given(value));
    }

    pub(crate) const fn set_none(self) {
        self.0.set(std::ptr::null_mut());
    }
}

impl<T: Handle> Arg for OutHandle<'_, T> {
    type Raw = *mut *mut T::Opaque;

    unsafe fn of(raw: Self::Raw, name: &'static str) -> Result<Self, Error> {
        // SAFETY: as the caller says.
        unsafe { Out::of(raw, name) }.map(Self)
    }
}

/// Room for a handle that lives as long as what it belongs to.
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
        // SAFETY: as the caller says.
        unsafe { Out::of(raw, name) }.map(Self)
    }
}

/// Room for several results.
pub(crate) struct Outs<'a, T> {
    to: *mut T,
    n: usize,
    life: PhantomData<&'a mut T>,
}

impl<T> Outs<'_, T> {
    /// Writes values one after the other, as many as there is room for.
    pub(crate) fn fill(&self, values: impl IntoIterator<Item = T>) {
        for (i, value) in values.into_iter().take(self.n).enumerate() {
            let to = self.to.wrapping_add(i);
            // SAFETY: `i < n`, and the caller of the library has room for `n` of them there.
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

/// Room of a size that the program says, of functions that are called twice: once for the size that is needed.
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
    /// Writes the items and their number; only the number without room.
    pub(crate) fn items(self, items: &[T], size: Out<'_, usize>) -> Result<(), Error> {
        // SAFETY: the program says the size of the room there.
        let n = if self.to.is_null() { 0 } else { unsafe { size.to.read() } };
        size.set(items.len());
        if self.to.is_null() {
            return Ok(());
        }
        if n < items.len() {
            let text = format!("is {n}, and {} are needed", items.len());
            return Err(Error::argument("size", text));
        }
        // SAFETY: there is room for `n`, which are not fewer, and what C has is not what we have.
        unsafe { self.to.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
        Ok(())
    }
}

impl Room<'_, c_char> {
    /// Writes a text with its zero, and the size of both.
    pub(crate) fn text(self, text: &str, size: Out<'_, usize>) -> Result<(), Error> {
        let text = crate::error::text(text);
        let to = Room { to: self.to.cast(), life: PhantomData };
        to.items(text.as_bytes_with_nul(), size)
    }
}

/// Room for bytes that C knows as memory.
pub(crate) struct OutMemory<'a>(pub(crate) Outs<'a, u8>);

impl Counted for OutMemory<'_> {
    type Raw = *mut c_void;

    unsafe fn of(raw: Self::Raw, n: usize, name: &'static str) -> Result<Self, Error> {
        // SAFETY: as the caller says.
        unsafe { Outs::of(raw.cast(), n, name) }.map(Self)
    }
}

/// Room for several handles, some of which may be there already.
pub(crate) struct Slots<'a, T: Handle>(&'a mut [*mut T::Opaque]);

impl<'a, T: Handle> Slots<'a, T> {
    /// What is there.
    pub(crate) fn get(&self, index: usize) -> Option<&'a T> {
        // SAFETY: it is null, or a handle, which lives as long as the room for it.
        unsafe { self.0[index].cast::<T>().as_ref() }
    }

    pub(crate) fn set(&mut self, index: usize, value: T) {
        self.0[index] = given(value);
    }

    /// Where they are, and how many.
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
