//! Recurrent layers and attention.

use super::super::net::{Net, ROUNDING, Value};

pub(super) fn recurrent(net: &mut Net<'_>) -> Vec<Value> {
    let (op, gates) = net.draw.pick(&[
        ("LSTM-14", 4),
        ("GRU-14 [linear_before_reset: 0", 3),
        ("GRU-14 [linear_before_reset: 1", 3),
        ("RNN-14", 1),
    ]);
    let budget = net.draw.budget().min(30_000_000) / gates;
    let (name, n_directions) =
        net.draw.pick(&[("forward", 1), ("reverse", 1), ("bidirectional", 2)]);
    let hidden = net.draw.size(1, 300);
    let input = net.draw.size(1, 300);
    let batch = net.draw.pick(&[1, 1, 2, 3, 5, 16]);
    let per_step = n_directions * hidden * (hidden + input) * batch;
    let steps = net.draw.size(1, (budget / per_step.max(1)).clamp(1, 200));
    let x = net.input(&[steps, batch, input]);
    // A state that is a quarter of the one before, at most, forgets.
    let w = net.scaled('w', &[n_directions, gates * hidden, input], 16 * input);
    let r = net.scaled('w', &[n_directions, gates * hidden, hidden], 16 * hidden);
    let bias = net.scaled('w', &[n_directions, 2 * gates * hidden], 1);
    let first = net.scaled('x', &[n_directions, batch, hidden], 1);
    let mut inputs = vec![x.name.as_str(), w.name.as_str(), r.name.as_str()];
    inputs.push(if net.draw.one_in(2) { &bias.name } else { "_" });
    let lengths = net.any('x', &format!("_n{}", steps + 1), "int32", &[batch]);
    inputs.push(if net.draw.one_in(4) { &lengths.name } else { "_" });
    inputs.push(if net.draw.one_in(2) { &first.name } else { "_" });
    let op = match op.split_once('[') {
        Some(_) => format!("{op}, hidden_size: {hidden}, direction: \"{name}\"]"),
        None => format!("{op} [hidden_size: {hidden}, direction: \"{name}\"]"),
    };
    let n_outputs = if gates == 4 { 3 } else { 2 };
    let names = net.node_of(&op, &inputs, n_outputs);
    // The error of one step, and as much again from all before; cells forget half.
    let own = ROUNDING * ((input + hidden) as f64).sqrt().max(4.0);
    let value = |name| Value { name, shape: Vec::new(), size: 1.0, error: 8.0 * own };
    names.into_iter().map(value).collect()
}

pub(super) fn attention(net: &mut Net<'_>) -> Vec<Value> {
    let heads = net.draw.size(1, 12);
    let size = net.draw.size(1, 80);
    let batch = net.draw.pick(&[1, 1, 2, 3]);
    let most = net.draw.budget() / (batch * heads * size);
    let q_len = net.draw.size(1, most.clamp(1, 400));
    let kv_len =
        if net.draw.one_in(2) { q_len } else { net.draw.size(1, (most / q_len).clamp(1, 600)) };
    let width = heads * size;
    let v_width = heads * if net.draw.one_in(3) { net.draw.size(1, 80) } else { size };
    let causal = net.draw.pick(&[0, 0, 1]);
    let q = net.input(&[batch, q_len, width]);
    let k = net.input(&[batch, kv_len, width]);
    let v = net.input(&[batch, kv_len, v_width]);
    let mask = net.any('x', "_n2", "int32", &[batch, kv_len]);
    let shape = [net.draw.pick(&[1, batch]), net.draw.pick(&[1, heads]), q_len, kv_len];
    let bias = net.input(&shape);
    let mut inputs = vec![q.name.as_str(), k.name.as_str(), v.name.as_str(), "_"];
    let is_masked = net.draw.one_in(3);
    inputs.push(if is_masked { &mask.name } else { "_" });
    inputs.push(if net.draw.one_in(3) { &bias.name } else { "_" });
    let op = format!(
        "com.microsoft:MultiHeadAttention-1 [num_heads: {heads}, unidirectional: {causal}]"
    );
    let name = net.node(&op, &inputs);
    let y = attention_output(name, size, kv_len, 1.0);
    let error = y.error + if is_masked { hidden(size, kv_len, causal == 1) } else { 0.0 };
    vec![Value { error, ..y }]
}

