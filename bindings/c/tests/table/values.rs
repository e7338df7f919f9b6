//! Values: numbers, strings, sequences, maps, and memory.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{ONNXType, OrtErrorCode, OrtValue};

use crate::Type;
use crate::call::{self, c, call, failed, from_allocator, made, ok, rejected};
use crate::{cpu, model, numbers, run, session_with, tensor};

const FLOAT: Type = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
const STRING: Type = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;

#[test]
fn a_tensor_of_the_allocator_holds_what_is_written_there() {
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let dims = [2_i64, 3];
    let value = made!(CreateTensorAsOrtValue(allocator, dims.as_ptr(), 2, FLOAT));
    assert_eq!(numbers(value), [0.0; 6]);
    assert_eq!(made!(IsTensor(value)), 1);
    assert_eq!(made!(GetValueType(value)), ONNXType::ONNX_TYPE_TENSOR);
    let at = [1_i64, 2];
    let last = made!(TensorAt(value, at.as_ptr(), 2));
    assert_eq!(last.addr(), made!(GetTensorMutableData(value)).addr() + 20);
    let beyond = [2_i64, 0];
    let mut out = null_mut();
    rejected(call!(TensorAt(value, beyond.as_ptr(), 2, &raw mut out)), "location_values");
    let (mut ty, mut shape, mut n) = (FLOAT, null(), 0);
    let status = call!(GetTensorElementTypeAndShapeDataReference(
        value,
        &raw mut ty,
        &raw mut shape,
        &raw mut n
    ));
    ok(status);
    assert_eq!((ty, call::items(shape, n)), (FLOAT, &dims[..]));
    call!(ReleaseValue(value));
    let negative = [-1_i64];
    let mut value = null_mut();
    let make =
        |dims: *const i64, ty, out| call!(CreateTensorAsOrtValue(allocator, dims, 1, ty, out));
    rejected(make(negative.as_ptr(), FLOAT, &raw mut value), "shape");
    rejected(make(null(), FLOAT, &raw mut value), "shape");
    let none = Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    rejected(make(dims.as_ptr(), none, &raw mut value), "type");
    rejected(make(dims.as_ptr(), FLOAT, null_mut()), "out");
    let large = [i64::MAX];
    rejected(make(large.as_ptr(), FLOAT, &raw mut value), "shape");
}

#[test]
fn memory_of_the_program_is_as_large_as_the_tensor() {
    let (mut data, dims, info) = ([0.0_f32; 4], [5_i64], cpu());
    let mut value = null_mut();
    let (at, len) = (data.as_mut_ptr().cast(), size_of_val(&data));
    let make = |info, at, len, out| {
        call!(CreateTensorWithDataAsOrtValue(info, at, len, dims.as_ptr(), 1, FLOAT, out))
    };
    rejected(make(info, at, len, &raw mut value), "p_data_len");
    rejected(make(info, null_mut(), 20, &raw mut value), "p_data");
    rejected(make(null_mut(), at, 20, &raw mut value), "info");
    let cuda = made!(CreateMemoryInfo(
        c"Cuda".as_ptr(),
        onnxruntime::ort_sys::OrtAllocatorType::OrtDeviceAllocator,
        0,
        onnxruntime::ort_sys::OrtMemType::OrtMemTypeDefault,
    ));
    let (code, message) = failed(make(cuda, at, 20, &raw mut value));
    assert_eq!(code, OrtErrorCode::ORT_NOT_IMPLEMENTED);
    assert!(message.contains("Cuda"), "{message}");
    assert_eq!(call::text(made!(MemoryInfoGetName(info))), "Cpu");
    assert_eq!(made!(CompareMemoryInfo(info, cpu())), 0);
    call!(ReleaseMemoryInfo(info));
}

#[test]
fn an_allocator_counts_its_allocations() {
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let block = made!(AllocatorAlloc(allocator, 100));
    assert_eq!(block.addr() % 64, 0);
    let stats = made!(AllocatorGetStats(allocator));
    let in_use = call::text(call!(GetKeyValue(stats, c"InUse".as_ptr())));
    assert!(in_use.parse::<u64>().is_ok_and(|n| n >= 100), "{in_use}");
    call!(ReleaseKeyValuePairs(stats));
    ok(call!(AllocatorFree(allocator, block)));
    rejected(call!(AllocatorFree(null_mut(), block)), "ort_allocator");
    let info = made!(AllocatorGetInfo(allocator));
    assert_eq!(call::text(made!(MemoryInfoGetName(info))), "Cpu");
}

fn texts(items: &[&str]) -> *mut OrtValue {
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let dims = [i64::try_from(items.len()).unwrap_or_default()];
    let value = made!(CreateTensorAsOrtValue(allocator, dims.as_ptr(), 1, STRING));
    let items: Vec<_> = items.iter().map(|text| c(text)).collect();
    let items: Vec<_> = items.iter().map(|text| text.as_ptr()).collect();
    ok(call!(FillStringTensor(value, items.as_ptr(), items.len())));
    value
}

