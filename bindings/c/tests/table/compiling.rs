//! Models that a program compiles.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use onnxruntime::ort_sys::{
    OrtCompileApi, OrtErrorCode, OrtExternalInitializerInfo, OrtStatusPtr, OrtValue,
};

use crate::call::{self, Newer, Options, c, call, failed, from_allocator, made, of, ok, rejected};
use crate::models::built;
use crate::{MODEL, env, model, numbers, run, tensor};

fn newer() -> &'static Newer {
    &call::items(call!(GetCompileApi()).cast::<Newer>(), 1)[0]
}

fn compiler() -> &'static OrtCompileApi {
    &newer().api
}

/// Compilation options with default session options.
fn options() -> Options {
    let (session_options, mut options) = (made!(CreateSessionOptions()), null_mut());
    ok(of!(compiler.CreateModelCompilationOptionsFromSessionOptions(
        env(),
        session_options,
        &raw mut options
    )));
    call!(ReleaseSessionOptions(session_options));
    options
}

fn compile(options: Options) -> OrtStatusPtr {
    of!(compiler.CompileModel(env(), options))
}

/// A new folder for a test.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("ort-capi-{name}-{}", std::process::id()));
    assert!(std::fs::create_dir_all(&folder).is_ok());
    folder
}

fn text(path: &Path) -> CString {
    c(&path.display().to_string())
}

fn set_input(options: Options, bytes: &[u8]) {
    let (data, n) = (bytes.as_ptr().cast(), bytes.len());
    ok(of!(compiler.ModelCompilationOptions_SetInputModelFromBuffer(options, data, n)));
}

/// `sum = x + b` of the model in a file, for x of zeros.
fn sum_of(file: &Path) -> Vec<f32> {
    let options = made!(CreateSessionOptions());
    let session = made!(CreateSession(env(), text(file).as_ptr().cast(), options));
    call!(ReleaseSessionOptions(options));
    let mut x = [0.0_f32; 3];
    let (x, mut outputs) = (tensor(&mut x, &[1, 3]), [("sum", null_mut())]);
    ok(run(session, &[("x", x)], &mut outputs));
    call!(ReleaseSession(session));
    numbers(outputs[0].1).to_vec()
}

