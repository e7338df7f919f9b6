//! Operators that treat every element alike, whatever its position.

use ort_graph::Node;

/// Functions of one tensor and of numbers, or of tensors that are broadcast.
const OF_ONNX: [&str; 42] = [
    "Abs",
    "Add",
    "Celu",
    "Ceil",
    "Clip",
    "Cos",
    "Div",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "Max",
    "Mean",
    "Min",
    "Mish",
    "Mul",
    "Neg",
    "PRelu",
    "Pow",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Sum",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
];

/// The same in com.microsoft. (Gelu there has no bias.)
const OF_MICROSOFT: [&str; 2] = ["Gelu", "QuickGelu"];

/// Whether a node computes each element of its result from the elements at the same place.
pub(crate) fn is_elementwise(node: &Node) -> bool {
    let op_type = node.op_type.as_str();
    match node.domain.as_str() {
        "" => OF_ONNX.contains(&op_type),
        "com.microsoft" => OF_MICROSOFT.contains(&op_type),
        _ => false,
    }
}
