//! Custom operators as a program in C writes them: structs of functions, which call the table.

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use onnxruntime::ort_sys::{
    ONNXTensorElementDataType as Type, ORT_API_VERSION, OrtApi, OrtCustomOp,
    OrtCustomOpInputOutputCharacteristic as Characteristic, OrtErrorCode, OrtKernelContext,
    OrtKernelInfo, OrtShapeInferContext, OrtStatusPtr, OrtValue,
};

use crate::call::{self, call, made, ok};

/// What a program puts behind the struct that the library knows.
#[repr(C)]
pub(crate) struct Op {
    pub(crate) base: OrtCustomOp,
    pub(crate) name: &'static std::ffi::CStr,
    pub(crate) inputs: Vec<Type>,
    pub(crate) outputs: Vec<Type>,
    /// How the last input may be absent or repeated.
    pub(crate) last: Characteristic,
    pub(crate) compute: fn(&Kernel, *mut OrtKernelContext) -> OrtStatusPtr,
    pub(crate) n_alive: AtomicUsize,
    pub(crate) n_created: AtomicUsize,
}

/// A kernel: the operator, and an attribute.
pub(crate) struct Kernel {
    pub(crate) op: &'static Op,
    pub(crate) factor: f32,
    pub(crate) info: *mut OrtKernelInfo,
}

const NOTHING: OrtStatusPtr = OrtStatusPtr(null_mut());

fn op<'a>(op: *const OrtCustomOp) -> &'a Op {
    &call::items(op.cast::<Op>(), 1)[0]
}

extern "system" fn name(this: *const OrtCustomOp) -> *const c_char {
    op(this).name.as_ptr()
}

extern "system" fn input_type(this: *const OrtCustomOp, index: usize) -> Type {
    op(this).inputs[index]
}

extern "system" fn n_inputs(this: *const OrtCustomOp) -> usize {
    op(this).inputs.len()
}

extern "system" fn output_type(this: *const OrtCustomOp, index: usize) -> Type {
    op(this).outputs[index]
}

extern "system" fn n_outputs(this: *const OrtCustomOp) -> usize {
    op(this).outputs.len()
}

extern "system" fn input_kind(this: *const OrtCustomOp, index: usize) -> Characteristic {
    let op = op(this);
    if index + 1 == op.inputs.len() { op.last } else { Characteristic::INPUT_OUTPUT_REQUIRED }
}

extern "system" fn output_kind(_: *const OrtCustomOp, _: usize) -> Characteristic {
    Characteristic::INPUT_OUTPUT_REQUIRED
}

extern "system" fn two(_: *const OrtCustomOp) -> i32 {
    2
}

extern "system" fn no(_: *const OrtCustomOp) -> i32 {
    0
}

extern "system" fn create(
    this: *const OrtCustomOp,
    api: *const OrtApi,
    info: *const OrtKernelInfo,
) -> *mut c_void {
    assert!(!api.is_null());
    let (op, mut factor) = (op(this), 1.0);
    let status = call!(KernelInfoGetAttribute_float(info, c"factor".as_ptr(), &raw mut factor));
    call!(ReleaseStatus(status.0));
    op.n_alive.fetch_add(1, Ordering::Relaxed);
    op.n_created.fetch_add(1, Ordering::Relaxed);
    let info = made!(CopyKernelInfo(info));
    Box::into_raw(Box::new(Kernel { op, factor, info })).cast()
}

extern "system" fn create_v2(
    this: *const OrtCustomOp,
    api: *const OrtApi,
    info: *const OrtKernelInfo,
    kernel: *mut *mut c_void,
) -> OrtStatusPtr {
    let mut factor = 1.0;
    let status = call!(KernelInfoGetAttribute_float(info, c"factor".as_ptr(), &raw mut factor));
    call!(ReleaseStatus(status.0));
    if factor < 0.0 {
        return status_of("a negative factor");
    }
    call::items_mut(kernel, 1)[0] = create(this, api, info);
    NOTHING
}

extern "system" fn compute(kernel: *mut c_void, context: *mut OrtKernelContext) {
    ok(compute_v2(kernel, context));
}

extern "system" fn compute_v2(kernel: *mut c_void, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let kernel = &call::items(kernel.cast_const().cast::<Kernel>(), 1)[0];
    (kernel.op.compute)(kernel, context)
}

extern "system" fn destroy(kernel: *mut c_void) {
    let kernel = kernel.cast::<Kernel>();
    let Kernel { op, info, .. } = &call::items(kernel.cast_const(), 1)[0];
    op.n_alive.fetch_sub(1, Ordering::Relaxed);
    call!(ReleaseKernelInfo(*info));
    call::free(kernel);
}

pub(crate) fn status_of(text: &str) -> OrtStatusPtr {
    let text = call::c(text);
    call!(CreateStatus(OrtErrorCode::ORT_FAIL, text.as_ptr()))
}

