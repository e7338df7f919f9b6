//! SequenceMap: the ONNX node cases, captures of its body, and wrong inputs.

use ort_session::{DType, ModelBytes, RunInputs, Session, Tensor, Value};

use crate::model::ModelWriter;

fn session(model: ModelWriter) -> Session {
    Session::builder().commit(ModelBytes::from_vec(model.bytes())).unwrap()
}

fn floats(x: &[f32]) -> Value {
    Tensor::from_slice(&[x.len()], x).unwrap().into()
}

fn sequence(items: &[&[f32]]) -> Value {
    Value::Sequence(items.iter().map(|x| floats(x)).collect())
}

/// The outputs for inputs in order.
fn outputs(session: &Session, inputs: &[&Value]) -> Vec<Value> {
    let outputs = session.run(RunInputs::positional(inputs.iter().copied())).unwrap();
    (0..session.outputs().len()).map(|i| outputs[i].clone()).collect()
}

/// `out0…` of the body for each item of sequence `x0`.
fn mapped(model: ModelWriter, inputs: &[&'static str], body: ModelWriter) -> ModelWriter {
    model.node("SequenceMap", 17, inputs, "y0").body(body).output("y0")
}

/// `in0 + in1`
fn sum() -> ModelWriter {
    let body = ModelWriter::default().input("in0", &[-1]).input("in1", &[-1]);
    body.node("Add", 14, &["in0", "in1"], "out0").output("out0")
}

/// `in0` and `in1`
fn identities() -> ModelWriter {
    let body = ModelWriter::default().input("in0", &[-1]).input("in1", &[-1]);
    let body = body.node("Identity", 16, &["in0"], "out0").node("Identity", 16, &["in1"], "out1");
    body.output("out0").output("out1")
}

fn of_two_sequences(body: ModelWriter) -> ModelWriter {
    mapped(ModelWriter::default().sequence("x0").sequence("x1"), &["x0", "x1"], body)
}

fn of_a_sequence_and_a_tensor(body: ModelWriter) -> ModelWriter {
    mapped(ModelWriter::default().sequence("x0").input("x1", &[-1]), &["x0", "x1"], body)
}

const X0: &[&[f32]] = &[&[1.0, 2.0], &[3.0], &[4.0, 5.0, 6.0]];
const X1: &[&[f32]] = &[&[10.0, 20.0], &[30.0], &[40.0, 50.0, 60.0]];

#[test]
fn the_body_runs_for_each_item() {
    let body = ModelWriter::default().input("in0", &[-1]);
    let body = body.node("Identity", 16, &["in0"], "out0").output("out0");
    let identity = session(mapped(ModelWriter::default().sequence("x0"), &["x0"], body));
    assert_eq!(outputs(&identity, &[&sequence(X0)]), [sequence(X0)]);

    let body = ModelWriter::default().input("in0", &[-1, -1, 3]);
    let body = body.node("Shape", 15, &["in0"], "out0").output("out0");
    let shapes = session(mapped(ModelWriter::default().sequence("x0"), &["x0"], body));
    let sides = [[40, 30, 3], [20, 10, 3], [10, 5, 3]];
    let zeros = |sides: &[usize; 3]| Tensor::zeros(DType::F32, sides).unwrap().into();
    let shape = |sides: &[usize; 3]| {
        Tensor::from_slice(&[3], &sides.map(|n| i64::try_from(n).unwrap())).unwrap().into()
    };
    let expected = Value::Sequence(sides.iter().map(shape).collect());
    let images = Value::Sequence(sides.iter().map(zeros).collect());
    assert_eq!(outputs(&shapes, &[&images]), [expected]);
}

#[test]
fn several_sequences_are_iterated_together() {
    let add = session(of_two_sequences(sum()));
    let expected = sequence(&[&[11.0, 22.0], &[33.0], &[44.0, 55.0, 66.0]]);
    assert_eq!(outputs(&add, &[&sequence(X0), &sequence(X1)]), [expected]);

    let both = session(of_two_sequences(identities()).also("y1").output("y1"));
    let other: &[&[f32]] = &[&[7.0], &[8.0, 9.0], &[]];
    let expected = [sequence(X0), sequence(other)];
    assert_eq!(outputs(&both, &[&sequence(X0), &sequence(other)]), expected);
}

#[test]
fn a_tensor_is_the_same_each_time() {
    let add = session(of_a_sequence_and_a_tensor(sum()));
    let x0 = sequence(&[&[1.0, 2.0], &[3.0, 4.0]]);
    let expected = sequence(&[&[11.0, 22.0], &[13.0, 24.0]]);
    assert_eq!(outputs(&add, &[&x0, &floats(&[10.0, 20.0])]), [expected]);

    let both = session(of_a_sequence_and_a_tensor(identities()).also("y1").output("y1"));
    let expected = [sequence(X0), sequence(&[&[7.0], &[7.0], &[7.0]])];
    assert_eq!(outputs(&both, &[&sequence(X0), &floats(&[7.0])]), expected);
}

#[test]
fn the_body_captures_outer_values() {
    // y0 = max(x0, b) · relu(x1), with b a constant and relu(x1) computed outside.
    let model = ModelWriter::default().sequence("x0").input("x1", &[1]).constant("b", &[1], &[2.0]);
    let model = model.node("Relu", 14, &["x1"], "scale");
    let body = ModelWriter::default().input("in0", &[-1]);
    let body = body.node("Max", 13, &["in0", "b"], "clipped");
    let body = body.node("Mul", 14, &["clipped", "scale"], "out0").output("out0");
    let session = session(mapped(model, &["x0"], body));
    let expected = sequence(&[&[6.0, 6.0], &[9.0], &[12.0, 15.0, 18.0]]);
    assert_eq!(outputs(&session, &[&sequence(X0), &floats(&[3.0])]), [expected]);
}

#[test]
fn without_items_all_outputs_are_empty() {
    let both = session(of_two_sequences(identities()).also("y1").output("y1"));
    let types: Vec<_> = both.outputs().iter().map(|output| output.ty.to_string()).collect();
    assert_eq!(types, ["seq(float[?])"; 2]);
    let empty = sequence(&[]);
    assert_eq!(outputs(&both, &[&empty, &empty]), [empty.clone(), empty]);
}

#[test]
fn sequences_of_different_lengths_are_refused() {
    let add = session(of_two_sequences(sum()));
    for x1 in [sequence(&X1[..2]), sequence(&[])] {
        let inputs = RunInputs::positional([&sequence(X0), &x1].map(Clone::clone));
        let error = add.run(inputs).map(drop).unwrap_err().to_string();
        let expected = "node `SequenceMap_0` (SequenceMap): input 1: the sequence is not as long as \
                        that of input 0";
        assert_eq!(error, expected);
    }
}

#[test]
fn an_input_that_is_neither_sequence_nor_tensor_is_refused() {
    let model = ModelWriter::default().sequence("x0").input("x1", &[-1]).node(
        "Optional",
        15,
        &["x1"],
        "maybe",
    );
    let model = mapped(model, &["x0", "maybe"], sum());
    let error = Session::builder().commit(ModelBytes::from_vec(model.bytes())).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("input 1 has the unsupported type optional(float[n])"), "{error}");
}

#[test]
fn items_have_their_actual_shapes_not_the_declared_ones() {
    // The first item of `y0`, doubled.
    let body = ModelWriter::default().input("in0", &[2]);
    let body = body.node("Identity", 16, &["in0"], "out0").output("out0");
    let model = mapped(ModelWriter::default().sequence("x0"), &["x0"], body);
    let model = model.node("SequenceLength", 11, &["y0"], "n").node("Sub", 14, &["n", "n"], "zero");
    let model = model.node("SequenceAt", 11, &["y0", "zero"], "x");
    let session = session(model.node("Add", 14, &["x", "x"], "doubled").output("doubled"));
    let made = outputs(&session, &[&sequence(&[&[1.0, 2.0, 3.0]])]);
    assert_eq!(made[1], floats(&[2.0, 4.0, 6.0]));
}
