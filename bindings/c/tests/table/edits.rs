//! Existing models that a program changes.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{OrtErrorCode, OrtModel, OrtSession, OrtStatusPtr, OrtValueInfo};

use crate::call::{self, c, call, failed, from_allocator, made, of, ok, rejected};
use crate::models::{editor, node, value_info};
use crate::{MODEL, env, model, numbers, run, tensor};

/// A session whose model may be changed: `y = -x`, `sum = x + b`.
fn draft() -> *mut OrtSession {
    let (bytes, mut session) = (model(MODEL), null_mut());
    let (data, n) = (bytes.as_ptr().cast(), bytes.len());
    ok(of!(editor.CreateModelEditorSessionFromArray(env(), data, n, null(), &raw mut session)));
    session
}

/// A change: nodes, and inputs and outputs if they change.
fn change(
    nodes: &[(&str, &[&str], &str)],
    inputs: Option<&[&str]>,
    outputs: Option<&[&str]>,
    opset: Option<i32>,
) -> *mut OrtModel {
    let (mut graph, mut model) = (null_mut(), null_mut());
    ok(of!(editor.CreateGraph(&raw mut graph)));
    let infos = |names: &[&str]| -> Vec<*mut OrtValueInfo> {
        names.iter().map(|name| value_info(name, &[-1, 3])).collect()
    };
    if let Some(mut inputs) = inputs.map(infos) {
        ok(of!(editor.SetGraphInputs(graph, inputs.as_mut_ptr(), inputs.len())));
    }
    if let Some(mut outputs) = outputs.map(infos) {
        ok(of!(editor.SetGraphOutputs(graph, outputs.as_mut_ptr(), outputs.len())));
    }
    for (op, inputs, output) in nodes {
        ok(of!(editor.AddNodeToGraph(graph, node(op, inputs, output, None))));
    }
    let (domain, versions) = (c"".as_ptr(), opset.unwrap_or_default());
    let n = usize::from(opset.is_some());
    ok(of!(editor.CreateModel(&raw const domain, &raw const versions, n, &raw mut model)));
    ok(of!(editor.AddGraphToModel(model, graph)));
    model
}

fn apply(session: *mut OrtSession, model: *mut OrtModel) -> OrtStatusPtr {
    let status = of!(editor.ApplyModelToModelEditorSession(session, model));
    call!(ReleaseModel(model));
    status
}

fn finalize(session: *mut OrtSession) -> OrtStatusPtr {
    of!(editor.FinalizeModelEditorSession(session, null(), null()))
}

/// An output of the session for an input of these numbers.
fn output(session: *mut OrtSession, input: &str, x: [f32; 3], output: &str) -> Vec<f32> {
    let mut x = x;
    let (x, mut outputs) = (tensor(&mut x, &[1, 3]), [(output, null_mut())]);
    ok(run(session, &[(input, x)], &mut outputs));
    numbers(outputs[0].1).to_vec()
}

fn output_names(session: *mut OrtSession) -> Vec<String> {
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let n = made!(SessionGetOutputCount(session));
    (0..n).map(|i| from_allocator(made!(SessionGetOutputName(session, i, allocator)))).collect()
}

#[test]
fn nodes_are_added_before_and_behind_a_model() {
    let session = draft();
    let mut opset = 0;
    ok(of!(editor.SessionGetOpsetForDomain(session, c"ai.onnx".as_ptr(), &raw mut opset)));
    assert_eq!(opset, 17);
    assert_eq!(output_names(session), ["y", "sum"]);
    assert_eq!(made!(SessionGetInputCount(session)), 1);
    assert_eq!(made!(SessionGetOverridableInitializerCount(session)), 1);
    let nodes: &[(&str, &[&str], &str)] = &[("Abs", &["before"], "x"), ("Neg", &["sum"], "after")];
    let new = change(nodes, Some(&["before", "b"]), Some(&["after", "y"]), Some(17));
    ok(apply(session, new));
    assert_eq!(output_names(session), ["after", "y"]);
    ok(finalize(session));
    assert_eq!(output(session, "before", [-1.0, 1.0, -3.0], "after"), [-2.0, -3.0, -6.0]);
    assert_eq!(output(session, "before", [-1.0, 1.0, -3.0], "y"), [-1.0, -1.0, -3.0]);
    call!(ReleaseSession(session));
}

#[test]
fn inputs_and_outputs_that_a_change_does_not_set_are_kept() {
    let session = draft();
    ok(apply(session, change(&[("Neg", &["y"], "z")], None, None, None)));
    assert_eq!(output_names(session), ["y", "sum"]);
    ok(apply(session, change(&[("Abs", &["z"], "w")], None, Some(&["w"]), None)));
    ok(finalize(session));
    assert_eq!(output_names(session), ["w"]);
    assert_eq!(output(session, "x", [-1.0, 2.0, -3.0], "w"), [1.0, 2.0, 3.0]);
    call!(ReleaseSession(session));
}

