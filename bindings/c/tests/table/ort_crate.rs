//! The crate `ort`, whose backend is the table: no C library is linked or loaded.

use std::error::Error;

use ort::environment::Environment;
use ort::ep::CPU;
use ort::session::Session;
use ort::value::{Tensor, TensorElementType, ValueType};

#[test]
fn sessions_of_ort_run_here() -> Result<(), Box<dyn Error>> {
    ort::set_api(onnxruntime::api());
    // A process has one.
    let environment = ort::init().with_name("test").build()?;
    numbers_are_run(&environment)?;
    strings_and_errors_pass_through(&environment)
}

fn numbers_are_run(environment: &Environment) -> Result<(), Box<dyn Error>> {
    let text = "graph(x: float[n,3]) -> (y, i) {
        y: float[n,3] = Neg-13 (x)
        i = ArgMax-13 [axis: 1] (x)
    }";
    let builder = Session::builder(environment)?.with_intra_threads(1)?;
    let mut builder = builder.with_execution_providers([CPU::default().build()])?;
    let mut session = builder.commit_from_memory(&crate::model(text))?;
    let input = &session.inputs()[0];
    assert_eq!(input.name(), "x");
    match input.dtype() {
        ValueType::Tensor { ty, shape, dimension_symbols } => {
            assert_eq!(*ty, TensorElementType::Float32);
            assert_eq!((&shape[..], dimension_symbols[0].as_str()), (&[-1, 3][..], "n"));
        }
        other => return Err(format!("the input is {other}").into()),
    }
    let x = Tensor::from_array(([2_usize, 3], vec![1.0_f32, 3.0, 2.0, 6.0, 5.0, 4.0]))?;
    let outputs = session.run(ort::inputs!["x" => x])?;
    let (shape, y) = outputs["y"].try_extract_tensor::<f32>()?;
    assert_eq!((&shape[..], y), (&[2, 3][..], &[-1.0, -3.0, -2.0, -6.0, -5.0, -4.0][..]));
    assert_eq!(outputs["i"].try_extract_tensor::<i64>()?.1, [1, 0]);
    Ok(())
}

fn strings_and_errors_pass_through(environment: &Environment) -> Result<(), Box<dyn Error>> {
    let text = "graph(x: string[n]) -> (y) { y = Identity-14 (x) }";
    let mut session = Session::builder(environment)?.commit_from_memory(&crate::model(text))?;
    let x = Tensor::from_string_array(([2_usize], &["one", "zwei"][..]))?;
    let outputs = session.run(ort::inputs!["x" => x])?;
    assert_eq!(outputs["y"].try_extract_strings()?.1, ["one", "zwei"]);
    drop(outputs);
    let wrong = Tensor::from_array(([2_usize], vec![1_i64, 2]))?;
    let error = session.run(ort::inputs!["x" => wrong]).err().ok_or("it ran")?;
    assert!(error.to_string().contains('x'), "{error}");
    let missing = Session::builder(environment)?.commit_from_file("no/such/model.onnx");
    let error = missing.err().ok_or("it loaded")?;
    assert!(error.to_string().contains("no/such/model.onnx"), "{error}");
    Ok(())
}
