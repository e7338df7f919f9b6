//! Normalizations: of layers, with and without a skip connection, of groups, instances and embeddings.

use super::super::net::{Net, ROUNDING, Value};
use super::epilogue::{function, normalized};

/// The rounding error of a normalized row of `n` numbers in [−1, 1): a difference errs by a few units, and the
/// deviation that divides it is at least ½ for many numbers, but `√ε = 1/316` for few.
fn error(n: usize) -> f64 {
    let least = if n < 32 { 1.0 / 316.0 } else { 0.5 };
    ROUNDING * (8.0 / least + (n as f64).sqrt())
}

/// Rows of `len` elements.
fn rows(net: &mut Net<'_>) -> Vec<usize> {
    let len = net.draw.size(1, 5_000);
    let n_rows = net.draw.size(1, (400_000 / len).max(1));
    let batch = net.draw.pick(&[1, 1, 2, 3]);
    vec![batch, n_rows.div_ceil(batch), len]
}

pub(super) fn layer(net: &mut Net<'_>) -> Vec<Value> {
    let shape = rows(net);
    let len = shape[2];
    let x = net.input(&shape);
    let (scale, bias) = (net.positive('w', &[len]), net.scaled('w', &[len], 1));
    let has_bias = net.draw.one_in(2);
    let name = match net.draw.between(0, 3) {
        0 if has_bias => {
            let inputs = [&x.name, &scale.name, &bias.name].map(String::as_str);
            net.node("LayerNormalization-17", &inputs)
        }
        0 => net.node("LayerNormalization-17", &[&x.name, &scale.name]),
        1 => net.node("SimplifiedLayerNormalization-1", &[&x.name, &scale.name]),
        2 => {
            let skip_shape = net.draw.pick(&[&shape[..], &shape[1..]]).to_vec();
            let skip = net.input(&skip_shape);
            let mut inputs = [&x.name, &skip.name, &scale.name].map(String::as_str).to_vec();
            if has_bias {
                inputs.extend([bias.name.as_str(), bias.name.as_str()]);
            }
            net.node("com.microsoft:SkipLayerNormalization-1", &inputs)
        }
        _ => {
            let skip = net.input(&shape);
            let inputs = [&x.name, &skip.name, &scale.name].map(String::as_str);
            let op = "com.microsoft:SkipSimplifiedLayerNormalization-1";
            // The moments have no consumer, whether named or not.
            let n_outputs = net.draw.pick(&[1, 4]);
            net.node_of(op, &inputs, n_outputs).swap_remove(0)
        }
    };
    let y = Value { name, shape, size: 2.0, error: error(len) };
    vec![if net.draw.one_in(3) { function(net, &y) } else { y }]
}

pub(super) fn group(net: &mut Net<'_>) -> Vec<Value> {
    let groups = net.draw.size(1, 32);
    let channels = groups * net.draw.size(1, 8);
    let most = (net.draw.size(10_000, 400_000) / channels).max(1);
    let h = net.draw.size(1, most);
    let (n, w) = (net.draw.pick(&[1, 2]), (most / h).max(1));
    let shape = [n, channels, h, w];
    let x = net.input(&shape);
    let (scale, bias) = (net.positive('w', &[channels]), net.scaled('w', &[channels], 1));
    let inputs = [&x.name, &scale.name, &bias.name].map(String::as_str);
    let (name, n) = match net.draw.between(0, 2) {
        0 => {
            let op = format!("GroupNormalization-21 [num_groups: {groups}]");
            (net.node(&op, &inputs), channels / groups * h * w)
        }
        1 => (net.node("InstanceNormalization-6", &inputs), h * w),
        _ => {
            let is_last = net.draw.one_in(2);
            return vec![normalized(net, &x, is_last)];
        }
    };
    let y = Value { name, shape: shape.to_vec(), size: 2.0, error: error(n) };
    vec![if net.draw.one_in(2) { function(net, &y) } else { y }]
}

pub(super) fn embedding(net: &mut Net<'_>) -> Vec<Value> {
    let len = net.draw.size(1, 2_000);
    let batch = net.draw.pick(&[1, 2, 3]);
    let n = net.draw.size(1, (200_000 / len / batch).clamp(1, 500));
    let n_words = net.draw.size(1, (200_000 / len).clamp(1, 3_000));
    let ids = net.any('x', &format!("_n{n_words}"), "int32", &[batch, n]);
    let has_segments = net.draw.one_in(2);
    let segments = net.any('x', "_n2", "int32", &[batch, n]);
    let words = net.scaled('w', &[n_words, len], 1);
    let n_positions = n + net.draw.pick(&[0, 5]);
    let positions = net.scaled('w', &[n_positions, len], 1);
    let kinds = net.scaled('w', &[2, len], 1);
    let (scale, bias) = (net.positive('w', &[len]), net.scaled('w', &[len], 1));
    let (segments, kinds) = match has_segments {
        true => (segments.name.as_str(), kinds.name.as_str()),
        false => ("_", "_"),
    };
    let inputs =
        [&ids.name, segments, &words.name, &positions.name, kinds, &scale.name, &bias.name];
    let op = "com.microsoft:EmbedLayerNormalization-1";
    let name = net.node(op, &inputs);
    vec![Value { name, shape: vec![batch, n, len], size: 2.0, error: 3.0 * error(len) }]
}
