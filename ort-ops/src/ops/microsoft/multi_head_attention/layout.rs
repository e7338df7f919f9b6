//! The input forms of queries, keys and values.

// collects are bounded: by the rank

use ort_graph::{Dim, Facts, OpError};
use ort_tensor::{Inputs, TensorError, TensorView, collected};

use super::MultiHeadAttention;
use crate::attend::Sizes;
use crate::attend::heads::split_heads;
use crate::floats;

/// The dimensions of a call, and the form of its operands.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) batch: Dim,
    pub(super) q_len: Dim,
    /// The number of new keys, or of all keys if they are given by head.
    pub(super) kv_len: Dim,
    pub(super) size: Dim,
    pub(super) v_size: Dim,
    pub(super) form: Form,
}

/// The form of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `[B, S, N·H]`, `[B, L, N·H]`, `[B, L, N·E]`.
    Rows,
    /// `[B, S, N·H]`, `[B, N, L, H]`, `[B, N, L, E]`: all keys and values, as in cross-attention.
    Heads,
    /// `[B, S, N·H]`, `[B, L, N, 2, H]`.
    PackedKeys,
    /// `[B, S, N, 3, H]`.
    PackedHeads,
    /// `[B, S, 3·N·H]`.
    PackedRows,
}

impl Layout {
    /// `None` if a rank is unknown.
    pub(super) fn of_facts(
        op: &MultiHeadAttention,
        inputs: &Facts<'_>,
    ) -> Result<Option<Self>, OpError> {
        let Some(q) = inputs.fact(0)?.dims() else { return Ok(None) };
        let [k, v] = [1, 2].map(|i| inputs.get(i).map(|fact| fact.dims()));
        match (k, v) {
            (Some(None), _) | (_, Some(None)) => Ok(None),
            (k, v) => Self::new(op, q, [k.flatten(), v.flatten()]).map(Some),
        }
    }

    pub(super) fn of_inputs(op: &MultiHeadAttention, inputs: Inputs<'_>) -> Result<Self, OpError> {
        let dims = |view: TensorView<'_>| -> Vec<Dim> {
            view.shape().iter().map(|&n| Dim::Known(n)).collect()
        };
        let [k, v] = [inputs.optional_tensor(1)?.map(dims), inputs.optional_tensor(2)?.map(dims)];
        Self::new(op, &dims(inputs.tensor(0)?), [k.as_deref(), v.as_deref()])
    }

    fn new(
        op: &MultiHeadAttention,
        q: &[Dim],
        [k, v]: [Option<&[Dim]>; 2],
    ) -> Result<Self, OpError> {
        let n = op.num_heads;
        let rows = |[b, l, d]: [&Dim; 3], n: usize| {
            [b.clone(), l.clone(), d.map(|d| (d % n == 0).then(|| d / n))]
        };
        let clones = |dims: [&Dim; 3]| dims.map(Clone::clone);
        let is = |dim: &Dim, n: usize| dim.unify(&Dim::Known(n)).is_some();
        let (form, [q, k, v]) = match (q, k, v) {
            ([b, s, d], Some([kb, l, kd]), Some([vb, vl, e])) => {
                (Form::Rows, [rows([b, s, d], n), rows([kb, l, kd], n), rows([vb, vl, e], n)])
            }
            ([b, s, d], Some([kb, kn, l, h]), Some([vb, vn, vl, e])) if is(kn, n) && is(vn, n) => {
                (Form::Heads, [rows([b, s, d], n), clones([kb, l, h]), clones([vb, vl, e])])
            }
            ([b, s, d], Some([kb, l, kn, two, h]), None) if is(kn, n) && is(two, 2) => {
                let k = clones([kb, l, h]);
                (Form::PackedKeys, [rows([b, s, d], n), k.clone(), k])
            }
            ([b, s, qn, three, h], None, None) if is(qn, n) && is(three, 3) => {
                (Form::PackedHeads, [(); 3].map(|()| clones([b, s, h])))
            }
            ([b, s, d], None, None) if op.is_decoder => {
                (Form::PackedRows, [(); 3].map(|()| rows([b, s, d], 3 * n)))
            }
            _ => return Err(misfit(q, k.or(v).unwrap_or_default())),
        };
        let unify = |a: &Dim, b: &Dim| a.unify(b).ok_or_else(|| misfit(&q, &k));
        Ok(Self {
            batch: unify(&unify(&q[0], &k[0])?, &v[0])?,
            q_len: q[1].clone(),
            kv_len: unify(&k[1], &v[1])?,
            size: unify(&q[2], &k[2])?,
            v_size: v[2].clone(),
            form,
        })
    }

    /// The sizes of a call with a past of this length.
    pub(super) fn sizes(&self, heads: usize, past: usize) -> Result<Sizes, OpError> {
        let known = |dim: &Dim| dim.known().ok_or_else(|| misfit(std::slice::from_ref(dim), &[]));
        let new_len = known(&self.kv_len)?;
        Ok(Sizes {
            batch: known(&self.batch)?,
            q_heads: heads,
            kv_heads: heads,
            q_len: known(&self.q_len)?,
            kv_len: new_len.checked_add(past).ok_or(OpError::TooLarge)?,
            size: known(&self.size)?,
            v_size: known(&self.v_size)?,
        })
    }
}

