//! Functions that are not implemented name themselves.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::OrtErrorCode;

use crate::call::{call, failed};

#[test]
fn an_unimplemented_function_names_itself() {
    let (mut value, format) = (null_mut(), null_mut());
    let shape = [1_i64];
    let ty = crate::Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    let statuses = [
        ("GetSparseTensorFormat", call!(GetSparseTensorFormat(null(), format))),
        (
            "CreateSparseTensorAsOrtValue",
            call!(CreateSparseTensorAsOrtValue(null_mut(), shape.as_ptr(), 1, ty, &raw mut value)),
        ),
        ("Graph_GetParentNode", call!(Graph_GetParentNode(null(), null_mut()))),
    ];
    for (name, status) in statuses {
        let (code, message) = failed(status);
        assert_eq!(code, OrtErrorCode::ORT_NOT_IMPLEMENTED);
        assert!(message.starts_with(name), "{message}");
    }
    assert!(call!(GetTrainingApi(1)).is_null());
}
