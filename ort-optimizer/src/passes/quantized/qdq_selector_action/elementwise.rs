//! Functions of single elements (and the mean of a plane), joined tensors and choices.

use ort_graph::{Attrs, Dim, Patch};

use super::unit::{Found, Fused, SCALES, TYPES, Unit};
use crate::pass::Refusal;
use crate::passes::quantized::coded::Coded;

/// The codes at these inputs, if there are any at the first; bytes of one type, each tensor with one
/// scale.
fn operands<'a>(unit: &Unit<'a>, indices: &[usize]) -> Result<Option<Vec<Coded<'a>>>, Refusal> {
    let given: Vec<_> = indices.iter().map(|&index| unit.operand(index)).collect();
    if given.iter().all(Option::is_none) {
        return Ok(None);
    }
    let given: Option<Vec<_>> = given.into_iter().collect();
    let given = given.ok_or(Refusal("not all of its operands are quantized"))?;
    if given.iter().any(|operand| operand.whole().is_none()) {
        return Err(SCALES);
    }
    let is_alike = |operand: &Coded<'_>| operand.dtype.is_byte() && operand.dtype == given[0].dtype;
    if given.iter().all(is_alike) { Ok(Some(given)) } else { Err(TYPES) }
}

/// The codes of the result, of the type of the operands.
fn result<'a>(unit: &Unit<'a>, operands: &[Coded<'_>]) -> Result<Coded<'a>, Refusal> {
    let (y, _) = unit.quantized()?;
    let is_alike = operands.iter().all(|operand| operand.dtype == y.dtype);
    is_alike.then_some(y).ok_or(TYPES)
}

/// `(x, y)`: codes, scale and zero point of `x`; scale and zero point of `y`.
pub(super) fn unary(unit: &Unit<'_>, op_type: &'static str) -> Found {
    let Some(operands) = operands(unit, &[0])? else { return Ok(None) };
    let y = result(unit, &operands)?;
    let mut patch = Patch::new(unit.graph);
    let mut inputs = vec![Some(operands[0].codes)];
    inputs.extend(operands[0].operands(&mut patch)?);
    inputs.extend(y.operands(&mut patch)?);
    unit.fused(Fused::microsoft(op_type, inputs, unit.node.attrs.clone()), patch, y.codes)
}

/// The same of two operands of one shape.
pub(super) fn binary(unit: &Unit<'_>, op_type: &'static str) -> Found {
    let Some(operands) = operands(unit, &[0, 1])? else { return Ok(None) };
    let y = result(unit, &operands)?;
    let (a, b) = (unit.dims(0), unit.dims(1));
    let is_alike =
        |(a, b): (&[Dim], &[Dim])| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b));
    if !a.zip(b).is_some_and(is_alike) {
        return Err(Refusal("its operands may have different shapes"));
    }
    let mut patch = Patch::new(unit.graph);
    let mut inputs = Vec::new();
    for operand in &operands {
        inputs.push(Some(operand.codes));
        inputs.extend(operand.operands(&mut patch)?);
    }
    inputs.extend(y.operands(&mut patch)?);
    unit.fused(Fused::microsoft(op_type, inputs, Attrs::new()), patch, y.codes)
}

/// Concat of codes, and QLinearConcat where they do not all mean the same.
pub(super) fn concat(unit: &Unit<'_>) -> Found {
    let all: Vec<usize> = (0..unit.node.inputs.len()).collect();
    let Some(operands) = operands(unit, &all)? else { return Ok(None) };
    let y = result(unit, &operands)?;
    let mut patch = Patch::new(unit.graph);
    if operands.iter().all(|operand| operand.is_like(&y)) {
        let fused = Fused {
            domain: "",
            op_type: "Concat",
            since_version: unit.node.since_version,
            inputs: operands.iter().map(|operand| Some(operand.codes)).collect(),
            attrs: unit.node.attrs.clone(),
        };
        return unit.fused(fused, patch, y.codes);
    }
    let mut inputs = y.operands(&mut patch)?.to_vec();
    for operand in &operands {
        inputs.push(Some(operand.codes));
        inputs.extend(operand.operands(&mut patch)?);
    }
    let fused = Fused::microsoft("QLinearConcat", inputs, unit.node.attrs.clone());
    unit.fused(fused, patch, y.codes)
}

/// Where.
pub(super) fn choice(unit: &Unit<'_>) -> Found {
    let Some(operands) = operands(unit, &[1, 2])? else { return Ok(None) };
    let y = result(unit, &operands)?;
    let mut patch = Patch::new(unit.graph);
    let mut inputs = vec![unit.input(0)];
    for operand in &operands {
        inputs.push(Some(operand.codes));
        inputs.extend(operand.operands(&mut patch)?);
    }
    inputs.extend(y.operands(&mut patch)?);
    unit.fused(Fused::microsoft("QLinearWhere", inputs, Attrs::new()), patch, y.codes)
}