/// What rounding adds where flags mask keys: 10^4 is subtracted from their scores, so that the `size` terms of each
/// round to that. It matters for queries that see no other keys: practically none if half of many are masked, but the
/// first few under a causal mask.
fn hidden(size: usize, n: usize, is_causal: bool) -> f64 {
    let has_lone_query = is_causal || n < 48;
    if has_lone_query { ROUNDING * 1e4 * (size as f64 + 1.0).sqrt() } else { 0.0 }
}

/// Means of `n` values, weighted by exponentials of scores: sums of `size` products over `√size`.
/// A score that errs by `e` changes a weight by `e` of it.
fn attention_output(name: String, size: usize, n: usize, size_of_q: f64) -> Value {
    let of_scores = ROUNDING * (size as f64).sqrt() * size_of_q * size_of_q;
    let error = 2.0 * of_scores + ROUNDING * ((n as f64).sqrt() + 8.0);
    Value { name, shape: Vec::new(), size: 1.0, error: error * size_of_q }
}

pub(super) fn projected(net: &mut Net<'_>) -> Vec<Value> {
    let heads = net.draw.size(1, 12);
    let size = net.draw.size(1, 64);
    let input = net.draw.size(1, 400);
    let (batch, width) = (net.draw.pick(&[1, 1, 2]), heads * size);
    let most = net.draw.budget() / (3 * batch * width);
    let len = net.draw.size(1, (most / input).clamp(1, 300));
    let causal = net.draw.pick(&[0, 0, 1]);
    let x = net.input(&[batch, len, input]);
    let w = net.weights(&[input, 3 * width], input);
    let bias = net.scaled('w', &[3 * width], 1);
    let mask = net.any('x', "_n2", "int32", &[batch, len]);
    let added = net.input(&[1, heads, len, len]);
    let mut inputs = vec![x.name.as_str(), w.name.as_str()];
    inputs.push(&bias.name);
    let is_masked = net.draw.one_in(3);
    inputs.push(if is_masked { &mask.name } else { "_" });
    inputs.push("_");
    inputs.push(if net.draw.one_in(3) { &added.name } else { "_" });
    let op = format!("com.microsoft:Attention-1 [num_heads: {heads}, unidirectional: {causal}]");
    let name = net.node(&op, &inputs);
    let q = Value::sums(String::new(), Vec::new(), (input, [&x, &w]), Some(&bias));
    let y = attention_output(name, size, len, q.size.max(1.0));
    let of_q =
        q.error * (2.0 * q.size * (size as f64).sqrt().recip() + 1.0) * q.size.max(1.0) * 4.0;
    let of_mask = if is_masked { hidden(size, len, causal == 1) } else { 0.0 };
    vec![Value { error: y.error.hypot(of_q) + of_mask * q.size.max(1.0), ..y }]
}

