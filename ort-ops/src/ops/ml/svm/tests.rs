use ort_graph::Attr;

use crate::case::{Case, tensor};

fn svm(op_type: &'static str, kernel: &str) -> Case {
    Case::new(op_type, 1)
        .domain("ai.onnx.ml")
        .attr("kernel_type", Attr::String(kernel.to_owned()))
        .attr("kernel_params", Attr::Floats(vec![0.5, 1.0, 2.0]))
}
