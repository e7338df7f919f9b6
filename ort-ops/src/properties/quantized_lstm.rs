//! An LSTM with quantized weights, whose inputs and states are quantized dynamically.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::draw::signed;
use super::quantized_values::quantized_dynamically;
use super::recurrent::{Kind, Layer, cells, functions, operands};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[Property::microsoft("DynamicQuantizeLSTM", layer)];

/// Weights `[D, n, 4·H]` of one direction, with scales and zero points `[D]` or `[D, 4·H]`.
struct Weights {
    quantized: Tensor,
    scale: Tensor,
    zero_point: Tensor,
}

impl Weights {
    fn draw(draw: &mut Draw, shape: &[usize; 3], [dtype, scale_type]: [DType; 2]) -> Self {
        let [n, _, rows] = *shape;
        let forms = [(); 2].map(|()| draw.pick(&[vec![n], vec![n, rows]]));
        Self {
            quantized: draw.any(dtype, shape),
            scale: draw.real(scale_type, &forms[0], 1.0 / 256.0),
            zero_point: draw.any(dtype, &forms[1]),
        }
    }

    /// The numbers `[D, 4·H, n]`.
    fn values(&self) -> Array {
        let [quantized, scale, zero_point] =
            [&self.quantized, &self.scale, &self.zero_point].map(Array::of);
        let own = |x: &Array, d: usize, row: usize| {
            let at = [d, row];
            x.at(&at[..x.shape.len()]).float()
        };
        let &[n, size, rows] = &quantized.shape[..] else { panic!("{:?}", quantized.shape) };
        Array::from_fn(&[n, rows, size], |at| {
            let q = quantized.at(&[at[0], at[2], at[1]]).float() - own(&zero_point, at[0], at[1]);
            Cell::Float(q * own(&scale, at[0], at[1]))
        })
    }
}

/// The row of an array of rank 3.
fn row(x: &Array, at: [usize; 2]) -> Vec<f64> {
    (0..x.shape[2]).map(|i| x.at(&[at[0], at[1], i]).float()).collect()
}

/// `y: [S, D, B, H]` and the last states `[D, B, H]`: the inputs are quantized at once, up to the longest sequence,
/// the states in each step with those of the sequences that are active, or were in the step before.
fn run(layer: &Layer, lens: &[usize]) -> [Array; 3] {
    let &[steps, batch, inputs] = &layer.x.shape[..] else { panic!("{:?}", layer.x.shape) };
    let (n, units) = (layer.directions.len(), layer.r.shape[2]);
    let longest = lens.iter().copied().max().unwrap_or(0);
    let seen = &layer.x.cells[..longest * batch * inputs];
    let seen = quantized_dynamically(&seen.iter().map(Cell::float).collect::<Vec<_>>());
    let x = Array { shape: vec![longest, batch, inputs], cells: cells(&seen) };
    let zeros = |shape: &[usize]| Array::from_fn(shape, |_| Cell::Float(0.0));
    let states = [n, batch, units];
    let mut y = zeros(&[steps, n, batch, units]);
    let mut last = [&layer.h, &layer.c].map(|x| x.clone().unwrap_or_else(|| zeros(&states)));
    for (d, step) in (0..n).flat_map(|d| (0..longest).map(move |step| (d, step))) {
        let counted: Vec<_> = (0..batch).filter(|&b| step <= lens[b]).collect();
        let all: Vec<_> = counted.iter().flat_map(|&b| row(&last[0], [d, b])).collect();
        let all = quantized_dynamically(&all);
        for (&b, h) in counted.iter().zip(all.chunks(units)).filter(|it| step < lens[*it.0]) {
            let t = if layer.directions[d] { lens[b] - 1 - step } else { step };
            let (h, c) = layer.step(d, &row(&x, [t, b]), h, &row(&last[1], [d, b]));
            for j in 0..units {
                *y.at_mut(&[t, d, b, j]) = Cell::Float(h[j]);
                *last[0].at_mut(&[d, b, j]) = Cell::Float(h[j]);
                *last[1].at_mut(&[d, b, j]) = Cell::Float(c[j]);
            }
        }
    }
    // For length 0, the last states are 0.
    let [h, c] = last.map(|last| {
        Array::from_fn(&states, |at| match lens[at[1]] {
            0 => Cell::Float(0.0),
            _ => last.at(at).clone(),
        })
    });
    [y, h, c]
}

fn layer(draw: &mut Draw, dtype: DType) -> Sample {
    let (direction, directions) = draw.pick(&[
        ("forward", vec![false]),
        ("reverse", vec![true]),
        ("bidirectional", vec![false, true]),
    ]);
    let n = directions.len();
    let (flag, written) = draw.flag(false);
    let clip = draw.pick(&[None, None, Some(0.75)]);
    let (functions, mut attrs) = functions(draw, Kind::Lstm, n);
    let mut operands = operands(draw, dtype, Kind::Lstm, n).to_vec();
    let [x, _, r, b, lens, h, c, p] =
        [0, 1, 2, 3, 4, 5, 6, 7].map(|i| operands[i].as_ref().map(Array::of));
    let (x, units) = (x.unwrap(), r.unwrap().shape[2]);
    let q = draw.pick(&[DType::I8, DType::U8]);
    let [w, r] =
        [x.shape[2], units].map(|size| Weights::draw(draw, &[n, size, 4 * units], [q, dtype]));
    (operands[1], operands[2]) = (Some(w.quantized.clone()), Some(r.quantized.clone()));
    operands.extend(
        [&w, &r]
            .into_iter()
            .flat_map(|weights| [Some(weights.scale.clone()), Some(weights.zero_point.clone())]),
    );
    attrs.push(("hidden_size", Attr::Int(signed(units))));
    attrs.push(("direction", Attr::String(direction.into())));
    let n_outputs = 1 + draw.below(3);
    let oracle = move || {
        let lens: Vec<usize> = match &lens {
            Some(lens) => (0..x.shape[1]).map(|b| lens.index_at(&[b], 0)).collect(),
            None => vec![x.shape[0]; x.shape[1]],
        };
        let layer = Layer {
            kind: Kind::Lstm,
            directions: directions.clone(),
            functions: functions.clone(),
            clip: clip.map_or(f64::INFINITY, f64::from),
            flag,
            x: x.clone(),
            w: w.values(),
            r: r.values(),
            b: b.clone(),
            lens: None,
            h: h.clone(),
            c: c.clone(),
            p: p.clone(),
        };
        // Single precision rounds numbers around 1 in every step.
        let outputs = run(&layer, &lens).into_iter().take(n_outputs);
        outputs.map(|y| Expected::within(dtype, y, 1e-4)).collect()
    };
    let sample = Sample::of(operands, oracle).outputs(n_outputs);
    let sample = attrs.into_iter().fold(sample, |sample, (name, attr)| sample.attr(name, attr));
    sample.maybe("input_forget", written).maybe("clip", clip.map(Attr::Float))
}
