//! MultiHeadAttention and DecoderMaskedMultiHeadAttention: attention of queries to given keys and values, with a
//! cache of earlier steps.

// collects are bounded: by the rank, or into checked allocations

mod layout;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorError, collected, try_collected, with_room};

use self::layout::{Form, Layout};
use crate::attend::heads::swap_heads;
use crate::attend::key_mask::{Masking, ScoreBiases, expect_masks};
use crate::attend::past::Past;
use crate::attend::{Scoring, Sizes, Stage, attend};
use crate::floats;
use crate::infer::{attention_flops, expect_dims};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "com.microsoft",
        name: "MultiHeadAttention",
        versions: (1, 1),
        types: DType::is_float,
        build: |spec| MultiHeadAttention::build(spec, false),
    },
    OpDef {
        domain: "com.microsoft",
        name: "DecoderMaskedMultiHeadAttention",
        versions: (1, 1),
        types: DType::is_float,
        build: |spec| MultiHeadAttention::build(spec, true),
    },
];

/// MultiHeadAttention: `y = softmax(scale · q·kᵀ + mask) · v` of each head.
///
/// Inputs: `q: [B, S, N·H]`, `k: [B, L, N·H]` and `v: [B, L, N·E]`; or `k` and `v` by head,
/// `[B, N, L, H]`; or packed, `[B, L, N, 2, H]`, or `q` with them, `[B, S, N, 3, H]`. Then, each
/// optional: the bias `[2·N·H + N·E]` of all three (that of `k` and `v` is not used where they are
/// given by head), a mask of keys (int32: the ends of the keys of each batch, or flags `[B, T]` or
/// `[B, S, T]`), what is added to the scores `[B or 1, N or 1, S, T]`, the past of `k` and `v`
/// `[B, N, P, H]`, how much of it is valid if past and present share a buffer, and which beam each
/// step of the past came from, `[B / beams, beams, M]`. `DecoderMaskedMultiHeadAttention` has the
/// bias last and the width of the beam, and allows `q` to be `[B, 1, 3·N·H]`. Outputs: `y: [B, S,
/// N·E]`, the past of `k` and `v` with the new rows, and the scores before the softmax.
///
/// Source: com.microsoft, MultiHeadAttention-1 and DecoderMaskedMultiHeadAttention-1 (ONNX Runtime
/// 1.31, which has no packed forms on CPUs and reads the wrong steps of a beam: for these we follow its
/// documentation; in cross-attention the last query sees all keys, causal or not).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MultiHeadAttention {
    /// How many heads there are.
    pub num_heads: usize,
    /// The factor of the scores; `1/√H` if it is absent or 0.
    pub scale: Option<f32>,
    /// What is added to the score of a masked key.
    pub mask_filter_value: f32,
    /// Whether a query sees no later key.
    pub unidirectional: bool,
    /// Whether the present is the past's buffer, with new rows after the valid ones.
    pub shares_buffer: bool,
    /// Whether the operands are those of DecoderMaskedMultiHeadAttention.
    pub is_decoder: bool,
}

/// The positions of the operands after q, k and v.
#[derive(Clone, Copy)]
struct Operands {
    bias: usize,
    masking: Masking,
    past: usize,
    past_len: usize,
    beams: usize,
}

impl MultiHeadAttention {
    fn build(spec: &NodeSpec<'_>, is_decoder: bool) -> Result<Arc<dyn Operator>, OpError> {
        let name = "num_heads";
        let heads = spec.int(name)?.ok_or(OpError::MissingAttribute { name })?;
        let wrong = OpError::AttributeValue { name, found: heads.to_string() };
        let num_heads = usize::try_from(heads).ok().filter(|&n| n > 0).ok_or(wrong)?;
        if is_decoder {
            // The scores are computed if there is an output for them.
            spec.ignore("output_qk");
        }
        let shares_buffer = match is_decoder {
            true => spec.flag("past_present_share_buffer", false)? && spec.has_input(5),
            false => spec.has_input(6) && spec.has_input(8),
        };
        Ok(Arc::new(Self {
            num_heads,
            scale: spec.float("scale")?,
            mask_filter_value: spec.float("mask_filter_value")?.unwrap_or(-10000.0),
            unidirectional: !is_decoder && spec.flag("unidirectional", false)?,
            shares_buffer,
            is_decoder,
        }))
    }

