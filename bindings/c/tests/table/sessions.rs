//! Environments, sessions and runs.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use onnxruntime::ort_sys::{
    OrtErrorCode, OrtLoggingLevel, OrtStatusPtr, OrtValue, RunAsyncCallbackFn,
};

use crate::call::{self, call, failed, from_allocator, made, ok, rejected};
use crate::{MODEL, env, model, names, numbers, run, session, session_with, tensor};

#[test]
fn a_session_lists_its_inputs_and_outputs() {
    let session = session();
    assert_eq!(made!(SessionGetInputCount(session)), 1);
    assert_eq!(made!(SessionGetOutputCount(session)), 2);
    assert_eq!(made!(SessionGetOverridableInitializerCount(session)), 1);
    let allocator = made!(GetAllocatorWithDefaultOptions());
    assert_eq!(from_allocator(made!(SessionGetInputName(session, 0, allocator))), "x");
    assert_eq!(from_allocator(made!(SessionGetOutputName(session, 1, allocator))), "sum");
    assert_eq!(
        from_allocator(made!(SessionGetOverridableInitializerName(session, 0, allocator))),
        "b"
    );
    let mut name = null_mut();
    rejected(call!(SessionGetInputName(session, 1, allocator, &raw mut name)), "index");
    rejected(call!(SessionGetInputName(session, 0, null_mut(), &raw mut name)), "allocator");
    rejected(call!(SessionGetInputCount(null(), call::empty())), "session");
    rejected(call!(SessionGetInputCount(session, null_mut())), "out");
    assert!(name.is_null());
    call!(ReleaseSession(session));
}

#[test]
fn a_run_allocates_outputs_or_writes_to_existing_ones() {
    let session = session();
    let (mut x, mut room) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
    let (x, there) = (tensor(&mut x, &[1, 3]), tensor(&mut room, &[1, 3]));
    let mut outputs = [("sum", null_mut()), ("y", there)];
    ok(run(session, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [2.0, 4.0, 6.0]);
    assert_eq!((outputs[1].1, numbers(there)), (there, &[-1.0, -2.0, -3.0][..]));
    // An overridable initializer, and an output in the memory of an input of the same run.
    let mut b = [10.0_f32; 3];
    let b = tensor(&mut b, &[3]);
    let mut outputs = [("y", x), ("sum", null_mut())];
    ok(run(session, &[("x", x), ("b", b)], &mut outputs));
    assert_eq!(numbers(outputs[1].1), [11.0, 12.0, 13.0]);
    assert_eq!(numbers(x), [-1.0, -2.0, -3.0]);
    for value in [x, b, there, outputs[1].1] {
        call!(ReleaseValue(value));
    }
    call!(ReleaseSession(session));
}

#[test]
fn a_run_rejects_what_does_not_fit() {
    let session = session();
    let mut numbers = [0.0_f32; 4];
    let wrong = tensor(&mut numbers, &[2, 2]);
    let cases: [(&[(&str, *mut OrtValue)], &str, &str); 4] = [
        (&[], "y", "x"),
        (&[("z", wrong)], "y", "z"),
        (&[("x", wrong)], "y", "x"),
        (&[("x", wrong)], "nothing", "nothing"),
    ];
    for (inputs, output, word) in cases {
        let (code, message) = failed(run(session, inputs, &mut [(output, null_mut())]));
        assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT, "{message}");
        assert!(message.contains(word), "{message}");
    }
    rejected(run(session, &[("x", null_mut())], &mut [("y", null_mut())]), "inputs");
    rejected(run(session, &[], &mut []), "output_names_len");
    rejected(run(null_mut(), &[], &mut [("y", null_mut())]), "session");
    let y = c"y".as_ptr();
    let mut out = null_mut();
    rejected(
        call!(Run(session, null(), null(), null(), 1, &raw const y, 1, &raw mut out)),
        "input_names",
    );
    call!(ReleaseValue(wrong));
    call!(ReleaseSession(session));
}

#[test]
fn an_invalid_model_has_an_error_code() {
    let (env, mut session) = (env(), null_mut());
    let path = c"/no/such/model.onnx".as_ptr();
    let (code, message) = failed(call!(CreateSession(env, path, null(), &raw mut session)));
    assert_eq!(code, OrtErrorCode::ORT_NO_SUCHFILE, "{message}");
    let bytes = b"not a model at all";
    let create = |env, bytes: &[u8], out| {
        call!(CreateSessionFromArray(env, bytes.as_ptr().cast(), bytes.len(), null(), out))
    };
    assert_eq!(failed(create(env, bytes, &raw mut session)).0, OrtErrorCode::ORT_INVALID_PROTOBUF);
    rejected(create(env, &[], &raw mut session), "model_data");
    rejected(create(null_mut(), bytes, &raw mut session), "env");
    rejected(create(env, bytes, null_mut()), "out");
    assert!(session.is_null());
    // Null may be released.
    call!(ReleaseSession(null_mut()));
    call!(ReleaseEnv(env));
}

