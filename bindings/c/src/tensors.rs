//! Tensors: created in memory of the library or the program, and access to their elements.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_void;

use ort_session::DType;
use ort_sys::{ONNXTensorElementDataType, OrtSyncStream};

use crate::element_type::{defined, number};
use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Allocator, Block, MutTargets, Out, OutHandle, OutRef, Shared, export};
use crate::memory_info::{CPU, MemoryInfo};
use crate::tensor_info::{TensorInfo, unsigned};
use crate::value::Value;

/// The bytes that elements of these dimensions take.
fn n_bytes(dtype: DType, shape: &[usize]) -> Result<usize, Error> {
    let n = shape.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
    n.and_then(|n| dtype.n_bytes(n)).ok_or_else(|| Error::argument("shape", "is too large"))
}

/// A tensor over memory of the program.
fn over(data: *mut c_void, len: usize, dtype: DType, shape: Vec<usize>) -> Result<Value, Error> {
    if dtype == DType::String {
        return Err(Error::argument("type", "is string, which cannot use the caller's memory"));
    }
    let needed = n_bytes(dtype, &shape)?;
    if len < needed {
        return Err(Error::argument(
            "p_data_len",
            format!("is {len}, and the elements take {needed}"),
        ));
    }
    let block = Block::of_caller(data, needed).ok_or_else(|| Error::null("p_data"))?;
    Value::of_block(block, dtype, shape)
}

/// Copies a tensor to one of the same type and shape.
fn copy(from: &Value, to: &Value) -> Result<(), Error> {
    if from.shape()? != to.shape()? {
        return Err(Error::argument("dst_tensors", "has a tensor of another type or shape"));
    }
    let elements = if from.overlaps(to) { from.to_owned_value()? } else { from.lent()?.into() };
    to.assign(elements)
}

export! {
    /// All tensors are in the memory of the CPU.
    fn CopyTensors(
        _env: Shared<'_, Env>,
        src_tensors: Vec<&Value>[num_tensors],
        dst_tensors: MutTargets<'_, Value>[num_tensors],
        stream: *mut OrtSyncStream,
        num_tensors: usize,
    ) {
        let _ = num_tensors;
        if !stream.is_null() {
            return Err(Error::argument("stream", "is not null: the CPU has no streams"));
        }
        src_tensors.iter().zip(dst_tensors.0).try_for_each(|(from, to)| copy(from, to))
    }

    fn CreateTensorAsOrtValue(
        allocator: Allocator<'_>,
        shape: &[i64][shape_len],
        shape_len: usize,
        type_: i32,
        out: OutHandle<'_, Value>,
    ) {
        let (_, dtype, shape) = (shape_len, defined(type_)?, unsigned(shape)?);
        out.set(match dtype {
            DType::String => Value::of_strings(&shape)?,
            dtype => {
                let block = allocator.block(n_bytes(dtype, &shape)?)?;
                Value::of_block(block, dtype, shape)?
            }
        });
        Ok(())
    }

    fn CreateTensorWithDataAsOrtValue(
        info: &MemoryInfo,
        p_data: *mut c_void,
        p_data_len: usize,
        shape: &[i64][shape_len],
        shape_len: usize,
        type_: i32,
        out: OutHandle<'_, Value>,
    ) {
        let _ = shape_len;
        info.expect_cpu()?;
        out.set(over(p_data, p_data_len, defined(type_)?, unsigned(shape)?)?);
        Ok(())
    }

    /// The allocator frees the memory when the last copy of the value is released.
    fn CreateTensorWithDataAndDeleterAsOrtValue(
        deleter: Allocator<'_>,
        p_data: *mut c_void,
        p_data_len: usize,
        shape: &[i64][shape_len],
        shape_len: usize,
        type_: i32,
        out: OutHandle<'_, Value>,
    ) {
        let (_, dtype, shape) = (shape_len, defined(type_)?, unsigned(shape)?);
        // All checks are here; the program keeps the memory if they fail.
        drop(over(p_data, p_data_len, dtype, shape.clone())?);
        let block = Block::of_caller(p_data, n_bytes(dtype, &shape)?);
        let block = block.ok_or_else(|| Error::null("p_data"))?.freed_by(deleter);
        out.set(Value::of_block(block, dtype, shape)?);
        Ok(())
    }

    fn GetTensorMutableData(value: Shared<'_, Value>, out: Out<'_, *mut c_void>) {
        out.set(value.block()?.as_ptr());
        Ok(())
    }

    fn GetTensorData(value: &Value, out: Out<'_, *const c_void>) {
        out.set(value.block()?.as_ptr().cast_const());
        Ok(())
    }

    fn GetTensorSizeInBytes(ort_value: &Value, size: Out<'_, usize>) {
        size.set(ort_value.block()?.len());
        Ok(())
    }

    fn GetTensorMemoryInfo(_value: &Value, mem_info: OutRef<'_, MemoryInfo>) {
        mem_info.set(&CPU);
        Ok(())
    }

    fn TensorAt(
        value: Shared<'_, Value>,
        location_values: &[i64][location_values_count],
        location_values_count: usize,
        out: Out<'_, *mut c_void>,
    ) {
        let (dtype, shape) = value.shape()?;
        let at = unsigned(location_values)?;
        let fits = at.iter().zip(&shape).all(|(&at, &n)| at < n);
        if location_values_count != shape.len() || !fits {
            return Err(Error::argument("location_values", "is outside of the tensor"));
        }
        if dtype.is_packed() {
            return Err(Error::not_implemented("elements of fewer than 8 bits have no address"));
        }
        let index = at.iter().zip(&shape).fold(0, |index, (&at, &n)| index * n + at);
        let offset = dtype.n_bytes(index).unwrap_or_default();
        out.set(value.block()?.as_ptr().wrapping_byte_add(offset));
        Ok(())
    }

    fn GetTensorTypeAndShape(value: &Value, out: OutHandle<'_, TensorInfo>) {
        let (dtype, shape) = value.shape()?;
        let info = TensorInfo::of_shape(dtype, &shape);
        out.set(info);
        Ok(())
    }

    fn GetTensorElementTypeAndShapeDataReference(
        value: &Value,
        elem_type: Out<'_, ONNXTensorElementDataType>,
        shape_data: Out<'_, *const i64>,
        shape_data_count: Out<'_, usize>,
    ) {
        let (dtype, dims) = value.dims()?;
        elem_type.set(number(Some(dtype)));
        shape_data.set(dims.as_ptr());
        shape_data_count.set(dims.len());
        Ok(())
    }
}
