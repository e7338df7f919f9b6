//! What a custom kernel sees of its node, its session and the run. A kernel asserts it: a test fails by ending the
//! process.

use std::ffi::{c_char, c_int};
use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{
    OrtCustomOp, OrtErrorCode, OrtKernelContext, OrtKernelInfo, OrtLoggingLevel, OrtMemType, OrtOp,
    OrtOpAttrType as Kind, OrtStatusPtr, OrtValue,
};

use crate::call::{self, call, failed, from_allocator, made, ok, rejected};
use crate::custom_kernels::{self as kernels, Kernel, Op, elements, input, output, shape};
use crate::custom_ops::{ANY, FLOAT, model, options};
use crate::{cpu, numbers, run, session_with, tensor};

const NOTHING: OrtStatusPtr = OrtStatusPtr(null_mut());

/// A text that a function of the kernel's info writes to a buffer of sufficient size.
fn written(get: impl Fn(*mut c_char, *mut usize) -> OrtStatusPtr) -> String {
    let mut size = 0;
    ok(get(null_mut(), &raw mut size));
    let mut room = vec![0_u8; size];
    if size > 1 {
        size -= 1;
        rejected(get(room.as_mut_ptr().cast(), &raw mut size), "size");
        assert_eq!(size, room.len());
    }
    ok(get(room.as_mut_ptr().cast(), &raw mut size));
    call::text(room.as_ptr().cast())
}

fn check_node(info: *const OrtKernelInfo) {
    assert_eq!(made!(KernelInfo_GetInputCount(info)), 3);
    assert_eq!(made!(KernelInfo_GetOutputCount(info)), 1);
    let name_of = |index| written(|to, n| call!(KernelInfo_GetInputName(info, index, to, n)));
    assert_eq!([0, 1, 2].map(name_of), ["x", "", "c"]);
    assert_eq!(written(|to, n| call!(KernelInfo_GetOutputName(info, 0, to, n))), "y");
    assert_eq!(written(|to, n| call!(KernelInfo_GetOperatorDomain(info, to, n))), "test");
    assert_eq!(written(|to, n| call!(KernelInfo_GetOperatorType(info, to, n))), "Op");
    assert_eq!(made!(KernelInfo_GetOperatorSinceVersion(info)), 3);
    let mut n = 0;
    ok(call!(KernelInfo_GetNodeName(info, null_mut(), &raw mut n)));
    rejected(call!(KernelInfo_GetInputName(info, 3, null_mut(), &raw mut n)), "index");
    let ty = made!(KernelInfo_GetInputTypeInfo(info, 0));
    let tensor_info = made!(CastTypeInfoToTensorInfo(ty));
    assert_eq!(made!(GetTensorElementType(tensor_info)), FLOAT);
    call!(ReleaseTypeInfo(ty));
    let ty = made!(KernelInfo_GetOutputTypeInfo(info, 0));
    call!(ReleaseTypeInfo(ty));
    let (mut is_constant, mut value): (c_int, *const OrtValue) = (7, null());
    let mut constant =
        |i| call!(KernelInfoGetConstantInput_tensor(info, i, &raw mut is_constant, &raw mut value));
    ok(constant(0));
    ok(constant(2));
    rejected(constant(3), "index");
    assert_eq!((is_constant, elements::<f32>(value)), (1, &[5.0_f32, 6.0][..]));
    let default = made!(GetAllocatorWithDefaultOptions());
    assert_eq!(made!(KernelInfoGetAllocator(info, OrtMemType::OrtMemTypeDefault)), default);
    let entries = made!(KernelInfo_GetConfigEntries(info));
    assert_eq!(call::text(call!(GetKeyValue(entries, c"my.key".as_ptr()))), "mine");
    call!(ReleaseKeyValuePairs(entries));
}

