//! Custom providers, operators and passes, and the file format alone.

use ort_session::{Level, Session, Tensor};

use crate::{model, run, shipped};

#[test]
fn the_provider_runs_what_it_claims_and_the_cpu_the_rest() {
    let expected = "MyExecutionProvider: 1\nCPUExecutionProvider: 1\n[0.5, 0.0, 2.25]\n";
    assert_eq!(run(env!("CARGO_BIN_EXE_custom_provider"), &[]), expected);
}

#[test]
fn the_operator_computes_between_others() {
    assert_eq!(run(env!("CARGO_BIN_EXE_custom_operator"), &[]), "[2.0, -0.5, -2.0]\n");
}

#[test]
fn the_pass_leaves_no_division_and_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let divided = "graph(x: float[2]) -> (y) {
      c = const float[] 4.0
      h = Div-14 (x, c)
      y = Div-14 (h, x)
    }";
    let onnx = folder.path().join("model.onnx");
    let unchanged = Session::builder().level(Level::Disable);
    unchanged.optimize_from_file(model(folder.path(), divided)).unwrap().write_onnx(&onnx).unwrap();
    let saved = folder.path().join("saved.ort");
    let args = [onnx.to_str().unwrap(), saved.to_str().unwrap()];
    assert_eq!(run(env!("CARGO_BIN_EXE_custom_pass"), &args), "1 rewrites\n");

    let operators = run(env!("CARGO_BIN_EXE_read_ort"), &[args[1]]);
    assert!(operators.contains("     1 Div\n     1 Mul\n1 initializers, 4 bytes\n"), "{operators}");
    let session = Session::builder().commit_from_file(saved).unwrap();
    let x = Tensor::from_slice(&[2], &[2.0_f32, -8.0]).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), [0.25, 0.25]);
}

#[test]
fn a_file_is_read_without_a_runtime() {
    let printed = run(env!("CARGO_BIN_EXE_read_ort"), &[&shipped("silero_vad/model.ort")]);
    assert!(printed.contains(" If\n") && printed.contains(" LSTM\n"), "{printed}");
}
