//! Inputs and outputs that are bound once.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::OrtErrorCode;

use crate::call::{self, call, failed, made, ok, rejected};
use crate::{cpu, numbers, session, tensor};

#[test]
fn a_binding_is_run_again_and_again() {
    let session = session();
    let binding = made!(CreateIoBinding(session));
    let (mut data, mut room) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
    let (x, y) = (tensor(&mut data, &[1, 3]), tensor(&mut room, &[1, 3]));
    ok(call!(BindInput(binding, c"x".as_ptr(), x)));
    ok(call!(BindOutput(binding, c"y".as_ptr(), y)));
    ok(call!(BindOutputToDevice(binding, c"sum".as_ptr(), cpu())));
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let (mut values, mut n) = (null_mut(), 0);
    let early = call!(GetBoundOutputValues(binding, allocator, &raw mut values, &raw mut n));
    assert_eq!(failed(early).0, OrtErrorCode::ORT_FAIL);
    // The binding shares the values.
    call!(ReleaseValue(x));
    for _ in 0..3 {
        ok(call!(RunWithBinding(session, null(), binding)));
    }
    ok(call!(GetBoundOutputValues(binding, allocator, &raw mut values, &raw mut n)));
    let made_values = call::items(values, n);
    assert_eq!(numbers(made_values[0]), [-1.0, -2.0, -3.0]);
    assert_eq!(numbers(made_values[1]), [2.0, 4.0, 6.0]);
    assert_eq!(numbers(y), [-1.0, -2.0, -3.0]);
    made_values.iter().for_each(|value| call!(ReleaseValue(*value)));
    ok(call!(AllocatorFree(allocator, values.cast())));
    let (mut buffer, mut lengths) = (null_mut(), null_mut());
    let status = call!(GetBoundOutputNames(
        binding,
        allocator,
        &raw mut buffer,
        &raw mut lengths,
        &raw mut n
    ));
    ok(status);
    assert_eq!(call::items(lengths, n), [1, 3]);
    assert_eq!(call::items(buffer.cast::<u8>(), 4), b"ysum");
    let unknown = call!(BindInput(binding, c"z".as_ptr(), y));
    assert_eq!(failed(unknown).0, OrtErrorCode::ORT_INVALID_ARGUMENT);
    rejected(call!(BindInput(binding, c"x".as_ptr(), null())), "val_ptr");
    rejected(call!(RunWithBinding(session, null(), null())), "binding_ptr");
    call!(ClearBoundInputs(binding));
    let status = call!(RunWithBinding(session, null(), binding));
    assert_eq!(failed(status).0, OrtErrorCode::ORT_INVALID_ARGUMENT);
    call!(ReleaseIoBinding(binding));
    call!(ReleaseSession(session));
}
