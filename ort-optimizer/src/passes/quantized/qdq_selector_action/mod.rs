//! QDQSelectorActionTransformer: an operator between DequantizeLinear and QuantizeLinear works on the
//! quantized values themselves.
//!
//! ```text
//! Q(f(DQ(a), DQ(b), …)) = QLinear-f(a, b, …)
//! ```
//! The table lists the operators, and their replacements. Where the result is rounded, the integer operator rounds it
//! once and exactly, so that a quantized value may be off by one; where data only moves or is compared, quantized
//! values stay the same.
//!
//! Differences from ONNX Runtime's pass of this name:
//! - A DequantizeLinear may have other readers, which keep it: no EnsureUniqueDQForNodeUnit.
//! - Concat and Where of parts with one scale are not replaced.
//! - int8 is as fast as uint8 on every processor, and no sum saturates; but forms without an integer kernel are not
//!   replaced: products of two values that are not constant whose result stays float, ReduceMax and ReduceMin; and
//!   Softmax, whose integer operator gives other quantized values where the reciprocal of the scale is not an integer.
//! - A float bias of Conv or Gemm is quantized here, with the scale of the sums, and a constant operand of Where or
//!   Concat is quantized like the result: no WhereDummyDq, and WeightBiasQuantization only quantizes weights.
//! - Resize only moves data in mode nearest: interpolated quantized values would be truncated.

mod bias;
mod elementwise;
mod moves;
mod products;
mod unit;

use self::unit::{Found, Unit};
use crate::options::{Exactness, Level};
use crate::pass::{Pass, Refusal, Rewrite, Site};
use ort_graph::Patch;

pub(crate) const PASS: Pass = Pass {
    name: "QDQSelectorActionTransformer",
    level: Level::Extended,
    exactness: Exactness::Rounding,
    start: || Box::new(QDQSelectorAction),
};

/// Operators of ai.onnx from a version on, and their replacement.
struct Row {
    operators: &'static [&'static str],
    since: i32,
    act: fn(&Unit<'_>) -> Found,
}

const fn row(operators: &'static [&'static str], since: i32, act: fn(&Unit<'_>) -> Found) -> Row {
    Row { operators, since, act }
}

/// The table.
const ROWS: &[Row] = &[
    row(&["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"], 1, moves::moved),
    row(&["Slice", "Split", "Gather", "GatherElements", "Expand", "Tile"], 1, moves::moved),
    row(&["DepthToSpace"], 1, moves::moved_bytes),
    row(&["Resize"], 10, moves::resized),
    row(&["MaxPool"], 12, moves::moved_bytes),
    row(&["ArgMax"], 1, moves::compared),
    row(&["Sigmoid"], 6, |unit| elementwise::unary(unit, "QLinearSigmoid")),
    row(&["LeakyRelu"], 6, |unit| elementwise::unary(unit, "QLinearLeakyRelu")),
    row(&["GlobalAveragePool"], 1, |unit| elementwise::unary(unit, "QLinearGlobalAveragePool")),
    row(&["AveragePool"], 7, elementwise::average),
    row(&["Add"], 7, |unit| elementwise::binary(unit, "QLinearAdd")),
    row(&["Mul"], 7, |unit| elementwise::binary(unit, "QLinearMul")),
    row(&["Concat"], 4, elementwise::concat),
    row(&["Where"], 9, elementwise::choice),
    row(&["Conv"], 1, products::conv),
    row(&["MatMul"], 1, products::matmul),
    row(&["Gemm"], 7, products::gemm),
];

struct QDQSelectorAction;

impl Rewrite for QDQSelectorAction {
    fn roots(&self) -> Option<Vec<&'static str>> {
        Some(ROWS.iter().flat_map(|row| row.operators).copied().collect())
    }

    fn visit(&mut self, site: &Site<'_>) -> Result<Option<Patch>, Refusal> {
        let node = site.node();
        let is_meant = |row: &&Row| {
            row.operators.contains(&node.op_type.as_str()) && row.since <= node.since_version
        };
        let row = ROWS.iter().find(is_meant).filter(|_| node.domain.is_empty());
        row.map_or(Ok(None), |row| (row.act)(&Unit::new(site.graph, node)))
    }
}

#[cfg(test)]
mod tests;
