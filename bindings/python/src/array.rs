//! Memory that numpy arrays and tensors share.
//!
//! Inputs are read in the array's memory; an output's memory becomes that of an array, whose base object is a
//! [`Block`]. As in onnxruntime, a program that writes to an array while a run reads it gets old or new numbers:
//! elements are plain numbers, for which every bit pattern is valid.

#![expect(unsafe_code, reason = "numpy arrays are pointers")]

use std::ffi::c_int;
use std::ptr::NonNull;

use numpy::npyffi::{
    NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, NpyTypes, PY_ARRAY_API, get_type_object,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use ort_session::Tensor;
use pyo3::PyErr;
use pyo3::prelude::*;

use crate::dlpack::Consumed;

/// Memory for elements, and its owner. It does not move.
#[pyclass(frozen, module = "ort_rs._native")]
#[derive(Debug)]
pub(crate) struct Block {
    data: NonNull<u8>,
    len: usize,
    /// Whether it may be written: memory of a tensor, a writable array, or at an address from the caller.
    is_writable: bool,
    /// Dropped with the block.
    _owner: Owner,
}

/// What keeps the memory of a block alive.
#[derive(Debug)]
#[expect(dead_code, reason = "held until it is dropped, never read")]
enum Owner {
    Tensor(Tensor),
    Object(Py<PyAny>),
    Lent(Consumed),
    /// The caller that passed the address.
    Caller,
}

// SAFETY: a block is an address and its owner, which may move to any thread. Races on its bytes are described
// at the top.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// The elements of a tensor, copied if it is shared. Not for strings.
    pub(crate) fn of_tensor(mut tensor: Tensor) -> Self {
        let bytes = tensor.view_mut().into_bytes().unwrap_or_default();
        let (data, len) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        Self { data, len, is_writable: true, _owner: Owner::Tensor(tensor) }
    }

    /// The elements of an array, which stays alive; of a copy if it is not contiguous.
    pub(crate) fn of_array(array: &Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        let copy;
        let (array, bytes) = match bytes_of(array) {
            Some(bytes) => (array, bytes),
            None => {
                copy = array.call_method1("copy", ("C",))?.cast_into()?;
                (&copy, bytes_of(&copy).unwrap_or_default())
            }
        };
        let (data, len) = (NonNull::from(bytes).cast(), bytes.len());
        let is_writable = array.getattr("flags")?.getattr("writeable")?.extract()?;
        let owner = Owner::Object(array.clone().into_any().unbind());
        Ok(Self { data, len, is_writable, _owner: owner })
    }

    /// Memory at an address that the caller keeps valid; the address may be 0 if the length is 0.
    pub(crate) fn at_address(address: usize, len: usize) -> Option<Self> {
        let data = pointer((address, len))?;
        Some(Self { data, len, is_writable: true, _owner: Owner::Caller })
    }

    /// The same for memory that was lent through DLPack.
    pub(crate) fn of_lent(
        (address, len): (usize, usize),
        is_writable: bool,
        lent: Consumed,
    ) -> Option<Self> {
        let data = pointer((address, len))?;
        Some(Self { data, len, is_writable, _owner: Owner::Lent(lent) })
    }

    pub(crate) const fn is_writable(&self) -> bool {
        self.is_writable
    }

    pub(crate) fn address(&self) -> usize {
        self.data.as_ptr().expose_provenance()
    }

    /// Whether it overlaps these bytes.
    pub(crate) fn overlaps(&self, bytes: &[u8]) -> bool {
        let (own, other) = (self.bytes().as_ptr_range(), bytes.as_ptr_range());
        own.start < other.end && other.start < own.end
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the owner keeps `len` bytes there; see the top for races.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }

    /// The bytes, to write: for outputs that Python binds to its own memory; `None` if they are read-only. The
    /// program guarantees exclusive access, as with onnxruntime.
    #[expect(clippy::mut_from_ref, reason = "Python's objects have no exclusive owner")]
    pub(crate) fn bytes_mut(&self) -> Option<&mut [u8]> {
        self.is_writable.then(|| {
            // SAFETY: as `bytes`, and the memory may be written.
            unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
        })
    }

    /// An array of this type and shape over the block, as writable as it is.
    pub(crate) fn array<'py>(
        block: &Bound<'py, Self>,
        descr: Bound<'py, PyArrayDescr>,
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = block.py();
        let data = block.get().data.as_ptr().cast();
        let mut dims: [isize; 64] = [0; 64];
        for (to, &from) in dims.iter_mut().zip(shape) {
            *to = from.try_into()?;
        }
        let n_dims = c_int::try_from(shape.len().min(dims.len()))?;
        let (dims, none) = (dims.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the GIL is held, and numpy's import loads the type.
        let subtype = unsafe { get_type_object(py, NpyTypes::PyArray_Type) };
        let (descr, flags) = (
            descr.into_dtype_ptr(),
            if block.get().is_writable { NPY_ARRAY_CARRAY } else { NPY_ARRAY_CARRAY_RO },
        );
        // SAFETY: `descr` is an owned reference, which it takes; `dims` has `n_dims` numbers; `data` has as many
        // bytes as they imply, which `Bound` keeps until the array has taken its owner.
        let array = unsafe {
            PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                subtype,
                descr,
                n_dims,
                dims,
                std::ptr::null_mut(),
                data,
                flags,
                none,
            )
        };
        // SAFETY: it is a new reference, or null with an exception set.
        let array = unsafe { Bound::from_owned_ptr_or_err(py, array) }?;
        let base = block.clone().into_any().into_ptr();
        // SAFETY: `array` is an array without a base, and `base` an owned reference, which it takes.
        let set = unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) };
        if set < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}

fn pointer((address, len): (usize, usize)) -> Option<NonNull<u8>> {
    let data = NonNull::new(std::ptr::with_exposed_provenance_mut(address));
    data.or((len == 0).then(NonNull::dangling))
}

/// The bytes of a block, for owners outside of Python.
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) Py<Block>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.get().bytes()
    }
}

/// The bytes of an array's elements, in order; `None` if they are not contiguous or not aligned.
pub(crate) fn bytes_of<'a>(array: &'a Bound<'_, PyUntypedArray>) -> Option<&'a [u8]> {
    if !(array.is_c_contiguous() && array.is_aligned()) {
        return None;
    }
    let len = array.len().checked_mul(array.dtype().itemsize())?;
    // SAFETY: it is an array's pointer, alive as long as `array`.
    let data = unsafe { (*array.as_array_ptr()).fields.data };
    let Some(data) = NonNull::new(data).filter(|_| len > 0) else { return Some(&[]) };
    // SAFETY: a C-contiguous array has its elements there, one after the other; numpy does not reallocate memory
    // of an array that is referenced, as this one is.
    Some(unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), len) })
}
