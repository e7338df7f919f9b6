//! Attention and QAttention: attention of a sequence to itself, whose queries, keys and values are
//! projections of one input.

// collects are bounded: by the rank

mod project;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Room, TensorView, collected};

use crate::attend::heads::swap_heads;
use crate::attend::key_mask::{Masking, ScoreBiases, expect_masks};
use crate::attend::past::Past;
use crate::attend::rotation::Rotation;
use crate::attend::{Scoring, Sizes, attend};
use crate::floats;
use crate::infer::{expect_dims, tensor_fact};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "com.microsoft",
        name: "Attention",
        versions: (1, 1),
        types: DType::is_float,
        build: |spec| Attention::build(spec, Weights::Float),
    },
    OpDef {
        domain: "com.microsoft",
        name: "QAttention",
        versions: (1, 1),
        types: DType::is_byte,
        build: |spec| Attention::build(spec, Weights::Quantized),
    },
];

/// The operands of the projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Floats, and a bias that may be absent.
    Float,
    /// Quantized values, with scales and zero points.
    Quantized,
}

/// Attention: `[q, k, v] = x·W + b`, cut at D and 2·D and into heads, then
/// `y = softmax(scale · q·kᵀ + mask) · v` of each head.
///
/// Inputs: `x: [B, S, I]`, `W: [I, D + D + E]`, `b: [D + D + E]` or none, a mask of keys (int32: a
/// flag for each key, `[B, T]`, `[B, S, T]` or `[B, 1, M, M]`, or the ends, or ends and starts, of
/// the keys of each batch), the past `[2, B, heads, P, D / heads]`, what is added to the scores
/// (`[B or 1, heads or 1, S, T]`), and, if past and present share a buffer, how much of the past is valid. QAttention
/// has scales of `x` and `W` after `b`, the mask, the zero points of both, the past. Outputs: `y: [B, S, E]`, and the
/// past with the new keys and values.
///
/// Source: com.microsoft, Attention-1 and QAttention-1 (ONNX Runtime 1.31, which crashes without a bias, and has no
/// rotary positions, no shared buffer and no mask of rank 4 on CPUs: for these we follow its documentation, and its
/// CUDA kernels for the positions).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The operands of the projection.
    pub weights: Weights,
    /// How many heads there are.
    pub num_heads: usize,
    /// The widths of q, k and v, if they differ.
    pub qkv_hidden_sizes: Option<[usize; 3]>,
    /// The factor of the scores; `1/√(D / heads)` if it is absent or 0.
    pub scale: Option<f32>,
    /// What is added to the score of a masked key.
    pub mask_filter_value: f32,
    /// Whether a query sees no later key.
    pub unidirectional: bool,
    /// How many features of a head of q and k are rotated with their position, as in GPT-NeoX; 0 is all.
    pub rotary_dim: Option<usize>,
    /// Whether the present is the past's buffer, with new rows after the valid ones.
    pub shares_buffer: bool,
}

/// The positions of the operands after the projection's.
struct Operands {
    masking: Masking,
    past: usize,
    past_len: usize,
}

impl Attention {
    fn build(spec: &NodeSpec<'_>, weights: Weights) -> Result<Arc<dyn Operator>, OpError> {
        let count = |name, n: i64| {
            let wrong = OpError::AttributeValue { name, found: n.to_string() };
            usize::try_from(n).map_err(|_| wrong)
        };
        let heads =
            spec.int("num_heads")?.ok_or(OpError::MissingAttribute { name: "num_heads" })?;
        let num_heads = count("num_heads", heads)?;
        if num_heads == 0 {
            return Err(OpError::AttributeValue { name: "num_heads", found: "0".into() });
        }
        let name = "qkv_hidden_sizes";
        let qkv_hidden_sizes = match spec.ints(name)? {
            None | Some([]) => None,
            Some(&[q, k, v]) => Some([count(name, q)?, count(name, k)?, count(name, v)?]),
            Some(other) => {
                return Err(OpError::AttributeValue { name, found: format!("{other:?}") });
            }
        };
        let rotary_dim =
            count("rotary_embedding_dim", spec.int("rotary_embedding_dim")?.unwrap_or(0))?;
        let shares_buffer = spec.flag("past_present_share_buffer", false)?;
        if shares_buffer && weights == Weights::Quantized {
            return Err(OpError::Unsupported { what: "a shared buffer of unknown length" });
        }
        Ok(Arc::new(Self {
            weights,
            num_heads,
            qkv_hidden_sizes,
            scale: spec.float("scale")?,
            mask_filter_value: spec.float("mask_filter_value")?.unwrap_or(-10000.0),
            unidirectional: spec.flag("unidirectional", false)?,
            rotary_dim: spec.flag("do_rotary", false)?.then_some(rotary_dim),
            shares_buffer,
        }))
    }

    fn operands(&self) -> Operands {
        let (mask, biases, past, past_len) = match self.weights {
            Weights::Float => (3, 5, 4, 6),
            Weights::Quantized => (5, usize::MAX, 8, usize::MAX),
        };
        let (filter, is_causal) = (self.mask_filter_value, self.unidirectional);
        Operands { masking: Masking { mask, biases, filter, is_causal }, past, past_len }
    }

