//! Quantized values with their scale and zero point, as a DequantizeLinear or QuantizeLinear defines them: `value =
//! scale · (quantized − zero)`.

use ort_graph::{Graph, NewNode, Node, NodeId, Patch, ValueId};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::quantization::{DequantizeLinear, Granularity, QuantizeLinear};
use ort_tensor::{DType, Number, Tensor, with_dtype};

use crate::pass::Refusal;

/// Quantized values of f32, with constant scale and zero point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantized<'a> {
    pub(super) value: ValueId,
    pub(super) dtype: DType,
    /// The DequantizeLinear or QuantizeLinear.
    pub(super) node: NodeId,
    /// Scale and zero point.
    pub(super) inputs: (ValueId, Option<ValueId>),
    pub(super) scales: &'a [f32],
    scale: &'a Tensor,
    zero: Option<&'a Tensor>,
    granularity: Granularity,
}

/// The scale and zero point, where they are the same for all quantized values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Whole {
    pub(super) scale: f32,
    pub(super) zero: f64,
}

impl<'a> Quantized<'a> {
    /// The quantized form of a value that a DequantizeLinear computes.
    pub(super) fn of(graph: &'a Graph, value: ValueId) -> Option<Self> {
        let (id, _) = graph.producer(value)?;
        let node = graph.node(id);
        let op: &DequantizeLinear = node.operator()?;
        let is_f32 = op.output_dtype.is_none_or(|dtype| dtype == DType::F32);
        let value = node.inputs.first().copied().flatten().filter(|_| is_f32)?;
        Self::read(graph, id, value, op.granularity)
    }

    /// The quantized form of a value, if a QuantizeLinear is its only reader.
    pub(super) fn after(graph: &'a Graph, value: ValueId) -> Option<Self> {
        match graph.consumers(value) {
            &[id] if !graph.is_output(value) => {
                let quantized = Self::by(graph, id)?;
                (graph.node(id).inputs.first() == Some(&Some(value))).then_some(quantized)
            }
            _ => None,
        }
    }

    /// The quantized values that a QuantizeLinear computes.
    pub(super) fn by(graph: &'a Graph, id: NodeId) -> Option<Self> {
        let node = graph.node(id);
        let op: &QuantizeLinear = node.operator()?;
        let values = graph.fact(node.inputs.first().copied().flatten()?).dtype();
        let is_f32 = op.precision.is_none_or(|precision| precision == DType::F32);
        let value = node.outputs.first().copied().flatten();
        let value = value.filter(|_| is_f32 && values == Some(DType::F32))?;
        Self::read(graph, id, value, op.granularity)
    }

    fn read(
        graph: &'a Graph,
        id: NodeId,
        value: ValueId,
        granularity: Granularity,
    ) -> Option<Self> {
        let node = graph.node(id);
        let scale_id = node.inputs.get(1).copied().flatten()?;
        let scale = graph.constant(scale_id)?;
        let zero_id = node.inputs.get(2).copied().flatten();
        let zero = match zero_id {
            None => None,
            Some(id) => Some(graph.constant(id)?),
        };
        Some(Self {
            value,
            dtype: graph.fact(value).dtype()?,
            node: id,
            inputs: (scale_id, zero_id),
            scales: scale.as_slice().ok()?,
            scale,
            zero,
            granularity,
        })
    }

    /// Scale and zero point, if there is only one, and the scale is such that quantized values round-trip: `n·s/s` is
    /// within 2⁻²² of `n`, relatively, where nothing leaves the range of f32.
    pub(super) fn whole(&self) -> Option<Whole> {
        let &[scale] = self.scales else { return None };
        let is_valid = scale.is_normal() && scale > 0.0 && scale < f32::MAX / 131_072.0;
        let &[zero] = &*self.zeros()? else { return None };
        is_valid.then_some(Whole { scale, zero })
    }

    /// Whether the same quantized values represent the same values, and round-trip.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let whole = self.whole();
        whole.is_some() && whole == other.whole() && self.dtype == other.dtype
    }

    /// The zero points: a single 0 where none are given.
    pub(super) fn zeros(&self) -> Option<Vec<f64>> {
        let Some(zero) = self.zero else { return Some(vec![0.0]) };
        with_dtype!(zero.dtype(), [i8, u8, i16, u16, i32], T => {
            Some(zero.as_slice::<T>().ok()?.iter().map(|zero| zero.to_f64()).collect())
        }, else => None)
    }

    /// The least and the largest quantized value, of integers of 8 or 16 bits.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        with_dtype!(self.dtype, [i8, u8, i16, u16],
            T => Some((T::MIN.to_f64(), T::MAX.to_f64())),
            else => None)
    }

    /// Whether larger values have larger quantized values.
    pub(super) fn are_scales_valid(&self) -> bool {
        self.scales.iter().all(|scale| scale.is_normal() && *scale > 0.0)
    }

    /// Whether there is only one scale, or one for each index along `axis` of `rank` dimensions.
    pub(super) fn is_along(&self, axis: usize, rank: usize) -> bool {
        let is_own = normalize_axis(self.granularity.axis, rank) == Ok(axis);
        let is_line = self.scale.shape().len() == 1 && self.granularity.block_size == 0;
        self.are_scales_valid() && (self.scales.len() == 1 || (is_line && is_own))
    }

    /// Scale and zero point as inputs of an integer operator: scalars where there is only one, and a zero point of 0
    /// where none is given.
    pub(super) fn operands(&self, patch: &mut Patch) -> Result<[Option<ValueId>; 2], Refusal> {
        let scale = scalar(self.inputs.0, self.scale, patch)?;
        let zero = match (self.inputs.1, self.zero) {
            (Some(id), Some(zero)) => scalar(id, zero, patch)?,
            _ => {
                let zeros = Tensor::zeros(self.dtype, self.scale_shape());
                patch.constant("zero_point", zeros.map_err(|_| TOO_LARGE)?)?
            }
        };
        Ok([Some(scale), Some(zero)])
    }

    fn scale_shape(&self) -> &'a [usize] {
        if self.scales.len() == 1 { &[] } else { self.scale.shape() }
    }
}

const TOO_LARGE: Refusal = Refusal("it has too many zero points");

/// A constant, as a scalar if it has only one element.
fn scalar(id: ValueId, constant: &Tensor, patch: &mut Patch) -> Result<ValueId, Refusal> {
    if constant.len() != 1 || constant.shape().is_empty() {
        return Ok(id);
    }
    let scalar = constant.reshaped(&[]).map_err(|_| TOO_LARGE)?;
    Ok(patch.constant("scalar", scalar)?)
}

/// The same node with `first` as its first input.
pub(super) fn reading(node: &Node, first: ValueId) -> NewNode {
    let mut inputs = node.inputs.to_vec();
    if let Some(input) = inputs.first_mut() {
        *input = Some(first);
    }
    NewNode {
        name: node.name.clone(),
        domain: node.domain.clone(),
        op_type: node.op_type.clone(),
        since_version: node.since_version,
        inputs,
        outputs: Vec::new(),
        captured: Vec::new(),
        attrs: node.attrs.clone(),
    }
}
