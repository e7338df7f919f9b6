//! Operators with a state passed from one run to the next.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("CausalConvWithState", &[27], causal_conv),
    Property::onnx("LinearAttention", &[27], linear_attention),
];

/// The error, in ULPs of a double, of a sum of a few cancelling terms: 20 bits.
const CANCELLED: f64 = 1_048_576.0;

/// Convolution of the past, initially zeros, followed by the operand.
fn causal_conv(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, channels, len] = [(); 3].map(|()| draw.dim());
    let taps = draw.some_dim();
    let (shape, before) = ([batch, channels, len], [batch, channels, taps - 1]);
    let [x, past] = [&shape, &before].map(|shape| draw.small(dtype, shape));
    let [w, bias] = [&[channels, 1, taps][..], &[channels]].map(|shape| draw.small(dtype, shape));
    let (bias, past) = (draw.one_in(2).then_some(bias), draw.one_in(2).then_some(past));
    let activation = draw.pick(&[None, Some("none"), Some("silu"), Some("swish")]);
    let (of_bias, of_past) = (bias.clone(), past.clone());
    Sample::new(&[&x.clone(), &w.clone()], move || {
        let (x, w) = (Array::of(&x), Array::of(&w));
        let [bias, past] = [&of_bias, &of_past].map(|it| it.as_ref().map(Array::of));
        let seen = |n: usize, c: usize, t: usize| match t.checked_sub(taps - 1) {
            Some(t) => x.at(&[n, c, t]).float(),
            None => past.as_ref().map_or(0.0, |past| past.at(&[n, c, t]).float()),
        };
        let y = Array::from_fn(&shape, |at| {
            let [n, c, t] = [at[0], at[1], at[2]];
            let bias = bias.as_ref().map_or(0.0, |bias| bias.at(&[c]).float());
            let terms = (0..taps).map(|j| w.at(&[c, 0, j]).float() * seen(n, c, t + j));
            let sum = bias + terms.sum::<f64>();
            let is_silu = matches!(activation, Some("silu" | "swish"));
            Cell::Float(if is_silu { sum / (1.0 + (-sum).exp()) } else { sum })
        });
        let present = Array::from_fn(&before, |at| Cell::Float(seen(at[0], at[1], len + at[2])));
        // Sums of small numbers are exact; after them, four operations.
        let y = Expected::rounded(dtype, y, 4.0);
        y.into_iter().chain(Expected::exact(dtype, present)).collect()
    })
    .input(2, bias)
    .input(3, past)
    .outputs(2)
    .maybe("activation", activation.map(|it| Attr::String(it.to_owned())))
}

/// What changes states `[b, head, row, column]`: first they decay, then the key times the new part of the value is
/// added.
struct Steps {
    /// `[b, t, head, row]`
    k: Array,
    /// `[b, t, head, column]`
    v: Array,
    /// The logarithms of factors, `[b, t, head, row or 1]`.
    decay: Option<Array>,
    /// `[b, t, head or 1]`
    beta: Option<Array>,
}

impl Steps {
    /// The states after step `t`.
    fn after(&self, t: usize, states: &Array) -> Array {
        let decayed = Array::from_fn(&states.shape, |at| {
            let log = |decay: &Array| decay.at_broadcast(&[at[0], t, at[1], at[2]]).float();
            Cell::Float(states.at(at).float() * self.decay.as_ref().map_or(0.0, log).exp())
        });
        Array::from_fn(&states.shape, |at| {
            let [b, head, row, column] = [at[0], at[1], at[2], at[3]];
            let key = |row: usize| self.k.at(&[b, t, head, row]).float();
            let value = self.v.at(&[b, t, head, column]).float();
            let new = self.beta.as_ref().map_or(value, |beta| {
                let held = |row| key(row) * decayed.at(&[b, head, row, column]).float();
                let held: f64 = (0..states.shape[2]).map(held).sum();
                beta.at_broadcast(&[b, t, head]).float() * (value - held)
            });
            Cell::Float(decayed.at(at).float() + key(row) * new)
        })
    }
}

