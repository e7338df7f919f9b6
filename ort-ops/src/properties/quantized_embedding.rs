//! The norm of sums of quantized embeddings.

use ort_graph::Attr;
use ort_tensor::{DType, Tensor};

use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] =
    &[Property::microsoft("QEmbedLayerNormalization", embed)];

/// Words, positions and segments, then the parameters of the norm.
const N_TABLES: usize = 5;

/// The dequantized values, in single precision.
fn numbers(quantized: &Tensor, scale: &Tensor, zero_point: &Tensor) -> Array {
    let [scale, zero_point] = [scale, zero_point].map(|x| Array::of(x).cells[0].float());
    let number = |q: &Cell| Cell::Float((q.float() - zero_point) * scale);
    Array::of(quantized).map(|q| number(q).rounded(DType::F32))
}

fn embed(draw: &mut Draw, dtype: DType) -> Sample {
    let [batch, len, hidden] = [draw.dim(), draw.dim(), draw.dim()];
    let rows = [draw.some_dim(), len + draw.below(2), draw.some_dim()];
    let [words, segments] = [0, 2].map(|i| draw.positions(&[batch, len], rows[i], false));
    let has_segments = draw.one_in(2);
    let mask = draw.positions(&[batch, len], 3, false);
    let mask = draw.one_in(2).then_some(mask);
    let [words_rows, positions, kinds] = rows.map(|n| vec![n, hidden]);
    let shapes = [words_rows, positions, kinds, vec![hidden], vec![hidden]];
    let quantized = shapes.map(|shape| draw.any(dtype, &shape));
    let scales = [(); N_TABLES].map(|()| draw.real(DType::F32, &[], 0.0625));
    let zero_points = [(); N_TABLES].map(|()| draw.any(dtype, &[]));
    let epsilon = draw.pick(&[None, Some(0.5)]);
    let is_there = |i: usize| i != 2 || has_segments;
    let given = |tensors: &[Tensor; N_TABLES]| -> Vec<Option<Tensor>> {
        let tensors = tensors.iter().enumerate();
        tensors.map(|(i, tensor)| is_there(i).then(|| tensor.clone())).collect()
    };
    let ids = |ids: &Array| Some(ids.to_tensor(DType::I32));
    let first = vec![ids(&words), ids(&segments).filter(|_| has_segments)];
    let mask_operand = vec![mask.as_ref().and_then(ids)];
    let operands = [first, given(&quantized), mask_operand, given(&scales), given(&zero_points)];
    let n = draw.pick(&[1, 2]);
    Sample::of(operands.concat(), move || {
        let table = |i: usize| numbers(&quantized[i], &scales[i], &zero_points[i]);
        let [word, position, segment, gamma, beta] = [0, 1, 2, 3, 4].map(table);
        let sums = Array::from_fn(&[batch, len, hidden], |at| {
            let row = |ids: &Array, i: usize| ids.index_at(&at[..2], rows[i]);
            let word = word.at(&[row(&words, 0), at[2]]).float();
            let position = position.at(&at[1..]).float();
            let segment = match has_segments {
                true => segment.at(&[row(&segments, 2), at[2]]).float(),
                false => 0.0,
            };
            Cell::Float(word + position + segment)
        });
        let y = sums.regrouped(&[2], |row| {
            let mean = row.iter().map(|x| x.float()).sum::<f64>() / row.len() as f64;
            let square = |x: &&Cell| (x.float() - mean).powi(2);
            let variance = row.iter().map(square).sum::<f64>() / row.len() as f64;
            let root = (variance + f64::from(epsilon.unwrap_or(1e-12))).sqrt();
            let normed = row.iter().map(|x| (x.float() - mean) / root);
            let scaled = normed.zip(gamma.cells.iter().zip(&beta.cells));
            scaled.map(|(x, (gamma, beta))| Cell::Float(x * gamma.float() + beta.float())).collect()
        });
        let counts = Array::from_fn(&[batch], |at| {
            let is_one = |step: &usize| mask.as_ref().unwrap().at(&[at[0], *step]).int() == 1;
            let count = if mask.is_some() { (0..len).filter(is_one).count() } else { 0 };
            Cell::Int(i128::try_from(count).unwrap())
        });
        let mut expected = vec![Expected::within(DType::F32, y, 1e-6)];
        expected.extend(Expected::exact(DType::I32, counts));
        expected.truncate(n);
        expected
    })
    .outputs(n)
    .maybe("epsilon", epsilon.map(Attr::Float))
}
