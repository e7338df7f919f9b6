//! Distances between short rows, from differences: rows of the second matrix are transposed to panels, and two rows of the
//! first are compared with a panel at a time. Sums are in f64.

use ort_kernels::Task;
use ort_tensor::{Number, go_on};

/// Rows that are compared with a panel at a time.
const ROWS: usize = 2;
/// Rows of a panel.
const NR: usize = 16;

/// Elements of a panel.
pub(super) const fn panel_len(len: usize) -> usize {
    len.saturating_mul(NR)
}

/// The distances between all rows of `a` and of `b`.
pub(super) struct Distances<'a, T> {
    pub(super) a: &'a [T],
    pub(super) b: &'a [T],
    /// The rows of `b`, and the length of a row.
    pub(super) size: [usize; 2],
    pub(super) is_squared: bool,
    /// `[len][NR]`
    pub(super) panel: &'a mut [f64],
    pub(super) y: &'a mut [T],
}

impl<T: Number> Task for Distances<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, b, size: [k, len], is_squared, panel, y } = self;
        let (panel, _) = panel.as_chunks_mut::<NR>();
        let panel = &mut panel[..len];
        let (m, mut sums) = (y.len() / k, [[0.0; NR]; ROWS]);
        for first in (0..k).step_by(NR) {
            if go_on().is_err() {
                return;
            }
            let n = NR.min(k - first);
            transpose(&b[first * len..][..n * len], panel);
            for i in (0..m).step_by(ROWS) {
                let last = (i + ROWS - 1).min(m - 1);
                let rows = [&a[i * len..][..len], &a[last * len..][..len]];
                if i == last {
                    squares::<T, FMA, 1>(rows, panel, &mut sums);
                } else {
                    squares::<T, FMA, ROWS>(rows, panel, &mut sums);
                }
                for row in i..=last {
                    let y = &mut y[row * k + first..][..n];
                    for (y, sum) in y.iter_mut().zip(&sums[row - i]) {
                        *y = T::from_f64(if is_squared { *sum } else { sum.sqrt() });
                    }
                }
            }
        }
    }
}

/// `panel[i][s] = b[s][i]`; rows beyond the last are the last.
#[inline(always)]
fn transpose<T: Number>(b: &[T], panel: &mut [[f64; NR]]) {
    let len = panel.len();
    for (i, to) in panel.iter_mut().enumerate() {
        let last = b.len() / len - 1;
        for (s, to) in to.iter_mut().enumerate() {
            *to = b[s.min(last) * len + i].to_f64();
        }
    }
}

/// `sums[r][s] = Σ (rows[r][i] − panel[i][s])²` for the first `R` rows, in ascending `i`.
#[inline(always)]
fn squares<T: Number, const FMA: bool, const R: usize>(
    [first, second]: [&[T]; ROWS],
    panel: &[[f64; NR]],
    sums: &mut [[f64; NR]; ROWS],
) {
    let (mut first_sums, mut second_sums) = ([0.0; NR], [0.0; NR]);
    for ((x, other), panel) in first.iter().zip(second).zip(panel) {
        let (x, other) = (x.to_f64(), other.to_f64());
        for s in 0..NR {
            first_sums[s] = step::<FMA>(first_sums[s], x - panel[s]);
            if R > 1 {
                second_sums[s] = step::<FMA>(second_sums[s], other - panel[s]);
            }
        }
    }
    *sums = [first_sums, second_sums];
}

/// `sum + difference²`
#[inline(always)]
fn step<const FMA: bool>(sum: f64, difference: f64) -> f64 {
    if FMA { difference.mul_add(difference, sum) } else { sum + difference * difference }
}
