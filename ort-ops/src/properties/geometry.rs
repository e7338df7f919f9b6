//! Matrices and their rows as points.

use ort_graph::Attr;
use ort_tensor::DType;

use super::{Array, Cell, Draw, Expected, Property, Sample};

pub(super) const PROPERTIES: &[Property] = &[
    Property::microsoft("CDist", distances),
    Property::microsoft("Inverse", inverse),
    Property::microsoft("SampleOp", identity),
];

fn distances(draw: &mut Draw, dtype: DType) -> Sample {
    let [m, k, n] = [draw.dim(), draw.dim(), draw.dim()];
    let (a, b) = (draw.small(dtype, &[m, n]), draw.small(dtype, &[k, n]));
    let metric = draw.pick(&[None, Some("sqeuclidean"), Some("euclidean")]);
    let sample = Sample::new(&[&a.clone(), &b.clone()], move || {
        let (a, b) = (Array::of(&a), Array::of(&b));
        let y = Array::from_fn(&[m, k], |at| {
            let term = |i| (a.at(&[at[0], i]).float() - b.at(&[at[1], i]).float()).powi(2);
            let sum: f64 = (0..n).map(term).fold(0.0, |sum, term| sum + term);
            Cell::Float(if metric == Some("euclidean") { sum.sqrt() } else { sum })
        });
        Expected::exact(dtype, y)
    });
    sample.maybe("metric", metric.map(|metric| Attr::String(metric.into())))
}

/// The determinant by expansion along the first row.
fn determinant(a: &[Vec<f64>]) -> f64 {
    let Some((first, rest)) = a.split_first() else { return 1.0 };
    let term = |(j, x): (usize, &f64)| {
        let minor: Vec<_> = rest.iter().map(|row| without(row, j)).collect();
        if j % 2 == 0 { x * determinant(&minor) } else { -x * determinant(&minor) }
    };
    first.iter().enumerate().map(term).sum()
}

fn without<T: Clone>(items: &[T], i: usize) -> Vec<T> {
    [&items[..i], &items[i + 1..]].concat()
}

/// Products of triangular matrices of whole numbers with ones on the diagonal, whose determinant is
/// 1, so that the adjugate is the inverse.
fn inverse(draw: &mut Draw, dtype: DType) -> Sample {
    let n = draw.dim();
    let rank = draw.below(4);
    let shape = [&draw.shape_of_rank(rank)[..], &[n, n]].concat();
    if !dtype.is_float() {
        return Sample::new(&[&draw.any(dtype, &shape)], Vec::new);
    }
    let mut triangle = || {
        Array::from_fn(&shape, |at| match at[at.len() - 2..] {
            [i, j] if i == j => Cell::Float(1.0),
            [i, j] if i > j => Cell::Float(draw.pick(&[-1.0, 0.0, 1.0])),
            _ => Cell::Float(0.0),
        })
    };
    let (lower, upper) = (triangle(), triangle());
    let x = Array::from_fn(&shape, |at| {
        let (batch, cell) = at.split_at(rank);
        let term = |k| {
            let a = lower.at(&[batch, &[cell[0], k]].concat()).clone();
            [a, upper.at(&[batch, &[cell[1], k]].concat()).clone()]
        };
        Cell::sum_of_products(dtype, (0..n).map(term))
    });
    Sample::new(&[&x.to_tensor(dtype)], move || {
        let y = Array::from_fn(&shape, |at| {
            let (batch, cell) = at.split_at(rank);
            let row = |i: usize| -> Vec<f64> {
                (0..n).map(|j| x.at(&[batch, &[i, j]].concat()).float()).collect()
            };
            let rows: Vec<_> = (0..n).map(row).collect();
            let minor: Vec<_> =
                without(&rows, cell[1]).iter().map(|row| without(row, cell[0])).collect();
            let sign = if (cell[0] + cell[1]) % 2 == 0 { 1.0 } else { -1.0 };
            Cell::Float(sign * determinant(&minor))
        });
        // Elimination in doubles; the elements of matrix and inverse are small.
        vec![Expected::close(dtype, y, 4096.0 * f64::EPSILON)]
    })
}

fn identity(draw: &mut Draw, dtype: DType) -> Sample {
    let shape = draw.shape(0);
    let x = draw.any(dtype, &shape);
    Sample::new(&[&x.clone()], move || Expected::exact(dtype, Array::of(&x)))
}
