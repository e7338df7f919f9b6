//! Attention as a recurrence, its gate, and the convolution before it.

use ort_graph::Attr;
use ort_tensor::DType;

use super::attending::{FLOATS, SLACK, count, sigmoid};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("CausalConvWithState", causal_conv),
    Property::microsoft("LinearAttention", linear_attention),
    Property::microsoft("LinearAttentionGate", gate),
];

/// The last state of a window, if there is one.
fn last_state(state: &Array, has_window: bool) -> Array {
    if !has_window {
        return state.clone();
    }
    let last = state.shape[0] - 1;
    Array::from_fn(&state.shape[1..], |at| state.at(&[&[last], at].concat()).clone())
}

/// The states to keep of those after 0, 1, … steps: the last, or a window that ends with it, with zeros for states
/// before the first step.
fn kept_states(states: &[Array], window: Option<usize>) -> Array {
    let (last, steps) = states.split_last().unwrap();
    let Some(window) = window else { return last.clone() };
    Array::from_fn(&[&[window], &last.shape[..]].concat(), |at| {
        let from_end = window - 1 - at[0];
        match steps.len().checked_sub(from_end) {
            _ if from_end == 0 => last.at(&at[1..]).clone(),
            None | Some(0) => Cell::Float(0.0),
            Some(n_steps) => states[n_steps].at(&at[1..]).clone(),
        }
    })
}

fn windowed(shape: &[usize], window: Option<usize>) -> Vec<usize> {
    window.into_iter().chain(shape.iter().copied()).collect()
}

/// The operands of a recurrence.
struct Recurrence {
    /// Queries, keys and values as rows.
    rows: [Array; 3],
    /// Of queries, and of keys and values.
    heads: [usize; 2],
    /// Logarithms of factors, one per head, `[B, T, K, 1]`, or one per feature.
    decay: Option<Array>,
    /// `[B, T, K or 1]`.
    beta: Option<Array>,
}

impl Recurrence {
    /// The state `[B, K, D, E]` after step `t`, where `state` was before.
    fn stepped(&self, state: &Array, t: usize) -> Array {
        let [_, k, v] = &self.rows;
        let [size, v_size] = [state.shape[2], state.shape[3]];
        let k = |b: usize, n: usize, d: usize| k.at(&[b, t, n * size + d]).float();
        let decayed = Array::from_fn(&state.shape, |at| {
            let decay = |decay: &Array| decay.at_broadcast(&[at[0], t, at[1], at[2]]).float();
            let factor = self.decay.as_ref().map_or(1.0, |it| decay(it).exp());
            Cell::Float(state.at(at).float() * factor)
        });
        Array::from_fn(&state.shape, |at| {
            let (b, n, e) = (at[0], at[1], at[3]);
            let known = |d| k(b, n, d) * decayed.at(&[b, n, d, e]).float();
            let value = v.at(&[b, t, n * v_size + e]).float();
            let new = self.beta.as_ref().map_or(value, |beta| {
                let beta = beta.at_broadcast(&[b, t, n]).float();
                beta * (value - (0..size).map(known).sum::<f64>())
            });
            Cell::Float(decayed.at(at).float() + k(b, n, at[2]) * new)
        })
    }

    /// The outputs for the states after each step, `[B, T, N·E]`.
    fn read(&self, states: &[Array], scale: f64) -> Array {
        let [q_heads, kv_heads] = self.heads;
        let heads = q_heads.max(kv_heads);
        let q = &self.rows[0];
        let (size, v_size) = (q.shape[2] / q_heads, states[0].shape[3]);
        Array::from_fn(&[q.shape[0], q.shape[1], heads * v_size], |at| {
            let (head, e) = (at[2] / v_size, at[2] % v_size);
            let [q_head, kv_head] = [q_heads, kv_heads].map(|n| head / (heads / n));
            let term = |d| {
                let state = states[at[1]].at(&[at[0], kv_head, d, e]).float();
                scale * q.at(&[at[0], at[1], q_head * size + d]).float() * state
            };
            Cell::Float((0..size).map(term).sum())
        })
    }
}