/// New queries, keys and values by head, including the bias `[2·N·H + N·E]`, if there is one.
pub(super) fn read(
    inputs: Inputs<'_>,
    form: Form,
    sizes: Sizes,
    bias: Option<TensorView<'_>>,
) -> Result<[Vec<f64>; 3], OpError> {
    let Sizes { batch, q_heads: heads, q_len, kv_len, size, v_size, .. } = sizes;
    let width = |size: usize| size.checked_mul(heads).ok_or(OpError::TooLarge);
    let (d, e) = (width(size)?, width(v_size)?);
    let bias = bias.map(floats::read).transpose()?.unwrap_or_default();
    let [q_bias, k_bias, v_bias] = match bias.len() {
        0 => [&[][..]; 3],
        n if Some(n) == d.checked_mul(2).and_then(|n| n.checked_add(e)) => {
            [&bias[..d], &bias[d..2 * d], &bias[2 * d..]]
        }
        n => {
            let (left, right) = (vec![n], vec![d, d, e]);
            return Err(OpError::Shapes { what: "the bias", left, right });
        }
    };
    let values = |i| inputs.tensor(i).map_err(OpError::from).and_then(floats::read);
    let q = values(0)?;
    let [q, k, v] = match form {
        Form::Rows | Form::Heads => [q, values(1)?, values(2)?],
        Form::PackedKeys => {
            let packed = values(1)?;
            [q, part(&packed, (0, 2), size)?, part(&packed, (1, 2), size)?]
        }
        Form::PackedHeads => {
            [part(&q, (0, 3), size)?, part(&q, (1, 3), size)?, part(&q, (2, 3), size)?]
        }
        Form::PackedRows => [part(&q, (0, 3), d)?, part(&q, (1, 3), d)?, part(&q, (2, 3), d)?],
    };
    let q = split_heads(q, [batch, q_len, heads, size], q_bias)?;
    if form == Form::Heads {
        return Ok([q, k, v]);
    }
    let k = split_heads(k, [batch, kv_len, heads, size], k_bias)?;
    Ok([q, k, split_heads(v, [batch, kv_len, heads, v_size], v_bias)?])
}

/// Part `i` of `[…, parts, size]`.
fn part(packed: &[f64], (i, parts): (usize, usize), size: usize) -> Result<Vec<f64>, TensorError> {
    let groups = packed.chunks_exact((parts * size).max(1));
    collected(groups.flat_map(|group| &group[i * size..][..size]).copied())
}

fn misfit(left: &[Dim], right: &[Dim]) -> OpError {
    let shape = |dims: &[Dim]| dims.iter().map(|dim| dim.known().unwrap_or(0)).collect();
    let what = "queries, keys and values";
    OpError::Shapes { what, left: shape(left), right: shape(right) }
}
