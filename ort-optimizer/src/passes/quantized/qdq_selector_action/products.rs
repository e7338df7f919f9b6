//! Conv, MatMul and Gemm: sums of products of quantized values, exact in int32.

use ort_graph::{Attr, Attrs, Patch, ValueId};
use ort_ops::ops::gemm::Gemm;
use ort_tensor::DType;

use super::bias::sum_bias;
use super::unit::{Found, Fused, SCALES, TYPES, Unit};
use crate::pass::Refusal;
use crate::passes::quantized::values::{Quantized, Whole};

/// QLinearConv.
pub(super) fn conv(unit: &Unit<'_>) -> Found {
    let Some((x, x_whole, w)) = operands(unit)? else { return Ok(None) };
    let shape = constant_shape(unit, &w)?;
    let rank = shape.len();
    // ONNX Runtime has no convolution with a zero point per filter.
    let has_one_zero = w.zeros().is_some_and(|zeros| zeros.iter().all(|zero| *zero == zeros[0]));
    if !has_one_zero || !(3..=5).contains(&rank) {
        return Err(Refusal(
            "its weights have several zero points, or not one to three dimensions",
        ));
    }
    if !w.is_along(0, rank) {
        return Err(SCALES);
    }
    let y = result_like(unit, &x)?;
    let mut patch = Patch::new(unit.graph);
    let mut inputs = sides(&x, &w, &mut patch)?;
    inputs.extend(y.operands(&mut patch)?);
    inputs.push(sum_bias(unit, shape[0], (x_whole, &w), &mut patch)?);
    let attrs = unit.node.attrs.clone();
    let fused = Fused { domain: "", op_type: "QLinearConv", since_version: 10, inputs, attrs };
    unit.fused(fused, patch, y.value)
}

/// QLinearMatMul, or MatMulIntegerToFloat where the result of a product with a constant matrix stays float.
pub(super) fn matmul(unit: &Unit<'_>) -> Found {
    let Some((a, _, b)) = operands(unit)? else { return Ok(None) };
    let is_matrix = constant_shape(unit, &b).is_ok_and(|shape| shape.len() == 2);
    let are_scales_supported = if is_matrix { b.is_along(1, 2) } else { b.whole().is_some() };
    if !are_scales_supported {
        return Err(SCALES);
    }
    let mut patch = Patch::new(unit.graph);
    let mut inputs = sides(&a, &b, &mut patch)?;
    if stays_float(unit) {
        if !is_matrix {
            return Err(RANK);
        }
        let result = unit.result().ok_or(Refusal("its result is not used"))?;
        let [a, a_scale, a_zero, b, b_scale, b_zero] = inputs[..] else { return Ok(None) };
        let inputs = vec![a, b, a_scale, b_scale, a_zero, b_zero];
        let fused = Fused::microsoft("MatMulIntegerToFloat", inputs, Attrs::new());
        return unit.fused(fused, patch, result);
    }
    let y = result_like(unit, &a)?;
    inputs.extend(y.operands(&mut patch)?);
    let (attrs, op_type) = (Attrs::new(), "QLinearMatMul");
    unit.fused(Fused { domain: "", op_type, since_version: 10, inputs, attrs }, patch, y.value)
}

/// QGemm.
pub(super) fn gemm(unit: &Unit<'_>) -> Found {
    let Some((a, a_whole, b)) = operands(unit)? else { return Ok(None) };
    let Some(op) = unit.node.operator::<Gemm>() else { return Ok(None) };
    let (shape, axis) = (constant_shape(unit, &b)?, usize::from(!op.is_b_transposed));
    if shape.len() != 2 || op.is_a_transposed {
        return Err(RANK);
    }
    if !b.is_along(axis, 2) {
        return Err(SCALES);
    }
    if unit.input(2).is_some() && (op.alpha, op.beta) != (1.0, 1.0) {
        return Err(Refusal("its bias is not added to the plain product"));
    }
    let mut patch = Patch::new(unit.graph);
    let mut inputs = sides(&a, &b, &mut patch)?;
    inputs.push(sum_bias(unit, shape[axis], (a_whole, &b), &mut patch)?);
    let attrs = Attrs::new()
        .with("alpha", Attr::Float(op.alpha))
        .with("transA", Attr::Int(0))
        .with("transB", Attr::Int(i64::from(op.is_b_transposed)));
    let result = if stays_float(unit) {
        unit.result().ok_or(Refusal("its result is not used"))?
    } else {
        let y = result_like(unit, &a)?;
        inputs.extend(y.operands(&mut patch)?);
        y.value
    };
    unit.fused(Fused::microsoft("QGemm", inputs, attrs), patch, result)
}

/// The left operand with its single scale, and the right one; bytes.
fn operands<'a>(unit: &Unit<'a>) -> Result<Option<(Quantized<'a>, Whole, Quantized<'a>)>, Refusal> {
    let (a, b) = match (unit.operand(0), unit.operand(1)) {
        (None, None) => return Ok(None),
        (Some(a), Some(b)) => (a, b),
        _ => return Err(Refusal("not all of its operands are quantized")),
    };
    let whole = a.whole().ok_or(SCALES)?;
    let are_types =
        a.dtype.is_byte() && b.dtype.is_byte() && (a.dtype, b.dtype) != SIGNED_BY_UNSIGNED;
    are_types.then_some(Some((a, whole, b))).ok_or(TYPES)
}

/// The types for which ONNX Runtime has no product.
const SIGNED_BY_UNSIGNED: (DType, DType) = (DType::I8, DType::U8);
const RANK: Refusal = Refusal("it is not a product with a constant matrix");

/// The shape of constant quantized values.
fn constant_shape<'a>(unit: &Unit<'a>, quantized: &Quantized<'_>) -> Result<&'a [usize], Refusal> {
    let constant = unit.graph.constant(quantized.value);
    Ok(constant.ok_or(Refusal("its weights are not constant"))?.shape())
}

/// Quantized values, scale and zero point of both operands.
fn sides(
    a: &Quantized<'_>,
    b: &Quantized<'_>,
    patch: &mut Patch,
) -> Result<Vec<Option<ValueId>>, Refusal> {
    let mut inputs = vec![Some(a.value)];
    inputs.extend(a.operands(patch)?);
    inputs.push(Some(b.value));
    inputs.extend(b.operands(patch)?);
    Ok(inputs)
}

/// The quantized values of the result, of the left operand's type.
fn result_like<'a>(unit: &Unit<'a>, a: &Quantized<'_>) -> Result<Quantized<'a>, Refusal> {
    let (y, _) = unit.quantized()?;
    if y.dtype == a.dtype { Ok(y) } else { Err(TYPES) }
}

/// Whether the float result is used.
fn stays_float(unit: &Unit<'_>) -> bool {
    unit.result().and_then(|result| Quantized::after(unit.graph, result)).is_none()
}