fn linear_attention(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, len, size, v_size] = [(); 4].map(|()| draw.dim());
    let heads = draw.pick(&[[1, 1], [1, 2], [2, 1], [2, 2], [4, 2], [2, 4]]);
    let widths = [heads[0] * size, heads[1] * size, heads[1] * v_size];
    let mut real = |shape: &[usize]| draw.real(dtype, shape, 1.0);
    let tensors = widths.map(|width| real(&[batch, len, width]));
    let decays = [real(&[batch, len, heads[1]]), real(&[batch, len, heads[1] * size])];
    let betas = [real(&[batch, len, heads[1]]), real(&[batch, len, 1])];
    let state_type = draw.pick(&FLOATS);
    let window = draw.pick(&[None, Some(1), Some(3)]);
    let state_shape = [batch, heads[1], size, v_size];
    let past = draw.real(state_type, &windowed(&state_shape, window), 1.0);
    let past = draw.one_in(2).then_some(past);
    let rule =
        draw.pick(&[None, Some("linear"), Some("gated"), Some("delta"), Some("gated_delta")]);
    let is = |part: &str| rule.unwrap_or("gated_delta").contains(part);
    let of_features = draw.below(2);
    let decay = is("gated").then(|| decays[of_features].clone());
    let beta = is("delta").then(|| draw.pick(&betas));
    let given = draw.pick(&[None, Some(0.0), Some(2.0)]);
    let scale = given.filter(|&scale| scale != 0.0).map(f64::from);
    let scale = scale.unwrap_or(1.0 / (size as f64).sqrt());
    let operands =
        tensors.iter().cloned().map(Some).chain([past.clone(), decay.clone(), beta.clone()]);
    let has_window = window.is_some();
    let operands: Vec<_> = operands.collect();
    Sample::of(operands, move || {
        let decay = decay.as_ref().map(|decay| {
            let n = if of_features == 1 { size } else { 1 };
            Array::of(decay).reshaped(&[batch, len, heads[1], n])
        });
        let beta = beta.as_ref().map(Array::of);
        let recurrence = Recurrence { rows: tensors.each_ref().map(Array::of), heads, decay, beta };
        let zeros = || Array::from_fn(&state_shape, |_| Cell::Float(0.0));
        let past =
            past.as_ref().map(|past| (past.dtype(), last_state(&Array::of(past), has_window)));
        let state_type = past.as_ref().map_or(dtype, |past| past.0);
        let mut states = vec![past.map_or_else(zeros, |past| past.1)];
        for t in 0..len {
            states.push(recurrence.stepped(&states[t], t));
        }
        let after: &[_] = if len == 0 { &states } else { &states[1..] };
        let y = recurrence.read(after, scale);
        let state = kept_states(&states, window);
        vec![Expected::within(dtype, y, SLACK), Expected::within(state_type, state, SLACK)]
    })
    .outputs(2)
    .attr("q_num_heads", count(heads[0]))
    .attr("kv_num_heads", count(heads[1]))
    .maybe("scale", given.map(Attr::Float))
    .maybe("update_rule", rule.map(|rule| Attr::String(rule.into())))
    .maybe("state_window", window.map(count))
    .maybe("chunk_size", draw.one_in(2).then(|| count(64)))
}

fn gate(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(3);
    let [a, b] = [(); 2].map(|()| draw.real(dtype, &shape, 8.0));
    let [bias, scale] = [(); 2].map(|()| draw.real(DType::F32, &shape[2..], 2.0));
    let n = draw.pick(&[1, 2]);
    let has_b = n == 2 || draw.one_in(2);
    let operands =
        [Some(a.clone()), Some(bias.clone()), Some(scale.clone()), has_b.then(|| b.clone())];
    Sample::of(operands, move || {
        let [a, bias, scale] = [&a, &bias, &scale].map(Array::of);
        let decay = Array::from_fn(&a.shape, |at| {
            let sum = a.at(at).float() + bias.at_broadcast(at).float();
            Cell::Float(scale.at_broadcast(at).float() * sum.exp().ln_1p())
        });
        let beta = Array::of(&b).map(|x| Cell::Float(sigmoid(x.float())));
        let mut expected = vec![decay, beta];
        expected.truncate(n);
        expected.into_iter().map(|x| Expected::within(dtype, x, SLACK)).collect()
    })
    .outputs(n)
}