fn check_attributes(info: *const OrtKernelInfo) {
    let (mut float, mut int) = (0.0, 0);
    ok(call!(KernelInfoGetAttribute_float(info, c"f".as_ptr(), &raw mut float)));
    ok(call!(KernelInfoGetAttribute_int64(info, c"i".as_ptr(), &raw mut int)));
    assert_eq!((float, int), (1.5, 7));
    let text = |to, n| call!(KernelInfoGetAttribute_string(info, c"s".as_ptr(), to, n));
    assert_eq!(written(text), "text");
    for (name, word) in [(c"f", "`f` is not an integer"), (c"none", "none")] {
        let status = call!(KernelInfoGetAttribute_int64(info, name.as_ptr(), &raw mut int));
        let (code, message) = failed(status);
        assert_eq!(code, OrtErrorCode::ORT_FAIL);
        assert!(message.contains(word), "{message}");
    }
    let (mut floats, mut ints, mut n) = ([0.0_f32; 2], [0_i64; 3], 2);
    let name = c"floats".as_ptr();
    ok(call!(KernelInfoGetAttributeArray_float(info, name, floats.as_mut_ptr(), &raw mut n)));
    let name = c"ints".as_ptr();
    let mut get = |n| call!(KernelInfoGetAttributeArray_int64(info, name, ints.as_mut_ptr(), n));
    rejected(get(&raw mut n), "size");
    ok(get(&raw mut n));
    assert_eq!((floats, ints, n), ([0.5, 2.0], [1, 2, 3], 3));
    let (allocator, name) = (made!(GetAllocatorWithDefaultOptions()), c"strings".as_ptr());
    let (mut texts, mut n) = (null_mut(), 0);
    let get = call!(KernelInfoGetAttributeArray_string(
        info,
        name,
        allocator,
        &raw mut texts,
        &raw mut n
    ));
    ok(get);
    let strings = call::items(texts, n).iter().map(|text| from_allocator(*text));
    assert_eq!(strings.collect::<Vec<_>>(), ["a", "bc"]);
    ok(call!(AllocatorFree(allocator, texts.cast())));
    let tensor = made!(KernelInfoGetAttribute_tensor(info, c"t".as_ptr(), allocator));
    assert_eq!((shape(tensor), numbers(tensor)), (vec![2], &[3.0_f32, 4.0][..]));
    call!(ReleaseValue(tensor));
    let mut value = null_mut();
    let get = call!(KernelInfoGetAttribute_tensor(info, c"f".as_ptr(), allocator, &raw mut value));
    assert_eq!(failed(get).0, OrtErrorCode::ORT_FAIL);
}

fn check_context(context: *mut OrtKernelContext) {
    let context = context.cast_const();
    assert_eq!(made!(KernelContext_GetInputCount(context)), 3);
    assert_eq!(made!(KernelContext_GetOutputCount(context)), 1);
    let (mut value, mut pointer) = (null(), null_mut());
    ok(call!(KernelContext_GetInput(context, 1, &raw mut value)));
    assert!(value.is_null());
    rejected(call!(KernelContext_GetInput(context, 3, &raw mut value)), "index");
    rejected(call!(KernelContext_GetInput(null(), 0, &raw mut value)), "context");
    let info = cpu();
    let default = made!(GetAllocatorWithDefaultOptions());
    assert_eq!(made!(KernelContext_GetAllocator(context, info)), default);
    call!(ReleaseMemoryInfo(info));
    let (code, message) = failed(call!(KernelContext_GetResource(context, 1, 2, &raw mut pointer)));
    assert_eq!(code, OrtErrorCode::ORT_NOT_IMPLEMENTED);
    assert!(message.starts_with("KernelContext_GetResource"), "{message}");
    assert!(made!(KernelContext_GetGPUComputeStream(context)).is_null());
    let logger = made!(KernelContext_GetLogger(context));
    assert_eq!(
        made!(Logger_GetLoggingSeverityLevel(logger)),
        OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING
    );
    let (level, text) = (OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING, c"a kernel says".as_ptr());
    let (file, function) = (c"file".as_ptr(), c"function".as_ptr());
    ok(call!(Logger_LogMessage(logger, level, text, file, 1, function)));
    rejected(call!(Logger_LogMessage(logger, level, null(), file, 1, function)), "message");
}

/// `y = c`, after all checks.
fn check(kernel: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    check_node(kernel.info);
    check_attributes(kernel.info);
    check_context(context);
    let (wrong, mut value) = ([-1_i64], null_mut());
    let get = |index, shape: &[i64; 1], out| {
        call!(KernelContext_GetOutput(context, index, shape.as_ptr(), 1, out))
    };
    rejected(get(0, &wrong, &raw mut value), "shape");
    rejected(get(1, &[2], &raw mut value), "index");
    // An output is there once the kernel has created it.
    assert!(made!(KernelContext_GetPreallocatedOutput(context, 0)).is_null());
    rejected(
        call!(KernelContext_GetPreallocatedOutput(context, 1, &raw mut value)),
        "output_index",
    );
    output::<f32>(context, 0, &[2]).copy_from_slice(elements(input(context, 2)));
    ok(get(0, &[2], &raw mut value));
    assert_eq!(made!(KernelContext_GetPreallocatedOutput(context, 0)), value);
    let (code, message) = failed(get(0, &[3], &raw mut value));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT);
    assert!(message.contains("[2], not [3]"), "{message}");
    NOTHING
}

