//! Element-wise functions, average pooling, Concat and Where.

use ort_graph::{Attrs, Patch, ValueId};
use ort_ops::ops::average_pool::AveragePool;

use super::unit::{Found, Fused, SCALES, TYPES, Unit};
use crate::pass::Refusal;
use crate::passes::quantized::values::{Quantized, reading};

/// The quantized values at these inputs, if the first is quantized; bytes of one type, each tensor with one scale.
fn operands<'a>(unit: &Unit<'a>, indices: &[usize]) -> Result<Option<Vec<Quantized<'a>>>, Refusal> {
    let given: Vec<_> = indices.iter().map(|&index| unit.operand(index)).collect();
    if given.iter().all(Option::is_none) {
        return Ok(None);
    }
    let given: Option<Vec<_>> = given.into_iter().collect();
    let given = given.ok_or(Refusal("not all of its operands are quantized"))?;
    if given.iter().any(|operand| operand.whole().is_none()) {
        return Err(SCALES);
    }
    let is_alike =
        |operand: &Quantized<'_>| operand.dtype.is_byte() && operand.dtype == given[0].dtype;
    if given.iter().all(is_alike) { Ok(Some(given)) } else { Err(TYPES) }
}

/// The quantized values of the result, of the type of the operands.
fn result<'a>(unit: &Unit<'a>, operands: &[Quantized<'_>]) -> Result<Quantized<'a>, Refusal> {
    let (y, _) = unit.quantized()?;
    let is_alike = operands.iter().all(|operand| operand.dtype == y.dtype);
    is_alike.then_some(y).ok_or(TYPES)
}

/// `(x, y)`: quantized values, scale and zero point of `x`; scale and zero point of `y`.
pub(super) fn unary(unit: &Unit<'_>, op_type: &'static str) -> Found {
    function(unit, op_type, unit.node.attrs.clone())
}

fn function(unit: &Unit<'_>, op_type: &'static str, attrs: Attrs) -> Found {
    let Some(operands) = operands(unit, &[0])? else { return Ok(None) };
    let y = result(unit, &operands)?;
    let mut patch = Patch::new(unit.graph);
    let mut inputs = vec![Some(operands[0].value)];
    inputs.extend(operands[0].operands(&mut patch)?);
    inputs.extend(y.operands(&mut patch)?);
    unit.fused(Fused::microsoft(op_type, inputs, attrs), patch, y.value)
}

/// QLinearAveragePool, which has no dilations, and counts elements beyond the padding as padding.
pub(super) fn average(unit: &Unit<'_>) -> Found {
    let Some(op) = unit.node.operator::<AveragePool>() else { return Ok(None) };
    let is_dilated = op.window.dilations.iter().flatten().any(|&dilation| dilation != 1);
    if is_dilated || (op.window.is_ceil && op.counts_padding) {
        return Err(Refusal("its windows are not those of the quantized operator"));
    }
    let attrs = unit.node.attrs.iter().filter(|(name, _)| *name != "dilations");
    let attrs = attrs.map(|(name, attr)| (name.to_owned(), attr.clone())).collect();
    function(unit, "QLinearAveragePool", attrs)
}

/// The same for two operands, which broadcast.
pub(super) fn binary(unit: &Unit<'_>, op_type: &'static str) -> Found {
    let Some(operands) = operands(unit, &[0, 1])? else { return Ok(None) };
    let y = result(unit, &operands)?;
    let mut patch = Patch::new(unit.graph);
    let mut inputs = Vec::new();
    for operand in &operands {
        inputs.push(Some(operand.value));
        inputs.extend(operand.operands(&mut patch)?);
    }
    inputs.extend(y.operands(&mut patch)?);
    unit.fused(Fused::microsoft(op_type, inputs, Attrs::new()), patch, y.value)
}

/// Quantized values with their scale and zero point, as inputs.
struct Part {
    inputs: [Option<ValueId>; 3],
    /// Whether the same quantized values have the same meaning in the result.
    is_like: bool,
}

/// The parts of the result `y`, each with its quantized values; constants are quantized like `y`.
fn parts<'a>(
    unit: &Unit<'a>,
    indices: impl Iterator<Item = usize> + Clone,
    patch: &mut Patch,
) -> Result<Option<(Vec<Part>, Quantized<'a>)>, Refusal> {
    if !indices.clone().any(|index| unit.operand(index).is_some()) {
        return Ok(None);
    }
    let (y, _) = unit.quantized()?;
    if !y.dtype.is_byte() {
        return Err(TYPES);
    }
    let part = |index: usize| {
        let (value, is_like) = match (unit.operand(index), unit.input(index)) {
            (Some(x), _) => {
                x.whole().ok_or(SCALES)?;
                if x.dtype != y.dtype {
                    return Err(TYPES);
                }
                let [scale, zero] = x.operands(patch)?;
                return Ok(Part { inputs: [Some(x.value), scale, zero], is_like: x.is_like(&y) });
            }
            (None, Some(value)) if unit.graph.constant(value).is_some() => {
                (patch.output_of(reading(unit.graph.node(y.node), value))?, true)
            }
            _ => return Err(Refusal("not all of its operands are quantized or constant")),
        };
        let [scale, zero] = y.operands(patch)?;
        Ok(Part { inputs: [Some(value), scale, zero], is_like })
    };
    let parts: Result<Vec<Part>, Refusal> = indices.map(part).collect();
    Ok(Some((parts?, y)))
}

/// Concat of quantized values, or QLinearConcat where scales or zero points differ.
pub(super) fn concat(unit: &Unit<'_>) -> Found {
    let mut patch = Patch::new(unit.graph);
    let Some((parts, y)) = parts(unit, 0..unit.node.inputs.len(), &mut patch)? else {
        return Ok(None);
    };
    if parts.iter().all(|part| part.is_like) {
        let inputs = parts.iter().map(|part| part.inputs[0]).collect();
        return unit.fused(on_quantized(unit, inputs), patch, y.value);
    }
    let mut inputs = y.operands(&mut patch)?.to_vec();
    inputs.extend(parts.iter().flat_map(|part| part.inputs));
    let fused = Fused::microsoft("QLinearConcat", inputs, unit.node.attrs.clone());
    unit.fused(fused, patch, y.value)
}

/// Where of quantized values, or QLinearWhere if scales or zero points differ.
pub(super) fn choice(unit: &Unit<'_>) -> Found {
    let mut patch = Patch::new(unit.graph);
    let Some((parts, y)) = parts(unit, 1..3, &mut patch)? else { return Ok(None) };
    let mut inputs = vec![unit.input(0)];
    if parts.iter().all(|part| part.is_like) {
        inputs.extend(parts.iter().map(|part| part.inputs[0]));
        return unit.fused(on_quantized(unit, inputs), patch, y.value);
    }
    inputs.extend(parts.iter().flat_map(|part| part.inputs));
    inputs.extend(y.operands(&mut patch)?);
    unit.fused(Fused::microsoft("QLinearWhere", inputs, Attrs::new()), patch, y.value)
}

/// The node itself, which reads quantized values.
fn on_quantized(unit: &Unit<'_>, inputs: Vec<Option<ValueId>>) -> Fused {
    let (node, attrs) = (unit.node, unit.node.attrs.clone());
    let op_type = if node.op_type == "Concat" { "Concat" } else { "Where" };
    Fused { domain: "", op_type, since_version: node.since_version, inputs, attrs }
}
