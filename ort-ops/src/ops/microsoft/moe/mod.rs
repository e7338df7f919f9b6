//! MoE and QMoE: a mixture of experts, with each token routed to a few.

mod experts;
mod routing;
mod sizes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, collected, filled};

use self::experts::{GEGLU, Layer, Weights};
use self::sizes::Sizes;
use crate::floats::{read, write};
use crate::infer::known_dims;
use crate::ops::microsoft::matmul_nbits::{expect_block_size, read_bits};
use crate::weights::{BlockFormat, QuantizedRows};

pub use self::experts::{ExpertActivation, Gate};
pub use self::routing::{Route, Routing};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "com.microsoft",
        name: "MoE",
        versions: (1, 1),
        types: DType::is_float,
        build: MoE::build,
    },
    OpDef {
        domain: "com.microsoft",
        name: "QMoE",
        versions: (1, 1),
        types: DType::is_float,
        build: MoE::build_quantized,
    },
];

/// MoE: `y = Σ weight[e] · (w₂[e] · f(w₁[e]·x + b₁[e]) + b₂[e])` over the experts `e` that a token is
/// routed to. With a third layer (or with SwiGLU, whose first layer may hold it) `f` is a gate:
/// `f(w₁·x + b₁) · (w₃·x + b₃)`.
///
/// Inputs: `x`: `[tokens, hidden]` or `[batch, tokens, hidden]`, floats; router logits:
/// `[all tokens, experts]`; `w₁`: `[experts, inner, hidden]` (twice as many rows if it holds both
/// parts of a gate) and its bias; `w₂`: `[experts, hidden, inner]` and its bias; `w₃` as `w₁`. All are
/// of one type, biases and `w₃` optional. Computed in double precision and rounded once.
///
/// QMoE: weights are quantized values, each layer has scales and optional zero points (see
/// [`Quantization`]); the weights of the experts of a token are normalized, or, if they are not the
/// softmax of the logits, another input. As in ONNX Runtime's CPU provider, `use_sparse_mixer`
/// only requires that `k` is 2.
///
/// Source: com.microsoft, MoE-1 and QMoE-1 (ONNX Runtime 1.32). Its CPU provider has no third
/// layer, no gate in halves, no limit after the activation, no relu2 and no geglu, treats float16 weights of MoE as
/// transposed, and rounds tokens to 8 bits before blocks of 8-bit quantized values. Float quantized values, quantized
/// values of 3 bits and the transposed weights of old models are not supported here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MoE {
    /// Which experts a token goes to.
    pub routing: Routing,
    /// The function between the layers.
    pub activation: ExpertActivation,
    /// The source of the linear part of a gate.
    pub gate: Gate,
    /// The quantization of the weights, if they are quantized.
    pub quantization: Option<Quantization>,
}

/// Weights of quantized values in uint8, the first in the lowest bits: `w = (q − zero point) · scale`, with a default
/// zero point of half the range.
///
/// Scales and zero points are for blocks of a row (`[experts, rows, blocks]`), or for whole rows
/// (`[experts, rows]`); zero points are packed along the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// The bits of a quantized value in each layer: 2, 4 or 8.
    pub bits: [usize; 3],
    /// The quantized values of a block, if a row has several.
    pub block_size: Option<usize>,
}

/// The positions of the inputs of a layer; `usize::MAX` for those that the operator does not have.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// The weights, or their quantized values.
    pub weights: usize,
    /// The bias.
    pub bias: usize,
    /// The scales of quantized values.
    pub scales: usize,
    /// The zero points of quantized values.
    pub zero_points: usize,
}

/// The position of the weights of experts in QMoE.
pub const ROUTER_WEIGHTS: usize = 14;

