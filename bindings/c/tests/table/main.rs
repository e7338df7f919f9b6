//! Every family of functions of the table, with valid and invalid arguments.

#![expect(unsafe_code, reason = "`call!` calls functions of the table")]

mod adapters;
mod bindings;
mod call;
mod compiling;
mod custom_context;
mod custom_kernels;
mod custom_ops;
mod devices;
mod edits;
mod entries;
mod missing;
mod models;
mod ort_crate;
mod sessions;
mod threads;
mod types;
mod values;

use std::ffi::CString;
use std::ptr::null;

use ort_graph::{Export, Graph, ModelInfo, Registry, export};

use onnxruntime::ort_sys::ONNXTensorElementDataType as Type;
use onnxruntime::ort_sys::{OrtAllocatorType, OrtMemType, OrtMemoryInfo, OrtRunOptions};
use onnxruntime::ort_sys::{OrtEnv, OrtLoggingLevel, OrtSession, OrtSessionOptions, OrtValue};

use crate::call::{call, made};

/// `y = -x`, `sum = x + b`, where a program may override `b`.
pub(crate) const MODEL: &str = "graph(x: float[n,3], b = float[3] [1.0, 2.0, 3.0]) -> (y, sum) {
    y: float[n,3] = Neg-13 (x)
    sum: float[n,3] = Add-14 (x, b)
}";

/// The bytes of a model from text.
pub(crate) fn model(text: &str) -> Vec<u8> {
    model_with(text, &ort_ops::registry(), &[])
}

/// The same with operators of further domains.
pub(crate) fn model_with(text: &str, registry: &Registry, domains: &[(&str, i64)]) -> Vec<u8> {
    let graph = Graph::parse(text, registry).expect("the text is a graph");
    let mut opsets = vec![(String::new(), 17)];
    opsets.extend(domains.iter().map(|(domain, version)| ((*domain).to_owned(), *version)));
    let info = ModelInfo { ir_version: 8, opsets, ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info));
    ort_format::write(&file.expect("the graph is a file")).expect("the file has bytes")
}

/// The model with an entry in its metadata.
pub(crate) fn model_stating(key: &str, value: &str) -> Vec<u8> {
    let graph = Graph::parse(MODEL, &ort_ops::registry()).expect("the text is a graph");
    let info = ModelInfo {
        ir_version: 8,
        opsets: vec![(String::new(), 17)],
        metadata: vec![(key.to_owned(), value.to_owned())],
        ..ModelInfo::default()
    };
    let file = export(&graph, Export::new(&info));
    ort_format::write(&file.expect("the graph is a file")).expect("the file has bytes")
}

pub(crate) fn env() -> *mut OrtEnv {
    made!(CreateEnv(OrtLoggingLevel::ORT_LOGGING_LEVEL_WARNING, c"test".as_ptr()))
}

/// A session of the model. Its environment lives as long as the tests.
pub(crate) fn session_with(model: &[u8], options: *const OrtSessionOptions) -> *mut OrtSession {
    made!(CreateSessionFromArray(env(), model.as_ptr().cast(), model.len(), options))
}

pub(crate) fn session() -> *mut OrtSession {
    session_with(&model(MODEL), null())
}

pub(crate) fn cpu() -> *mut OrtMemoryInfo {
    made!(CreateCpuMemoryInfo(OrtAllocatorType::OrtArenaAllocator, OrtMemType::OrtMemTypeDefault))
}

/// A tensor over the numbers.
pub(crate) fn tensor(numbers: &mut [f32], shape: &[i64]) -> *mut OrtValue {
    made!(CreateTensorWithDataAsOrtValue(
        cpu(),
        numbers.as_mut_ptr().cast(),
        size_of_val(numbers),
        shape.as_ptr(),
        shape.len(),
        Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
    ))
}

/// The numbers of a tensor.
pub(crate) fn numbers<'a>(value: *mut OrtValue) -> &'a [f32] {
    let data = made!(GetTensorMutableData(value));
    call::items(data.cast(), made!(GetTensorSizeInBytes(value)) / 4)
}

/// Names as C passes them.
pub(crate) fn names(names: &[&str]) -> Vec<CString> {
    names.iter().map(|name| call::c(name)).collect()
}

/// Runs the model for outputs that may exist already.
pub(crate) fn run(
    session: *mut OrtSession,
    inputs: &[(&str, *mut OrtValue)],
    outputs: &mut [(&str, *mut OrtValue)],
) -> onnxruntime::ort_sys::OrtStatusPtr {
    run_with(session, null(), inputs, outputs)
}

/// The same with options.
pub(crate) fn run_with(
    session: *mut OrtSession,
    options: *const OrtRunOptions,
    inputs: &[(&str, *mut OrtValue)],
    outputs: &mut [(&str, *mut OrtValue)],
) -> onnxruntime::ort_sys::OrtStatusPtr {
    let input_names: Vec<_> = inputs.iter().map(|(name, _)| call::c(name)).collect();
    let output_names: Vec<_> = outputs.iter().map(|(name, _)| call::c(name)).collect();
    let input_names: Vec<_> = input_names.iter().map(|name| name.as_ptr()).collect();
    let output_names: Vec<_> = output_names.iter().map(|name| name.as_ptr()).collect();
    let values: Vec<_> = inputs.iter().map(|(_, value)| value.cast_const()).collect();
    let mut results: Vec<_> = outputs.iter().map(|(_, value)| *value).collect();
    let status = call!(Run(
        session,
        options,
        input_names.as_ptr(),
        values.as_ptr(),
        values.len(),
        output_names.as_ptr(),
        results.len(),
        results.as_mut_ptr(),
    ));
    outputs.iter_mut().zip(results).for_each(|((_, to), from)| *to = from);
    status
}
