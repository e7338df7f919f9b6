//! Attention: `y = softmax(cap(scale · q·kᵀ) + mask) · v`, for each head.

// collects are bounded: by the rank, or into checked allocations

#[cfg(test)]
mod tests;
mod visible;

use std::sync::Arc;

use ort_graph::{Dim, Dims, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, n_elements, with_room};

use self::visible::Visible;
use crate::attend::heads::{append, swap_heads};
use crate::attend::{Scoring, attend};
pub use crate::attend::{Sizes, Stage};
use crate::floats;
use crate::infer::{attention_flops, expect_dims};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "",
    name: "Attention",
    versions: (23, 25),
    types: DType::is_float,
    build: Attention::build,
}];

/// Attention of `q: [B, Hq, S, D]` to `k: [B, Hkv, T, D]` and `v: [B, Hkv, T, E]`, or each with the
/// heads inside the last dimension, `[B, S, Hq·D]`. Then, each optional: a mask that broadcasts to
/// `[B, Hq, S, T]`, where false or −∞ masks a key (and a short last dimension masks the rest), the past of k and v,
/// which precedes them, and the number of keys of each batch, int64. Outputs: `y` in the form of `q`, present k,
/// present v, and the scores `[B, Hq, S, T]`.
///
/// Everything is computed in f64 and rounded once, whatever `softmax_precision` is. A query that sees no key gives
/// zeros.
///
/// Source: ONNX operator set, Attention-25, and 23 and 24.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Heads of q, where they are inside the last dimension.
    pub q_num_heads: Option<usize>,
    /// Heads of k and v, where they are inside the last dimension.
    pub kv_num_heads: Option<usize>,
    /// The factor of the scores; `1/√D` by default.
    pub scale: Option<f32>,
    /// `softcap · tanh(score / softcap)`; 0 is none.
    pub softcap: f32,
    /// Whether a query sees no later key.
    pub is_causal: bool,
    /// How many keys before and after itself a query sees, where that is limited.
    pub window: [Option<usize>; 2],
    /// Which scores the last output contains.
    pub scores: Stage,
}

