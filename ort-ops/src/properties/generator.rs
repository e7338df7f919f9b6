//! Operators that generate tensors: progressions, diagonals, windows and weights.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("BlackmanWindow", &[17], |draw, dtype| window(draw, dtype, [0.42, 0.5, 0.08])),
    Property::onnx("EyeLike", &[9, 22], eye_like),
    Property::onnx("HammingWindow", &[17], |draw, dtype| {
        window(draw, dtype, [25.0 / 46.0, 21.0 / 46.0, 0.0])
    }),
    Property::onnx("HannWindow", &[17], |draw, dtype| window(draw, dtype, [0.5, 0.5, 0.0])),
    Property::onnx("MelWeightMatrix", &[17], mel_weight_matrix),
    Property::onnx("Range", &[11, 27], |draw, dtype| range(draw, dtype, true)),
    Property::microsoft("Range", |draw, dtype| {
        let has_delta = draw.one_in(2);
        range(draw, dtype, has_delta)
    }),
];

/// A cell of `dtype`; integers are rounded toward zero.
fn number(dtype: DType, value: f64) -> Cell {
    match dtype {
        DType::Bool => Cell::Bool(value != 0.0),
        _ if dtype.is_float() => Cell::Float(value),
        _ => Cell::whole(value.trunc()),
    }
}

fn numbers() -> Vec<DType> {
    DType::ALL.iter().copied().filter(|dtype| dtype.is_number()).collect()
}

/// The attribute value of a type.
pub(super) fn named(dtype: DType) -> Attr {
    Attr::Int(dtype.onnx().into())
}

fn range(draw: &mut Draw, dtype: DType, has_delta: bool) -> Sample {
    let step = if dtype.is_float() { 0.5 } else { 1.0 };
    let mut whole = |first, last| f64::from(i8::try_from(draw.int(first, last)).unwrap());
    let (start, limit) = (step * whole(-8, 8), step * whole(-8, 8));
    let delta = step * whole(1, 5) * if whole(0, 1) == 0.0 { 1.0 } else { -1.0 };
    let delta = if has_delta { delta } else { 1.0 };
    let scalar = |value| {
        let is_number = dtype.is_number();
        let cell = |_: &[usize]| number(dtype, value);
        is_number.then(|| Array::from_fn(&[], cell).to_tensor(dtype))
    };
    let mut or_any = |value| scalar(value).unwrap_or_else(|| draw.any(dtype, &[]));
    let inputs = [or_any(start), or_any(limit)];
    let step = has_delta.then(|| or_any(delta));
    let sample = Sample::new(&[&inputs[0], &inputs[1]], move || {
        let term = |i: usize| start + i as f64 * delta;
        let is_before = |i: &usize| if delta < 0.0 { term(*i) > limit } else { term(*i) < limit };
        let n = (0..).take_while(is_before).count();
        Expected::exact(dtype, Array::from_fn(&[n], |i| number(dtype, term(i[0]))))
    });
    let stash_type = draw.version >= 27 && draw.one_in(2);
    sample.input(2, step).maybe("stash_type", stash_type.then_some(Attr::Int(1)))
}

/// Ones on a diagonal, of the type of the operand or another.
fn eye_like(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape_of_rank(2);
    let is_asked = draw.one_in(2);
    let of_x = if is_asked { draw.pick(&numbers()) } else { dtype };
    let k = draw.pick(&[None, Some(-1), Some(0), Some(2), Some(-9)]);
    Sample::new(&[&draw.any(of_x, &shape)], move || {
        let y = Array::from_fn(&shape, |i| {
            let [row, column] = [0, 1].map(|axis| i64::try_from(i[axis]).unwrap());
            number(dtype, if column - row == k.unwrap_or(0) { 1.0 } else { 0.0 })
        });
        Expected::exact(dtype, y)
    })
    .maybe("dtype", is_asked.then(|| named(dtype)))
    .maybe("k", k.map(Attr::Int))
}

/// `c₀ − c₁·cos(2πn/N) + c₂·cos(4πn/N)`; a symmetric window of one value is 1.
fn window(draw: &mut Draw, dtype: DType, [c0, c1, c2]: [f64; 3]) -> Sample {
    let size = draw.below(9);
    let x = integer(draw, dtype, size);
    let (is_periodic, periodic) = draw.flag(true);
    let of_y = draw.pick(&numbers());
    let is_written = of_y != DType::F32 || draw.one_in(2);
    Sample::new(&[&x], move || {
        let period = if is_periodic { size } else { size.saturating_sub(1) };
        let y = Array::from_fn(&[size], |i| {
            let angle = std::f64::consts::TAU * i[0] as f64 / period as f64;
            let value = c0 - c1 * angle.cos() + c2 * (2.0 * angle).cos();
            number(of_y, if period == 0 { 1.0 } else { value })
        });
        Expected::rounded(of_y, y, 4.0)
    })
    .maybe("periodic", periodic)
    .maybe("output_datatype", is_written.then(|| named(of_y)))
}

/// A scalar of any type, this one if it is an integer.
fn integer(draw: &mut Draw, dtype: DType, value: usize) -> Tensor {
    match dtype.is_integer() {
        true => Array::from_fn(&[], |_| Cell::Int(value.try_into().unwrap())).to_tensor(dtype),
        false => draw.any(dtype, &[]),
    }
}

fn mel_weight_matrix(draw: &mut Draw, dtype: DType) -> Sample {
    let (n_mels, length) = (draw.below(5), 2 * draw.below(17));
    let rate: usize = draw.pick(&[50, 100]);
    let of_edges = draw.pick(&[DType::F32, DType::F64, DType::F16, DType::Bf16]);
    let edges: [f64; 2] = draw.pick(&[[0.0, 20.0], [4.0, 16.0]]);
    let of_integers = draw.index_type();
    let integers = [n_mels, length, rate].map(|value| integer(draw, of_integers, value));
    let is_written = dtype != DType::F32 || draw.one_in(2);
    let floats = edges.map(|x| Array::from_fn(&[], |_| Cell::Float(x)).to_tensor(of_edges));
    let inputs: Vec<_> = integers.iter().chain(&floats).collect();
    Sample::new(&inputs, move || {
        let bins = mel_bins(n_mels, length as f64, rate as f64, edges);
        let y = Array::from_fn(&[length / 2 + 1, n_mels], |i| {
            let corner = |j: usize| bins[i[1] + j];
            number(dtype, triangle(i[0] as f64, [corner(0), corner(1), corner(2)]))
        });
        Expected::rounded(dtype, y, 4.0)
    })
    .maybe("output_datatype", is_written.then(|| named(dtype)))
}

/// The bins where triangles begin, peak and end, evenly spaced on the mel scale.
fn mel_bins(n_mels: usize, length: f64, rate: f64, edges: [f64; 2]) -> Vec<f64> {
    let [lower, upper] = edges.map(|hertz| 2595.0 * (1.0 + hertz / 700.0).log10());
    let n = n_mels + 2;
    let hertz = |i: usize| {
        let mel = lower + i as f64 * (upper - lower) / n as f64;
        700.0 * (10_f64.powf(mel / 2595.0) - 1.0)
    };
    (0..n).map(|i| ((length + 1.0) * hertz(i) / rate).floor()).collect()
}

/// From 0 at the first corner to 1 at the second and 0 at the third.
fn triangle(bin: f64, [left, center, right]: [f64; 3]) -> f64 {
    match bin {
        _ if bin == center => 1.0,
        _ if bin >= left && bin < center => (bin - left) / (center - left),
        _ if bin > center && bin < right => (right - bin) / (right - center),
        _ => 0.0,
    }
}
