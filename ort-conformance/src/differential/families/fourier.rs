//! Fourier transforms of frames and along axes.

use super::super::net::{Net, ROUNDING, Value};

/// Size and error of the transform of `n` numbers of about this size, computed in f64 and rounded once.
fn transformed(n: usize, size: f64) -> (f64, f64) {
    let size = (n as f64).sqrt() * size;
    (size, ROUNDING * size)
}

pub(super) fn frames(net: &mut Net<'_>) -> Vec<Value> {
    let n = net.draw.size(1, 700);
    let (batch, step) = (net.draw.between(1, 3), net.draw.size(1, n + 10));
    let n_frames = net.draw.size(1, 100_000 / (n * batch) + 1);
    let signal = n + (n_frames - 1) * step + net.draw.between(0, step - 1);
    let onesided = net.draw.pick(&[1, 0]);
    let parts = if onesided == 0 && net.draw.one_in(2) { 2 } else { 1 };
    let x = net.input(&[batch, signal, parts]);
    let step = net.literal(&format!("int64[] {step}"));
    let len = net.literal(&format!("int64[] {n}"));
    let op = format!("STFT-17 [onesided: {onesided}]");
    let (name, size) = match net.draw.pick(&[0, 1, 2]) {
        0 => (net.node(&op, &[&x.name, &step, "_", &len]), x.size),
        has_len => {
            let window = net.positive('x', &[n]);
            let inputs = [x.name.as_str(), &step, &window.name, &len];
            (net.node(&op, &inputs[..2 + has_len]), x.size * window.size)
        }
    };
    let (size, error) = transformed(n, size * (parts as f64).sqrt());
    vec![Value { name, shape: Vec::new(), size, error }]
}

pub(super) fn axis(net: &mut Net<'_>) -> Vec<Value> {
    let n = net.draw.size(2, 700);
    let outer = net.draw.size(1, 100_000 / n + 1);
    let inner = net.draw.size(1, 100_000 / (n * outer) + 1);
    let (inverse, onesided) = (net.draw.pick(&[0, 1]), net.draw.pick(&[0, 1]));
    let parts = match (inverse, onesided) {
        (0, 1) => 1,
        (1, 1) => 2,
        _ => net.draw.pick(&[1, 2]),
    };
    let x = net.input(&[outer, n, inner, parts]);
    let whole = if inverse == 1 && onesided == 1 { 2 * n - 2 } else { n };
    let len = if net.draw.one_in(2) { net.draw.size(1, n + 20) } else { whole };
    let op = format!("DFT-20 [inverse: {inverse}, onesided: {onesided}]");
    let axis = net.literal("int64[] 1");
    let len_name = net.literal(&format!("int64[] {len}"));
    let len_name = if len == whole { "_" } else { &len_name };
    let name = net.node(&op, &[&x.name, len_name, &axis]);
    let (size, error) = transformed(len, x.size * (parts as f64).sqrt());
    let scale = if inverse == 1 { 1.0 / len as f64 } else { 1.0 };
    vec![Value { name, shape: Vec::new(), size: size * scale, error: error * scale }]
}