/// An operator of the newest version, with these types. It lives as long as the tests.
pub(crate) fn new(
    name: &'static std::ffi::CStr,
    inputs: &[Type],
    outputs: &[Type],
    compute: fn(&Kernel, *mut OrtKernelContext) -> OrtStatusPtr,
) -> Op {
    Op {
        base: base(),
        name,
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        last: Characteristic::INPUT_OUTPUT_REQUIRED,
        compute,
        n_alive: AtomicUsize::new(0),
        n_created: AtomicUsize::new(0),
    }
}

fn base() -> OrtCustomOp {
    OrtCustomOp {
        version: ORT_API_VERSION,
        CreateKernel: None,
        GetName: Some(name),
        GetExecutionProviderType: None,
        GetInputType: Some(input_type),
        GetInputTypeCount: Some(n_inputs),
        GetOutputType: Some(output_type),
        GetOutputTypeCount: Some(n_outputs),
        KernelCompute: None,
        KernelDestroy: Some(destroy),
        GetInputCharacteristic: Some(input_kind),
        GetOutputCharacteristic: Some(output_kind),
        GetInputMemoryType: None,
        GetVariadicInputMinArity: Some(two),
        GetVariadicInputHomogeneity: Some(no),
        GetVariadicOutputMinArity: None,
        GetVariadicOutputHomogeneity: None,
        CreateKernelV2: Some(create_v2),
        KernelComputeV2: Some(compute_v2),
        InferOutputShapeFn: None,
        GetStartVersion: None,
        GetEndVersion: None,
        GetMayInplace: None,
        ReleaseMayInplace: None,
        GetAliasMap: None,
        ReleaseAliasMap: None,
    }
}

/// The same operator as a program that was written for version 7 has it.
pub(crate) fn old(op: Op) -> Op {
    let base = OrtCustomOp {
        version: 7,
        CreateKernel: Some(create),
        KernelCompute: Some(compute),
        // Must not be read: such a program does not have it.
        CreateKernelV2: Some(create_v2),
        GetStartVersion: Some(two),
        ..op.base
    };
    Op { base, ..op }
}

/// An input of a kernel.
pub(crate) fn input(context: *mut OrtKernelContext, index: usize) -> *const OrtValue {
    made!(KernelContext_GetInput(context, index))
}

/// The shape of a value.
pub(crate) fn shape(value: *const OrtValue) -> Vec<i64> {
    let info = made!(GetTensorTypeAndShape(value));
    let mut dims = vec![0; made!(GetDimensionsCount(info))];
    ok(call!(GetDimensions(info, dims.as_mut_ptr(), dims.len())));
    call!(ReleaseTensorTypeAndShapeInfo(info));
    dims
}

/// The numbers of a value, which may be none.
pub(crate) fn elements<'a, T>(value: *const OrtValue) -> &'a [T] {
    let n = made!(GetTensorSizeInBytes(value)) / size_of::<T>();
    call::items(made!(GetTensorData(value)).cast(), n)
}

/// The numbers of an output that is created with this shape.
pub(crate) fn output<'a, T>(
    context: *mut OrtKernelContext,
    index: usize,
    shape: &[i64],
) -> &'a mut [T] {
    let value = made!(KernelContext_GetOutput(context, index, shape.as_ptr(), shape.len()));
    let n = made!(GetTensorSizeInBytes(value.cast_const())) / size_of::<T>();
    call::items_mut(made!(GetTensorMutableData(value)).cast(), n)
}

/// `y = factor * x`.
pub(crate) fn scale(kernel: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let x = input(context, 0);
    let y = output::<f32>(context, 0, &shape(x));
    for (y, x) in y.iter_mut().zip(elements::<f32>(x)) {
        *y = kernel.factor * x;
    }
    NOTHING
}

/// The positive numbers of `x`, and how many there are.
pub(crate) fn positive(_: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let x = elements::<f32>(input(context, 0)).iter().copied();
    let found: Vec<f32> = x.filter(|x| *x > 0.0).collect();
    let n = i64::try_from(found.len()).unwrap_or_default();
    output::<f32>(context, 0, &[n]).copy_from_slice(&found);
    output::<i64>(context, 1, &[])[0] = n;
    NOTHING
}

/// Copies an input of any type.
pub(crate) fn copy(_: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let x = input(context, 0);
    let info = made!(GetTensorTypeAndShape(x));
    let dtype = made!(GetTensorElementType(info));
    call!(ReleaseTensorTypeAndShapeInfo(info));
    let shape = shape(x);
    if dtype != Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING {
        output::<u8>(context, 0, &shape).copy_from_slice(elements(x));
        return NOTHING;
    }
    let y = made!(KernelContext_GetOutput(context, 0, shape.as_ptr(), shape.len()));
    let n = made!(GetStringTensorElementLength(x, 0));
    let mut text = vec![0_u8; n + 1];
    ok(call!(GetStringTensorElement(x, n, 0, text.as_mut_ptr().cast())));
    call!(FillStringTensorElement(y, text.as_ptr().cast(), 0))
}

