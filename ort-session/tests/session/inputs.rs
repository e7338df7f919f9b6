//! Inputs and outputs: by name and position, borrowed, and every error.

use ndarray::array;
use ort_session::{DType, ModelBytes, RunError, RunInputs, Session, Tensor, TensorView, Value};

use crate::model::{ModelWriter, gated, gated_value, of_text};

fn session() -> Session {
    Session::builder().commit(ModelBytes::from_vec(gated())).unwrap()
}

fn message<'a>(inputs: impl Into<RunInputs<'a>>) -> String {
    session().run(inputs).map(drop).unwrap_err().to_string()
}

#[test]
fn inputs_and_outputs_are_found_by_name_and_position() {
    let session = session();
    let data = [1.0_f32, 2.0, 3.0, -4.0, 5.0, -6.0];
    let x = Tensor::from_slice(&[2, 3], &data).unwrap();
    for inputs in [RunInputs::from([("x", &x)]), RunInputs::positional([&x])] {
        let outputs = session.run(inputs).unwrap();
        let y = outputs.get("y").unwrap().as_tensor().unwrap();
        assert_eq!(y.shape(), [2, 3]);
        assert_eq!(y.as_slice::<f32>().unwrap(), gated_value(&data));
        assert_eq!(outputs[0].as_tensor().unwrap(), y);
        assert!(outputs.get("x").is_none());
    }
}

#[test]
fn arrays_are_passed_without_copies() {
    let session = session();
    let x = array![[1.0_f32, 2.0, 3.0]];
    let view = TensorView::from_ndarray(&x).unwrap();
    assert_eq!(view.as_slice::<f32>().unwrap().as_ptr(), x.as_ptr());
    let outputs = session.run([("x", view)]).unwrap();
    let y = outputs[0].as_tensor().unwrap();
    let array = y.view().to_ndarray::<f32>().unwrap();
    assert_eq!(array.as_ptr(), y.as_slice::<f32>().unwrap().as_ptr());
    assert_eq!(array, array![[2.0, 0.0, 10.5]].into_dyn());
    // An array of another layout is copied to row-major order.
    let columns = array![[1.0_f32], [2.0], [3.0]];
    let outputs = session.run([("x", &*columns.t())]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap(), y);
}

#[test]
fn inputs_and_outputs_are_described() {
    let session = session();
    let [x] = &session.inputs()[..] else { panic!("one input") };
    assert_eq!(
        (x.name.as_str(), x.ty.to_string(), x.has_default),
        ("x", "float[n,3]".into(), false)
    );
    let [y] = &session.outputs()[..] else { panic!("one output") };
    assert_eq!((y.name.as_str(), y.ty.to_string()), ("y", "float[n,3]".into()));
}

#[test]
fn outputs_are_inferred_for_the_shapes_of_inputs() {
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
    let inferred = |session: &Session, shape: &[usize]| {
        let outputs = session.infer_outputs([("x", &zeros(shape))])?;
        let texts = outputs.iter().map(|it| format!("{}: {}", it.name, it.ty));
        Ok::<_, RunError>(texts.collect::<Vec<_>>())
    };
    assert_eq!(inferred(&session(), &[5, 3]).unwrap(), ["y: float[5,3]"]);
    assert!(matches!(inferred(&session(), &[5, 4]), Err(RunError::Input(_))));
    // Data-dependent dimensions are unknown; a pool must have room for its kernel.
    let model = of_text(
        "graph(x: float[1,1,h,w]) -> (y, found) {
            y = MaxPool-12 [kernel_shape: [4, 4]] (x)
            found = NonZero-13 (x)
        }",
    );
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    let found = inferred(&session, &[1, 1, 8, 6]).unwrap();
    assert_eq!(found, ["y: float[1,1,5,3]", "found: int64[4,?]"]);
    assert!(matches!(inferred(&session, &[1, 1, 3, 8]), Err(RunError::Plan(_))));
}