/// `[B, C, T]` of `[B, T, C]`, and vice versa.
fn swapped(x: &Array) -> Array {
    x.transposed(&[0, 2, 1])
}

/// Channels are the second dimension or, with the flag, the last ones, however many.
fn causal_conv(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, len] = [draw.dim(), draw.dim()];
    let (is_last, flag) = draw.flag(false);
    let n_dims = if is_last { 1 + draw.below(2) } else { 1 };
    let dims = draw.shape_of_rank(n_dims);
    let channels = dims.iter().product();
    let (taps, steps) = (draw.some_dim(), draw.pick(&[None, Some(1), Some(2), Some(3)]));
    let (dilation, past_len) = (steps.unwrap_or(1), (taps - 1) * steps.unwrap_or(1));
    let shape = |len: usize| match is_last {
        true => [&[batch, len], &dims[..]].concat(),
        false => vec![batch, channels, len],
    };
    let window = draw.pick(&[None, Some(1), Some(3)]);
    let mut real = |shape: &[usize]| draw.real(dtype, shape, 2.0);
    let (x, w) = (real(&shape(len)), real(&[channels, 1, taps]));
    let (bias, past) = (real(&[channels]), real(&windowed(&shape(past_len), window)));
    let [bias, past] = [bias, past].map(|tensor| draw.one_in(2).then_some(tensor));
    let activation = draw.pick(&[None, Some("none"), Some("silu"), Some("swish")]);
    let is_silu = matches!(activation, Some("silu" | "swish"));
    let (x_shape, state_shape) = (shape(len), shape(past_len));
    let operands = [Some(x.clone()), Some(w.clone()), bias.clone(), past.clone()];
    Sample::of(operands, move || {
        let rows = |x: &Array, len: usize| match is_last {
            true => swapped(&x.reshaped(&[batch, len, channels])),
            false => x.clone(),
        };
        let given = |x: Array, shape: &[usize]| match is_last {
            true => swapped(&x).reshaped(shape),
            false => x,
        };
        let past = past.as_ref().map(|past| last_state(&Array::of(past), window.is_some()));
        let past = past.map(|past| rows(&past, past_len));
        let (x, w, bias) = (rows(&Array::of(&x), len), Array::of(&w), bias.as_ref().map(Array::of));
        let seen = |b: usize, c: usize, t: usize| match t.checked_sub(past_len) {
            Some(t) => x.at(&[b, c, t]).float(),
            None => past.as_ref().map_or(0.0, |past| past.at(&[b, c, t]).float()),
        };
        let y = Array::from_fn(&x.shape, |at| {
            let term = |j| w.at(&[at[1], 0, j]).float() * seen(at[0], at[1], at[2] + j * dilation);
            let bias = bias.as_ref().map_or(0.0, |bias| bias.at(&at[1..2]).float());
            let sum = bias + (0..taps).map(term).sum::<f64>();
            Cell::Float(if is_silu { sum * sigmoid(sum) } else { sum })
        });
        let state = |t: usize| {
            let state = Array::from_fn(&[batch, channels, past_len], |at| {
                Cell::Float(seen(at[0], at[1], t + at[2]))
            });
            given(state, &state_shape)
        };
        let states: Vec<_> = (0..=len).map(state).collect();
        let outputs = [given(y, &x_shape), kept_states(&states, window)];
        outputs.into_iter().map(|x| Expected::within(dtype, x, SLACK)).collect()
    })
    .outputs(2)
    .maybe("activation", activation.map(|it| Attr::String(it.into())))
    .maybe("channels_last", flag)
    .maybe("dilation", steps.map(count))
    .maybe("state_window", window.map(count))
    .maybe("ndim", draw.one_in(2).then_some(Attr::Int(1)))
}
