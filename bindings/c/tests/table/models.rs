//! Models that a program builds.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{
    OrtErrorCode, OrtGraph, OrtModel, OrtModelEditorApi, OrtNode, OrtOpAttrType, OrtValueInfo,
};

use crate::call::{self, c, call, failed, made, of, ok, rejected};
use crate::custom_ops::FLOAT;
use crate::{env, numbers, run, tensor};

pub(crate) fn editor() -> &'static OrtModelEditorApi {
    &call::items(call!(GetModelEditorApi()), 1)[0]
}

/// A value of floats with these dimensions.
pub(crate) fn value_info(name: &str, dims: &[i64]) -> *mut OrtValueInfo {
    let info = made!(CreateTensorTypeAndShapeInfo());
    ok(call!(SetTensorElementType(info, FLOAT)));
    ok(call!(SetDimensions(info, dims.as_ptr(), dims.len())));
    let (mut ty, mut value, name) = (null_mut(), null_mut(), c(name));
    ok(of!(editor.CreateTensorTypeInfo(info, &raw mut ty)));
    call!(ReleaseTensorTypeAndShapeInfo(info));
    ok(of!(editor.CreateValueInfo(name.as_ptr(), ty, &raw mut value)));
    call!(ReleaseTypeInfo(ty));
    value
}

/// A node of the standard.
pub(crate) fn node(op: &str, inputs: &[&str], output: &str, alpha: Option<f32>) -> *mut OrtNode {
    let (op, domain, name, output) = (c(op), c("ai.onnx"), c("a node"), c(output));
    let inputs: Vec<_> = inputs.iter().map(|name| c(name)).collect();
    let inputs: Vec<_> = inputs.iter().map(|name| name.as_ptr()).collect();
    let (output, mut node) = (output.as_ptr(), null_mut());
    let mut attrs: Vec<_> = alpha
        .iter()
        .map(|alpha| {
            let (kind, data) = (OrtOpAttrType::ORT_OP_ATTR_FLOAT, std::ptr::from_ref(alpha));
            made!(CreateOpAttr(c"alpha".as_ptr(), data.cast(), 1, kind))
        })
        .collect();
    ok(of!(editor.CreateNode(
        op.as_ptr(),
        domain.as_ptr(),
        name.as_ptr(),
        inputs.as_ptr(),
        inputs.len(),
        &raw const output,
        1,
        attrs.as_mut_ptr(),
        attrs.len(),
        &raw mut node,
    )));
    attrs.into_iter().for_each(|attr| call!(ReleaseOpAttr(attr)));
    node
}

/// `y = LeakyRelu(x + b, alpha: 0.5)`, in a model of opset 17.
pub(crate) fn built(outputs: &[&str]) -> (*mut OrtModel, *mut OrtGraph) {
    let mut graph = null_mut();
    ok(of!(editor.CreateGraph(&raw mut graph)));
    let mut inputs = [value_info("x", &[-1, 2])];
    let mut outputs: Vec<_> = outputs.iter().map(|name| value_info(name, &[-1, 2])).collect();
    ok(of!(editor.SetGraphInputs(graph, inputs.as_mut_ptr(), 1)));
    ok(of!(editor.SetGraphOutputs(graph, outputs.as_mut_ptr(), outputs.len())));
    let (allocator, dims) = (made!(GetAllocatorWithDefaultOptions()), [2_i64]);
    let b = made!(CreateTensorAsOrtValue(allocator, dims.as_ptr(), 1, FLOAT));
    call::items_mut(made!(GetTensorMutableData(b)).cast::<f32>(), 2).copy_from_slice(&[1.0, -9.0]);
    ok(of!(editor.AddInitializerToGraph(graph, c"b".as_ptr(), b, false)));
    ok(of!(editor.AddNodeToGraph(graph, node("Add", &["x", "b"], "h", None))));
    ok(of!(editor.AddNodeToGraph(graph, node("LeakyRelu", &["h"], "y", Some(0.5)))));
    let (domain, version, mut model) = (c"".as_ptr(), 17, null_mut());
    ok(of!(editor.CreateModel(&raw const domain, &raw const version, 1, &raw mut model)));
    ok(of!(editor.AddGraphToModel(model, graph)));
    (model, graph)
}

