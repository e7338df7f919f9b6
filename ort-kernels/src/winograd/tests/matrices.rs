//! The matrices of the transforms, computed from their definition.

use super::super::TILE;
use super::super::points::{eight, five, six};

/// A matrix.
pub(super) type Rows = Vec<Vec<f64>>;

/// `l·|m|·rᵀ`.
pub(super) fn along_both(l: &Rows, m: &Rows, r: &Rows) -> Rows {
    let sum = |row: &[f64], other: &[f64]| -> f64 {
        (0..m.len())
            .map(|i| row[i] * (0..other.len()).map(|j| other[j] * m[i][j].abs()).sum::<f64>())
            .sum()
    };
    l.iter().map(|row| r.iter().map(|other| sum(row, other)).collect()).collect()
}

/// |Aᵀ|, |G| and |Bᵀ| for an axis with this many taps: those of Toom and Cook for the points of the
/// contract. Their rows correspond to outputs, points and points.
pub(super) fn matrices(taps: usize) -> (Rows, Rows, Rows) {
    let positive: &[f32] = match taps {
        2 => &five::POINTS[..1],
        1 => return (vec![vec![1.0]], vec![vec![1.0]], vec![vec![1.0]]),
        3 => &six::POINTS,
        _ => &eight::POINTS,
    };
    let signed = positive.iter().flat_map(|&a| [f64::from(a), -f64::from(a)]);
    let single = (taps == 2).then_some(f64::from(five::POINTS[1]));
    let finite: Vec<f64> = std::iter::once(0.0).chain(signed).chain(single).collect();
    let points: Vec<Option<f64>> = finite.iter().copied().map(Some).chain([None]).collect();
    let others = |i: usize| finite.iter().copied().enumerate().filter(move |&(j, _)| j != i);
    let columns: Rows = points.iter().map(|&point| powers(point, TILE)).collect();
    let at =
        (0..TILE).map(|output| columns.iter().map(|column| column[output]).collect()).collect();
    let g = points.iter().enumerate().map(|(i, &point)| {
        let at_others = |p: f64| others(i).map(|(_, q)| (p - q).abs()).product::<f64>();
        let scale = point.map_or(1.0, at_others);
        powers(point, taps).iter().map(|power| power / scale).collect()
    });
    let bt = (0..points.len()).map(|i| polynomial(others(i).map(|(_, q)| q), points.len()));
    (at, g.collect(), bt.collect())
}

/// The absolute values of the first `n` powers of a point, starting at 1; for infinity, only the last is 1.
fn powers(point: Option<f64>, n: usize) -> Vec<f64> {
    match point {
        Some(p) => {
            std::iter::successors(Some(1.0), |power| Some(power * p.abs())).take(n).collect()
        }
        None => (1..=n).map(|i| if i == n { 1.0 } else { 0.0 }).collect(),
    }
}

/// The absolute values of the first coefficients of the product of all `x − q`, starting with the constant.
fn polynomial(zeros: impl Iterator<Item = f64>, n: usize) -> Vec<f64> {
    let mut coefficients = vec![0.0; n];
    coefficients[0] = 1.0;
    for q in zeros {
        for i in (0..n).rev() {
            let below = if i == 0 { 0.0 } else { coefficients[i - 1] };
            coefficients[i] = below - q * coefficients[i];
        }
    }
    coefficients.into_iter().map(f64::abs).collect()
}
