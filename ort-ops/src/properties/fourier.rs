//! Fourier transforms, term by term.

use std::f64::consts::TAU;

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] =
    &[Property::onnx("DFT", &[17, 20], dft), Property::onnx("STFT", &[17], stft)];

/// The error of sums of a few terms up to 4 in double precision.
const DISTANCE: f64 = 256.0 * f64::EPSILON;

/// `exp(±2πi · kn / N)`.
fn root(k: usize, n: usize, len: usize, is_inverse: bool) -> [f64; 2] {
    let angle = TAU * (k * n % len) as f64 / len as f64;
    [angle.cos(), if is_inverse { angle.sin() } else { -angle.sin() }]
}

fn times([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    [a * c - b * d, a * d + b * c]
}

/// Element `k` of the transform of a signal.
fn transform(signal: &[[f64; 2]], k: usize, is_inverse: bool) -> [f64; 2] {
    let terms = signal.iter().enumerate();
    let terms = terms.map(|(n, &x)| times(x, root(k, n, signal.len(), is_inverse)));
    let [re, im] = terms.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
    let divisor = if is_inverse { signal.len() as f64 } else { 1.0 };
    [re / divisor, im / divisor]
}

/// A number of a signal whose last dimension holds its parts; 0 after the end.
fn number(x: &Array, at: &[usize], axis: usize, n: usize) -> [f64; 2] {
    let mut at = at.to_vec();
    at[axis] = n;
    let last = at.len() - 1;
    [0, 1].map(|part| {
        at[last] = part;
        let is_there = n < x.shape[axis] && part < x.shape[last];
        if is_there { x.at(&at).float() } else { 0.0 }
    })
}

fn scalar(draw: &mut Draw, value: usize) -> Tensor {
    draw.indices(&[], &[signed(value)])
}

fn dft(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(2);
    let rank = shape.len();
    let (is_inverse, inverse) = draw.flag(false);
    let (is_onesided, onesided) = draw.flag(false);
    shape[rank - 1] = match (is_onesided, is_inverse) {
        (true, true) => 2,
        (true, false) => 1,
        _ => draw.pick(&[1, 2]),
    };
    let axis = draw.below(rank - 1);
    let default = if draw.version < 20 { 1 } else { rank - 2 };
    let is_default = axis == default && draw.one_in(2);
    shape[axis] = 2 + draw.below(4);
    let given = draw.one_in(2).then(|| 1 + draw.below(7));
    let whole = if is_onesided && is_inverse { 2 * (shape[axis] - 1) } else { shape[axis] };
    let len = given.unwrap_or(whole);
    let x = draw.small(dtype, &shape);
    let sample = Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let mut shape = x.shape.clone();
        shape[axis] = if is_onesided && !is_inverse { len / 2 + 1 } else { len };
        shape[rank - 1] = if is_onesided && is_inverse { 1 } else { 2 };
        let y = Array::from_fn(&shape, |at| {
            let value = |n: usize| match is_onesided && is_inverse && n > len / 2 {
                true => {
                    let [re, im] = number(&x, at, axis, len - n);
                    [re, -im]
                }
                false => number(&x, at, axis, n),
            };
            let signal: Vec<_> = (0..len).map(value).collect();
            Cell::Float(transform(&signal, at[axis], is_inverse)[at[rank - 1]])
        });
        vec![Expected::close(dtype, y, DISTANCE)]
    });
    let written = draw.written(axis, rank);
    let given = given.map(|len| scalar(draw, len));
    let sample = if given.is_some() { sample.input(1, given) } else { sample };
    let sample = match (is_default, draw.version) {
        (true, _) => sample,
        (false, ..20) => sample.attr("axis", Attr::Int(written)),
        (false, _) => sample.input(2, Tensor::scalar(written)),
    };
    sample.maybe("inverse", inverse).maybe("onesided", onesided)
}

fn stft(draw: &mut Draw, dtype: DType) -> Sample {
    let (is_onesided, onesided) = draw.flag(true);
    let parts = if is_onesided { 1 } else { draw.pick(&[1, 2]) };
    let len = 1 + draw.below(5);
    let form = draw.below(4);
    let extra = if form == 0 { 0 } else { draw.below(6) };
    let shape = [draw.dim(), len + extra, parts];
    let step = 1 + draw.below(3);
    let x = draw.small(dtype, &shape);
    let window = (form & 1 == 1).then(|| draw.small(dtype, &[len]));
    let given = (form & 2 == 2).then(|| scalar(draw, len));
    let sample = Sample::new(&[&x.clone()], {
        let window = window.clone();
        move || {
            let (x, window) = (Array::of(&x), window.as_ref().map(Array::of));
            let n_bins = if is_onesided { len / 2 + 1 } else { len };
            let y = Array::from_fn(&[shape[0], extra / step + 1, n_bins, 2], |at| {
                let value = |n: usize| {
                    let weight = window.as_ref().map_or(1.0, |window| window.cells[n].float());
                    let x = number(&x, &[at[0], 0, 0], 1, at[1] * step + n);
                    x.map(|part| weight * part)
                };
                let signal: Vec<_> = (0..len).map(value).collect();
                Cell::Float(transform(&signal, at[2], false)[at[3]])
            });
            vec![Expected::close(dtype, y, DISTANCE)]
        }
    });
    let sample = sample.input(1, scalar(draw, step));
    let sample = if window.is_some() { sample.input(2, window) } else { sample };
    let sample = if given.is_some() { sample.input(3, given) } else { sample };
    sample.maybe("onesided", onesided)
}