/// QAttention, whose projections of bytes are about as large as floats.
pub(super) fn projected_bytes(net: &mut Net<'_>) -> Vec<Value> {
    let (heads, size) = (net.draw.size(1, 12), net.draw.size(1, 64));
    let input = net.draw.size(1, 400);
    let (batch, width) = (net.draw.pick(&[1, 1, 2]), heads * size);
    let most = net.draw.budget() / (3 * batch * width);
    let len = net.draw.size(1, (most / input).clamp(1, 300));
    let causal = net.draw.pick(&[0, 0, 1]);
    // Zero points near the middle, so that terms have either sign.
    let types = [("uint8", 125), ("int8", 3)];
    let [(of_x, x_zero), (of_w, w_zero)] = [net.draw.pick(&types), net.draw.pick(&types)];
    let x = net.any('x', "", of_x, &[batch, len, input]);
    let w = net.any('w', "", of_w, &[input, 3 * width]);
    let bias = net.scaled('w', &[3 * width], 1);
    let x_scale = net.literal("float[] 0.0078125");
    let w_scale = 1.0 / 128.0 / (input as f64).sqrt();
    let n_scales = net.draw.pick(&[1, 3 * width]);
    let w_scales = net.literal(&format!("float[{n_scales}] fill {w_scale:.7}"));
    let mask = net.any('x', "_n2", "int32", &[batch, len]);
    let is_masked = net.draw.one_in(3);
    let zeros = [(of_x, x_zero), (of_w, w_zero)];
    let zeros = zeros.map(|(dtype, zero)| net.literal(&format!("{dtype}[] {zero}")));
    let mut inputs = vec![x.name.as_str(), &w.name, &bias.name, &x_scale, &w_scales];
    inputs.push(if is_masked { &mask.name } else { "_" });
    inputs.extend(zeros.iter().map(String::as_str));
    let op = format!("com.microsoft:QAttention-1 [num_heads: {heads}, unidirectional: {causal}]");
    let name = net.node(&op, &inputs);
    // Sums of bytes are exact: two factors, their product and the bias round.
    let q_size = (1.0_f64 / 3.0).hypot(bias.size);
    let y = attention_output(name, size, len, q_size.max(1.0));
    let of_q = 4.0 * ROUNDING * q_size;
    let of_scores = of_q * (2.0 * q_size * (size as f64).sqrt() + 1.0) * 4.0;
    let of_mask = if is_masked { hidden(size, len, causal == 1) } else { 0.0 };
    vec![Value { error: y.error.hypot(of_scores) + of_mask, ..y }]
}

/// The standard's Attention with and without a past, with masks.
pub(super) fn standard(net: &mut Net<'_>) -> Vec<Value> {
    let (kv_heads, shared) = (net.draw.size(1, 6), net.draw.pick(&[1, 1, 2, 4]));
    let (heads, size) = (kv_heads * shared, net.draw.size(1, 80));
    let batch = net.draw.pick(&[1, 1, 2]);
    let most = net.draw.budget() / (batch * heads * size);
    let past = if net.draw.one_in(3) { 0 } else { net.draw.size(1, most.clamp(1, 600)) };
    let many = net.draw.size(1, (most / (past + 1)).clamp(1, 300));
    let q_len = net.draw.pick(&[1, many]);
    let (is_joined, kv_len) = (net.draw.one_in(2), past + q_len);
    let shape = |heads: usize| match is_joined {
        true => vec![batch, q_len, heads * size],
        false => vec![batch, heads, q_len, size],
    };
    let [q, k, v] = [heads, kv_heads, kv_heads].map(|heads| net.input(&shape(heads)));
    let pasts = [(); 2].map(|()| net.input(&[batch, kv_heads, past, size]));
    // A mask of booleans or floats, per head or for all.
    let mask_shape = [1, net.draw.pick(&[1, heads]), q_len, kv_len];
    let mask = match net.draw.one_in(2) {
        true => net.any('x', "_n3", "bool", &mask_shape),
        false => net.input(&mask_shape),
    };
    let mut inputs = vec![q.name.as_str(), &k.name, &v.name];
    inputs.push(if net.draw.one_in(3) { &mask.name } else { "_" });
    if past > 0 {
        inputs.extend(pasts.iter().map(|past| past.name.as_str()));
    }
    let causal = net.draw.pick(&[0, 1]);
    let softcap = net.draw.pick(&["0.0", "0.0", "5.0"]);
    let op = format!(
        "Attention-24 [q_num_heads: {heads}, kv_num_heads: {kv_heads}, is_causal: {causal}, softcap: {softcap}]"
    );
    let mut names = net.node_of(&op, &inputs, 3).into_iter();
    let y = attention_output(names.next().unwrap_or_default(), size, kv_len, 1.0);
    let kept = |name| Value { name, shape: Vec::new(), size: 1.0, error: ROUNDING };
    [y].into_iter().chain(names.map(kept)).collect()
}