impl MoE {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let is_normalized = spec.flag("normalize_routing_weights", false)?;
        let op = Self::of_node(spec, is_normalized, None)?;
        Ok(Arc::new(op))
    }

    fn build_quantized(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let wrong = |name, found: String| Err(OpError::AttributeValue { name, found });
        match spec.string("quant_type")? {
            None | Some("int") => {}
            Some(found) => return wrong("quant_type", found.to_owned()),
        }
        if let Some(found) = spec.int("weights_prepacked")?.filter(|found| !matches!(found, -1 | 0))
        {
            return wrong("weights_prepacked", found.to_string());
        }
        if spec.inputs.iter().skip(ROUTER_WEIGHTS + 1).any(|&is_there| is_there) {
            return Err(OpError::Unsupported { what: "global or activation scales of integers" });
        }
        // It only allows less exact results.
        spec.ignore("accuracy_level");
        let bits = read_bits(spec, "expert_weight_bits")?.unwrap_or(4);
        let own = |name| Ok::<_, OpError>(read_bits(spec, name)?.unwrap_or(bits));
        let bits = [
            own("fc1_expert_weight_bits")?,
            own("fc2_expert_weight_bits")?,
            own("fc3_expert_weight_bits")?,
        ];
        let block_size = match spec.int("block_size")?.unwrap_or(0) {
            0 => None,
            size => Some(expect_block_size(size)?),
        };
        // Without router weights, the weights of a token's experts always sum to 1.
        let is_normalized = spec.flag("normalize_routing_weights", false)?;
        let is_normalized = is_normalized || !spec.has_input(ROUTER_WEIGHTS);
        let op = Self::of_node(spec, is_normalized, Some(Quantization { bits, block_size }))?;
        Ok(Arc::new(op))
    }

    fn of_node(
        spec: &NodeSpec<'_>,
        is_normalized: bool,
        quantization: Option<Quantization>,
    ) -> Result<Self, OpError> {
        let wrong = |name, found: i64| OpError::AttributeValue { name, found: found.to_string() };
        let k = spec.int("k")?.unwrap_or(1);
        let n_experts = usize::try_from(k).ok().filter(|&k| k > 0).ok_or(wrong("k", k))?;
        if spec.flag("use_sparse_mixer", false)? && k != 2 {
            return Err(wrong("k", k));
        }
        let activation = ExpertActivation::of_node(spec)?;
        let is_geglu = spec.string("activation_type")? == Some(GEGLU);
        let is_gate = is_geglu || matches!(activation, ExpertActivation::Swiglu { .. });
        let fusion = spec.int("swiglu_fusion")?.unwrap_or(0);
        let mut op = Self {
            routing: Routing { k: n_experts, is_normalized },
            activation,
            gate: Gate::Apart,
            quantization,
        };
        let has_third = spec.has_input(op.layers()[2].weights);
        op.gate = match fusion {
            0 if has_third && !is_geglu || !is_gate => Gate::Apart,
            1 if is_gate && !has_third => Gate::Interleaved,
            2 if is_gate && !has_third => Gate::Halves,
            found => return Err(wrong("swiglu_fusion", found)),
        };
        Ok(op)
    }

    /// Where the inputs of the three layers are.
    #[must_use]
    pub fn layers(&self) -> [Positions; 3] {
        let absent = usize::MAX;
        match self.quantization {
            None => [2, 4, 6].map(|weights| Positions {
                weights,
                bias: weights + 1,
                scales: absent,
                zero_points: absent,
            }),
            Some(_) => [(2, 11), (5, 12), (8, 13)].map(|(weights, zero_points)| Positions {
                weights,
                scales: weights + 1,
                bias: weights + 2,
                zero_points,
            }),
        }
    }

    /// One layer of all experts; its weights have `size` for each of them.
    fn layer<'a>(
        &self,
        inputs: Inputs<'a>,
        layer: usize,
        size: [usize; 2],
        n_experts: usize,
    ) -> Result<Layer<'a>, OpError> {
        let at = self.layers()[layer];
        let weights = inputs.tensor(at.weights)?;
        let bias = inputs.optional_tensor(at.bias)?.map(read).transpose()?;
        let Some(quantization) = self.quantization else {
            return Ok(Layer { weights: Weights::Floats(at.weights, weights), bias, size });
        };
        let format = quantization.format(layer, size[1]);
        let zero_points = inputs.optional_tensor(at.zero_points)?;
        let zero_points = zero_points.map(|x| {
            let [n_rows, len] = match quantization.block_size {
                Some(_) => [n_experts * size[0], format.n_blocks()],
                None => [n_experts, size[0]],
            };
            Ok::<_, OpError>(format.unpack_rows(x.as_slice()?, n_rows, len)?)
        });
        let quantized = QuantizedRows {
            format,
            bytes: weights.as_slice()?,
            row_bytes: weights.shape().last().copied().unwrap_or(0),
            scales: read(inputs.tensor(at.scales)?)?,
            zero_points: zero_points.transpose()?,
            blocks: None,
        };
        Ok(Layer { weights: Weights::Quantized(quantized), bias, size })
    }
}