impl Attention {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let wrong = |name, found: i64| OpError::AttributeValue { name, found: found.to_string() };
        let count = |name| match spec.int(name)? {
            None => Ok(None),
            Some(n) => usize::try_from(n).ok().filter(|&n| n > 0).map(Some).ok_or(wrong(name, n)),
        };
        let scores = match spec.int("qk_matmul_output_mode")?.unwrap_or(0) {
            0 => Stage::Raw,
            1 => Stage::Capped,
            2 => Stage::Biased,
            3 => Stage::Softmax,
            other => return Err(wrong("qk_matmul_output_mode", other)),
        };
        if let Some(other) = spec.int("softmax_precision")?.filter(|n| ![1, 10, 11, 16].contains(n))
        {
            return Err(wrong("softmax_precision", other));
        }
        let limit = |name| match if spec.since_version < 25 { None } else { spec.int(name)? } {
            None | Some(-1) => Ok(None),
            Some(n) => usize::try_from(n).map(Some).map_err(|_| wrong(name, n)),
        };
        Ok(Arc::new(Self {
            q_num_heads: count("q_num_heads")?,
            kv_num_heads: count("kv_num_heads")?,
            scale: spec.float("scale")?,
            softcap: spec.float("softcap")?.unwrap_or(0.0),
            is_causal: spec.flag("is_causal", false)?,
            window: [limit("left_window_size")?, limit("right_window_size")?],
            scores,
        }))
    }

    /// `[B, H, S, D]` of q, k and v.
    fn heads(&self, dims: [&[Dim]; 3]) -> Result<[[Dim; 4]; 3], OpError> {
        let [q, k, v] = dims;
        Ok([
            split_heads(q, self.q_num_heads, (0, "q_num_heads"))?,
            split_heads(k, self.kv_num_heads, (1, "kv_num_heads"))?,
            split_heads(v, self.kv_num_heads, (2, "kv_num_heads"))?,
        ])
    }

    /// The sizes that follow from the shapes of the inputs, where absent ones are empty, and the length of the past.
    ///
    /// # Errors
    /// If the shapes do not fit each other.
    pub fn sizes(&self, shapes: &[&[usize]]) -> Result<(Sizes, usize), OpError> {
        let shape = |i: usize| shapes.get(i).copied().unwrap_or_default();
        let dims = |i| -> Dims { shape(i).iter().map(|&n| Dim::Known(n)).collect() };
        let heads = self.heads([&dims(0), &dims(1), &dims(2)])?;
        let [q, k, v] = heads.map(|heads| heads.map(|dim| dim.known().unwrap_or(0)));
        let [batch, kv_heads, new_len, size] = k;
        let past = shape(4).get(2).copied().unwrap_or(0);
        let fits = q[0] == batch
            && q[3] == size
            && v[..3] == k[..3]
            && q[1].checked_rem(kv_heads).unwrap_or(q[1]) == 0;
        if !fits {
            let (left, right) = (q.to_vec(), [k, v].concat());
            return Err(OpError::Shapes { what: "the heads of q, k and v", left, right });
        }
        for (i, size) in [(4, size), (5, v[3])] {
            let expected = [batch, kv_heads, past, size];
            if !shape(i).is_empty() && shape(i) != expected {
                let (left, right) = (shape(i).to_vec(), expected.to_vec());
                return Err(OpError::Shapes { what: "the past", left, right });
            }
        }
        let kv_len = new_len.checked_add(past).ok_or(OpError::TooLarge)?;
        let [_, q_heads, q_len, _] = q;
        Ok((Sizes { batch, q_heads, kv_heads, q_len, kv_len, size, v_size: v[3] }, past))
    }

    /// Reads k or v, after its past if there is one.
    fn present(
        inputs: Inputs<'_>,
        index: usize,
        [batch, heads, len, size]: [usize; 4],
    ) -> Result<Vec<f64>, OpError> {
        let view = inputs.tensor(index)?;
        let new = match view.shape().len() {
            4 => floats::read(view)?,
            _ => swap_heads(&floats::read(view)?, [batch, len, heads, size])?,
        };
        match inputs.optional_tensor(index + 3)? {
            Some(past) => append(&floats::read(past)?, &new, batch.saturating_mul(heads)),
            None => Ok(new),
        }
    }
}

