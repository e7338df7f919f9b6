//! One session and many threads; threads of the program.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};

use onnxruntime::ort_sys::{
    OrtCustomThreadHandle, OrtErrorCode, OrtLoggingLevel, OrtSessionOptions, OrtThreadWorkerFn,
};

use crate::call::{self, call, failed, made, ok};
use crate::{MODEL, env, model, numbers, run, session, tensor};

/// Runs of each thread.
const N: usize = 2000;

#[test]
fn eight_threads_run_one_session() {
    let address = session().expose_provenance();
    let sums: Vec<f32> = std::thread::scope(|scope| {
        let threads = (0..8_u8).map(|i| {
            scope.spawn(move || {
                let session = std::ptr::with_exposed_provenance_mut(address);
                let mut data = [f32::from(i); 3];
                let x = tensor(&mut data, &[1, 3]);
                let mut sum = 0.0;
                for _ in 0..N {
                    let mut outputs = [("y", null_mut())];
                    ok(run(session, &[("x", x)], &mut outputs));
                    sum += numbers(outputs[0].1)[2];
                    call!(ReleaseValue(outputs[0].1));
                }
                call!(ReleaseValue(x));
                sum
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f32::NAN)).collect()
    });
    let expected: Vec<f32> = (0..8_u8).map(|i| f32::from(i) * -2000.0).collect();
    assert_eq!(sums, expected);
}

/// Starts a thread, and counts it in the options.
extern "C" fn create(
    options: *mut c_void,
    function: OrtThreadWorkerFn,
    work: *mut c_void,
) -> OrtCustomThreadHandle {
    let counts = &call::items(options.cast_const().cast::<[AtomicUsize; 2]>(), 1)[0];
    counts[0].fetch_add(1, Ordering::Relaxed);
    let work = work.expose_provenance();
    let thread = spawn(move || {
        call::work(function, std::ptr::with_exposed_provenance_mut(work));
        counts[1].fetch_add(1, Ordering::Relaxed);
    });
    Box::into_raw(Box::new(Some(thread))).cast_const().cast()
}

extern "C" fn join(handle: OrtCustomThreadHandle) {
    let thread = handle.cast_mut().cast::<Option<JoinHandle<()>>>();
    let taken = call::items_mut(thread, 1)[0].take();
    assert!(taken.is_some_and(|thread| thread.join().is_ok()));
    call::free(thread);
}

extern "C" fn create_none(
    _: *mut c_void,
    _: OrtThreadWorkerFn,
    _: *mut c_void,
) -> OrtCustomThreadHandle {
    null()
}

/// The counts of created and ended threads.
fn counts() -> (&'static [AtomicUsize; 2], *mut c_void) {
    let counts: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    (counts, std::ptr::from_ref(counts).cast_mut().cast())
}

fn numbers_of(counts: &[AtomicUsize; 2]) -> [usize; 2] {
    [0, 1].map(|i| counts[i].load(Ordering::Relaxed))
}

#[test]
fn threads_of_the_program_are_created_and_joined_for_a_session() {
    let (counts, user) = counts();
    let options = made!(CreateSessionOptions());
    ok(call!(SetIntraOpNumThreads(options, 3)));
    ok(call!(SessionOptionsSetCustomCreateThreadFn(options, Some(create))));
    ok(call!(SessionOptionsSetCustomThreadCreationOptions(options, user)));
    let model = model(MODEL);
    let session = |options: *const OrtSessionOptions, out| {
        call!(CreateSessionFromArray(env(), model.as_ptr().cast(), model.len(), options, out))
    };
    let mut out = null_mut();
    let (code, message) = failed(session(options, &raw mut out));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT);
    assert!(message.contains("join"), "{message}");
    ok(call!(SessionOptionsSetCustomJoinThreadFn(options, Some(join))));
    ok(session(options, &raw mut out));
    assert_eq!(numbers_of(counts), [2, 0]);
    let mut x = [1.0_f32; 3];
    let (x, mut outputs) = (tensor(&mut x, &[1, 3]), [("y", null_mut())]);
    ok(run(out, &[("x", x)], &mut outputs));
    assert_eq!(numbers(outputs[0].1), [-1.0; 3]);
    call!(ReleaseSession(out));
    assert_eq!(numbers_of(counts), [2, 2]);
    ok(call!(SessionOptionsSetCustomCreateThreadFn(options, Some(create_none))));
    let (code, message) = failed(session(options, &raw mut out));
    assert_eq!(code, OrtErrorCode::ORT_FAIL);
    assert!(message.contains("null"), "{message}");
    call!(ReleaseSessionOptions(options));
}

#[test]
fn threads_of_an_environment_may_be_those_of_the_program() {
    let (counts, user) = counts();
    let threading = made!(CreateThreadingOptions());
    ok(call!(SetGlobalIntraOpNumThreads(threading, 2)));
    ok(call!(SetGlobalCustomCreateThreadFn(threading, Some(create))));
    ok(call!(SetGlobalCustomThreadCreationOptions(threading, user)));
    ok(call!(SetGlobalCustomJoinThreadFn(threading, Some(join))));
    let level = OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR;
    let env = made!(CreateEnvWithGlobalThreadPools(level, c"e".as_ptr(), threading));
    call!(ReleaseThreadingOptions(threading));
    let (model, options) = (model(MODEL), made!(CreateSessionOptions()));
    let session =
        || made!(CreateSessionFromArray(env, model.as_ptr().cast(), model.len(), options));
    call!(ReleaseSession(session()));
    assert_eq!(numbers_of(counts), [0, 0]);
    ok(call!(DisablePerSessionThreads(options)));
    // Its sessions share them.
    call!(ReleaseSession(session()));
    let [first, second] = [session(), session()];
    assert_eq!(numbers_of(counts), [1, 0]);
    call!(ReleaseSession(first));
    call!(ReleaseEnv(env));
    let mut x = [1.0_f32; 3];
    let (x, mut outputs) = (tensor(&mut x, &[1, 3]), [("y", null_mut())]);
    ok(run(second, &[("x", x)], &mut outputs));
    assert_eq!(numbers_of(counts), [1, 0]);
    call!(ReleaseSession(second));
    assert_eq!(numbers_of(counts), [1, 1]);
}