    const fn operands(&self) -> Operands {
        let (filter, is_causal) = (self.mask_filter_value, self.unidirectional);
        if self.is_decoder {
            let masking = Masking { mask: 3, biases: 4, filter, is_causal };
            return Operands { bias: 10, masking, past: 5, past_len: 7, beams: 9 };
        }
        let masking = Masking { mask: 4, biases: 5, filter, is_causal };
        Operands { bias: 3, masking, past: 6, past_len: 8, beams: 9 }
    }

    /// The past, its length and that of its buffer, for new rows of these sizes.
    fn past(&self, inputs: Inputs<'_>, new: Sizes) -> Result<(Past, [usize; 2]), OpError> {
        let operands = self.operands();
        let past = |i| inputs.optional_tensor(operands.past + i);
        let (k, v) = match (past(0)?, past(1)?) {
            (Some(k), Some(v)) => (k, v),
            (None, None) => return Ok((Past::default(), [0, 0])),
            _ => return Err(OpError::Unsupported { what: "a past of keys or of values alone" }),
        };
        let capacity = k.shape().get(2).copied().unwrap_or(0);
        for (view, size) in [(k, new.size), (v, new.v_size)] {
            let expected = [new.batch, self.num_heads, capacity, size];
            if view.shape() != expected {
                let (left, right) = (view.shape().to_vec(), expected.to_vec());
                return Err(OpError::Shapes { what: "the past", left, right });
            }
        }
        let used = if self.shares_buffer {
            let index = operands.past_len;
            let what = "one length within the past is needed";
            let given = inputs.tensor(index)?.as_slice::<i32>()?.first().copied();
            let used = given.and_then(|n| usize::try_from(n).ok()).filter(|&n| n <= capacity);
            Some(used.ok_or(OpError::InputValue { index, what })?)
        } else {
            None
        };
        let past = Past::read([k, v], capacity, used)?;
        Ok((past, [used.unwrap_or(capacity), capacity]))
    }

    /// For each step of the past of each row of the batch, its beam.
    fn beams(&self, inputs: Inputs<'_>, batch: usize) -> Result<Option<Vec<Vec<usize>>>, OpError> {
        let index = self.operands().beams;
        let Some(view) = inputs.optional_tensor(index)? else { return Ok(None) };
        let what = "a beam for each step of each row is needed";
        let wrong = || OpError::InputValue { index, what };
        let &[n, width, len] = view.shape() else { return Err(wrong()) };
        if n.checked_mul(width) != Some(batch) {
            return Err(wrong());
        }
        let given = view.as_slice::<i32>()?;
        let rows = given.chunks_exact(len.max(1)).enumerate().map(|(row, steps)| {
            let from = |&beam: &i32| {
                let beam = usize::try_from(beam).ok().filter(|&beam| beam < width);
                Ok(row / width * width + beam.ok_or_else(wrong)?)
            };
            try_collected(steps.iter().map(from))
        });
        try_collected(rows).map(Some)
    }
}