impl Operator for Attention {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, DType::is_float)?;
        let v_dtype = inputs.dtype(2, DType::is_float)?;
        [(1, dtype), (4, dtype), (5, v_dtype), (6, DType::I64)]
            .into_iter()
            .try_for_each(|(i, dtype)| inputs.expect_dtype(i, dtype))?;
        let facts = [inputs.fact(0)?, inputs.fact(1)?, inputs.fact(2)?];
        let [Some(q), Some(k), Some(v)] = facts.map(Fact::dims) else {
            let scores = Fact::tensor(dtype, [const { Dim::Unknown }; 4]);
            let present = Fact::tensor(v_dtype, [const { Dim::Unknown }; 4]);
            return Ok(vec![Fact::unranked(dtype), scores.clone(), present, scores]);
        };
        let is_split = q.len() == 4;
        let [q, k, v] = self.heads([q, k, v])?;
        let [batch, heads, len, _] = q;
        let past = match inputs.get(4).map(Fact::dims) {
            None => Dim::Known(0),
            Some(Some([_, _, past, _])) => past.clone(),
            Some(_) => Dim::Unknown,
        };
        let [_, kv_heads, new_len, size] = k;
        let v_size = v[3].clone();
        let total = match past {
            Dim::Known(0) => new_len,
            past => past.zip(&new_len, usize::checked_add),
        };
        expect_dims(inputs, 4, &[batch.clone(), kv_heads.clone(), Dim::Unknown, size.clone()])?;
        expect_dims(inputs, 5, &[batch.clone(), kv_heads.clone(), Dim::Unknown, v_size.clone()])?;
        let y = match is_split {
            true => vec![batch.clone(), heads.clone(), len.clone(), v_size.clone()],
            false => vec![batch.clone(), len.clone(), heads.zip(&v_size, usize::checked_mul)],
        };
        let present = |size| [batch.clone(), kv_heads.clone(), total.clone(), size];
        Ok(vec![
            Fact::tensor(dtype, y),
            Fact::tensor(dtype, present(size)),
            Fact::tensor(v_dtype, present(v_size)),
            Fact::tensor(dtype, [batch.clone(), heads, len, total.clone()]),
        ])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let shape = |i| inputs.optional_tensor(i).map(|view| view.map(|view| view.shape()));
        let mut shapes = [&[][..]; 6];
        for (i, shape_of) in shapes.iter_mut().enumerate() {
            *shape_of = shape(i)?.unwrap_or_default();
        }
        let (sizes, past) = self.sizes(&shapes)?;
        let Sizes { batch, q_heads, kv_heads, q_len, kv_len, size, v_size } = sizes;
        let visible = Visible::new(self, inputs, sizes, past)?;
        let q_view = inputs.tensor(0)?;
        let is_split = q_view.shape().len() == 4;
        let q = match is_split {
            true => floats::read(q_view)?,
            false => swap_heads(&floats::read(q_view)?, [batch, q_len, q_heads, size])?,
        };
        let k = Self::present(inputs, 1, [batch, kv_heads, kv_len - past, size])?;
        let v = Self::present(inputs, 2, [batch, kv_heads, kv_len - past, v_size])?;
        let scale = self.scale.map_or(1.0 / (size as f64).sqrt(), f64::from);
        let scoring = Scoring { scale, cap: f64::from(self.softcap), sinks: &[] };
        let wants_scores = outputs.get(3).is_some_and(Output::is_wanted);
        let n_scores = n_elements(&[batch, q_heads, q_len, kv_len]).ok_or(OpError::TooLarge)?;
        let mut scores = with_room(if wants_scores { n_scores } else { 0 })?;
        let observe = |stage, _, row: &[f64]| {
            if wants_scores && stage == self.scores {
                scores.extend_from_slice(row);
            }
        };
        let bias = |query, row: &mut [f64]| visible.bias(query, row);
        let mut y = attend(sizes, [&q, &k, &v], scoring, bias, observe)?;
        if !is_split {
            y = swap_heads(&y, [batch, q_heads, q_len, v_size])?;
        }
        let dtype = q_view.dtype();
        let y_shape = match is_split {
            true => vec![batch, q_heads, q_len, v_size],
            false => vec![batch, q_len, q_heads.checked_mul(v_size).ok_or(OpError::TooLarge)?],
        };
        floats::write(outputs, 0, dtype, &y_shape, &y)?;
        floats::write(outputs, 1, dtype, &[batch, kv_heads, kv_len, size], &k)?;
        let v_dtype = inputs.tensor(2)?.dtype();
        floats::write(outputs, 2, v_dtype, &[batch, kv_heads, kv_len, v_size], &v)?;
        floats::write(outputs, 3, dtype, &[batch, q_heads, q_len, kv_len], &scores)
    }

    fn flops(&self, inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        let Ok(facts) = self.infer(inputs) else { return 0 };
        attention_flops(&facts[3], &facts[1], &facts[2])
    }
}

/// `[B, H, S, D]` of dimensions that are that or `[B, S, H·D]`.
fn split_heads(
    dims: &[Dim],
    n_heads: Option<usize>,
    (index, name): (usize, &'static str),
) -> Result<[Dim; 4], OpError> {
    match dims {
        [batch, heads, len, size] => Ok([batch, heads, len, size].map(Clone::clone)),
        [batch, len, hidden] => {
            let heads = n_heads.ok_or(OpError::MissingAttribute { name })?;
            if hidden.known().is_some_and(|hidden| hidden % heads != 0) {
                let (left, right) = (vec![hidden.known().unwrap_or(0)], vec![heads]);
                return Err(OpError::Shapes { what: "a dimension of several heads", left, right });
            }
            let size = hidden.map(|hidden| Some(hidden / heads));
            Ok([batch.clone(), Dim::Known(heads), len.clone(), size])
        }
        _ => Err(OpError::InputRank { index, expected: "3 or 4", found: dims.len() }),
    }
}