#[test]
fn a_model_is_compiled_to_a_file_or_a_buffer() {
    let folder = std::env::temp_dir().join(format!("ort-capi-compile-{}", std::process::id()));
    assert!(std::fs::create_dir_all(&folder).is_ok());
    let [from, beside, to] = ["m.ort", "m_ctx.ort", "to.ort"].map(|name| folder.join(name));
    assert!(std::fs::write(&from, model(MODEL)).is_ok());
    let [from_c, to_c] = [&from, &to].map(|path| c(&path.display().to_string()));
    let (env, session_options, mut options) = (env(), made!(CreateSessionOptions()), null_mut());
    let create = |session_options, out| {
        of!(compiler.CreateModelCompilationOptionsFromSessionOptions(env, session_options, out))
    };
    rejected(create(null(), &raw mut options), "session_options");
    ok(create(session_options, &raw mut options));
    let compile = || of!(compiler.CompileModel(env, options));
    assert!(failed(compile()).1.contains("Input model"));
    rejected(
        of!(compiler.ModelCompilationOptions_SetInputModelPath(options, null())),
        "input_model_path",
    );
    ok(of!(compiler.ModelCompilationOptions_SetInputModelPath(options, from_c.as_ptr())));
    ok(compile());
    ok(of!(compiler.ModelCompilationOptions_SetOutputModelPath(options, to_c.as_ptr())));
    ok(of!(compiler.ModelCompilationOptions_SetEpContextEmbedMode(options, true)));
    ok(compile());
    let read = |path| std::fs::read(path).unwrap_or_default();
    assert_eq!(read(&beside), read(&to));
    let (bytes, allocator) = (model(MODEL), made!(GetAllocatorWithDefaultOptions()));
    let (data, n) = (bytes.as_ptr().cast(), bytes.len());
    ok(of!(compiler.ModelCompilationOptions_SetInputModelFromBuffer(options, data, n)));
    let (mut buffer, mut size) = (null_mut(), 0);
    let to_buffer = |buffer, size| {
        of!(compiler.ModelCompilationOptions_SetOutputModelBuffer(options, allocator, buffer, size))
    };
    rejected(to_buffer(&raw mut buffer, null_mut()), "output_model_buffer_size_ptr");
    ok(to_buffer(&raw mut buffer, &raw mut size));
    ok(compile());
    assert_eq!(call::items(buffer.cast::<u8>(), size), read(&to));
    let session = made!(CreateSessionFromArray(env, buffer, size, session_options));
    let name = made!(SessionGetInputName(session, 0, allocator));
    assert_eq!(from_allocator(name), "x");
    call!(ReleaseSession(session));
    ok(call!(AllocatorFree(allocator, buffer)));
    of!(compiler.ReleaseModelCompilationOptions(options));
    call!(ReleaseSessionOptions(session_options));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

/// Appends what it receives to a vector.
extern "system" fn append(state: *mut c_void, data: *const c_void, n: usize) -> OrtStatusPtr {
    let to = &mut call::items_mut(state.cast::<Vec<u8>>(), 1)[0];
    to.extend_from_slice(call::items(data.cast::<u8>(), n));
    OrtStatusPtr(null_mut())
}

extern "system" fn refuse(_: *mut c_void, _: *const c_void, _: usize) -> OrtStatusPtr {
    call!(CreateStatus(OrtErrorCode::ORT_FAIL, c"the disk is full".as_ptr()))
}

#[test]
fn a_model_is_written_by_a_function_of_the_program() {
    let (options, bytes) = (options(), model(MODEL));
    set_input(options, &bytes);
    rejected(of!(newer.set_write(options, None, null_mut())), "write_func");
    ok(of!(newer.set_write(options, Some(refuse), null_mut())));
    assert_eq!(failed(compile(options)), (OrtErrorCode::ORT_FAIL, "the disk is full".to_owned()));
    let mut written: Vec<u8> = Vec::new();
    let state = std::ptr::from_mut(&mut written).cast();
    ok(of!(newer.set_write(options, Some(append), state)));
    ok(compile(options));
    let (data, n) = (written.as_ptr().cast(), written.len());
    let session = made!(CreateSessionFromArray(env(), data, n, null()));
    call!(ReleaseSession(session));
    of!(compiler.ReleaseModelCompilationOptions(options));
}

#[test]
fn options_of_a_compilation_are_checked() {
    let (options, folder) = (options(), folder("flags"));
    let bytes = model(MODEL);
    set_input(options, &bytes);
    rejected(of!(newer.set_level(options, 7)), "graph_optimization_level");
    ok(of!(newer.set_level(options, 1)));
    rejected(of!(newer.set_binary(options, null(), c"m".as_ptr())), "output_directory");
    rejected(of!(newer.set_binary(options, c"d".as_ptr(), c"".as_ptr())), "model_name");
    ok(of!(newer.set_binary(options, c"d".as_ptr(), c"m".as_ptr())));
    rejected(of!(newer.set_data_write(options, None, null_mut())), "write_func");
    rejected(of!(newer.set_flags(null_mut(), 0)), "model_compile_options");
    let (code, _) = failed(of!(newer.newer()));
    assert_eq!(code, OrtErrorCode::ORT_NOT_IMPLEMENTED);
    // A file is replaced, unless the program does not want that.
    let to = folder.join("to.ort");
    ok(
        of!(compiler.ModelCompilationOptions_SetOutputModelPath(options, text(&to).as_ptr().cast())),
    );
    ok(compile(options));
    ok(of!(newer.set_flags(options, 1)));
    ok(compile(options));
    ok(of!(newer.set_flags(options, 2)));
    let (code, message) = failed(compile(options));
    assert_eq!(code, OrtErrorCode::ORT_FAIL);
    assert!(message.contains("exists"), "{message}");
    of!(compiler.ReleaseModelCompilationOptions(options));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

#[test]
fn a_model_that_was_built_in_memory_is_compiled() {
    let (options, folder) = (options(), folder("built"));
    rejected(of!(newer.set_model(options, null())), "model");
    let (model, _) = built(&["y"]);
    ok(of!(newer.set_model(options, model)));
    // It has no path from which that of the result could follow.
    assert!(failed(compile(options)).1.contains("Output model"));
    let to = text(&folder.join("y.ort"));
    ok(of!(compiler.ModelCompilationOptions_SetOutputModelPath(options, to.as_ptr().cast())));
    ok(compile(options));
    call!(ReleaseModel(model));
    let session = made!(CreateSession(env(), to.as_ptr().cast(), null()));
    let allocator = made!(GetAllocatorWithDefaultOptions());
    let name = made!(SessionGetOutputName(session, 0, allocator));
    assert_eq!(from_allocator(name), "y");
    call!(ReleaseSession(session));
    of!(compiler.ReleaseModelCompilationOptions(options));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

#[test]
fn initializers_are_in_a_file_of_their_own() {
    let (options, folder) = (options(), folder("initializers"));
    let bytes = model(MODEL);
    set_input(options, &bytes);
    let to = folder.join("m.onnx");
    ok(
        of!(compiler.ModelCompilationOptions_SetOutputModelPath(options, text(&to).as_ptr().cast())),
    );
    let set = |name: &str, threshold| {
        let name = c(name);
        of!(compiler.ModelCompilationOptions_SetOutputModelExternalInitializersFile(
            options,
            name.as_ptr().cast(),
            threshold
        ))
    };
    rejected(set("", 0), "external_initializers_file_path");
    ok(set("m.onnx", 0));
    rejected(compile(options), "external_initializers_file_path");
    // `b` has 12 bytes.
    ok(set("m.data", 12));
    ok(compile(options));
    assert_eq!(std::fs::metadata(folder.join("m.data")).map_or(9, |file| file.len()), 0);
    ok(set("m.data", 11));
    ok(compile(options));
    assert_eq!(std::fs::metadata(folder.join("m.data")).map_or(9, |file| file.len()), 12);
    assert_eq!(sum_of(&to), [1.0, 2.0, 3.0]);
    of!(compiler.ReleaseModelCompilationOptions(options));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

/// Stores `b` at byte 4 of the file in the state, which is a path.
extern "system" fn locate(
    state: *mut c_void,
    name: *const c_char,
    value: *const OrtValue,
    external: *const OrtExternalInitializerInfo,
    out: *mut *mut OrtExternalInitializerInfo,
) -> OrtStatusPtr {
    assert!(external.is_null());
    let path = &call::items(state.cast_const().cast::<std::path::PathBuf>(), 1)[0];
    if call::text(name) != "b" {
        return OrtStatusPtr(null_mut());
    }
    let data = call::items(made!(GetTensorData(value)).cast::<u8>(), 12);
    assert!(std::fs::write(path, [&[0; 4], data].concat()).is_ok());
    call!(CreateExternalInitializerInfo(c"located.data".as_ptr().cast(), 4, 12, out))
}

#[test]
fn a_function_of_the_program_stores_initializers() {
    let (options, folder) = (options(), folder("located"));
    let bytes = model(MODEL);
    set_input(options, &bytes);
    let (to, mut data) = (folder.join("m.onnx"), folder.join("located.data"));
    ok(
        of!(compiler.ModelCompilationOptions_SetOutputModelPath(options, text(&to).as_ptr().cast())),
    );
    let missing = "get_initializer_location_func";
    rejected(of!(newer.set_location(options, None, null_mut())), missing);
    let state = std::ptr::from_mut(&mut data).cast();
    ok(of!(newer.set_location(options, Some(locate), state)));
    ok(compile(options));
    assert_eq!(std::fs::metadata(&data).map_or(9, |file| file.len()), 16);
    assert_eq!(sum_of(&to), [1.0, 2.0, 3.0]);
    of!(compiler.ReleaseModelCompilationOptions(options));
    assert!(std::fs::remove_dir_all(&folder).is_ok());
}

#[test]
fn a_place_in_a_file_is_read_as_it_was_made() {
    let info = made!(CreateExternalInitializerInfo(c"a.data".as_ptr().cast(), 3, 4));
    assert_eq!(call::text(call!(ExternalInitializerInfo_GetFilePath(info)).cast()), "a.data");
    assert_eq!(call!(ExternalInitializerInfo_GetFileOffset(info)), 3);
    assert_eq!(call!(ExternalInitializerInfo_GetByteSize(info)), 4);
    call!(ReleaseExternalInitializerInfo(info));
    call!(ReleaseExternalInitializerInfo(null_mut()));
    let mut none = null_mut();
    rejected(call!(CreateExternalInitializerInfo(null(), 0, 0, &raw mut none)), "filepath");
    assert!(call!(ExternalInitializerInfo_GetFilePath(null())).is_null());
}