impl Operator for MultiHeadAttention {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let operands = self.operands();
        let dtype = inputs.dtype(0, DType::is_float)?;
        let alike = [1, 2, operands.bias, operands.past, operands.past + 1];
        alike.into_iter().try_for_each(|i| inputs.expect_dtype(i, dtype))?;
        let mut ints = vec![operands.past_len, operands.beams];
        ints.extend(self.is_decoder.then_some(8));
        ints.into_iter().try_for_each(|i| inputs.expect_dtype(i, DType::I32))?;
        expect_masks(inputs, operands.masking, dtype)?;
        let Some(layout) = Layout::of_facts(self, inputs)? else {
            let present = Fact::tensor(dtype, [const { Dim::Unknown }; 4]);
            let y = Fact::tensor(dtype, [const { Dim::Unknown }; 3]);
            return Ok(vec![y, present.clone(), present.clone(), present]);
        };
        let Layout { batch, q_len, kv_len, size, v_size, .. } = layout;
        let heads = Dim::Known(self.num_heads);
        let past = inputs.get(operands.past).map(|fact| fact.dims());
        let capacity = match past {
            None => Dim::Known(0),
            Some(Some([_, _, len, _])) => len.clone(),
            Some(_) => Dim::Unknown,
        };
        for (i, size) in [(0, &size), (1, &v_size)] {
            let dims = [batch.clone(), heads.clone(), capacity.clone(), size.clone()];
            expect_dims(inputs, operands.past + i, &dims)?;
        }
        let used = match inputs.get(operands.past_len).filter(|_| self.shares_buffer) {
            None => capacity.clone(),
            Some(fact) => {
                let given = fact.ints().and_then(|n| usize::try_from(*n.first()?).ok());
                given.map_or(Dim::Unknown, Dim::Known)
            }
        };
        let total = match used {
            Dim::Known(0) => kv_len,
            used => used.zip(&kv_len, usize::checked_add),
        };
        let kept = if self.shares_buffer { capacity } else { total.clone() };
        let width = v_size.map(|size| size.checked_mul(self.num_heads));
        let present =
            |size| Fact::tensor(dtype, [batch.clone(), heads.clone(), kept.clone(), size]);
        Ok(vec![
            Fact::tensor(dtype, [batch.clone(), q_len.clone(), width]),
            present(size),
            present(v_size),
            Fact::tensor(dtype, [batch.clone(), heads.clone(), q_len, total]),
        ])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (operands, heads) = (self.operands(), self.num_heads);
        let layout = Layout::of_inputs(self, inputs)?;
        let new = layout.sizes(heads, 0)?;
        let [q, k, v] =
            layout::read(inputs, layout.form, new, inputs.optional_tensor(operands.bias)?)?;
        let (past, [used, capacity]) = self.past(inputs, new)?;
        if layout.form == Form::Heads && capacity > 0 {
            return Err(OpError::Unsupported { what: "a past in addition to all keys" });
        }
        let sizes = layout.sizes(heads, used)?;
        let Sizes { batch, q_len, kv_len, size, v_size, .. } = sizes;
        let score_biases = ScoreBiases::new(operands.masking, inputs, sizes, used)?;
        let n_heads = batch.checked_mul(heads).ok_or(OpError::TooLarge)?;
        let [k, v] = past.join([k, v], n_heads, [size, v_size])?;
        let beams = self.beams(inputs, batch)?;
        let of_beams = |x: &[f64], size| {
            let beams = beams.as_deref();
            beams.map(|beams| follow(x, beams, [heads, kv_len, used, size])).transpose()
        };
        let (beam_k, beam_v) = (of_beams(&k, size)?, of_beams(&v, v_size)?);
        let operands = [&q[..], beam_k.as_deref().unwrap_or(&k), beam_v.as_deref().unwrap_or(&v)];
        let wants_scores = outputs.get(3).is_some_and(Output::is_wanted);
        let n_scores = n_heads.checked_mul(q_len).and_then(|n| n.checked_mul(kv_len));
        let n_scores = n_scores.filter(|_| wants_scores).unwrap_or(0);
        let mut scores = with_room(n_scores)?;
        let observe = |stage, _, row: &[f64]| {
            if wants_scores && stage == Stage::Biased {
                // A masked key has the lowest finite score.
                scores.extend(row.iter().map(|score| score.max(f32::MIN.into())));
            }
        };
        let bias = |query, row: &mut [f64]| score_biases.bias(query, row);
        let y = attend(sizes, operands, Scoring::scaled(self.scale, size), bias, observe)?;
        let y = swap_heads(&y, [batch, heads, q_len, v_size])?;
        let dtype = inputs.tensor(0)?.dtype();
        floats::write(outputs, 0, dtype, &[batch, q_len, heads * v_size], &y)?;
        floats::write(outputs, 3, dtype, &[batch, heads, q_len, kv_len], &scores)?;
        let [k, v] = past.present([k, v], n_heads)?;
        let len = if self.shares_buffer { capacity } else { kv_len };
        floats::write(outputs, 1, dtype, &[batch, heads, len, size], &k)?;
        floats::write(outputs, 2, dtype, &[batch, heads, len, v_size], &v)
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let Ok(facts) = self.infer(inputs) else { return 0 };
        attention_flops(&facts[3], &facts[1], &facts[2])
    }
}

/// Keys or values `[B, N, T, size]`, whose first `used` steps are taken from the rows in `beams`.
fn follow(
    x: &[f64],
    beams: &[Vec<usize>],
    [heads, len, used, size]: [usize; 4],
) -> Result<Vec<f64>, TensorError> {
    let mut y = collected(x.iter().copied())?;
    for (i, own) in y.chunks_exact_mut((len * size).max(1)).enumerate() {
        let Some(steps) = beams.get(i / heads) else { continue };
        for (step, (own, &row)) in
            own.chunks_exact_mut(size.max(1)).zip(steps).take(used).enumerate()
        {
            let from = ((row * heads + i % heads) * len + step) * size;
            own.copy_from_slice(&x[from..from + size]);
        }
    }
    Ok(y)
}
