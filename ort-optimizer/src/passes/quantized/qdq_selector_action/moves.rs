//! Operators that move or compare, which work the same way on quantized values.

use ort_graph::{Fact, NewNode, Patch};
use ort_ops::ops::resize::{Coordinates, Resize, ResizeMode};
use ort_tensor::DType;

use super::unit::{Found, Fused, SCALES, TYPES, Unit};
use crate::pass::Refusal;
use crate::passes::quantized::values::{Quantized, reading};

/// Quantized values of 8 or 16 bits with the same scale before and after.
pub(super) fn moved(unit: &Unit<'_>) -> Found {
    on_quantized(unit, |dtype| dtype.is_byte() || matches!(dtype, DType::I16 | DType::U16))
}

/// The same for operators that only take bytes.
pub(super) fn moved_bytes(unit: &Unit<'_>) -> Found {
    on_quantized(unit, DType::is_byte)
}

/// Resize, where it only moves elements.
pub(super) fn resized(unit: &Unit<'_>) -> Found {
    let is_move = |op: &&Resize| {
        matches!(op.mode, ResizeMode::Nearest(_)) && op.coordinates != Coordinates::TfCropAndResize
    };
    if unit.node.operator::<Resize>().filter(is_move).is_none() {
        return Err(Refusal("its results are not elements of its input"));
    }
    moved_bytes(unit)
}

/// ArgMax: quantized values have the order of their values.
pub(super) fn compared(unit: &Unit<'_>) -> Found {
    let (Some(x), Some(result)) = (unit.operand(0), unit.result()) else { return Ok(None) };
    x.whole().filter(|_| x.dtype.is_byte()).ok_or(SCALES)?;
    let fused = Fused {
        domain: "",
        op_type: "ArgMax",
        since_version: unit.node.since_version,
        inputs: vec![Some(x.value)],
        attrs: unit.node.attrs.clone(),
    };
    unit.fused(fused, Patch::new(unit.graph), result)
}

/// The node itself on quantized values, if they have the same meaning before and after.
fn on_quantized(unit: &Unit<'_>, takes: fn(DType) -> bool) -> Found {
    let (graph, node) = (unit.graph, unit.node);
    let Some(x) = unit.operand(0) else { return Ok(None) };
    x.whole().ok_or(SCALES)?;
    if !takes(x.dtype) {
        return Err(TYPES);
    }
    let mut patch = Patch::new(graph);
    let mut outputs = Vec::new();
    for &output in &node.outputs {
        let Some(value) = output.filter(|&value| graph.is_used(value)) else {
            outputs.push(None);
            continue;
        };
        let after = Quantized::after(graph, value).filter(|after| after.is_like(&x));
        let after = after.ok_or(Refusal("its results are not all quantized like its operand"))?;
        let new = patch.value("codes", Fact::UNKNOWN)?;
        patch.replace(after.value, new);
        outputs.push(Some(new));
    }
    patch.node(NewNode { outputs, ..reading(node, x.value) });
    Ok(Some(patch))
}
