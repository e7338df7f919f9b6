//! LoRA adapters.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::OrtErrorCode;
use ort_session::{Adapter, Tensor};

use crate::call::{call, failed, made, ok, rejected};
use crate::{numbers, run_with, session, tensor};

fn adapter(name: &str) -> Vec<u8> {
    let b = Tensor::from_slice(&[3], &[10.0_f32, 20.0, 30.0]).expect("a shape of its elements");
    Adapter::new(1, 1, [(name.to_owned(), b)]).to_bytes().expect("an adapter has bytes")
}

#[test]
fn parameters_of_active_adapters_are_inputs_of_a_run() {
    let session = session();
    let bytes = adapter("b");
    let adapter = made!(CreateLoraAdapterFromArray(bytes.as_ptr().cast(), bytes.len(), null_mut()));
    let options = made!(CreateRunOptions());
    ok(call!(RunOptionsAddActiveLoraAdapter(options, adapter)));
    // The options share it.
    call!(ReleaseLoraAdapter(adapter));
    let (mut x, mut b) = ([1.0_f32, 2.0, 3.0], [7.0_f32; 3]);
    let (x, b) = (tensor(&mut x, &[1, 3]), tensor(&mut b, &[3]));
    for inputs in [&[("x", x)][..], &[("x", x), ("b", b)]] {
        let mut outputs = [("sum", null_mut())];
        ok(run_with(session, options, inputs, &mut outputs));
        assert_eq!(numbers(outputs[0].1), [11.0, 22.0, 33.0]);
        call!(ReleaseValue(outputs[0].1));
    }
    call!(ReleaseRunOptions(options));
    call!(ReleaseValue(x));
    call!(ReleaseValue(b));
    call!(ReleaseSession(session));
}

#[test]
fn files_that_are_not_adapters_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| CString::new(path(name).to_str().unwrap()).unwrap();
    let mut out = null_mut();
    let none = text("none");
    let (code, message) = failed(call!(CreateLoraAdapter(none.as_ptr(), null_mut(), &raw mut out)));
    assert_eq!(code, OrtErrorCode::ORT_NO_SUCHFILE, "{message}");
    // A folder is there, and is no file.
    let here = text(".");
    let (code, message) = failed(call!(CreateLoraAdapter(here.as_ptr(), null_mut(), &raw mut out)));
    assert_eq!(code, OrtErrorCode::ORT_FAIL, "{message}");
    std::fs::write(path("model"), b"\x08\0\0\0ORTM........").unwrap();
    let model = text("model");
    let (code, message) =
        failed(call!(CreateLoraAdapter(model.as_ptr(), null_mut(), &raw mut out)));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT);
    assert!(message.contains("model: not an adapter"), "{message}");
    assert!(out.is_null());
    rejected(call!(CreateLoraAdapter(null(), null_mut(), &raw mut out)), "adapter_file_path");
    std::fs::write(path("good"), adapter("b")).unwrap();
    let good = text("good");
    let adapter = made!(CreateLoraAdapter(good.as_ptr(), null_mut()));
    call!(ReleaseLoraAdapter(adapter));
}