#[test]
fn a_kernel_reads_its_node_and_its_session() {
    let op = kernels::new(c"Op", &[FLOAT, ANY, FLOAT], &[FLOAT], check);
    let base = OrtCustomOp { GetInputCharacteristic: Some(second_is_optional), ..op.base };
    let (options, _) = options(vec![Op { base, ..op }]);
    let (key, value) = (c"my.key".as_ptr(), c"mine".as_ptr());
    ok(call!(AddSessionConfigEntry(options, key, value)));
    let text = "graph(x: float[n]) -> (y) {
        c = const float[2] [5.0, 6.0]
        y: float[...] = test:Op-3 [f: 1.5, i: 7, s: \"text\", floats: [0.5, 2.0], ints: [1, 2, 3],
            strings: [\"a\", \"bc\"], t: float[2] [3.0, 4.0]] (x, _, c)
    }";
    let session = session_with(&model(text), options);
    let mut x = [1.0_f32];
    let (x, mut outputs) = (tensor(&mut x, &[1]), [("y", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [5.0, 6.0]);
    call!(ReleaseSession(session));
}

extern "system" fn second_is_optional(
    _: *const OrtCustomOp,
    index: usize,
) -> onnxruntime::ort_sys::OrtCustomOpInputOutputCharacteristic {
    use onnxruntime::ort_sys::OrtCustomOpInputOutputCharacteristic::*;

    if index == 1 { INPUT_OUTPUT_OPTIONAL } else { INPUT_OUTPUT_REQUIRED }
}

static ZERO: c_int = 0;

extern "system" fn pair(inputs: *mut *mut c_int, outputs: *mut *mut c_int) -> usize {
    call::items_mut(inputs, 1)[0] = (&raw const ZERO).cast_mut();
    call::items_mut(outputs, 1)[0] = (&raw const ZERO).cast_mut();
    1
}

extern "system" fn free_pair(_: *mut c_int, _: *mut c_int) {}

/// Adds 1 to the output, which has the elements of the input already.
fn increment(_: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let shape = shape(input(context, 0));
    output::<f32>(context, 0, &shape).iter_mut().for_each(|y| *y += 1.0);
    NOTHING
}

#[test]
fn an_alias_begins_with_the_elements_of_its_input() {
    let aliases = |op: Op| {
        let base = OrtCustomOp {
            GetAliasMap: Some(pair),
            ReleaseAliasMap: Some(free_pair),
            InferOutputShapeFn: Some(kernels::infer_same),
            ..op.base
        };
        Op { base, ..op }
    };
    let op = kernels::new(c"Op", &[FLOAT], &[FLOAT], increment);
    let (options, _) = options(vec![aliases(op)]);
    // `a` dies with the first node, and is overwritten; `x` is the program's.
    let text = "graph(x: float[2]) -> (y, z) {
        a = Neg-13 (x)
        b: float[...] = test:Op-3 (a)
        y = Neg-13 (b)
        z: float[...] = test:Op-3 (x)
    }";
    let session = session_with(&model(text), options);
    let mut x = [1.0_f32, 2.0];
    let (x, mut outputs) = (tensor(&mut x, &[2]), [("y", null_mut()), ("z", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [0.0, 1.0]);
    assert_eq!(numbers(outputs[1].1), [2.0, 3.0]);
    assert_eq!(numbers(x), [1.0, 2.0]);
}

#[test]
fn attributes_are_read_as_they_were_made() {
    let texts = [c"a".as_ptr(), c"bc".as_ptr()];
    let (int, ints, float, floats) = (7_i64, [1_i64, 2], 1.5_f32, [0.5_f32, 2.0]);
    let cases: [(Kind, *const std::ffi::c_void, i32, &[u8]); 6] = [
        (Kind::ORT_OP_ATTR_INT, (&raw const int).cast(), 1, &int.to_ne_bytes()),
        (
            Kind::ORT_OP_ATTR_INTS,
            ints.as_ptr().cast(),
            2,
            &[1_i64, 2].map(i64::to_ne_bytes).concat(),
        ),
        (Kind::ORT_OP_ATTR_FLOAT, (&raw const float).cast(), 1, &float.to_ne_bytes()),
        (
            Kind::ORT_OP_ATTR_FLOATS,
            floats.as_ptr().cast(),
            2,
            &floats.map(f32::to_ne_bytes).concat(),
        ),
        (Kind::ORT_OP_ATTR_STRING, c"text".as_ptr().cast(), 4, b"text"),
        (Kind::ORT_OP_ATTR_STRINGS, texts.as_ptr().cast(), 2, b"a\0bc\0"),
    ];
    for (kind, data, n, expected) in cases {
        let attr = made!(CreateOpAttr(c"name".as_ptr(), data, n, kind));
        let attr_kind = made!(OpAttr_GetType(attr.cast_const()));
        assert_eq!(attr_kind, kind);
        assert_eq!(call::text(made!(OpAttr_GetName(attr.cast_const()))), "name");
        let (mut size, mut room) = (0, [0_u8; 16]);
        let to = room.as_mut_ptr().cast();
        rejected(call!(ReadOpAttr(attr, kind, to, expected.len() - 1, &raw mut size)), "len");
        assert_eq!(size, expected.len());
        ok(call!(ReadOpAttr(attr, kind, to, 16, &raw mut size)));
        assert_eq!((&room[..size], size), (expected, expected.len()));
        rejected(call!(ReadOpAttr(attr, Kind::ORT_OP_ATTR_TENSOR, to, 16, &raw mut size)), "type");
        let mut value = null_mut();
        let status = call!(OpAttr_GetTensorAttributeAsOrtValue(attr, &raw mut value));
        rejected(status, "attribute");
        call!(ReleaseOpAttr(attr));
    }
    let mut numbers_of = [1.0_f32, 2.0];
    let tensor = tensor(&mut numbers_of, &[2]);
    let kind = Kind::ORT_OP_ATTR_TENSOR;
    let attr = made!(CreateOpAttr(c"t".as_ptr(), tensor.cast_const().cast(), 1, kind));
    let copy = made!(OpAttr_GetTensorAttributeAsOrtValue(attr.cast_const()));
    assert_eq!(numbers(copy), [1.0, 2.0]);
    call!(ReleaseOpAttr(attr));
    let mut attr = null_mut();
    let name = c"n".as_ptr();
    let kind = Kind::ORT_OP_ATTR_INTS;
    rejected(call!(CreateOpAttr(name, null(), 1, kind, &raw mut attr)), "data");
    let data = ints.as_ptr().cast();
    rejected(call!(CreateOpAttr(name, data, -1, kind, &raw mut attr)), "len");
    rejected(call!(CreateOpAttr(name, data, 1, Kind::ORT_OP_ATTR_GRAPH, &raw mut attr)), "type");
    rejected(call!(CreateOpAttr(null(), data, 1, kind, &raw mut attr)), "name");
}

/// Creates an operator of the library with one attribute, one input and one output.
fn op_of(info: *const OrtKernelInfo, name: &std::ffi::CStr, alpha: f32) -> *mut OrtOp {
    let kind = Kind::ORT_OP_ATTR_FLOAT;
    let attr = made!(CreateOpAttr(c"alpha".as_ptr(), (&raw const alpha).cast(), 1, kind));
    let (mut constraint, float, attr_values) = (c"T".as_ptr(), FLOAT, attr.cast_const());
    let op = made!(CreateOp(
        info,
        name.as_ptr(),
        c"".as_ptr(),
        17,
        &raw mut constraint,
        &raw const float,
        1,
        &raw const attr_values,
        1,
        1,
        1,
    ));
    call!(ReleaseOpAttr(attr));
    op
}

/// `y = LeakyRelu(x, alpha: 0.5)`, by an operator of the library.
fn leaky(kernel: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let (x, op) = (input(context, 0), op_of(kernel.info, c"LeakyRelu", 0.5));
    let dims = shape(x);
    let y = made!(KernelContext_GetOutput(context, 0, dims.as_ptr(), dims.len()));
    let invoke = |op: *mut OrtOp, n_inputs, n_outputs| {
        call!(InvokeOp(context, op, &raw const x, n_inputs, &raw const y, n_outputs))
    };
    let (code, message) = failed(invoke(op, 1, 0));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT);
    assert!(message.contains("LeakyRelu"), "{message}");
    rejected(call!(InvokeOp(context, null(), &raw const x, 1, &raw const y, 1)), "ort_op");
    rejected(call!(InvokeOp(context, op, null(), 1, &raw const y, 1)), "input_values");
    let unknown = op_of(kernel.info, c"NoSuchOperator", 0.5);
    assert!(failed(invoke(unknown, 1, 1)).1.contains("NoSuchOperator"));
    call!(ReleaseOp(unknown));
    // The second call finds the session of the first.
    ok(invoke(op, 1, 1));
    ok(invoke(op, 1, 1));
    call!(ReleaseOp(op));
    NOTHING
}

#[test]
fn a_kernel_calls_operators_of_the_library() {
    let (options, _) = options(vec![kernels::new(c"Op", &[FLOAT], &[FLOAT], leaky)]);
    let text = "graph(x: float[n]) -> (y) { y: float[...] = test:Op-3 (x) }";
    let session = session_with(&model(text), options);
    let mut x = [2.0_f32, -2.0];
    let (x, mut outputs) = (tensor(&mut x, &[2]), [("y", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [2.0, -1.0]);
}
