//! Options: settings can be read back, and invalid ones are rejected.

use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{ExecutionMode, GraphOptimizationLevel, OrtErrorCode};

use crate::call::{self, call, empty, failed, made, ok, rejected};
use crate::{MODEL, env, model, session_with, tensor};

#[test]
fn entries_are_read_as_they_were_written() {
    let options = made!(CreateSessionOptions());
    let (key, value) = (c"session.intra_op.allow_spinning".as_ptr(), c"0".as_ptr());
    assert_eq!(made!(HasSessionConfigEntry(options, key)), 0);
    ok(call!(AddSessionConfigEntry(options, key, value)));
    assert_eq!(made!(HasSessionConfigEntry(options, key)), 1);
    let (mut size, mut room) = (0, [0_u8; 8]);
    ok(call!(GetSessionConfigEntry(options, key, null_mut(), &raw mut size)));
    assert_eq!(size, 2);
    size = 1;
    rejected(
        call!(GetSessionConfigEntry(options, key, room.as_mut_ptr().cast(), &raw mut size)),
        "size",
    );
    ok(call!(GetSessionConfigEntry(options, key, room.as_mut_ptr().cast(), &raw mut size)));
    assert_eq!((size, room[0]), (2, b'0'));
    let copy = made!(CloneSessionOptions(options));
    call!(ReleaseSessionOptions(options));
    let entries = made!(GetSessionOptionsConfigEntries(copy));
    let (mut keys, mut values, mut n) = (empty(), empty(), 0);
    call!(GetKeyValuePairs(entries, &raw mut keys, &raw mut values, &raw mut n));
    assert_eq!((n, call::text(call::items(values, n)[0]).as_str()), (1, "0"));
    call!(ReleaseKeyValuePairs(entries));
    call!(ReleaseSessionOptions(copy));
}

#[test]
fn invalid_options_are_rejected() {
    let options = made!(CreateSessionOptions());
    rejected(call!(AddSessionConfigEntry(options, null(), c"1".as_ptr())), "config_key");
    rejected(call!(AddSessionConfigEntry(options, c"a".as_ptr(), null())), "config_value");
    rejected(call!(AddSessionConfigEntry(null_mut(), null(), null())), "options");
    rejected(call!(SetSessionLogSeverityLevel(options, 5)), "session_log_severity_level");
    rejected(call!(AddFreeDimensionOverrideByName(options, c"n".as_ptr(), -1)), "dim_value");
    let text = b"\xff\0";
    rejected(call!(SetSessionLogId(options, text.as_ptr().cast())), "logid");
    ok(call!(SetSessionExecutionMode(options, ExecutionMode::ORT_PARALLEL)));
    assert_eq!(made!(GetSessionExecutionMode(options)), ExecutionMode::ORT_PARALLEL);
    ok(call!(DisableMemPattern(options)));
    assert_eq!(made!(GetMemPatternEnabled(options)), 0);
    // A key that onnxruntime would ignore, and one with an invalid value.
    ok(call!(AddSessionConfigEntry(options, c"unknown.key".as_ptr(), c"1".as_ptr())));
    call!(ReleaseSession(session_with(&model(MODEL), options)));
    let key = c"session.intra_op.allow_spinning".as_ptr();
    ok(call!(AddSessionConfigEntry(options, key, c"perhaps".as_ptr())));
    let (model, mut out) = (model(MODEL), null_mut());
    let (data, n) = (model.as_ptr().cast(), model.len());
    let status = call!(CreateSessionFromArray(env(), data, n, options, &raw mut out));
    assert_eq!(failed(status).0, OrtErrorCode::ORT_INVALID_ARGUMENT);
    call!(ReleaseSessionOptions(options));
}

#[test]
fn a_session_applies_its_options() {
    let options = made!(CreateSessionOptions());
    let level = GraphOptimizationLevel::ORT_ENABLE_BASIC;
    ok(call!(SetSessionGraphOptimizationLevel(options, level)));
    ok(call!(SetIntraOpNumThreads(options, 1)));
    ok(call!(SetInterOpNumThreads(options, 1)));
    ok(call!(DisableCpuMemArena(options)));
    ok(call!(SetDeterministicCompute(options, true)));
    ok(call!(AddFreeDimensionOverrideByName(options, c"n".as_ptr(), 2)));
    let mut b = [5.0_f32; 3];
    let b = tensor(&mut b, &[3]);
    ok(call!(AddInitializer(options, c"b".as_ptr(), b)));
    let (code, _) = failed(call!(AddInitializer(options, c"b".as_ptr(), b)));
    assert_eq!(code, OrtErrorCode::ORT_INVALID_ARGUMENT);
    call!(ReleaseValue(b));
    let session = session_with(&model(MODEL), options);
    let mut x = [0.0_f32; 6];
    let (x, mut outputs) = (tensor(&mut x, &[2, 3]), [("sum", null_mut())]);
    ok(crate::run(session, &[("x", x)], &mut outputs));
    assert_eq!(crate::numbers(outputs[0].1), [5.0; 6]);
    call!(ReleaseSession(session));
    call!(ReleaseSessionOptions(options));
}