impl Quantization {
    fn format(self, layer: usize, width: usize) -> BlockFormat {
        let block = self.block_size.unwrap_or(width).max(1);
        BlockFormat { bits: self.bits[layer], block, width }
    }
}

impl Operator for MoE {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        inputs.fact(1)?;
        inputs.expect_dtype(1, dtype)?;
        for (layer, at) in self.layers().into_iter().enumerate() {
            if layer == 2 && inputs.get(at.weights).is_none() {
                continue;
            }
            inputs.fact(at.weights)?;
            inputs.expect_dtype(at.bias, dtype)?;
            if self.quantization.is_none() {
                inputs.expect_dtype(at.weights, dtype)?;
                continue;
            }
            inputs.expect_dtype(at.weights, DType::U8)?;
            inputs.dtype(at.scales, DType::is_float)?;
            inputs.expect_dtype(at.zero_points, DType::U8)?;
        }
        if self.quantization.is_some() {
            inputs.expect_dtype(ROUTER_WEIGHTS, dtype)?;
        }
        Sizes::new(self, &|index| inputs.get(index)?.dims().map(Into::into))?;
        Ok(vec![Fact { constant: None, ..inputs.fact(0)?.clone() }])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (x, logits) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let dims = |index| Some(known_dims(inputs.tensor(index).ok()?.shape()));
        let Sizes { n_experts, hidden, inner, first } = Sizes::new(self, &dims)?;
        let first_layer = self.layer(inputs, 0, [first, hidden], n_experts)?;
        let second_layer = self.layer(inputs, 1, [hidden, inner], n_experts)?;
        let third_layer = match inputs.get(self.layers()[2].weights) {
            Some(_) => Some(self.layer(inputs, 2, [inner, hidden], n_experts)?),
            None => None,
        };
        let weights = match self.quantization {
            Some(_) => inputs.optional_tensor(ROUTER_WEIGHTS)?.map(read).transpose()?,
            None => None,
        };
        let routes = self.routing.routes(&read(logits)?, weights.as_deref(), n_experts)?;
        let tokens = read(x)?;
        let mut y = filled(0.0, tokens.len())?;
        for (expert, routes) in routes.iter().enumerate() {
            let own = routes.iter().flat_map(|(token, _)| &tokens[token * hidden..][..hidden]);
            let own = collected(own.copied())?;
            let apply = |layer: &Layer<'_>, x: &[f64]| layer.apply(expert, x, routes.len());
            let linear = third_layer.as_ref().map(|layer| apply(layer, &own)).transpose()?;
            let middle =
                self.activation.between(self.gate, apply(&first_layer, &own)?, linear, first)?;
            let results = apply(&second_layer, &middle)?;
            for ((token, weight), result) in routes.iter().zip(results.chunks_exact(hidden.max(1)))
            {
                let y = &mut y[token * hidden..][..hidden];
                y.iter_mut().zip(result).for_each(|(y, result)| *y += weight * result);
            }
        }
        write(outputs, 0, x.dtype(), x.shape(), &y)
    }
}
