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
    match out.len() {
        32.. => {
            let mut at = 0;
            while at + 64 <= out.len() {
                fold_strip::<64, F>(fold, rows, finish, (at, out));
                at += 64;
            }
            // The last strip may recompute some elements of the one before.
            while at < out.len() {
                fold_strip::<16, F>(fold, rows, finish, (at.min(out.len() - 16), out));
                at += 16;
            }
        }
        16.. => fold_ends::<16, F>(fold, rows, finish, out),
        8.. => fold_ends::<8, F>(fold, rows, finish, out),
        4.. => fold_ends::<4, F>(fold, rows, finish, out),
        n => (0..n).for_each(|at| fold_strip::<1, F>(fold, rows, finish, (at, out))),
    }
}

/// [`fold_rows`] for `L` to `2·L` elements.
#[inline(always)]
fn fold_ends<const L: usize, F: Fold>(
    fold: &F,
    rows: Layers<'_, impl Fn(usize, usize) -> usize + Copy>,
    finish: impl Finish,
    out: &mut [f32],
) {
    fold_strip::<L, F>(fold, rows, finish, (0, out));
    if out.len() > L {
        fold_strip::<L, F>(fold, rows, finish, (out.len() - L, out));
    }
}

/// [`fold_rows`] for the `L` elements starting at `at`, which stay in registers.
#[inline(always)]
fn fold_strip<const L: usize, F: Fold>(
    fold: &F,
    rows: Layers<'_, impl Fn(usize, usize) -> usize>,
    finish: impl Finish,
    (at, out): (usize, &mut [f32]),
) {
    let mut folds = [fold.start(); L];
    for layer in 0..rows.n_layers {
        for row in 0..rows.n_rows {
            let x = &rows.x[(rows.start)(layer, row) + at..][..L];
            for i in 0..L {
                folds[i] = F::step::<false>(folds[i], x[i], 1.0);
            }
        }
    }
    finish.apply(at, &mut folds);
    out[at..at + L].copy_from_slice(&folds);
}
