//! Types of values.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{ONNXType, OrtErrorCode};

use crate::call::{self, call, failed, made, ok, rejected};
use crate::{Type, session};

#[test]
fn a_type_has_dimensions_and_their_names() {
    let session = session();
    let info = made!(SessionGetInputTypeInfo(session, 0));
    assert_eq!(made!(GetOnnxTypeFromTypeInfo(info)), ONNXType::ONNX_TYPE_TENSOR);
    let tensor = made!(CastTypeInfoToTensorInfo(info));
    assert!(made!(CastTypeInfoToSequenceTypeInfo(info)).is_null());
    assert!(call!(TensorTypeAndShape_HasShape(tensor)));
    let n = made!(GetDimensionsCount(tensor));
    let (mut dims, mut symbols) = (vec![0; n], vec![null(); n]);
    ok(call!(GetDimensions(tensor, dims.as_mut_ptr(), n)));
    ok(call!(GetSymbolicDimensions(tensor, symbols.as_mut_ptr(), n)));
    let symbols: Vec<_> = symbols.iter().map(|symbol| call::text(*symbol)).collect();
    assert_eq!((dims, symbols), (vec![-1, 3], vec!["n".to_owned(), String::new()]));
    let mut count = 0;
    rejected(call!(GetTensorShapeElementCount(tensor, &raw mut count)), "shape");
    rejected(call!(GetDimensions(tensor, null_mut(), n)), "dim_values");
    rejected(call!(GetDimensionsCount(null(), &raw mut count)), "info");
    call!(ReleaseTypeInfo(info));
    call!(ReleaseSession(session));
}

#[test]
fn a_type_has_parts() {
    let info = made!(CreateTensorTypeAndShapeInfo());
    assert!(!call!(TensorTypeAndShape_HasShape(info)));
    ok(call!(SetTensorElementType(info, Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64)));
    let dims = [-1_i64, 4];
    ok(call!(SetDimensions(info, dims.as_ptr(), 2)));
    let names = [c"n", c""].map(CString::from);
    let mut names = names.each_ref().map(|name| name.as_ptr());
    ok(call!(SetSymbolicDimensions(info, names.as_mut_ptr(), 2)));
    rejected(call!(SetSymbolicDimensions(info, names.as_mut_ptr(), 1)), "dim_params_length");
    let wrong = [-2_i64];
    rejected(call!(SetDimensions(info, wrong.as_ptr(), 1)), "dim_values");
    let mut symbols = [null(); 2];
    ok(call!(GetSymbolicDimensions(info, symbols.as_mut_ptr(), 2)));
    assert_eq!(call::text(symbols[0]), "n");
    assert_eq!(made!(GetTensorElementType(info)), Type::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64);
    call!(ReleaseTensorTypeAndShapeInfo(info));
}

#[test]
fn a_status_has_a_code_and_a_message() {
    let status = call!(CreateStatus(OrtErrorCode::ORT_EP_FAIL, c"why".as_ptr()));
    assert_eq!(failed(status), (OrtErrorCode::ORT_EP_FAIL, "why".to_owned()));
    assert_eq!(call!(GetErrorCode(null())), OrtErrorCode::ORT_OK);
    call!(ReleaseStatus(null_mut()));
}