/// The number of inputs, and of those that are there.
pub(crate) fn count(_: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let n = made!(KernelContext_GetInputCount(context));
    let n_there = (0..n).filter(|&index| !input(context, index).is_null()).count();
    let numbers = [n, n_there].map(|n| i64::try_from(n).unwrap_or_default());
    output::<i64>(context, 0, &[2]).copy_from_slice(&numbers);
    NOTHING
}

/// Fails.
pub(crate) fn fail(_: &Kernel, _: *mut OrtKernelContext) -> OrtStatusPtr {
    status_of("the kernel of the test failed")
}

/// Computes nothing.
pub(crate) fn nothing(_: &Kernel, _: *mut OrtKernelContext) -> OrtStatusPtr {
    NOTHING
}

extern "C" fn square(user: *mut c_void, index: usize) {
    let [x, y] = call::items(user.cast_const().cast::<[usize; 2]>(), 1)[0];
    let x = call::items::<f32>(std::ptr::with_exposed_provenance(x), index + 1)[index];
    let y = std::ptr::with_exposed_provenance_mut::<f32>(y).wrapping_add(index);
    call::items_mut(y, 1)[0] = x * x;
}

/// `y = x * x`, on the threads of the run, from a copy of `x` in scratch memory.
pub(crate) fn squares(_: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let x = input(context, 0);
    let y = output::<f32>(context, 0, &shape(x));
    let info = crate::cpu();
    let scratch = made!(KernelContext_GetScratchBuffer(context, info, size_of_val(y)));
    let copy = call::items_mut(scratch.cast::<f32>(), y.len());
    copy.copy_from_slice(elements(x));
    call!(ReleaseMemoryInfo(info));
    let mut user = [copy.as_ptr().expose_provenance(), y.as_mut_ptr().expose_provenance()];
    call!(KernelContext_ParallelFor(context, square, y.len(), 3, (&raw mut user).cast()))
}

/// The output has twice as many columns as the input.
pub(crate) extern "system" fn infer_twice(
    _: *const OrtCustomOp,
    context: *mut OrtShapeInferContext,
) -> OrtStatusPtr {
    let context = context.cast_const();
    assert_eq!(made!(ShapeInferContext_GetInputCount(context)), 1);
    let info = made!(ShapeInferContext_GetInputTypeShape(context, 0));
    let attr = made!(ShapeInferContext_GetAttribute(context, c"factor".as_ptr()));
    let (mut factor, mut n) = (0.0_f32, 0);
    let ty = onnxruntime::ort_sys::OrtOpAttrType::ORT_OP_ATTR_FLOAT;
    ok(call!(ReadOpAttr(attr, ty, (&raw mut factor).cast(), 4, &raw mut n)));
    assert_eq!((factor, n), (2.0, 4));
    let mut none = null();
    let missing = c"no".as_ptr();
    call::failed(call!(ShapeInferContext_GetAttribute(context, missing, &raw mut none)));
    call::rejected(call!(ShapeInferContext_SetOutputTypeShape(context, 1, info)), "index");
    let mut dims = [0_i64; 2];
    ok(call!(GetDimensions(info, dims.as_mut_ptr(), 2)));
    if dims[1] > 0 {
        dims[1] *= 2;
    }
    let doubled = made!(CreateTensorTypeAndShapeInfo());
    ok(call!(SetDimensions(doubled, dims.as_ptr(), 2)));
    ok(call!(ShapeInferContext_SetOutputTypeShape(context, 0, doubled)));
    call!(ReleaseTensorTypeAndShapeInfo(doubled));
    NOTHING
}

/// `[x, x]` along axis 1 of one row.
pub(crate) fn twice(_: &Kernel, context: *mut OrtKernelContext) -> OrtStatusPtr {
    let x = elements::<f32>(input(context, 0));
    let n = i64::try_from(x.len()).unwrap_or_default();
    let y = output::<f32>(context, 0, &[1, 2 * n]);
    y[..x.len()].copy_from_slice(x);
    y[x.len()..].copy_from_slice(x);
    NOTHING
}

/// The output has the type and shape of the input.
pub(crate) extern "system" fn infer_same(
    _: *const OrtCustomOp,
    context: *mut OrtShapeInferContext,
) -> OrtStatusPtr {
    let info = made!(ShapeInferContext_GetInputTypeShape(context.cast_const(), 0));
    ok(call!(ShapeInferContext_SetOutputTypeShape(context, 0, info)));
    NOTHING
}
