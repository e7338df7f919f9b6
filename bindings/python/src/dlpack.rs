//! DLPack: exchange of tensors between libraries, in capsules.
//!
//! A capsule holds a C struct with the tensor and a deleter. The consumer renames the capsule, and calls the deleter
//! when done. We produce unversioned capsules and accept both kinds. Elements of fewer than 8 bits are packed.
//!
//! Source: DLPack 1.1, `dlpack.h`; <https://dmlc.github.io/dlpack/latest/>.

#![expect(unsafe_code, reason = "C structs and functions")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use ort_session::DType;
use ort_session::provider::Shape;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::array::Block;

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";
const USED_NAME: &CStr = c"used_dltensor";
const USED_VERSIONED_NAME: &CStr = c"used_dltensor_versioned";
/// The device type of the CPU.
pub(crate) const CPU: i32 = 1;
/// The major version of these structs.
const VERSION: u32 = 1;
/// Flags: the memory is read-only; elements of fewer than 8 bits have a byte each.
const READ_ONLY: u64 = 1;
const PADDED: u64 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct DlTensor {
    data: *mut u8,
    device_type: i32,
    device_id: i32,
    n_dims: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    dims: *mut i64,
    /// In elements; null for row-major.
    strides: *mut i64,
    offset: u64,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// The contents of a consumed capsule; its deleter is called on drop.
#[derive(Debug)]
pub(crate) enum Consumed {
    Plain(NonNull<Managed>),
    Versioned(NonNull<Versioned>),
}

/// A tensor over memory that another library lends.
pub(crate) struct Imported {
    pub(crate) block: Block,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
}

/// The targets of the pointers in a capsule of ours.
struct Exported {
    _block: Py<Block>,
    dims: Vec<i64>,
    strides: Vec<i64>,
}

impl Consumed {
    /// Consumes a capsule.
    fn of(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let unusable = || PyTypeError::new_err("expected an unused DLPack capsule");
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| unusable())?;
        let take = |name, used: &'static CStr| -> Option<NonNull<c_void>> {
            let pointer = capsule.pointer_checked(Some(name)).ok()?;
            // SAFETY: it is a capsule, the GIL is held, and a constant outlives it.
            let renamed = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
            (renamed == 0).then_some(pointer)
        };
        if let Some(managed) = take(NAME, USED_NAME) {
            return Ok(Consumed::Plain(managed.cast()));
        }
        take(VERSIONED_NAME, USED_VERSIONED_NAME)
            .map(|managed| Consumed::Versioned(managed.cast()))
            .ok_or_else(unusable)
    }

    /// The tensor, and its flags.
    fn tensor(&self) -> PyResult<(DlTensor, u64)> {
        match self {
            // SAFETY: a capsule of this name holds this struct, which is ours until its deleter is called.
            Consumed::Plain(managed) => Ok((unsafe { managed.as_ref() }.tensor, 0)),
            Consumed::Versioned(managed) => {
                // SAFETY: as above; the version comes first in every version.
                let major = unsafe { managed.cast::<u32>().read() };
                if major != VERSION {
                    return Err(PyBufferError::new_err(format!(
                        "the capsule has DLPack version {major}, only {VERSION} is supported"
                    )));
                }
                // SAFETY: as above, and of a version with this struct.
                let managed = unsafe { managed.as_ref() };
                Ok((managed.tensor, managed.flags))
            }
        }
    }
}

