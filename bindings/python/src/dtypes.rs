//! Element types: numpy's types and ONNX's numbers.
//!
//! numpy has no bfloat16, float8 and types below 8 bits; `ml_dtypes` adds them. If it is not installed,
//! outputs of such a type are returned as unsigned integers with the same bits.

use numpy::{PyArrayDescr, PyArrayDescrMethods};
use ort_session::DType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::invalid_argument;

/// The names of types in numpy, and of the others in `ml_dtypes`.
const NAMES: &[(DType, &str)] = &[
    (DType::F32, "float32"),
    (DType::U8, "uint8"),
    (DType::I8, "int8"),
    (DType::U16, "uint16"),
    (DType::I16, "int16"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
    (DType::String, "object"),
    (DType::Bool, "bool"),
    (DType::F16, "float16"),
    (DType::F64, "float64"),
    (DType::U32, "uint32"),
    (DType::U64, "uint64"),
    (DType::Complex64, "complex64"),
    (DType::Complex128, "complex128"),
];

const ML_NAMES: &[(DType, &str)] = &[
    (DType::Bf16, "bfloat16"),
    (DType::F8E4M3Fn, "float8_e4m3fn"),
    (DType::F8E4M3Fnuz, "float8_e4m3fnuz"),
    (DType::F8E5M2, "float8_e5m2"),
    (DType::F8E5M2Fnuz, "float8_e5m2fnuz"),
    (DType::U4, "uint4"),
    (DType::I4, "int4"),
    (DType::F4E2M1, "float4_e2m1fn"),
    (DType::F8E8M0, "float8_e8m0fnu"),
    (DType::U2, "uint2"),
    (DType::I2, "int2"),
];

/// numpy's type number of the first user-defined type.
const FIRST_USER_TYPE: i32 = 256;

/// numpy's type of an array with these elements.
pub(crate) fn descr_of(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    static KNOWN: [PyOnceLock<Py<PyArrayDescr>>; 32] = [const { PyOnceLock::new() }; 32];
    let slot = usize::try_from(dtype.onnx()).ok().and_then(|at| KNOWN.get(at));
    let made = || made(py, dtype).map(Bound::unbind);
    match slot {
        Some(slot) => Ok(slot.get_or_try_init(py, made)?.bind(py).clone()),
        None => Ok(made()?.into_bound(py)),
    }
}

fn made(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    let name_in = |names: &[(DType, &'static str)]| {
        names.iter().find(|(known, _)| *known == dtype).map(|(_, name)| *name)
    };
    if let Some(name) = name_in(NAMES) {
        return PyArrayDescr::new(py, name);
    }
    let ml_dtypes = py.import("ml_dtypes").ok();
    let known = name_in(ML_NAMES).zip(ml_dtypes).and_then(|(name, of)| of.getattr(name).ok());
    match known {
        Some(scalar) => PyArrayDescr::new(py, scalar),
        None => PyArrayDescr::new(
            py,
            match dtype {
                DType::I4 | DType::I2 => "int8",
                _ if dtype.bits() > 8 => "uint16",
                _ => "uint8",
            },
        ),
    }
}

/// The element type of arrays of this type; `None` if ONNX has none. Fixed-width texts are strings.
pub(crate) fn dtype_of(descr: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    if descr.num() >= FIRST_USER_TYPE && descr.kind() != b'T' {
        let name: String = descr.getattr("name").ok()?.extract().ok()?;
        return ML_NAMES.iter().find(|(_, known)| *known == name).map(|(dtype, _)| *dtype);
    }
    Some(match (descr.kind(), descr.itemsize()) {
        (b'f', 4) => DType::F32,
        (b'i', 8) => DType::I64,
        (b'u', 1) => DType::U8,
        (b'b', 1) => DType::Bool,
        (b'i', 4) => DType::I32,
        (b'f', 2) => DType::F16,
        (b'f', 8) => DType::F64,
        (b'i', 1) => DType::I8,
        (b'u', 2) => DType::U16,
        (b'i', 2) => DType::I16,
        (b'u', 4) => DType::U32,
        (b'u', 8) => DType::U64,
        (b'c', 8) => DType::Complex64,
        (b'c', 16) => DType::Complex128,
        (b'O' | b'S' | b'U' | b'T', _) => DType::String,
        _ => return None,
    })
}

/// ONNX's number of a type of numpy or `ml_dtypes`.
#[pyfunction]
pub(crate) fn onnx_type(descr: &Bound<'_, PyArrayDescr>) -> PyResult<i32> {
    let dtype = dtype_of(descr);
    dtype.map(DType::onnx).ok_or_else(|| invalid_argument(format!("ONNX has no type for {descr}")))
}

/// Whether elements of `found` may hold the bits of a type that numpy lacks.
pub(crate) fn are_bits(found: DType, of: DType) -> bool {
    let is_ml = ML_NAMES.iter().any(|(dtype, _)| *dtype == of);
    is_ml && !of.is_packed() && matches!(found, DType::U8 | DType::U16) && found.bits() == of.bits()
}