/// `y[b, t, head, column] = Σ scale · q[b, t, head, row] · state[b, head / n, row, column]`, the
/// states being those after each step; each of their heads is shared by `n` of `q`.
fn read(q: &Array, states: &[Array], scale: f64) -> Array {
    let [_, heads, size, v_size] = states[0].shape[..] else { panic!("states of another rank") };
    let n_shared = q.shape[2] / heads;
    Array::from_fn(&[q.shape[0], q.shape[1], q.shape[2], v_size], |at| {
        let [b, t, head, column] = [at[0], at[1], at[2], at[3]];
        let term = |row| {
            let state = states[t + 1].at(&[b, head / n_shared, row, column]).float();
            scale * q.at(&[b, t, head, row]).float() * state
        };
        Cell::Float((0..size).map(term).sum())
    })
}

fn linear_attention(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, len, size, v_size] = [(); 4].map(|()| draw.dim());
    let (heads, n_shared) = (draw.some_dim(), draw.some_dim());
    let q_heads = heads * n_shared;
    let mut packed = |width: usize| draw.real(dtype, &[batch, len, width], 1.0);
    let [q, k, v] = [q_heads * size, heads * size, heads * v_size].map(&mut packed);
    let (decays, betas) = ([heads, heads * size].map(&mut packed), [heads, 1].map(&mut packed));
    let rule =
        draw.pick(&[None, Some("linear"), Some("gated"), Some("delta"), Some("gated_delta")]);
    let has = |part: &str| rule.unwrap_or("gated_delta").contains(part);
    let n_decays = draw.below(2);
    let decay = has("gated").then(|| decays[n_decays].clone());
    let beta = has("delta").then(|| draw.pick(&betas));
    let state_type = draw.pick(&[DType::F16, DType::Bf16, DType::F32, DType::F64]);
    let state_shape = [batch, heads, size, v_size];
    let past = draw.one_in(2).then(|| draw.real(state_type, &state_shape, 1.0));
    let given = draw.pick(&[None, Some(0.0), Some(0.5)]);
    let scale = given.filter(|&scale| scale != 0.0).map(f64::from);
    let scale = scale.unwrap_or(1.0 / (size as f64).sqrt());
    let (of_past, of_decay, of_beta) = (past.clone(), decay.clone(), beta.clone());
    let sample = Sample::new(&[&q.clone(), &k.clone(), &v.clone()], move || {
        let per_head = |x: &Tensor, heads, size| Array::of(x).reshaped(&[batch, len, heads, size]);
        let of_decay = of_decay.as_ref();
        let steps = Steps {
            k: per_head(&k, heads, size),
            v: per_head(&v, heads, v_size),
            decay: of_decay.map(|decay| per_head(decay, heads, [1, size][n_decays])),
            beta: of_beta.as_ref().map(Array::of),
        };
        let zeros = || Array::from_fn(&state_shape, |_| Cell::Float(0.0));
        let mut states = vec![of_past.as_ref().map_or_else(zeros, Array::of)];
        (0..len).for_each(|t| states.push(steps.after(t, &states[t])));
        let y = read(&per_head(&q, q_heads, size), &states, scale);
        let y = Expected::rounded(dtype, y.reshaped(&[batch, len, q_heads * v_size]), CANCELLED);
        let state_type = of_past.as_ref().map_or(dtype, |past| past.dtype());
        y.into_iter().chain(Expected::rounded(state_type, states.remove(len), CANCELLED)).collect()
    });
    let sample = sample.input(3, past).input(4, decay).input(5, beta).outputs(2);
    sample
        .attr("q_num_heads", Attr::Int(signed(q_heads)))
        .attr("kv_num_heads", Attr::Int(signed(heads)))
        .maybe("scale", given.map(Attr::Float))
        .maybe("update_rule", rule.map(|rule| Attr::String(rule.to_owned())))
        .maybe("chunk_size", draw.one_in(2).then_some(Attr::Int(16)))
}
