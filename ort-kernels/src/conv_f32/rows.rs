//! Element-wise folds of several rows: shared by poolings of planes and of
//! pixels.

use super::Fold;

/// Rows of `x`, layer by layer: row `j` of layer `i` starts at `start(i, j)`.
#[derive(Clone, Copy)]
pub(crate) struct Layers<'a, S> {
    pub x: &'a [f32],
    pub n_layers: usize,
    /// Rows per layer.
    pub n_rows: usize,
    pub start: S,
}

/// The operation applied to the folds of a row.
pub(crate) trait Finish: Copy {
    /// Applies it to the folds of the elements starting at `at`.
    fn apply<const L: usize>(self, at: usize, folds: &mut [f32; L]);
}

/// Does nothing.
impl Finish for () {
    #[inline(always)]
    fn apply<const L: usize>(self, _: usize, _: &mut [f32; L]) {}
}

/// `out[i]`: the fold of element `i` of every row, in order, finished by `finish`.
///
/// # Panics
/// If a row is shorter than `out`.
#[inline(always)]
pub(crate) fn fold_rows<F: Fold>(
    fold: &F,
    rows: Layers<'_, impl Fn(usize, usize) -> usize + Copy>,
    finish: impl Finish,
    out: &mut [f32],
) {
    let n = out.len();
    match n {
        16.. => {
            // The last strip may recompute some elements of the one before.
            let long = n / 64 * 64;
            fold_strips::<64, F>(fold, rows, finish, 0, &mut out[..long]);
            let from = long.min(n - 16);
            fold_strips::<16, F>(fold, rows, finish, from, &mut out[from..]);
        }
        8.. => fold_strips::<8, F>(fold, rows, finish, 0, out),
        4.. => fold_strips::<4, F>(fold, rows, finish, 0, out),
        _ => fold_strips::<1, F>(fold, rows, finish, 0, out),
    }
}

/// [`fold_rows`] starting at element `from`, `L` elements at a time, which stay in registers; the
/// last strip ends where `out` does. Does nothing if there are fewer than `L`.
#[inline(always)]
fn fold_strips<const L: usize, F: Fold>(
    fold: &F,
    rows: Layers<'_, impl Fn(usize, usize) -> usize>,
    finish: impl Finish,
    from: usize,
    out: &mut [f32],
) {
    let Some(last) = out.len().checked_sub(L) else { return };
    for i in 0..out.len().div_ceil(L) {
        let at = (i * L).min(last);
        let mut sums = [fold.start(); L];
        for layer in 0..rows.n_layers {
            for row in 0..rows.n_rows {
                let x = &rows.x[(rows.start)(layer, row) + from + at..][..L];
                for i in 0..L {
                    sums[i] = F::step::<false>(sums[i], x[i], 1.0);
                }
            }
        }
        finish.apply(from + at, &mut sums);
        out[at..at + L].copy_from_slice(&sums);
    }
}