impl Drop for Consumed {
    fn drop(&mut self) {
        match *self {
            Consumed::Plain(managed) => {
                // SAFETY: as in `tensor`.
                if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
                    // SAFETY: its own deleter, called once, and the memory is no longer used.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
            Consumed::Versioned(managed) => {
                // SAFETY: as in `tensor`: every version has this field in the same place.
                if let Some(deleter) = unsafe { managed.as_ref() }.deleter {
                    // SAFETY: as above.
                    unsafe { deleter(managed.as_ptr()) }
                }
            }
        }
    }
}

impl Imported {
    /// The tensor in a capsule: row-major, on the CPU, with an element type of ONNX.
    pub(crate) fn of(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let consumed = Consumed::of(capsule)?;
        let (tensor, flags) = consumed.tensor()?;
        let DlTensor { code, bits, lanes, device_type, .. } = tensor;
        if device_type != CPU {
            return Err(PyRuntimeError::new_err(format!(
                "the tensor is on device {device_type}:{}, only CPU memory ({CPU}) is supported",
                tensor.device_id
            )));
        }
        let is_it =
            |dtype: &&DType| code_of(**dtype) == Some(code) && dtype.bits() == usize::from(bits);
        let dtype = DType::ALL.iter().find(is_it).copied();
        let is_packed = dtype.is_some_and(DType::is_packed) && flags & PADDED == 0;
        let dtype = dtype.filter(|_| lanes == 1 && (bits >= 8 || is_packed)).ok_or_else(|| {
            let text = format!("code {code}, {bits} bits, {lanes} lanes");
            PyRuntimeError::new_err(format!("Unsupported DLPack data type: {text}"))
        })?;
        let shape = tensor.row_major()?;
        let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
        let n_bytes = n.and_then(|n| dtype.n_bytes(n));
        let n_bytes = n_bytes.ok_or_else(|| PyRuntimeError::new_err("the shape is too large"))?;
        let address = tensor.data.expose_provenance().wrapping_add(usize::try_from(tensor.offset)?);
        let block = Block::of_lent((address, n_bytes), flags & READ_ONLY == 0, consumed);
        let block = block.ok_or_else(|| PyRuntimeError::new_err("the tensor has no memory"))?;
        Ok(Self { block, dtype, shape })
    }
}

impl DlTensor {
    /// The dimensions of a contiguous tensor.
    fn row_major(&self) -> PyResult<Shape> {
        let n_dims = usize::try_from(self.n_dims)?;
        if n_dims == 0 {
            return Ok(Shape::new());
        }
        let list = |pointer: *mut i64| {
            NonNull::new(pointer).map(|pointer| {
                // SAFETY: the pointer has one number per dimension, as long as the tensor is lent.
                unsafe { std::slice::from_raw_parts(pointer.as_ptr(), n_dims) }
            })
        };
        let dims =
            list(self.dims).ok_or_else(|| PyRuntimeError::new_err("the tensor has no shape"))?;
        let shape: Shape =
            dims.iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>()?;
        let Some(strides) = list(self.strides) else { return Ok(shape) };
        let mut next = 1_i64;
        let is_row_major = dims.iter().zip(strides).rev().all(|(&dim, &stride)| {
            let is_next = dim == 1 || stride == next;
            next = next.saturating_mul(dim);
            is_next
        });
        if is_row_major || shape.contains(&0) {
            return Ok(shape);
        }
        Err(PyRuntimeError::new_err(
            "only contiguous tensors in row-major order are supported: make such a copy",
        ))
    }
}

/// A capsule of the tensor in a block, which it keeps alive.
pub(crate) fn capsule_of<'py>(
    block: &Bound<'py, Block>,
    dtype: DType,
    shape: &[usize],
) -> PyResult<Bound<'py, PyCapsule>> {
    if !block.get().is_writable() {
        let text = "the value is in read-only memory, which an unversioned capsule cannot express";
        return Err(PyBufferError::new_err(text));
    }
    let code = code_of(dtype);
    let code = code.ok_or_else(|| PyBufferError::new_err(format!("DLPack has no {dtype}")))?;
    let dims = shape.iter().map(|&dim| i64::try_from(dim)).collect::<Result<Vec<_>, _>>()?;
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = dims[i].saturating_mul(strides[i]);
    }
    let exported = Exported { _block: block.clone().unbind(), dims, strides };
    let exported = Box::into_raw(Box::new(exported));
    // SAFETY: it was created a line above.
    let Exported { dims, strides, .. } = unsafe { &mut *exported };
    let tensor = DlTensor {
        data: std::ptr::with_exposed_provenance_mut(block.get().address()),
        device_type: CPU,
        device_id: 0,
        n_dims: dims.len().try_into()?,
        code,
        bits: dtype.bits().try_into()?,
        lanes: 1,
        dims: dims.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        offset: 0,
    };
    let managed = Managed { tensor, context: exported.cast(), deleter: Some(delete) };
    let managed = NonNull::from(Box::leak(Box::new(managed)));
    // SAFETY: the struct lives until `delete` is called, which `drop_unused` does unless it was consumed.
    unsafe {
        PyCapsule::new_with_pointer_and_destructor(
            block.py(),
            managed.cast(),
            NAME,
            Some(drop_unused),
        )
    }
}

/// The deleter of our capsules, called once by the consumer or by [`drop_unused`].
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `capsule_of` created it, and it is no longer used.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    let mut exported = Some(unsafe { Box::from_raw(managed.context.cast::<Exported>()) });
    // With the GIL, memory is released at once; a finalizing interpreter cannot provide the GIL.
    Python::try_attach(|_| drop(exported.take()));
}

/// The destructor of our capsules, called by Python.
unsafe extern "C" fn drop_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: it is a capsule, and the GIL is held.
    if unsafe { ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: as above, and it has this name.
    let managed = unsafe { ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()) };
    // SAFETY: it was not consumed, or the capsule would have another name.
    unsafe { delete(managed.cast()) }
}

/// DLPack's type code; the number of bits is a separate field.
fn code_of(dtype: DType) -> Option<u8> {
    Some(match dtype {
        DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => 0,
        DType::U2 | DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => 1,
        DType::F16 | DType::F32 | DType::F64 => 2,
        DType::Bf16 => 4,
        DType::Complex64 | DType::Complex128 => 5,
        DType::Bool => 6,
        DType::F8E4M3Fn => 10,
        DType::F8E4M3Fnuz => 11,
        DType::F8E5M2 => 12,
        DType::F8E5M2Fnuz => 13,
        DType::F8E8M0 => 14,
        DType::F4E2M1 => 17,
        _ => return None,
    })
}
