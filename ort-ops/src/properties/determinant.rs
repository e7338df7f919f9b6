//! Det, within the error of elimination.

use ort_tensor::DType;

use super::{Array, Cell, Draw, Expected, Property, Sample, ulp};

pub(super) const PROPERTIES: &[Property] = &[Property::onnx("Det", &[11, 22], det)];

/// Σ over all ways to take one element of each row and column, by the first row.
fn determinant(rows: &[usize], columns: &[usize], at: &dyn Fn(usize, usize) -> f64) -> f64 {
    let Some((&row, rest)) = rows.split_first() else { return 1.0 };
    let minor = |k: usize| {
        let others = [&columns[..k], &columns[k + 1..]].concat();
        let sign = if k.is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * at(row, columns[k]) * determinant(rest, &others, at)
    };
    (0..columns.len()).map(minor).sum()
}

/// Whole numbers have a whole determinant. Elimination is off by the roundings of less than 4³
/// steps, each of terms that are at most 4!·4⁴.
fn det(draw: &mut Draw, dtype: DType) -> Sample {
    let mut shape = draw.shape(1);
    shape.truncate(5);
    let n = shape[shape.len() - 1].min(4);
    let batch = shape[..shape.len() - 1].to_vec();
    let x = draw.small(dtype, &[&batch[..], &[n, n]].concat());
    Sample::new(&[&x.clone()], move || {
        let x = Array::of(&x);
        let all: Vec<_> = (0..n).collect();
        let y = Array::from_fn(&batch, |i| {
            let at = |row, column| x.at(&[i, &[row, column]].concat()).float();
            Cell::Float(determinant(&all, &all, &at))
        });
        let is_near = move |(found, y): (&Cell, &Cell)| {
            let (found, y) = (found.float(), y.float());
            let bound = 64.0 * 6144.0 * f64::EPSILON + ulp(dtype, y.abs()).unwrap();
            (found - y).abs() <= bound
        };
        let shape = batch.clone();
        let holds = Box::new(move |found: &Array| found.cells.iter().zip(&y.cells).all(is_near));
        vec![Expected::Such { dtype, shape, holds }]
    })
}
