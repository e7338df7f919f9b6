//! Errors: one line that identifies what failed, and the exit code.

use std::fs;

use ort_session::Tensor;
use ort_tensor_io::write_value;

use crate::{folder, model, ort_cli};

/// The one line on standard error.
fn error_of(arguments: &[&str]) -> String {
    let called = ort_cli(arguments.iter().copied());
    assert_eq!((called.code, called.stdout.as_str()), (Some(1), ""), "{called:?}");
    let line = called.stderr.strip_suffix('\n').expect("a line");
    assert!(!line.contains('\n'), "{line}");
    line.strip_prefix("error: ").expect("an error").to_owned()
}

#[test]
fn a_file_that_is_not_a_model_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = root.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = file("text.ort", b"this is no model at all");
    let unknown = file("unknown.ort", &[0; 64]);
    let empty = file("empty.ort", b"");
    // The first fields of a model: an IR version, the name of the producer, and a graph that is cut off.
    let onnx = file("model.onnx", b"\x08\x09\x12\x07pytorch\x1a\x052.1.0\x3a\x05");
    let missing = root.path().join("none.ort").to_str().unwrap().to_owned();
    for command in ["inspect", "run", "bench"] {
        for (path, reason) in [
            (&text, "this is a text file, not an ONNX or ORT model: check the path"),
            (&unknown, r#"not an ORT model: the identifier is "\\x00\\x00\\x00\\x00", not "ORTM""#),
            (&empty, "the file is empty: write or download it again"),
            (&onnx, "model, byte 18: the message ends within a field"),
            (&missing, "no such file"),
            (&folder("magika"), "is a folder, not a file"),
        ] {
            assert_eq!(error_of(&[command, path]), format!("{path}: {reason}"), "{command}");
        }
    }
}

#[test]
fn a_file_of_another_format_is_identified_with_a_remedy() {
    let root = tempfile::tempdir().unwrap();
    let zip = |name: &[u8]| [b"PK\x03\x04", &[0; 22][..], &[16, 0, 0, 0], name].concat();
    for (name, bytes, expected) in [
        ("model.pt", zip(b"archive/data.pkl"), "a PyTorch file … with torch.onnx.export"),
        ("old.pth", b"\x80\x02\x8a\nl\xfcF".to_vec(), "a Python pickle … skl2onnx"),
        ("w.safetensors", b"\x02\0\0\0\0\0\0\0{}".to_vec(), "a safetensors file … no graph"),
        // The first byte is one that a .onnx file may begin with.
        (
            "long.safetensors",
            [b"\x08\0\0\0\0\0\0\0{".to_vec(), vec![b' '; 9]].concat(),
            "a safetensors file",
        ),
        ("m.tflite", b"\x20\0\0\0TFL3\0\0".to_vec(), "a TensorFlow Lite model … tf2onnx"),
        ("m.gguf", b"GGUF\x03\0\0\0\0".to_vec(), "a GGUF file … optimum-cli"),
        ("m.onnx.gz", b"\x1f\x8b\x08\0\0\0\0\0\0".to_vec(), "a compressed file … decompress it"),
        ("m.zip", zip(b"model.onnx\0\0\0\0\0\0"), "a zip archive … extract"),
        ("m.h5", b"\x89HDF\r\n\x1a\n\0".to_vec(), "an HDF5 file … Keras"),
        ("m.engine", b"ftrt\0\0\0\0\0".to_vec(), "a TensorRT engine … built from"),
        ("page.onnx", b"<!DOCTYPE html><html>".to_vec(), "an HTML page … download the file itself"),
        (
            "lfs.onnx",
            b"version https://git-lfs.github.com/spec/v1\n".to_vec(),
            "a Git LFS pointer … git lfs pull",
        ),
    ] {
        let path = root.path().join(name);
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let (format, advice) = expected.split_once(" … ").unwrap_or((expected, ""));
        for command in ["run", "inspect"] {
            let error = error_of(&[command, path]);
            let begin = format!("{path}: this is {format}, not an ONNX or ORT model: ");
            assert!(error.starts_with(&begin) && error.contains(advice), "{error}");
        }
    }
}

#[test]
fn an_input_that_does_not_fit_is_named() {
    let root = tempfile::tempdir().unwrap();
    let (path, shape) = (model("magika"), "bytes=1x20");
    let file = root.path().join("x.npy");
    let floats = Tensor::from_slice(&[1, 2], &[1_f32, 2.0]).unwrap();
    write_value(&file, "", &floats.into()).unwrap();
    let file = file.to_str().unwrap();
    let (floats, unknown) = (format!("bytes={file}"), format!("byte={file}"));
    let declared = "expected int32[unk__214,2048]";
    for (arguments, expected) in [
        (["--shape", shape], format!("{path}: input `bytes`: {declared}, found int32[1,20]")),
        (["--input", &floats], format!("{path}: input `bytes`: {declared}, found float[1,2]")),
        (["--input", &unknown], "--input byte: no such input; the inputs are `bytes`".to_owned()),
        (["--shape", "x=1"], "--shape x: no such input; the inputs are `bytes`".to_owned()),
        (["--input", "bytes=none.pb"], "none.pb: cannot be read: ".to_owned()),
        (
            ["--input", "bytes=text.txt"],
            "text.txt: expected a name that ends in .pb or .npy".to_owned(),
        ),
    ] {
        let found = error_of(&["run", &path, arguments[0], arguments[1]]);
        assert!(found.starts_with(&expected), "{found}");
    }
}