    /// The widths of q, k and v, where that of all of them is `width`.
    fn widths(&self, width: usize) -> Result<[usize; 3], OpError> {
        let widths = self.qkv_hidden_sizes.unwrap_or([width / 3; 3]);
        let sum = widths.iter().try_fold(0_usize, |sum, &n| sum.checked_add(n));
        let is_whole = widths.iter().all(|n| n % self.num_heads == 0) && widths[0] == widths[1];
        if is_whole && sum == Some(width) {
            return Ok(widths);
        }
        let (left, right) = (vec![width], widths.to_vec());
        Err(OpError::Shapes { what: "the widths of q, k and v", left, right })
    }

    /// The sizes, the length of the past and of its buffer.
    fn sizes(&self, inputs: Inputs<'_>) -> Result<(Sizes, [usize; 2]), OpError> {
        let (x, w) = (inputs.tensor(0)?.shape(), inputs.tensor(1)?.shape());
        let (&[batch, q_len, depth], &[rows, width]) = (x, w) else {
            let (left, right) = (x.to_vec(), w.to_vec());
            return Err(OpError::Shapes { what: "input and weights", left, right });
        };
        if depth != rows {
            return Err(OpError::Shapes { what: "weights", left: x.to_vec(), right: w.to_vec() });
        }
        let [q, _, v] = self.widths(width)?.map(|width| width / self.num_heads);
        let (used, capacity) = self.past_lens(inputs, [batch, q, v])?;
        let kv_len = used.checked_add(q_len).ok_or(OpError::TooLarge)?;
        let heads = self.num_heads;
        let (q_heads, kv_heads) = (heads, heads);
        let sizes = Sizes { batch, q_heads, kv_heads, q_len, kv_len, size: q, v_size: v };
        Ok((sizes, [used, capacity]))
    }

    fn past_lens(
        &self,
        inputs: Inputs<'_>,
        [batch, size, v_size]: [usize; 3],
    ) -> Result<(usize, usize), OpError> {
        let operands = self.operands();
        let Some(past) = inputs.optional_tensor(operands.past)? else {
            let what = "a shared buffer that is absent";
            return if self.shares_buffer {
                Err(OpError::Unsupported { what })
            } else {
                Ok((0, 0))
            };
        };
        let shape = past.shape();
        let capacity = shape.get(3).copied().unwrap_or(0);
        let expected = [2, batch, self.num_heads, capacity, size];
        if shape != expected || size != v_size {
            let (left, right) = (shape.to_vec(), expected.to_vec());
            return Err(OpError::Shapes { what: "the past", left, right });
        }
        if !self.shares_buffer {
            return Ok((capacity, capacity));
        }
        let index = operands.past_len;
        let what = "one length within the past is needed";
        let &[used] = inputs.tensor(index)?.as_slice::<i32>()? else {
            return Err(OpError::InputValue { index, what });
        };
        let used = usize::try_from(used).ok().filter(|&used| used <= capacity);
        Ok((used.ok_or(OpError::InputValue { index, what })?, capacity))
    }

    fn past(&self, inputs: Inputs<'_>, [used, capacity]: [usize; 2]) -> Result<Past, OpError> {
        let Some(past) = inputs.optional_tensor(self.operands().past)? else {
            return Ok(Past::default());
        };
        let shape = &past.shape()[1..];
        let values = floats::read(past)?;
        let (k, v) = values.split_at(values.len() / 2);
        let half = |values| TensorView::from_slice(shape, values);
        Past::read([half(k)?, half(v)?], capacity, self.shares_buffer.then_some(used))
    }

    /// New q, k and v, by head.
    fn heads(
        &self,
        inputs: Inputs<'_>,
        sizes: Sizes,
        past: usize,
    ) -> Result<[Vec<f64>; 3], OpError> {
        let [d, e] = [sizes.size, sizes.v_size].map(|size| size * self.num_heads);
        let width = 2 * d + e;
        let rows = self.project(inputs, width)?;
        let part = |from: usize, n: usize| -> Result<Vec<f64>, OpError> {
            let part = rows.chunks_exact(width.max(1)).flat_map(|row| &row[from..from + n]);
            let shape = [sizes.batch, sizes.q_len, self.num_heads, n / self.num_heads];
            swap_heads(&Room::of(part.copied())?, shape)
        };
        let (mut q, mut k) = (part(0, d)?, part(d, d)?);
        if let Some(dim) = self.rotary_dim {
            let dim = if dim == 0 { sizes.size } else { dim };
            if dim > sizes.size || dim % 2 != 0 {
                let (left, right) = (vec![dim], vec![sizes.size]);
                return Err(OpError::Shapes { what: "the features that are rotated", left, right });
            }
            let rotation = Rotation::of_frequencies(sizes.kv_len, dim / 2)?;
            let rows = collected((0..sizes.batch).flat_map(|_| past..sizes.kv_len))?;
            for x in [&mut q, &mut k] {
                rotation.rotate_heads(x, [self.num_heads, sizes.q_len, sizes.size], &rows);
            }
        }
        Ok([q, k, part(2 * d, e)?])
    }
}