#[test]
fn a_model_that_was_built_in_memory_runs() {
    let (model, graph) = built(&["y"]);
    let mut session = null_mut();
    ok(of!(editor.CreateSessionFromModel(env(), model, null(), &raw mut session)));
    assert_eq!(made!(Graph_GetNumNodes(graph.cast_const())), 2);
    call!(ReleaseModel(model));
    let mut x = [1.0_f32, 3.0];
    let (x, mut outputs) = (tensor(&mut x, &[1, 2]), [("y", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [2.0, -3.0]);
    let mut opset = 0;
    ok(of!(editor.SessionGetOpsetForDomain(session, c"".as_ptr(), &raw mut opset)));
    assert_eq!(opset, 17);
    let status = of!(editor.SessionGetOpsetForDomain(session, c"none".as_ptr(), &raw mut opset));
    assert!(failed(status).1.contains("none"));
    call!(ReleaseSession(session));
}

#[test]
fn a_graph_is_read_as_it_was_built() {
    let (model, graph) = built(&["y"]);
    let graph = graph.cast_const();
    assert_eq!(made!(Graph_GetNumInputs(graph)), 1);
    assert_eq!(made!(Graph_GetNumOutputs(graph)), 1);
    assert_eq!(made!(Graph_GetNumInitializers(graph)), 1);
    let (mut values, mut nodes) = ([null(); 2], [null(); 2]);
    ok(call!(Graph_GetInputs(graph, values.as_mut_ptr(), 1)));
    ok(call!(Graph_GetOutputs(graph, values.as_mut_ptr().wrapping_add(1), 1)));
    assert_eq!(values.map(|value| call::text(made!(GetValueInfoName(value)))), ["x", "y"]);
    let info = made!(CastTypeInfoToTensorInfo(made_type(values[0])));
    assert_eq!((made!(GetTensorElementType(info)), made!(GetDimensionsCount(info))), (FLOAT, 2));
    ok(call!(Graph_GetNodes(graph, nodes.as_mut_ptr(), 2)));
    assert_eq!(call::text(made!(Node_GetName(nodes[1]))), "a node");
    assert_eq!(call::text(made!(Node_GetOperatorType(nodes[1]))), "LeakyRelu");
    assert_eq!(call::text(made!(Node_GetDomain(nodes[1]))), "");
    assert_eq!((made!(Node_GetNumInputs(nodes[0])), made!(Node_GetNumOutputs(nodes[0]))), (2, 1));
    assert_eq!(made!(Node_GetNumAttributes(nodes[1])), 1);
    let attr = made!(Node_GetAttributeByName(nodes[1], c"alpha".as_ptr()));
    assert_eq!(call::text(made!(OpAttr_GetName(attr))), "alpha");
    assert!(made!(Node_GetAttributeByName(nodes[1], c"none".as_ptr())).is_null());
    assert_eq!([0, 1].map(|i| made!(Node_GetId(nodes[i]))), [0, 1]);
    assert_eq!(call::text(made!(Graph_GetName(graph))), "ModelEditorGraph");
    assert_eq!(call::text(made!(Graph_GetModelPath(graph)).cast()), "");
    assert_eq!(made!(Graph_GetOnnxIRVersion(graph)), 11);
    let (metadata, allocator) = (made!(Graph_GetModelMetadata(graph.cast_mut())), allocator());
    let name = made!(ModelMetadataGetProducerName(metadata, allocator));
    assert_eq!(call::from_allocator(name), "");
    call!(ReleaseModelMetadata(metadata));
    // Only graphs of providers have views, and only their nodes an assignment.
    let mut view = null_mut();
    rejected(call!(Graph_GetGraphView(graph, nodes.as_mut_ptr(), 2, &raw mut view)), "src_graph");
    let mut provider = null();
    rejected(call!(Node_GetEpName(nodes[0], &raw mut provider)), "node");
    call!(ReleaseModel(model));
}

fn allocator() -> *mut onnxruntime::ort_sys::OrtAllocator {
    made!(GetAllocatorWithDefaultOptions())
}

fn made_type(value: *const OrtValueInfo) -> *const onnxruntime::ort_sys::OrtTypeInfo {
    made!(GetValueInfoTypeInfo(value))
}

#[test]
fn types_of_values_are_composed() {
    let info = made!(CreateTensorTypeAndShapeInfo());
    let mut ty = null_mut();
    rejected(of!(editor.CreateTensorTypeInfo(info, &raw mut ty)), "tensor_info");
    ok(call!(SetTensorElementType(info, FLOAT)));
    ok(of!(editor.CreateTensorTypeInfo(info, &raw mut ty)));
    let [mut sequence, mut optional, mut map, mut none] = [null_mut(); 4];
    ok(of!(editor.CreateSequenceTypeInfo(ty, &raw mut sequence)));
    ok(of!(editor.CreateOptionalTypeInfo(sequence, &raw mut optional)));
    let key = onnxruntime::ort_sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    ok(of!(editor.CreateMapTypeInfo(key, ty, &raw mut map)));
    let cast = made!(CastTypeInfoToMapTypeInfo(map.cast_const()));
    assert_eq!(made!(GetMapKeyType(cast)), key);
    let cast = made!(CastTypeInfoToOptionalTypeInfo(optional.cast_const()));
    let inner = made!(GetOptionalContainedTypeInfo(cast));
    assert!(!made!(CastTypeInfoToSequenceTypeInfo(inner.cast_const())).is_null());
    let (code, _) = failed(of!(editor.CreateSparseTensorTypeInfo(info, &raw mut none)));
    assert_eq!(code, OrtErrorCode::ORT_NOT_IMPLEMENTED);
    for ty in [ty, sequence, optional, map, inner] {
        call!(ReleaseTypeInfo(ty));
    }
    call!(ReleaseTensorTypeAndShapeInfo(info));
}

#[test]
fn invalid_models_are_rejected() {
    let (mut graph, mut model, mut session) = (null_mut(), null_mut(), null_mut());
    rejected(of!(editor.CreateGraph(null_mut())), "graph");
    ok(of!(editor.CreateGraph(&raw mut graph)));
    rejected(of!(editor.SetGraphInputs(graph, null_mut(), 1)), "inputs");
    rejected(of!(editor.AddNodeToGraph(graph, null_mut())), "node");
    rejected(of!(editor.AddInitializerToGraph(graph, c"b".as_ptr(), null_mut(), false)), "tensor");
    let (domain, version) = (c"".as_ptr(), 17);
    ok(of!(editor.CreateModel(&raw const domain, &raw const version, 1, &raw mut model)));
    let create = |model, out| of!(editor.CreateSessionFromModel(env(), model, null(), out));
    rejected(create(model, &raw mut session), "model");
    ok(of!(editor.AddGraphToModel(model, graph)));
    rejected(of!(editor.AddGraphToModel(model, graph)), "model");
    rejected(create(model, &raw mut session), "model");
    call!(ReleaseModel(model));
    // An output that no node computes.
    let (model, _) = built(&["nothing"]);
    let (code, message) = failed(create(model, &raw mut session));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_GRAPH, "{message}");
    assert!(message.contains("nothing"), "{message}");
    call!(ReleaseModel(model));
    // A model without the version of the standard's operators.
    let mut model = null_mut();
    ok(of!(editor.CreateModel(null(), null(), 0, &raw mut model)));
    rejected(create(model, &raw mut session), "model");
    call!(ReleaseModel(model));
}

#[test]
fn nothing_is_added_twice() {
    let (model, graph) = built(&["y"]);
    rejected(of!(editor.AddGraphToModel(model, graph)), "model");
    let (domain, version, mut other) = (c"".as_ptr(), 17, null_mut());
    ok(of!(editor.CreateModel(&raw const domain, &raw const version, 1, &raw mut other)));
    rejected(of!(editor.AddGraphToModel(other, graph)), "graph");
    call!(ReleaseModel(other));
    let added = node("Neg", &["x"], "z", None);
    ok(of!(editor.AddNodeToGraph(graph, added)));
    rejected(of!(editor.AddNodeToGraph(graph, added)), "node");
    let value = value_info("v", &[1]);
    let mut values = [value, value];
    rejected(of!(editor.SetGraphInputs(graph, values.as_mut_ptr(), 2)), "inputs");
    ok(of!(editor.SetGraphInputs(graph, values.as_mut_ptr(), 1)));
    assert_eq!(values, [null_mut(), value]);
    rejected(of!(editor.SetGraphOutputs(graph, values.as_mut_ptr().wrapping_add(1), 1)), "outputs");
    let mut b = [1.0_f32];
    let b = tensor(&mut b, &[1]);
    let add =
        |name: &std::ffi::CStr| of!(editor.AddInitializerToGraph(graph, name.as_ptr(), b, false));
    rejected(add(c"b"), "name");
    ok(add(c"c"));
    rejected(add(c"d"), "tensor");
    call!(ReleaseModel(model));
}