#[cfg(unix)]
#[test]
fn an_input_that_takes_too_much_memory_is_named_with_its_size() {
    let root = tempfile::tempdir().unwrap();
    let (path, file) = (model("magika"), |name: &str| root.path().join(name));
    // Its elements are a hole, which takes no space on the medium.
    let floats = Tensor::from_slice(&[0], &[0_f32; 0]).unwrap();
    write_value(&file("hole.npy"), "", &floats.into()).unwrap();
    fs::OpenOptions::new().append(true).open(file("hole.npy")).unwrap().set_len(1 << 42).unwrap();
    // An int32[2^40] without elements.
    fs::write(file("empty.pb"), b"\x08\x80\x80\x80\x80\x80\x20\x10\x06").unwrap();
    for (name, expected) in [
        ("hole.npy", "cannot allocate 4398046511104 bytes: over the total limit of "),
        ("empty.pb", "int32[1099511627776] takes 4398046511104 bytes or strings, found 0"),
    ] {
        let input = file(name).display().to_string();
        let found = error_of(&["run", &path, "--input", &format!("bytes={input}")]);
        assert!(found.starts_with(&format!("{input}: {expected}")), "{found}");
    }
    let found = error_of(&["run", &path, "--shape", "bytes=1048576x1048576"]);
    let expected = "input `bytes`: a tensor of shape [1048576, 1048576] is too large";
    assert_eq!(found, expected);
}

#[test]
fn a_folder_without_inputs_is_named() {
    let root = tempfile::tempdir().unwrap();
    let empty = root.path().to_str().unwrap();
    let expected = format!("{empty}: no inputs here: input_0.pb or input_0.npy");
    assert_eq!(error_of(&["run", &model("magika"), "--inputs", empty]), expected);
    let extra = Tensor::from_slice(&[1], &[1_f32]).unwrap();
    write_value(&root.path().join("input_7.npy"), "", &extra.into()).unwrap();
    let expected = format!("{empty}: input_7 has no name, and the model has 1 input");
    assert_eq!(error_of(&["run", &model("magika"), "--inputs", empty]), expected);
}

#[test]
fn an_unknown_pass_is_named() {
    let expected = "there is no optimizer `ConstantFoldin`; did you mean `ConstantFolding`?";
    let key = "optimization.disable_specified_optimizers=ConstantFoldin";
    for option in [["--disable", "ConstantFoldin"], ["--config", key]] {
        assert_eq!(error_of(&["run", &model("magika"), option[0], option[1]]), expected);
    }
}

#[test]
fn a_dimension_is_fixed_by_its_name() {
    let model = model("silero_vad");
    let expected = "no input has a free dimension `bach`; did you mean `batch`?";
    assert_eq!(error_of(&["run", &model, "--dim", "bach=1"]), format!("{model}: {expected}"));
    let data = format!("{}/test_data_set_0", folder("silero_vad"));
    let called = ort_cli(["run", &model, "--inputs", &data, "--dim", "batch=1"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let error = error_of(&["run", &model, "--inputs", &data, "--dim", "batch=2"]);
    assert!(error.ends_with("expected float[2,sequence], found float[1,576]"), "{error}");
}

#[test]
fn wrong_usage_has_exit_code_two_and_a_suggestion() {
    for (arguments, expected) in [
        (&["weigh", "m.ort"][..], "unrecognized subcommand 'weigh'"),
        (&["bnech", "m.ort"], "a similar subcommand exists: 'bench'"),
        (&["cache", "lsit", "folder"], "a similar subcommand exists: 'list'"),
        (&["run", "m.ort", "--levle", "all"], "a similar argument exists: '--level'"),
        (&["run", "m.ort", "--level", "exteded"], "a similar value exists: 'extended'"),
        (&["completions", "bsh"], "a similar value exists: 'bash'"),
        (&["run"], "<MODEL>"),
        (&["run", "m.ort", "--level", "most"], "possible values: disable, basic, extended"),
        (&["run", "m.ort", "--threads", "0"], "expected a number from 1 to 1024"),
        (&["run", "m.ort", "--shape", "x"], "expected NAME=1x3x640x640"),
        (&["run", "m.ort", "--dim", "x=1x2"], "expected NAME=N"),
        (&["run", "m.ort", "--config", "weather"], "expected KEY=VALUE"),
        (&["bench", "m.ort", "--seconds", "-1"], "a number of seconds"),
        (&["optimize", "m.ort"], "--output <OUT>"),
        (
            &["run", "m.ort", "--config", "session.intra_op_num_thread=2"],
            "unknown key `session.intra_op_num_thread`; did you mean `session.intra_op_num_threads`?",
        ),
        (
            &["run", "m.ort", "--config", "session.set_denormal_as_zero=2"],
            "`2` is not a value of `session.set_denormal_as_zero`: expected 0 or 1",
        ),
    ] {
        let called = ort_cli(arguments.iter().copied());
        assert_eq!((called.code, called.stdout.as_str()), (Some(2), ""), "{called:?}");
        assert!(called.stderr.starts_with("error: "), "{}", called.stderr);
        assert!(called.stderr.contains(expected), "{}", called.stderr);
    }
}