#[test]
fn an_invalid_change_leaves_the_model_as_it_was() {
    let session = draft();
    let is_invalid = |nodes: &[(&str, &[&str], &str)], outputs, opset, expected: &str| {
        let (_, message) = failed(apply(session, change(nodes, None, outputs, opset)));
        assert!(message.contains(expected), "{message}");
    };
    // The input is still there, and a node computes it, too.
    is_invalid(&[("Neg", &["b"], "x")], None, None, "'x'");
    is_invalid(&[("Neg", &["nothing"], "z")], None, None, "'nothing'");
    is_invalid(&[], Some(&["nothing"]), None, "nothing");
    is_invalid(&[("Neg", &["y"], "z")], None, Some(13), "version 13");
    assert_eq!(output_names(session), ["y", "sum"]);
    ok(finalize(session));
    assert_eq!(output(session, "x", [1.0, 2.0, 3.0], "y"), [-1.0, -2.0, -3.0]);
    call!(ReleaseSession(session));
}

#[test]
fn known_domains_are_imported_and_others_are_not() {
    let gelu = |domain: &str| {
        let (mut graph, mut model, mut node) = (null_mut(), null_mut(), null_mut());
        ok(of!(editor.CreateGraph(&raw mut graph)));
        let (domain, x, y) = (c(domain), c"y".as_ptr(), c"gelu".as_ptr());
        let (op, domain, name) = (c"Gelu".as_ptr(), domain.as_ptr(), c"n".as_ptr());
        let (n, none) = (1, null_mut());
        ok(of!(editor.CreateNode(
            op,
            domain,
            name,
            &raw const x,
            n,
            &raw const y,
            n,
            none,
            0,
            &raw mut node
        )));
        ok(of!(editor.AddNodeToGraph(graph, node)));
        let mut outputs = [value_info("gelu", &[-1, 3])];
        ok(of!(editor.SetGraphOutputs(graph, outputs.as_mut_ptr(), 1)));
        ok(of!(editor.CreateModel(null(), null(), 0, &raw mut model)));
        ok(of!(editor.AddGraphToModel(model, graph)));
        model
    };
    let session = draft();
    let (_, message) = failed(apply(session, gelu("no.such.domain")));
    assert!(message.contains("No opset import for domain 'no.such.domain'"), "{message}");
    ok(apply(session, gelu("com.microsoft")));
    ok(finalize(session));
    assert_eq!(output(session, "x", [0.0; 3], "gelu"), [0.0; 3]);
    call!(ReleaseSession(session));
}

#[test]
fn an_initializer_is_added_but_not_replaced() {
    let session = draft();
    let add = |name: &str| {
        let mut graph = null_mut();
        ok(of!(editor.CreateGraph(&raw mut graph)));
        let (allocator, dims) = (made!(GetAllocatorWithDefaultOptions()), [1_i64]);
        let ty = crate::Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
        let value = made!(CreateTensorAsOrtValue(allocator, dims.as_ptr(), 1, ty));
        call::items_mut(made!(GetTensorMutableData(value)).cast::<f32>(), 1)[0] = 10.0;
        let name = c(name);
        ok(of!(editor.AddInitializerToGraph(graph, name.as_ptr(), value, false)));
        ok(of!(editor.AddNodeToGraph(graph, node("Mul", &["y", "ten"], "z", None))));
        let mut outputs = [value_info("z", &[-1, 3])];
        ok(of!(editor.SetGraphOutputs(graph, outputs.as_mut_ptr(), 1)));
        let mut model = null_mut();
        ok(of!(editor.CreateModel(null(), null(), 0, &raw mut model)));
        ok(of!(editor.AddGraphToModel(model, graph)));
        model
    };
    let (code, message) = failed(apply(session, add("b")));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_GRAPH, "{message}");
    ok(apply(session, add("ten")));
    ok(finalize(session));
    assert_eq!(output(session, "x", [1.0, 2.0, 3.0], "z"), [-10.0, -20.0, -30.0]);
    call!(ReleaseSession(session));
}

#[test]
fn a_session_runs_after_it_is_finalized_and_changes_before() {
    let session = draft();
    let mut x = [0.0_f32; 3];
    let (x, mut outputs) = (tensor(&mut x, &[1, 3]), [("y", null_mut())]);
    rejected(run(session, &[("x", x)], &mut outputs), "session");
    let mut binding = null_mut();
    rejected(call!(CreateIoBinding(session, &raw mut binding)), "session");
    ok(finalize(session));
    rejected(finalize(session), "session");
    rejected(apply(session, change(&[], None, None, None)), "session");
    call!(ReleaseSession(session));
    // One that is never finalized is released.
    call!(ReleaseSession(draft()));
    rejected(of!(editor.ApplyModelToModelEditorSession(null_mut(), null_mut())), "session");
    rejected(of!(editor.FinalizeModelEditorSession(null_mut(), null(), null())), "session");
    let mut session = null_mut();
    let path = c"/no/such/model.onnx".as_ptr().cast();
    let status = of!(editor.CreateModelEditorSession(env(), path, null(), &raw mut session));
    assert_eq!(failed(status).0, OrtErrorCode::ORT_NO_SUCHFILE);
    let empty = b"".as_ptr().cast();
    let status =
        of!(editor.CreateModelEditorSessionFromArray(env(), empty, 0, null(), &raw mut session));
    rejected(status, "model_data");
}
