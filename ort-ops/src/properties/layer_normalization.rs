//! Normalizations of rows: the last axes, standardized together.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::normalization::{CANCELLED, epsilon, floats, mean, variance};
use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::onnx("LayerNormalization", &[1, 17], |draw, dtype| layer(draw, dtype, 3)),
    Property::onnx("RMSNormalization", &[23], |draw, dtype| layer(draw, dtype, 1)),
    Property::onnx("SimplifiedLayerNormalization", &[1], |draw, dtype| layer(draw, dtype, 2)),
    Property::microsoft("EmbedLayerNormalization", embed),
    Property::microsoft("SkipLayerNormalization", |draw, dtype| skip(draw, dtype, true)),
    Property::microsoft("SkipSimplifiedLayerNormalization", |draw, dtype| skip(draw, dtype, false)),
];

/// How rows are normalized.
#[derive(Clone, Copy)]
struct Form {
    /// The first axis of a row.
    axis: usize,
    epsilon: f64,
    /// Whether the mean is subtracted; else the mean square is used.
    is_centered: bool,
}

impl Form {
    fn mean(self, row: &[f64]) -> f64 {
        if self.is_centered { mean(row) } else { 0.0 }
    }

    /// `1 / √(variance + epsilon)`.
    fn inv_std(self, row: &[f64]) -> f64 {
        let variance = match self.is_centered {
            true => variance(row),
            false => row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64,
        };
        1.0 / (variance + self.epsilon).sqrt()
    }

    /// `(x − mean) · inv_std · scale + b`, scale and b broadcast.
    fn normalized(self, x: &Array, scale: &Tensor, b: Option<&Tensor>) -> Array {
        let y = x.regrouped(&self.axes(x), |row| {
            let row = floats(row);
            let (mean, inv_std) = (self.mean(&row), self.inv_std(&row));
            row.iter().map(|x| Cell::Float((x - mean) * inv_std)).collect()
        });
        let (scale, b) = (Array::of(scale), b.map(Array::of));
        Array::from_fn(&x.shape, |i| {
            let b = b.as_ref().map_or(0.0, |b| b.at_broadcast(i).float());
            Cell::Float(y.at(i).float() * scale.at_broadcast(i).float() + b)
        })
    }

    /// Mean (only of the centered form) and inverse deviation of each row.
    fn statistics(self, x: &Array) -> [Array; 2] {
        let of_rows = |f: &dyn Fn(&[f64]) -> f64| {
            x.reduced(&self.axes(x), |row| Cell::Float(f(&floats(row))))
        };
        [of_rows(&|row| self.mean(row)), of_rows(&|row| self.inv_std(row))]
    }

    fn axes(self, x: &Array) -> Vec<usize> {
        (self.axis..x.shape.len()).collect()
    }
}

/// With up to `most_outputs` outputs; with three, the mean is one.
fn layer(draw: &mut Draw, dtype: DType, most_outputs: usize) -> Sample {
    let is_centered = most_outputs == 3;
    let shape = draw.shape(1);
    let (axis, written) = draw.axis(shape.len());
    let is_written = axis != shape.len() - 1 || draw.one_in(2);
    let x = draw.small(dtype, &shape);
    let of_row = draw.operand(&shape[axis..]);
    // Without centering, the scale determines the type of the result.
    let is_mixed = !is_centered && dtype.is_float() && draw.one_in(2);
    let of_y = if is_mixed { DType::F32 } else { dtype };
    let scale = draw.small(of_y, &of_row);
    let b = (is_centered && draw.one_in(2)).then(|| draw.small(dtype, &of_row));
    let (epsilon, epsilon_written) = epsilon(draw, 1e-5);
    let (stash, stash_type) =
        draw.pick(&[(DType::F32, None), (DType::F32, Some(1)), (DType::Bf16, Some(16))]);
    let n_outputs = 1 + draw.below(most_outputs);
    let form = Form { axis, epsilon, is_centered };
    let bias = b.clone();
    Sample::new(&[&x.clone(), &scale.clone()], move || {
        let x = Array::of(&x);
        let y = Expected::rounded(of_y, form.normalized(&x, &scale, bias.as_ref()), CANCELLED);
        let statistics = form.statistics(&x).into_iter().skip(usize::from(!is_centered));
        let statistics = statistics.flat_map(|s| Expected::rounded(stash, s, CANCELLED));
        y.into_iter().chain(statistics).take(n_outputs).collect()
    })
    .input(2, b)
    .outputs(n_outputs)
    .maybe("axis", is_written.then_some(Attr::Int(written)))
    .maybe("epsilon", epsilon_written)
    .maybe("stash_type", stash_type.map(Attr::Int))
}

