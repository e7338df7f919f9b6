//! The bias of sums of products of quantized values: int32, with the scale `a_scale · b_scale`.

use ort_graph::{Attr, Attrs, NewNode, Patch, ValueId};
use ort_tensor::DType;

use super::unit::Unit;
use crate::pass::Refusal;
use crate::passes::quantized::values::{Quantized, Whole};

/// The bias in input 2, one for each of `n` channels. A float bias is quantized, which changes a result by at most
/// half a unit of the sum.
pub(super) fn sum_bias(
    unit: &Unit<'_>,
    n: usize,
    (a, b): (Whole, &Quantized<'_>),
    patch: &mut Patch,
) -> Result<Option<ValueId>, Refusal> {
    let Some(bias) = unit.input(2) else { return Ok(None) };
    let shape = unit.graph.fact(bias).shape();
    if shape.is_none_or(|shape| shape.iter().product::<usize>() != n) {
        return Err(BIAS);
    }
    let scales: Vec<f64> =
        b.scales.iter().map(|&scale| f64::from(a.scale) * f64::from(scale)).collect();
    match unit.operand(2) {
        Some(quantized) if is_of_scales(&quantized, &scales) => Ok(Some(quantized.value)),
        Some(_) => Err(BIAS),
        None => {
            let floats = unit.graph.constant(bias).and_then(|bias| bias.as_slice::<f32>().ok());
            let fits = |(&x, scale): (&f32, &f64)| (f64::from(x) / scale).abs() < LARGEST;
            if !floats.ok_or(BIAS)?.iter().zip(scales.iter().cycle()).all(fits) {
                return Err(BIAS);
            }
            let [Some(a_scale), Some(b_scale), ..] =
                [unit.operand(0), unit.operand(1)].map(|operand| Some(operand?.inputs.0))
            else {
                return Err(BIAS);
            };
            quantized(bias, [a_scale, b_scale], patch).map(Some)
        }
    }
}

/// A quarter of the range of int32.
const LARGEST: f64 = 536_870_912.0;

const BIAS: Refusal = Refusal("its bias is not quantized like its products");

/// Whether the bias is quantized like the sums: int32 with zero point 0, and the scales of the sums up to the
/// rounding of their product.
fn is_of_scales(bias: &Quantized<'_>, scales: &[f64]) -> bool {
    let n = scales.len().max(bias.scales.len());
    let pairs = bias.scales.iter().cycle().zip(scales.iter().cycle()).take(n);
    let is_close = |(&own, &scale): (&f32, &f64)| (f64::from(own) - scale).abs() <= scale * EPSILON;
    bias.dtype == DType::I32
        && bias.zeros().is_some_and(|zeros| zeros.iter().all(|&zero| zero == 0.0))
        && pairs.into_iter().all(is_close)
}

/// One rounding of f32, twice.
const EPSILON: f64 = 1.0 / 8_388_608.0;

/// `Cast(Round(bias / (a_scale · b_scale)))`, which is constant.
fn quantized(bias: ValueId, [a, b]: [ValueId; 2], patch: &mut Patch) -> Result<ValueId, Refusal> {
    let mut node = |op_type: &str, since_version, inputs: &[ValueId], attrs| {
        patch.output_of(NewNode {
            name: "bias".to_owned(),
            op_type: op_type.to_owned(),
            since_version,
            inputs: inputs.iter().copied().map(Some).collect(),
            attrs,
            ..NewNode::default()
        })
    };
    let scale = node("Mul", 7, &[a, b], Attrs::new())?;
    let quotient = node("Div", 7, &[bias, scale], Attrs::new())?;
    let whole = node("Round", 11, &[quotient], Attrs::new())?;
    let int32 = Attr::Int(i64::from(DType::I32.onnx()));
    Ok(node("Cast", 9, &[whole], Attrs::new().with("to", int32))?)
}