/// RotaryEmbedding of 3-D or 4-D inputs, with positions or with cache rows per token.
pub(super) fn rotary(net: &mut Net<'_>) -> Vec<Value> {
    let (heads, pairs) = (net.draw.size(1, 16), net.draw.size(1, 64));
    let size = 2 * pairs + net.draw.pick(&[0, 0, 6]);
    let batch = net.draw.pick(&[1, 1, 3]);
    let len = net.draw.size(1, (1_000_000 / (batch * heads * size)).clamp(1, 400));
    let shape = match net.draw.one_in(2) {
        true => vec![batch, len, heads * size],
        false => vec![batch, heads, len, size],
    };
    let x = net.input(&shape);
    let has_positions = net.draw.one_in(2);
    let table = if has_positions { vec![len + 7, pairs] } else { vec![batch, len, pairs] };
    let [cos, sin] = [(); 2].map(|()| net.input(&table));
    let positions = net.any('x', &format!("_n{}", len + 7), "int64", &[batch, len]);
    let mut inputs = vec![x.name.as_str(), &cos.name, &sin.name];
    if has_positions {
        inputs.push(&positions.name);
    }
    let (interleaved, rotated) = (net.draw.pick(&[0, 1]), 2 * pairs);
    let op = format!(
        "RotaryEmbedding-23 [num_heads: {heads}, rotary_embedding_dim: {rotated}, interleaved: {interleaved}]"
    );
    let name = net.node(&op, &inputs);
    vec![Value { name, shape, size: 2.0, error: 2.0 * ROUNDING }]
}

/// GroupQueryAttention with a past, whose heads may be rotated.
pub(super) fn group_query(net: &mut Net<'_>) -> Vec<Value> {
    let (kv_heads, group) = (net.draw.size(1, 6), net.draw.pick(&[1, 2, 4, 7]));
    let (heads, size) = (kv_heads * group, 8 * net.draw.size(1, 12));
    let batch = net.draw.pick(&[1, 1, 2]);
    let most = net.draw.budget() / (batch * heads * size);
    let past = if net.draw.one_in(4) { 0 } else { net.draw.size(1, most.clamp(1, 600)) };
    let len =
        if net.draw.one_in(2) { 1 } else { net.draw.size(1, (most / (past + 1)).clamp(1, 300)) };
    let q = net.input(&[batch, len, heads * size]);
    let [k, v] = [(); 2].map(|()| net.input(&[batch, len, kv_heads * size]));
    let [keys, values] = [(); 2].map(|()| net.input(&[batch, kv_heads, past, size]));
    // The buffer may be longer than its contents, where there is a past.
    let filled = if past > 1 && net.draw.one_in(2) { past / 2 } else { past };
    let total = filled + len;
    let lasts = vec![(total - 1).to_string(); batch].join(", ");
    let lasts = net.literal(&format!("int32[{batch}] [{lasts}]"));
    let total = net.literal(&format!("int32[] {total}"));
    let mut inputs = vec![q.name.as_str(), &k.name, &v.name, &keys.name, &values.name];
    inputs.extend([lasts.as_str(), &total]);
    let (rotates, is_interleaved) = (u8::from(net.draw.one_in(2)), u8::from(net.draw.one_in(2)));
    let tables = [(); 2].map(|()| net.any('w', "", "float", &[past + len, size / 2]));
    if rotates == 1 {
        inputs.extend(tables.iter().map(|table| table.name.as_str()));
    }
    let op = format!(
        "com.microsoft:GroupQueryAttention-1 [num_heads: {heads}, kv_num_heads: {kv_heads}, \
         do_rotary: {rotates}, rotary_interleaved: {is_interleaved}]"
    );
    let mut names = net.node_of(&op, &inputs, 3).into_iter();
    let y = attention_output(names.next().unwrap_or_default(), size, past + len, 1.0);
    let kept = |name| Value { name, shape: Vec::new(), size: 1.0, error: ROUNDING };
    [y].into_iter().chain(names.map(kept)).collect()
}