#[test]
fn a_wrong_input_is_named_with_expected_and_actual_type() {
    let x = |shape: &[usize]| Tensor::zeros(ort_session::DType::F32, shape).unwrap();
    let ints = Tensor::from_slice(&[1, 3], &[1_i64, 2, 3]).unwrap();
    let cases = [
        (message([("z", &x(&[1, 3]))]), "there is no input `z`; the inputs are `x`"),
        (message([("x", &ints)]), "input `x`: expected float[n,3], found int64[1,3]"),
        (message([("x", &x(&[3]))]), "input `x`: expected float[n,3], found float[3]"),
        (message([("x", &x(&[2, 4]))]), "input `x`: expected float[n,3], found float[2,4]"),
        (message(RunInputs::default()), "input `x` (float[n,3]) is missing"),
        (message([("x", &x(&[1, 3])), ("x", &x(&[1, 3]))]), "input `x` was passed twice"),
        (
            message(RunInputs::positional([x(&[1, 3]), x(&[1, 3])])),
            "2 inputs were passed, but the model has 1",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn an_initializer_that_is_an_input_is_a_default_not_a_constant() {
    let model = ModelWriter::default()
        .input("x", &[2])
        .default_input("b", &[2], &[10.0, 20.0])
        .node("Identity", 14, &["b"], "c")
        .node("Add", 14, &["x", "c"], "y")
        .output("y")
        .bytes();
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    assert_eq!(
        session.inputs().iter().map(|input| input.has_default).collect::<Vec<_>>(),
        [false, true]
    );
    let (x, b) = (array![1.0_f32, 2.0], array![0.5_f32, 0.25]);
    let run = |inputs: RunInputs<'_>| {
        let outputs = session.run(inputs).unwrap();
        outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    for _ in 0..2 {
        assert_eq!(run([("x", &*x)].into()), [11.0, 22.0]);
        assert_eq!(run([("x", &*x), ("b", &*b)].into()), [1.5, 2.25]);
    }
}

#[test]
fn an_empty_batch_gives_an_empty_result() {
    let x = Tensor::from_slice::<f32>(&[0, 3], &[]).unwrap();
    let outputs = session().run([("x", &x)]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().shape(), [0, 3]);
}

#[test]
fn sequence_items_may_differ_between_runs() {
    let model =
        ModelWriter::default().sequence("items").node("SequenceLength", 11, &["items"], "n");
    let model = model.node("Sub", 14, &["n", "n"], "zero");
    let model = model.node("SequenceAt", 11, &["items", "zero"], "x");
    let model = model.node("Add", 14, &["x", "x"], "y").output("y");
    let session = Session::builder().commit(ModelBytes::from_vec(model.bytes())).unwrap();
    for x in [[1.0_f32, 2.0, 3.0].as_slice(), &[4.0], &[5.0, 6.0]] {
        let item = Tensor::from_slice(&[x.len()], x).unwrap();
        let items = Value::Sequence(vec![item.into()]);
        let outputs = session.run([("items", items)]).unwrap();
        let expected: Vec<f32> = x.iter().map(|x| x + x).collect();
        assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), expected);
    }
}

/// The items of a sequence have shapes that are only known in a run.
#[test]
fn states_and_weights_of_another_shape_than_a_layers_are_refused() {
    let shapes: [&[usize]; 3] = [&[1, 16], &[1, 2, 2], &[1, 6]];
    let constant = |n: usize| vec![0.5_f32; n];
    let mut model = ModelWriter::default()
        .input("x", &[3, 2, 5])
        .sequence("items")
        .constant("w", &[1, 8, 5], &constant(40))
        .constant("r", &[1, 8, 2], &constant(16))
        .node("SequenceLength", 11, &["items"], "three")
        .node("Div", 14, &["three", "three"], "one")
        .node("Sub", 14, &["one", "one"], "zero")
        .node("Add", 14, &["one", "one"], "two");
    for (at, item) in [("zero", "b"), ("one", "h"), ("two", "p")] {
        model = model.node("SequenceAt", 11, &["items", at], item);
    }
    let layer = ["x", "w", "r", "b", "", "h", "h", "p"];
    let model = model.node("LSTM", 14, &layer, "y").integer("hidden_size", 2).output("y");
    let session = Session::builder().commit(ModelBytes::from_vec(model.bytes())).unwrap();
    let run = |shapes: [&[usize]; 3]| {
        let item = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap().into();
        let items = Value::Sequence(shapes.map(item).to_vec());
        let x = Tensor::zeros(DType::F32, &[3, 2, 5]).unwrap();
        session
            .run([("x", Value::Tensor(x)), ("items", items)])
            .map(drop)
            .map_err(|e| e.to_string())
    };
    assert_eq!(run(shapes), Ok(()));
    for (index, wrong) in
        [(0, &[1, 15][..]), (1, &[1, 2, 1]), (1, &[]), (2, &[1, 5]), (2, &[1]), (2, &[6])]
    {
        let mut shapes = shapes;
        let right = std::mem::replace(&mut shapes[index], wrong);
        let error = run(shapes).unwrap_err();
        let expected = format!("the dimensions of an input: {wrong:?} does not fit {right:?}");
        assert!(error.contains("LSTM") && error.contains(&expected), "{error}");
    }
}

#[test]
fn an_override_has_the_declared_type_not_that_of_the_default() {
    let model = ModelWriter::default()
        .input("x", &[1, 3])
        .input("more", &[-1, 3])
        .constant("more", &[0, 3], &[])
        .node("Concat", 13, &["x", "more"], "y")
        .integer("axis", 0)
        .output("y");
    let session = Session::builder().commit(ModelBytes::from_vec(model.bytes())).unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
    let (x, more) = (zeros(&[1, 3]), zeros(&[2, 3]));
    let outputs = session.run([("x", &x)]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().shape(), [1, 3]);
    let outputs = session.run([("x", &x), ("more", &more)]).unwrap();
    assert_eq!(outputs[0].as_tensor().unwrap().shape(), [3, 3]);
    assert!(session.run([("x", &x), ("more", &zeros(&[2, 4]))]).is_err());
}

#[test]
fn a_tensor_of_one_element_is_a_scalar() {
    let model = of_text("graph(x: float[n], factor: float[]) -> (y) { y = Mul-14 (x, factor) }");
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    for shape in [&[][..], &[1], &[1, 1]] {
        let factor = Tensor::from_slice(shape, &[3.0_f32]).unwrap();
        let outputs = session.run([("x", &x), ("factor", &factor)]).unwrap();
        let y = outputs[0].as_tensor().unwrap();
        assert_eq!((y.shape(), y.as_slice::<f32>().unwrap()), (&[2][..], &[3.0, 6.0][..]));
    }
    assert!(session.run([("x", &x), ("factor", &x)]).is_err());
}
