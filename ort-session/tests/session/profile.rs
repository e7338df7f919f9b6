//! The steps reported by a profiled run.

use ort_session::{ModelBytes, Session, StepTime, Tensor};

use crate::model::{ModelWriter, gated};

/// The steps of a run on two rows of three.
fn steps(model: Vec<u8>) -> Vec<StepTime> {
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    let x = Tensor::from_slice(&[2, 3], &[0.5_f32, 4.0, -1.0, 1.0, 2.0, 3.0]).unwrap();
    session.run_profiled([("x", &x)]).unwrap().1
}

#[test]
fn nodes_that_run_as_one_step_count_their_work_together() {
    let steps = steps(gated());
    assert_eq!(steps.iter().map(|step| step.work.n_nodes).sum::<usize>(), 3);
    // Add and Mul do one operation for each of six elements, Relu only selects.
    assert_eq!(steps.iter().map(|step| step.work.flops).sum::<u64>(), 12);
    let last = &steps.last().unwrap().work;
    assert_eq!((last.op_type.as_str(), last.node.as_str()), ("Mul", "Mul_2"));
    assert_eq!(last.outputs[0].to_string(), "float[2,3]");
}

#[test]
fn a_product_counts_its_terms_and_its_operands_bytes() {
    let model = ModelWriter::default().input("x", &[-1, 3]).constant("w", &[3, 4], &[1.0; 12]);
    let steps = steps(model.node("MatMul", 13, &["x", "w"], "y").output("y").bytes());
    let [step] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!((step.work.flops, step.work.n_bytes), (2 * 2 * 4 * 3, 4 * (6 + 12 + 8)));
    let inputs: Vec<String> = step.work.inputs.iter().map(ToString::to_string).collect();
    assert_eq!(inputs, ["float[2,3]", "float[3,4]"]);
}