#[test]
fn strings_are_filled_and_read() {
    let value = texts(&["ab", "", "cde"]);
    ok(call!(FillStringTensorElement(value, c"f".as_ptr(), 1)));
    assert_eq!(made!(GetStringTensorDataLength(value)), 6);
    let (mut bytes, mut offsets) = ([0_u8; 6], [9_usize; 3]);
    let (to, at) = (bytes.as_mut_ptr().cast(), offsets.as_mut_ptr());
    rejected(call!(GetStringTensorContent(value, to, 5, at, 3)), "s_len");
    rejected(call!(GetStringTensorContent(value, to, 6, at, 2)), "offsets_len");
    ok(call!(GetStringTensorContent(value, to, 6, at, 3)));
    assert_eq!((&bytes, offsets), (b"abfcde", [0, 2, 3]));
    let (mut ty, mut shape, mut n) = (STRING, null(), 0);
    let (ty, shape, n_dims) = (&raw mut ty, &raw mut shape, &raw mut n);
    ok(call!(GetTensorElementTypeAndShapeDataReference(value, ty, shape, n_dims)));
    assert_eq!(n, 1);
    assert_eq!(made!(GetStringTensorElementLength(value, 2)), 3);
    ok(call!(GetStringTensorElement(value, 3, 2, to)));
    assert_eq!(&bytes[..3], b"cde");
    rejected(call!(GetStringTensorElement(value, 3, 3, to)), "index");
    rejected(call!(FillStringTensor(value, null(), 3)), "s");
    let mut out = null_mut();
    rejected(call!(GetTensorMutableData(value, &raw mut out)), "value");
    let mut numbers = [0.0_f32];
    let number = tensor(&mut numbers, &[1]);
    rejected(call!(FillStringTensorElement(number, c"f".as_ptr(), 0)), "value");
    call!(ReleaseValue(value));
}

#[test]
fn a_string_is_written_into_a_buffer() {
    let value = texts(&["a", "bcd", "e"]);
    let buffer =
        |value, index, n, out| call!(GetResizedStringTensorElementBuffer(value, index, n, out));
    let mut to = null_mut();
    ok(buffer(value, 1, 2, &raw mut to));
    // It has the beginning of the string.
    assert_eq!(call::items(to.cast::<u8>(), 2), b"bc");
    call::items_mut(to.cast::<u8>(), 2).copy_from_slice(b"xy");
    assert_eq!(made!(GetStringTensorDataLength(value)), 4);
    assert_eq!(made!(GetStringTensorElementLength(value, 1)), 2);
    let mut read = [0_u8; 2];
    ok(call!(GetStringTensorElement(value, 2, 1, read.as_mut_ptr().cast())));
    assert_eq!(read, *b"xy");
    // It stays valid after a read, and must hold UTF-8 when it is read.
    call::items_mut(to.cast::<u8>(), 2)[0] = 0xff;
    let mut n = 0;
    let (_, message) = failed(call!(GetStringTensorDataLength(value, &raw mut n)));
    assert!(message.contains("string 1"), "{message}");
    ok(call!(FillStringTensorElement(value, c"new".as_ptr(), 1)));
    assert_eq!(made!(GetStringTensorElementLength(value, 1)), 3);
    rejected(buffer(value, 3, 2, &raw mut to), "index");
    rejected(buffer(value, 1, 2, null_mut()), "buffer");
    let mut number = [1.0_f32];
    let number = crate::tensor(&mut number, &[1]);
    rejected(buffer(number, 0, 2, &raw mut to), "value");
    [value, number].into_iter().for_each(|value| call!(ReleaseValue(value)));
}

#[test]
fn sequences_and_maps_are_composed_and_taken_apart() {
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let (keys, mut data) = (texts(&["a", "b"]), [1.0_f32, 2.0]);
    let values = tensor(&mut data, &[2]);
    let pair = [keys.cast_const(), values.cast_const()];
    let map = made!(CreateValue(pair.as_ptr(), 2, ONNXType::ONNX_TYPE_MAP));
    assert_eq!(made!(GetValueType(map)), ONNXType::ONNX_TYPE_MAP);
    assert_eq!(made!(GetValueCount(map)), 2);
    assert_eq!(numbers(made!(GetValue(map, 1, allocator))), [1.0, 2.0]);
    let mut out = null_mut();
    rejected(call!(GetValue(map, 2, allocator, &raw mut out)), "index");
    rejected(call!(GetValue(values, 0, allocator, &raw mut out)), "value");
    let items = [values.cast_const(); 3];
    let sequence = made!(CreateValue(items.as_ptr(), 3, ONNXType::ONNX_TYPE_SEQUENCE));
    assert_eq!(made!(GetValueCount(sequence)), 3);
    assert_eq!(numbers(made!(GetValue(sequence, 2, allocator))), [1.0, 2.0]);
    let status = call!(CreateValue(pair.as_ptr(), 2, ONNXType::ONNX_TYPE_SEQUENCE, &raw mut out));
    assert_eq!(failed(status).0, OrtErrorCode::ORT_INVALID_ARGUMENT);
    rejected(
        call!(CreateValue(pair.as_ptr(), 2, ONNXType::ONNX_TYPE_TENSOR, &raw mut out)),
        "value_type",
    );
    let info = made!(GetTypeInfo(map));
    let cast = made!(CastTypeInfoToMapTypeInfo(info));
    assert_eq!(made!(GetMapKeyType(cast)), STRING);
    for value in [map, sequence, keys, values] {
        call!(ReleaseValue(value));
    }
}

#[test]
fn a_run_returns_sequences_and_maps() {
    let text = "graph(x: float[2,2]) -> (s, z) {
        s = SplitToSequence-11 [axis: 0] (x)
        z = ai.onnx.ml:ZipMap-1 [classlabels_int64s: [7, 8]] (x)
    }";
    let session = session_with(&model(text), null());
    let mut x = [1.0_f32, 2.0, 3.0, 4.0];
    let (x, mut outputs) = (tensor(&mut x, &[2, 2]), [("s", null_mut()), ("z", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let [(_, sequence), (_, maps)] = outputs;
    assert_eq!(numbers(made!(GetValue(sequence, 1, allocator))), [3.0, 4.0]);
    let map = made!(GetValue(maps, 1, allocator));
    assert_eq!(numbers(made!(GetValue(map, 1, allocator))), [3.0, 4.0]);
    let name = made!(SessionGetOutputName(session, 1, allocator));
    assert_eq!(from_allocator(name), "z");
}