#[cfg(target_os = "linux")]
#[test]
fn a_function_of_the_process_registers_operators() {
    let options = made!(CreateSessionOptions());
    let name = c"register_ops_of_the_tests".as_ptr();
    ok(call!(RegisterCustomOpsUsingFunction(options, name)));
    assert_eq!(made!(HasSessionConfigEntry(options, c"registered".as_ptr())), 1);
    let (code, message) = failed(call!(RegisterCustomOpsUsingFunction(options, name)));
    assert_eq!((code, message.as_str()), (OrtErrorCode::ORT_FAIL, "registered twice"));
    call!(ReleaseSessionOptions(options));
}

#[test]
fn weights_of_a_compiled_model_are_accepted() {
    let (options, bytes) = (made!(CreateSessionOptions()), [1_u8]);
    let set = |data, n| call!(SessionOptionsSetWeightlessSourceModelBuffer(options, data, n));
    ok(set(bytes.as_ptr().cast(), 1));
    rejected(set(null(), 1), "source_model_data");
    rejected(set(bytes.as_ptr().cast(), 0), "source_model_data_length");
    call!(ReleaseSessionOptions(options));
}

#[test]
fn a_cache_folder_is_a_key() {
    let folder = std::env::temp_dir().join(format!("ort-capi-cache-{}", std::process::id()));
    let options = made!(CreateSessionOptions());
    let path = call::c(&folder.display().to_string());
    ok(call!(AddSessionConfigEntry(options, c"ort_rs.cache_dir".as_ptr(), path.as_ptr())));
    call!(ReleaseSession(session_with(&model(MODEL), options)));
    call!(ReleaseSessionOptions(options));
    assert!(std::fs::read_dir(&folder).is_ok_and(|files| files.count() > 0));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

#[test]
fn a_memory_report_is_written_when_a_session_is_released_and_after_a_run() {
    let folder = std::env::temp_dir().join(format!("ort-capi-memory-{}", std::process::id()));
    assert!(std::fs::create_dir_all(&folder).is_ok());
    let [of_session, of_run] = ["session", "run"].map(|name| folder.join(name));
    let key = c"ort_rs.memory_report".as_ptr();
    let options = made!(CreateSessionOptions());
    let path = call::c(&of_session.display().to_string());
    ok(call!(AddSessionConfigEntry(options, key, path.as_ptr())));
    let session = session_with(&model(MODEL), options);
    call!(ReleaseSessionOptions(options));
    let run_options = made!(CreateRunOptions());
    let path = call::c(&of_run.display().to_string());
    ok(call!(AddRunConfigEntry(run_options, key, path.as_ptr())));
    let mut x = [0.0_f32; 6];
    let (x, mut outputs) = (tensor(&mut x, &[2, 3]), [("sum", null_mut())]);
    ok(crate::run_with(session, run_options, &[("x", x)], &mut outputs));
    let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    assert!(read(&of_run).contains("\"signatures\":1,"), "{}", read(&of_run));
    assert!(!of_session.exists());
    // A file that cannot be written fails the run.
    ok(call!(AddRunConfigEntry(run_options, key, c"/no/such/folder/file".as_ptr())));
    let (code, message) = failed(crate::run_with(session, run_options, &[("x", x)], &mut outputs));
    assert_eq!(code, OrtErrorCode::ORT_FAIL);
    assert!(message.contains("/no/such/folder/file"), "{message}");
    call!(ReleaseSession(session));
    assert!(read(&of_session).contains("\"activations_planned\""));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

#[test]
fn only_the_cpu_provider_is_available() {
    let options = made!(CreateSessionOptions());
    let append =
        |name| call!(SessionOptionsAppendExecutionProvider(options, name, null(), null(), 0));
    ok(append(c"CPUExecutionProvider".as_ptr()));
    let (code, message) = failed(append(c"XNNPACK".as_ptr()));
    assert_eq!(code, OrtErrorCode::ORT_FAIL);
    assert!(message.contains("XNNPACK"), "{message}");
    let cuda = failed(call!(SessionOptionsAppendExecutionProvider_CUDA(options, null())));
    assert!(cuda.1.contains("CUDA"));
    let (mut names, mut n) = (null_mut(), 0);
    ok(call!(GetAvailableProviders(&raw mut names, &raw mut n)));
    assert_eq!((n, call::text(call::items(names, 1)[0]).as_str()), (1, "CPUExecutionProvider"));
    ok(call!(ReleaseAvailableProviders(names, n)));
    call!(ReleaseSessionOptions(options));
}

#[test]
fn threads_of_an_environment_are_options_of_its_sessions() {
    let threading = made!(CreateThreadingOptions());
    ok(call!(SetGlobalIntraOpNumThreads(threading, 1)));
    ok(call!(SetGlobalSpinControl(threading, 0)));
    ok(call!(SetGlobalDenormalAsZero(threading)));
    rejected(call!(SetGlobalSpinControl(threading, 2)), "allow_spinning");
    let level = onnxruntime::ort_sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_ERROR;
    let env = made!(CreateEnvWithGlobalThreadPools(level, c"e".as_ptr(), threading));
    call!(ReleaseThreadingOptions(threading));
    let options = made!(CreateSessionOptions());
    ok(call!(DisablePerSessionThreads(options)));
    let model = model(MODEL);
    let session = made!(CreateSessionFromArray(env, model.as_ptr().cast(), model.len(), options));
    call!(ReleaseSession(session));
    call!(ReleaseEnv(env));
}
