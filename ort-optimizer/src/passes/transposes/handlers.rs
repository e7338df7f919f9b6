//! Which operators work with permuted axes, and how: one line per operator or family.

use ort_graph::Fact;

use super::axes;
use super::broadcast::broadcast;
use super::form::{Place, Side, TransposedNode};
use super::images;
use super::lists;
use super::reshape::reshape;

/// The form of a node, if it can work in that order.
type Handler = fn(&Place<'_>) -> Option<TransposedNode>;

/// The form of the node, if its operator can work in that order.
pub(super) fn form(place: &Place<'_>) -> Option<TransposedNode> {
    let handler = match &*place.node.domain {
        "" => standard(&place.node.op_type),
        "com.microsoft" => microsoft(&place.node.op_type),
        _ => None,
    };
    // In a damaged model, a value's rank may differ from the permutation's.
    let fact = match place.side {
        Side::Input(input) => place.fact(input),
        Side::Output(output) => place.output(output),
    };
    let rank = fact.and_then(Fact::rank);
    handler.filter(|_| rank.is_none_or(|rank| rank == place.perm.rank()))?(place)
}

const FIRST: fn(usize) -> bool = |input| input == 0;
const ALL: fn(usize) -> bool = |_| true;

/// Operators of ai.onnx.
#[rustfmt::skip]
fn standard(op_type: &str) -> Option<Handler> {
    Some(match op_type {
        "Abs" | "Acos" | "Acosh" | "Asin" | "Asinh" | "Atan" | "Atanh" | "BitwiseNot" | "Cast"
        | "CastLike" | "Ceil" | "Celu" | "Clip" | "Cos" | "Cosh" | "Elu" | "Erf" | "Exp" | "Floor"
        | "Gelu" | "HardSigmoid" | "HardSwish" | "Identity" | "IsInf" | "IsNaN" | "LeakyRelu"
        | "Log" | "Mish" | "Neg" | "Not" | "Reciprocal" | "Relu" | "Round" | "ScaledTanh" | "Selu"
        | "Shrink" | "Sigmoid" | "Sign" | "Sin" | "Sinh" | "Softplus" | "Softsign" | "Sqrt"
        | "Swish" | "Tan" | "Tanh" | "ThresholdedRelu" => |place| place.alike(FIRST),
        // Not Dropout: which elements it drops depends on their order.
        "Add" | "And" | "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "Div" | "Equal"
        | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "Max" | "Mean" | "Min" | "Mod"
        | "Mul" | "Or" | "Pow" | "PRelu" | "Sub" | "Sum" | "Where" | "Xor"
            => |place| broadcast(place, ALL),
        "QuantizeLinear" | "DequantizeLinear" => axes::quantize,
        "GatherElements" => |place| axes::along(place, ALL, 0),
        "Concat" => |place| axes::along(place, ALL, 1),
        "Split" => |place| axes::along(place, FIRST, 0),
        "Softmax" | "LogSoftmax" | "Hardmax" => |place| axes::lanes(place.since(13)?, -1),
        "LpNormalization" | "TopK" => |place| axes::lanes(place, -1),
        "ArgMax" | "ArgMin" => axes::arg,
        "ReduceMax" | "ReduceMin" => |place| axes::reduce(place, |_| true),
        "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceMean" | "ReduceProd"
        | "ReduceSum" | "ReduceSumSquare" => |place| axes::reduce(place, axes::is_order_free),
        "Squeeze" => axes::squeeze,
        "Unsqueeze" => axes::unsqueeze,
        "Gather" => axes::gather,
        "Slice" => lists::slice,
        "Pad" => lists::pad,
        "Tile" => |place| lists::by_axis(place.since(6)?, 1),
        "Expand" => lists::expand,
        "Resize" | "Upsample" => lists::resize,
        "Shape" => lists::shape,
        "Flatten" | "Reshape" => reshape,
        "MatMul" => axes::rows,
        "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization"
            => |place| axes::trailing_operands(place, place.int("axis", -1)?),
        "BatchNormalization" => images::batch_norm,
        "MaxPool" => images::max_pool,
        "QLinearConv" => images::conv,
        _ => return None,
    })
}

/// Operators of com.microsoft.
fn microsoft(op_type: &str) -> Option<Handler> {
    Some(match op_type {
        "Gelu" | "QuickGelu" | "QLinearLeakyRelu" | "QLinearSigmoid" => |place| place.alike(FIRST),
        "BiasGelu" | "FastGelu" => |place| axes::trailing_operands(place, -1),
        "QuantizeLinear" | "DequantizeLinear" => axes::quantize,
        "QLinearAdd" | "QLinearMul" => |place| broadcast(place, |input| matches!(input, 0 | 3)),
        "QLinearWhere" => |place| broadcast(place, |input| matches!(input, 0 | 1 | 4)),
        "QLinearConcat" => |place| axes::along(place, |input| input > 1 && input % 3 == 2, 1),
        "QLinearSoftmax" => |place| axes::lanes(place.having("opset", 13)?, -1),
        "QLinearConv" => images::conv,
        "QLinearAveragePool" | "QLinearGlobalAveragePool" => images::pool,
        _ => return None,
    })
}