/// MultiHeadAttention behind a past, with a bias, and keys hidden in each of the ways there are.
pub(super) fn behind_a_past(net: &mut Net<'_>) -> Vec<Value> {
    let (heads, size) = (net.draw.size(1, 12), net.draw.size(1, 80));
    let batch = net.draw.pick(&[1, 1, 2]);
    let most = net.draw.budget() / (batch * heads * size);
    let past = net.draw.size(1, most.clamp(1, 900));
    let len =
        if net.draw.one_in(2) { 1 } else { net.draw.size(1, (most / (past + 1)).clamp(1, 300)) };
    let (width, total) = (heads * size, past + len);
    let [q, k, v] = [(); 3].map(|()| net.input(&[batch, len, width]));
    let [keys, values] = [(); 2].map(|()| net.input(&[batch, heads, past, size]));
    let bias = net.scaled('w', &[3 * width], 1);
    let mask = match net.draw.size(1, 4) {
        1 => net.any('x', "_n2", "int32", &[batch, total]),
        2 => net.any('x', "_n2", "int32", &[batch, len, total]),
        3 => net.any('x', &format!("_n{}", total + 1), "int32", &[batch]),
        _ => net.any('x', "_n2", "int32", &[1, 1]),
    };
    let of_heads = net.draw.pick(&[1, heads]);
    let biases = net.input(&[1, of_heads, len, total]);
    let (has_bias, is_masked) = (net.draw.one_in(2), net.draw.one_in(2));
    let has_biases = net.draw.one_in(2);
    let given =
        |is_there: bool, value: &Value| if is_there { value.name.clone() } else { "_".into() };
    let optional = [given(has_bias, &bias), given(is_masked, &mask), given(has_biases, &biases)];
    let mut inputs = vec![q.name.as_str(), &k.name, &v.name];
    inputs.extend(optional.iter().map(String::as_str));
    inputs.extend([keys.name.as_str(), &values.name]);
    // Far below what scores are, but not so far that they are lost where all keys are hidden.
    let op = format!(
        "com.microsoft:MultiHeadAttention-1 [num_heads: {heads}, mask_filter_value: -64.0]"
    );
    let mut names = net.node_of(&op, &inputs, 3).into_iter();
    let y = attention_output(
        names.next().unwrap_or_default(),
        size,
        total,
        if has_bias { 2.0 } else { 1.0 },
    );
    let of_mask = if is_masked { ROUNDING * 64.0 } else { 0.0 };
    let kept = |name| Value { name, shape: Vec::new(), size: 1.0, error: 2.0 * ROUNDING };
    let y = Value { error: y.error + of_mask, ..y };
    [y].into_iter().chain(names.map(kept)).collect()
}

/// GroupQueryAttention with a sink of each head and biases of scores.
pub(super) fn with_sinks(net: &mut Net<'_>) -> Vec<Value> {
    let (kv_heads, group) = (net.draw.size(1, 6), net.draw.pick(&[1, 2, 4, 7]));
    let (heads, size) = (kv_heads * group, 8 * net.draw.size(1, 12));
    let most = net.draw.budget() / (heads * size);
    let past = net.draw.size(1, most.clamp(1, 900));
    let len =
        if net.draw.one_in(2) { 1 } else { net.draw.size(1, (most / (past + 1)).clamp(1, 300)) };
    let total = past + len;
    let q = net.input(&[1, len, heads * size]);
    let [k, v] = [(); 2].map(|()| net.input(&[1, len, kv_heads * size]));
    let [keys, values] = [(); 2].map(|()| net.input(&[1, kv_heads, past, size]));
    let last = net.literal(&format!("int32[1] [{}]", total - 1));
    let longest = net.literal(&format!("int32[] {total}"));
    let of_heads = net.draw.pick(&[1, heads]);
    let biases = net.input(&[1, of_heads, len, total]);
    let sinks = net.scaled('w', &[heads], 1);
    let has_biases = net.draw.one_in(2);
    let biases = if has_biases { biases.name.as_str() } else { "_" };
    let mut inputs = vec![q.name.as_str(), &k.name, &v.name, &keys.name, &values.name];
    inputs.extend([last.as_str(), &longest, "_", "_", "_", biases, &sinks.name]);
    let op = format!(
        "com.microsoft:GroupQueryAttention-1 [num_heads: {heads}, kv_num_heads: {kv_heads}, \
         local_window_size: {}]",
        net.draw.pick(&[-1, -1, 100])
    );
    let mut names = net.node_of(&op, &inputs, 3).into_iter();
    let y = attention_output(names.next().unwrap_or_default(), size, total, 1.0);
    let kept = |name| Value { name, shape: Vec::new(), size: 1.0, error: ROUNDING };
    [y].into_iter().chain(names.map(kept)).collect()
}