impl Operator for Attention {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let operands = self.operands();
        let dtype = match self.weights {
            Weights::Float => {
                let dtype = inputs.dtype(0, DType::is_float)?;
                inputs.expect_dtype(1, dtype)?;
                inputs.expect_dtype(2, dtype)?;
                dtype
            }
            Weights::Quantized => {
                let dtypes = [inputs.dtype(0, DType::is_byte)?, inputs.dtype(1, DType::is_byte)?];
                let dtype = inputs.dtype(2, DType::is_float)?;
                let expected = [(3, dtype), (4, dtype), (6, dtypes[0]), (7, dtypes[1])];
                expected.into_iter().try_for_each(|(i, dtype)| inputs.expect_dtype(i, dtype))?;
                dtype
            }
        };
        inputs.expect_dtype(operands.past, dtype)?;
        inputs.expect_dtype(operands.past_len, DType::I32)?;
        expect_masks(inputs, operands.masking, dtype)?;
        expect_dims(inputs, 0, &[const { Dim::Unknown }; 3])?;
        expect_dims(inputs, 1, &[const { Dim::Unknown }; 2])?;
        expect_dims(inputs, operands.past, &[const { Dim::Unknown }; 5])?;
        let width = inputs.fact(1)?.dims().map_or(Dim::Unknown, |dims| dims[1].clone());
        let widths = width.known().map(|width| self.widths(width)).transpose()?;
        let [size, _, v_width] = widths.map_or([const { Dim::Unknown }; 3], |widths| {
            [widths[0] / self.num_heads, widths[1], widths[2]].map(Dim::Known)
        });
        let past = inputs.get(operands.past).map(|fact| fact.dims().map(|dims| dims[3].clone()));
        let dims = inputs
            .fact(0)?
            .dims()
            .map_or([Dim::Unknown, Dim::Unknown], |dims| [dims[0].clone(), dims[1].clone()]);
        let [batch, len] = dims;
        let total = match past {
            None => len.clone(),
            Some(past) if self.shares_buffer => past.unwrap_or(Dim::Unknown),
            Some(past) => past.unwrap_or(Dim::Unknown).zip(&len, usize::checked_add),
        };
        let y = tensor_fact(dtype, Some([batch.clone(), len, v_width].into_iter().collect()));
        let heads = Dim::Known(self.num_heads);
        Ok(vec![y, Fact::tensor(dtype, [Dim::Known(2), batch, heads, total, size])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (sizes, [used, capacity]) = self.sizes(inputs)?;
        let Sizes { batch, q_len, kv_len, size, v_size, .. } = sizes;
        let score_biases = ScoreBiases::new(self.operands().masking, inputs, sizes, used)?;
        let n_heads = batch.checked_mul(self.num_heads).ok_or(OpError::TooLarge)?;
        let [q, k, v] = self.heads(inputs, sizes, used)?;
        let past = self.past(inputs, [used, capacity])?;
        let [k, v] = past.join([k, v], n_heads, [size, v_size])?;
        let scoring = Scoring::scaled(self.scale, size);
        let bias = |query, row: &mut [f64]| score_biases.bias(query, row);
        let y = attend(sizes, [&q, &k, &v], scoring, bias, |_, _, _| {})?;
        let y = swap_heads(&y, [batch, self.num_heads, q_len, v_size])?;
        let dtype = match self.weights {
            Weights::Float => inputs.tensor(0)?.dtype(),
            Weights::Quantized => inputs.tensor(2)?.dtype(),
        };
        floats::write(outputs, 0, dtype, &[batch, q_len, self.num_heads * v_size], &y)?;
        if !outputs.get(1).is_some_and(Output::is_wanted) {
            return Ok(());
        }
        if size != v_size {
            return Err(OpError::Unsupported {
                what: "a present of keys and values of different widths",
            });
        }
        let present = past.present([k, v], n_heads)?.concat();
        let len = if self.shares_buffer { capacity } else { kv_len };
        floats::write(outputs, 1, dtype, &[2, batch, self.num_heads, len, size], &present)
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let Ok(facts) = self.infer(inputs) else { return 0 };
        let (Some(x), Some(w)) = (inputs.get(0), inputs.get(1)) else { return 0 };
        let dim = |fact: &Fact, axis: usize| fact.dims().and_then(|dims| dims.get(axis)?.known());
        let product = |dims: &[Option<usize>]| -> Option<u64> {
            dims.iter().try_fold(2, |n: u64, &dim| n.checked_mul(u64::try_from(dim?).ok()?))
        };
        let rows = [dim(x, 0), dim(x, 1)];
        let projected = product(&[rows[0], rows[1], dim(w, 0), dim(w, 1)]);
        let heads = Some(self.num_heads);
        let scores = product(&[rows[0], rows[1], dim(&facts[1], 3), heads, dim(&facts[1], 4)]);
        let values = product(&[rows[0], rows[1], dim(&facts[1], 3), dim(&facts[0], 2)]);
        [projected, scores, values].into_iter().flatten().fold(0, u64::saturating_add)
    }
}