#[test]
fn a_run_stops_on_request() {
    let session = session();
    let options = made!(CreateRunOptions());
    ok(call!(RunOptionsSetRunTag(options, c"a run".as_ptr())));
    assert_eq!(call::text(made!(RunOptionsGetRunTag(options))), "a run");
    ok(call!(RunOptionsSetTerminate(options)));
    let (mut x, names) = ([0.0_f32; 3], names(&["x", "y"]));
    let (x, mut out) = (tensor(&mut x, &[1, 3]).cast_const(), null_mut());
    let (input, output) = (names[0].as_ptr(), names[1].as_ptr());
    let mut run = || {
        let (input, output) = (&raw const input, &raw const output);
        call!(Run(session, options, input, &raw const x, 1, output, 1, &raw mut out))
    };
    let (code, message) = failed(run());
    assert_eq!(code, OrtErrorCode::ORT_FAIL);
    assert!(message.contains("a run"), "{message}");
    ok(call!(RunOptionsUnsetTerminate(options)));
    ok(run());
    call!(ReleaseRunOptions(options));
}

/// The messages that a callback received.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

extern "system" fn hear(
    _: *mut c_void,
    _: OrtLoggingLevel,
    _: *const c_char,
    id: *const c_char,
    _: *const c_char,
    message: *const c_char,
) {
    let text = format!("{}: {}", call::text(id), call::text(message));
    HEARD.lock().map(|mut heard| heard.push(text)).unwrap_or_default();
}

#[test]
fn a_function_of_the_program_receives_messages() {
    let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_VERBOSE;
    let env = made!(CreateEnvWithCustomLogger(hear, null_mut(), level, c"e".as_ptr()));
    let options = made!(CreateSessionOptions());
    ok(call!(SetSessionLogId(options, c"heard".as_ptr())));
    let model = model(MODEL);
    let session = made!(CreateSessionFromArray(env, model.as_ptr().cast(), model.len(), options));
    let heard = HEARD.lock().map(|heard| heard.clone()).unwrap_or_default();
    assert!(heard.iter().any(|text| text.starts_with("heard: loaded")), "{heard:?}");
    call!(ReleaseSession(session));
    call!(ReleaseSessionOptions(options));
}

type Done = std::sync::mpsc::Sender<(usize, usize, bool)>;

extern "C" fn done(to: *mut c_void, outputs: *mut *mut OrtValue, n: usize, status: OrtStatusPtr) {
    let sender: &Done = &call::items(to.cast_const().cast(), 1)[0];
    let first = if n > 0 { call::items(outputs, n)[0].addr() } else { 0 };
    let is_ok = status.0.is_null();
    call!(ReleaseStatus(status.0));
    sender.send((n, first, is_ok)).unwrap_or_default();
}

#[test]
fn an_asynchronous_run_calls_back_with_outputs_or_a_status() {
    let session = session();
    let (sender, receiver): (Done, _) = std::sync::mpsc::channel();
    // The thread that called back may still be sending when the test is over.
    let sender: &'static _ = Box::leak(Box::new(sender));
    let user = std::ptr::from_ref(sender).cast_mut().cast();
    let (mut x, names) = ([1.0_f32; 3], names(&["x", "y", "no"]));
    let (x, mut out) = (tensor(&mut x, &[1, 3]).cast_const(), [null_mut(); 1]);
    let pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    let begin = |output: *const *const c_char, out: *mut *mut OrtValue, f: RunAsyncCallbackFn| {
        call!(RunAsync(
            session,
            null(),
            pointers.as_ptr(),
            &raw const x,
            1,
            output,
            1,
            out,
            f,
            user
        ))
    };
    ok(begin(&raw const pointers[1], out.as_mut_ptr(), Some(done)));
    let (n, first, is_ok) = receiver.recv().unwrap_or_default();
    assert_eq!((n, first, is_ok), (1, out[0].addr(), true));
    assert_eq!(numbers(out[0]), [-1.0; 3]);
    out[0] = null_mut();
    ok(begin(&raw const pointers[2], out.as_mut_ptr(), Some(done)));
    assert_eq!(receiver.recv(), Ok((0, 0, false)));
    rejected(begin(&raw const pointers[1], out.as_mut_ptr(), None), "run_async_callback");
}

#[test]
fn metadata_and_profiles_are_strings_of_the_allocator() {
    let folder = std::env::temp_dir().join(format!("ort-capi-{}", std::process::id()));
    assert!(std::fs::create_dir_all(&folder).is_ok());
    let options = made!(CreateSessionOptions());
    let prefix = call::c(&folder.join("profile").display().to_string());
    ok(call!(EnableProfiling(options, prefix.as_ptr())));
    let session = session_with(&model(MODEL), options);
    assert!(made!(SessionGetProfilingStartTimeNs(session)) > 0);
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let path = from_allocator(made!(SessionEndProfiling(session, allocator)));
    assert!(
        std::fs::read_to_string(&path)
            .is_ok_and(|text| text.contains("traceEvents") || text.starts_with('['))
    );
    let metadata = made!(SessionGetModelMetadata(session));
    assert_eq!(from_allocator(made!(ModelMetadataGetDomain(metadata, allocator))), "");
    let key = c"no such key".as_ptr();
    assert!(made!(ModelMetadataLookupCustomMetadataMap(metadata, allocator, key)).is_null());
    rejected(call!(ModelMetadataGetVersion(null(), null_mut())), "model_metadata");
    call!(ReleaseModelMetadata(metadata));
    call!(ReleaseSession(session));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}
