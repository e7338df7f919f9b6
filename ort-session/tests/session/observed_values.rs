//! An observed run reports what each step computes, and has the same results as any run.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ort_session::{ExecutionMode, Level, ModelBytes, Session, SessionBuilder, Tensor, Value};

use crate::model::{gated, gated_value, of_text};

/// The reported values by name, with the index, name and operator of their step.
type Shown = BTreeMap<String, (usize, String, String, Value)>;

fn shown(builder: SessionBuilder, model: Vec<u8>, x: &Tensor) -> (Shown, Vec<Value>) {
    let session = builder.commit(ModelBytes::from_vec(model)).unwrap();
    let shown = Mutex::new(Shown::new());
    let outputs = session.run_observed([("x", x)], &|it| {
        let value = it.value.to_value().unwrap();
        let entry = (it.step, it.node.to_owned(), it.op_type.to_owned(), value);
        assert!(shown.lock().unwrap().insert(it.name.to_owned(), entry).is_none(), "{}", it.name);
    });
    let outputs = outputs.unwrap().into_values();
    assert_eq!(session.run([("x", x)]).unwrap().into_values(), outputs);
    (shown.into_inner().unwrap(), outputs)
}

fn plain() -> SessionBuilder {
    Session::builder().level(Level::Disable)
}

#[test]
fn every_value_is_observed_with_its_node() {
    let data = [0.5_f32, 3.0, -1.0, -2.0, 0.25, 4.0];
    let x = Tensor::from_slice(&[2, 3], &data).unwrap();
    let (shown, outputs) = shown(plain(), gated(), &x);
    let steps: Vec<_> = shown
        .iter()
        .map(|(name, (step, node, op_type, _))| (&**name, *step, &**node, &**op_type))
        .collect();
    let expected =
        [("gate", 1, "Relu_1", "Relu"), ("sum", 0, "Add_0", "Add"), ("y", 2, "Mul_2", "Mul")];
    assert_eq!(steps, expected);
    assert_eq!(shown["y"].3, outputs[0]);
    let gate: Vec<f32> =
        data.iter().zip([1.0, -2.0, 0.5].repeat(2)).map(|(x, b)| (x + b).max(0.0)).collect();
    assert_eq!(shown["gate"].3, Tensor::from_slice(&[2, 3], &gate).unwrap().into());
    assert_eq!(outputs[0], Tensor::from_slice(&[2, 3], &gated_value(&data)).unwrap().into());
}

/// Values in the block, of dynamic shapes, in place, of a loop, and of branches.
const NETWORK: &str = "
    graph(x: float[4, 4]) -> (OUTPUTS) {
        n = const int64[] 3
        go = const bool[] true
        a = Relu-14 (x)
        b = Neg-13 (a)
        c = MatMul-13 (a, b)
        d = Tanh-13 (c)
        where = NonZero-13 (d)
        places = Transpose-13 [perm: [1, 0]] (where)
        found = GatherND-13 (d, places)
        s = Loop-16 [body: graph(i: int64[], before: bool[], c0: float[4, 4]) -> (on, c1) {
            on = Identity-16 (before)
            t = Add-14 (c0, a)
            c1 = Abs-13 (t)
        }] (n, go, b)
        y = Add-14 (s, d)
    }";

#[test]
fn observed_values_equal_outputs() {
    let x: Vec<f32> = (0..16_u8).map(|i| f32::from(i) / 4.0 - 2.0).collect();
    let x = Tensor::from_slice(&[4, 4], &x).unwrap();
    let names = ["a", "b", "c", "d", "where", "found", "s", "y"];
    let (_, expected) = shown(plain(), of_text(&NETWORK.replace("OUTPUTS", &names.join(", "))), &x);
    for mode in [ExecutionMode::Sequential, ExecutionMode::Parallel] {
        let builder = plain().threads(2).execution_mode(mode);
        let (shown, _) = shown(builder, of_text(&NETWORK.replace("OUTPUTS", "y, found")), &x);
        for (name, expected) in names.iter().zip(&expected) {
            assert_eq!(&shown[*name].3, expected, "{name} {mode:?}");
        }
        assert!(!shown.contains_key("t"), "the body of a loop is not observed");
    }
}