/// Of `x + skip + bias`, which is the last output.
fn skip(draw: &mut Draw, dtype: DType, is_centered: bool) -> Sample {
    let shape = draw.shape(1);
    let row = &shape[shape.len() - 1..];
    let x = draw.small(dtype, &shape);
    let of_skip = draw.operand(&shape);
    let [skip, gamma] = [draw.small(dtype, &of_skip), draw.small(dtype, row)];
    let [beta, bias] = [is_centered, true]
        .map(|may_be| (may_be && draw.one_in(2)).then(|| draw.small(dtype, row)));
    let (epsilon, written) = epsilon(draw, 1e-12);
    let n_outputs = draw.pick(&[1, 4]);
    let form = Form { axis: shape.len() - 1, epsilon, is_centered };
    let sample = Sample::new(&[&x.clone(), &skip.clone(), &gamma.clone()], {
        let (beta, bias) = (beta.clone(), bias.clone());
        move || {
            let (x, skip, bias) = (Array::of(&x), Array::of(&skip), bias.as_ref().map(Array::of));
            let sum = Array::from_fn(&x.shape, |i| {
                let bias = bias.as_ref().map_or(0.0, |bias| bias.at_broadcast(i).float());
                Cell::Float(x.at(i).float() + skip.at_broadcast(i).float() + bias)
            });
            let y =
                Expected::rounded(dtype, form.normalized(&sum, &gamma, beta.as_ref()), CANCELLED);
            let statistics = form.statistics(&sum);
            let statistics =
                statistics.into_iter().flat_map(|s| Expected::rounded(DType::F32, s, CANCELLED));
            let all = y.into_iter().chain(statistics).chain(Expected::exact(dtype, sum));
            all.take(n_outputs).collect()
        }
    });
    let sample =
        if is_centered { sample.input(3, beta).input(4, bias) } else { sample.input(3, bias) };
    sample.outputs(n_outputs).maybe("epsilon", written)
}

/// Of the sum of rows of three tables, the segments' being optional; positions count up by default.
/// Ids may count from the back.
fn embed(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, length, hidden] = [draw.dim(), draw.dim(), draw.dim()];
    let ids = [batch, length];
    let table = |draw: &mut Draw, n: usize| draw.small(dtype, &[n, hidden]);
    let [word, position] = [table(draw, 5), table(draw, length.max(3))];
    let segment = draw.one_in(2).then(|| table(draw, 2));
    let [gamma, beta] = [0, 1].map(|_| draw.small(dtype, &[hidden]));
    let words = draw.positions(&ids, 5, true).to_tensor(DType::I32);
    let segments = segment.is_some().then(|| draw.positions(&ids, 2, true).to_tensor(DType::I32));
    let of_positions = [draw.pick(&[1, batch]), length];
    let positions = draw.one_in(2).then(|| below(draw, &of_positions, 3));
    let mask = draw.one_in(2).then(|| below(draw, &ids, 2));
    let (epsilon, written) = epsilon(draw, 1e-12);
    let n_outputs = draw.pick(&[2, 3]);
    let inputs = [
        Some(words),
        segments,
        Some(word),
        Some(position),
        segment,
        Some(gamma),
        Some(beta),
        mask,
        positions,
    ];
    let operands = inputs.clone();
    let sample = Sample::new(&[], move || {
        let arrays = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| operands[i].as_ref().map(Array::of));
        let sum = Array::from_fn(&[batch, length, hidden], |i| {
            let row = |ids: usize, table: usize| {
                let default = if table == 3 { i[1] } else { 0 };
                arrays[table].as_ref().map_or(0.0, |table| {
                    let n = table.shape[0];
                    let ids = arrays[ids].as_ref();
                    let id = ids.map_or(default, |ids| from_front(ids.at_broadcast(&i[..2]), n));
                    table.at(&[id, i[2]]).float()
                })
            };
            Cell::Float(row(0, 2) + row(8, 3) + row(1, 4))
        });
        let form = Form { axis: 2, epsilon, is_centered: true };
        let y = form.normalized(&sum, operands[5].as_ref().unwrap(), operands[6].as_ref());
        let counts = Array::from_fn(&[batch], |i| {
            let is_one =
                |j: &usize| arrays[7].as_ref().is_some_and(|mask| mask.at(&[i[0], *j]).int() == 1);
            Cell::Int((0..length).filter(is_one).count().try_into().unwrap())
        });
        [
            Expected::rounded(dtype, y, CANCELLED),
            Expected::exact(DType::I32, counts),
            Expected::exact(dtype, sum),
        ]
        .into_iter()
        .flatten()
        .take(n_outputs)
        .collect()
    });
    let sample = inputs.into_iter().enumerate().fold(sample, |sample, (i, x)| sample.input(i, x));
    sample.outputs(n_outputs).maybe("epsilon", written)
}

/// Numbers from 0 up, below `n`.
fn below(draw: &mut Draw, shape: &[usize], n: usize) -> Tensor {
    let number = |_: &[usize]| Cell::Int(draw.below(n).try_into().unwrap());
    Array::from_fn(shape, number).to_tensor(DType::I32)
}

/// The index of one of `n` rows, which may count from the back, normalized.
fn from_front(index: &Cell, n: usize) -> usize {
    let n = i128::try_from(n).unwrap();
    usize::try_from(index.int().rem_euclid(n)).unwrap()
}
