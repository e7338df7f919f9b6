//! `OrtTensorTypeAndShapeInfo`: the element type and dimensions of a tensor.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};

use ort_session::{DType, Dim, TensorType};
use ort_sys::ONNXTensorElementDataType;

use crate::element_type::{number, numbered};
use crate::error::{Error, text};
use crate::ffi::{Names, Out, OutHandle, Outs, export};

/// An element type and dimensions, −1 if unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct TensorInfo {
    pub(crate) dtype: Option<DType>,
    pub(crate) dims: Vec<i64>,
    /// The names of dimensions; empty for unnamed ones.
    pub(crate) symbols: Vec<CString>,
    /// Whether the rank is known.
    pub(crate) has_shape: bool,
}

impl TensorInfo {
    pub(crate) fn of_shape(dtype: DType, shape: &[usize]) -> Self {
        Self {
            dtype: Some(dtype),
            dims: signed(shape),
            symbols: vec![CString::default(); shape.len()],
            has_shape: true,
        }
    }

    pub(crate) fn of_type(ty: &TensorType) -> Self {
        let dims = ty.dims.as_deref().unwrap_or_default();
        let dim = |dim: &Dim| dim.known().map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let symbol = |dim: &Dim| match dim {
            Dim::Symbol(name) => text(name),
            _ => CString::default(),
        };
        Self {
            dtype: Some(ty.dtype),
            dims: dims.iter().map(dim).collect(),
            symbols: dims.iter().map(symbol).collect(),
            has_shape: ty.dims.is_some(),
        }
    }

    /// The type, as far as it is known; `None` without an element type.
    pub(crate) fn to_type(&self) -> Option<TensorType> {
        let dim = |(&dim, symbol): (&i64, &CString)| match usize::try_from(dim) {
            Ok(n) => Dim::Known(n),
            Err(_) if symbol.is_empty() => Dim::Unknown,
            Err(_) => Dim::Symbol(symbol.to_string_lossy().into()),
        };
        let dims = self.has_shape.then(|| self.dims.iter().zip(&self.symbols).map(dim).collect());
        Some(TensorType { dtype: self.dtype?, dims })
    }
}

/// Dimensions as in C.
pub(crate) fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect()
}

/// Dimensions of a tensor.
pub(crate) fn unsigned(dims: &[i64]) -> Result<Vec<usize>, Error> {
    let dims = dims.iter().map(|&n| usize::try_from(n));
    dims.collect::<Result<_, _>>().map_err(|_| Error::argument("shape", "has a negative dimension"))
}

export! {
    fn CreateTensorTypeAndShapeInfo(out: OutHandle<'_, TensorInfo>) {
        out.set(TensorInfo::default());
        Ok(())
    }

    fn SetTensorElementType(info: &mut TensorInfo, type_: i32) {
        info.dtype = numbered(type_)?;
        Ok(())
    }

    fn SetDimensions(info: &mut TensorInfo, dim_values: &[i64][dim_count], dim_count: usize) {
        if dim_values.iter().any(|&n| n < -1) {
            return Err(Error::argument("dim_values", "has a dimension below -1"));
        }
        info.dims = dim_values.to_vec();
        info.symbols.resize(dim_count, CString::default());
        info.has_shape = true;
        Ok(())
    }

    fn SetSymbolicDimensions(
        info: &mut TensorInfo,
        dim_params: Names<'_>[dim_params_length],
        dim_params_length: usize,
    ) {
        if dim_params_length != info.dims.len() {
            let n = info.dims.len();
            return Err(Error::argument("dim_params_length", format!("is not the rank, {n}")));
        }
        info.symbols = dim_params.0.iter().map(|name| text(name)).collect();
        Ok(())
    }

    fn GetTensorElementType(info: &TensorInfo, out: Out<'_, ONNXTensorElementDataType>) {
        out.set(number(info.dtype));
        Ok(())
    }

    fn GetDimensionsCount(info: &TensorInfo, out: Out<'_, usize>) {
        out.set(info.dims.len());
        Ok(())
    }

    fn GetDimensions(
        info: &TensorInfo,
        dim_values: Outs<'_, i64>[dim_values_length],
        dim_values_length: usize,
    ) {
        let _ = dim_values_length;
        dim_values.fill(info.dims.iter().copied());
        Ok(())
    }

    fn GetSymbolicDimensions(
        info: &TensorInfo,
        dim_params: Outs<'_, *const c_char>[dim_params_length],
        dim_params_length: usize,
    ) {
        let _ = dim_params_length;
        dim_params.fill(info.symbols.iter().map(|symbol| symbol.as_ptr()));
        Ok(())
    }

    fn GetTensorShapeElementCount(info: &TensorInfo, out: Out<'_, usize>) {
        let n = unsigned(&info.dims)?.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
        out.set(n.ok_or_else(|| Error::invalid("the shape is too large"))?);
        Ok(())
    }

    fn TensorTypeAndShape_HasShape(info: &TensorInfo) -> bool = false; {
        Ok(info.has_shape)
    }

    fn ReleaseTensorTypeAndShapeInfo(info: Option<Box<TensorInfo>>) -> () = (); {
        drop(info);
        Ok(())
    }
}
