//! Global pooling of a plane to one pixel.

use super::lanes;
use crate::conv_f32::{Fold, Max, Sum};

/// Pixels folded at the same time.
const WAYS: usize = 4;
/// Pixels whose fold is one term of the total: sums have an error of at most `γ(n/256 + 67)·Σ|x|`.
const CHUNK: usize = 256;

per_isa! {
    /// `y[l] = max_p x[p·block + l]`, NaN if any is; −∞ without pixels.
    ///
    /// `x: [n][block]`, `y: [block]`.
    pub fn global_max<FMA>(x: &[f32], y: &mut [f32]) {
        by_lanes!(y.len() => fold_plane::<_, Max>(&Max, x, y));
    }

    /// `y[l] = Σ_p x[p·block + l]`; 0 without pixels.
    ///
    /// `x: [n][block]`, `y: [block]`. Error: at most `γ(n/256 + 67)·Σ|x|`.
    pub fn global_sum<FMA>(x: &[f32], y: &mut [f32]) {
        by_lanes!(y.len() => fold_plane::<_, Sum>(&Sum, x, y));
    }
}

#[inline(always)]
fn fold_plane<const L: usize, F: Fold>(fold: &F, x: &[f32], y: &mut [f32]) {
    let block = y.len();
    for lane in (0..block).step_by(L) {
        let mut whole = [fold.start(); L];
        for chunk in x.chunks(CHUNK * block) {
            let chunk = fold_chunk::<L, F>(fold, chunk, block, lane);
            whole = joined::<L, F>(whole, chunk);
        }
        y[lane..lane + L].copy_from_slice(&whole);
    }
}

/// The fold of `L` lanes of all pixels.
#[inline(always)]
fn fold_chunk<const L: usize, F: Fold>(fold: &F, x: &[f32], block: usize, lane: usize) -> [f32; L] {
    let mut ways = [[fold.start(); L]; WAYS];
    let groups = x.chunks_exact(WAYS * block);
    let rest = groups.remainder();
    for group in groups {
        for (way, sums) in ways.iter_mut().enumerate() {
            *sums = joined::<L, F>(*sums, lanes(group, way * block + lane));
        }
    }
    for (sums, pixel) in ways.iter_mut().zip(rest.chunks_exact(block)) {
        *sums = joined::<L, F>(*sums, lanes(pixel, lane));
    }
    let [a, b, c, d] = ways;
    joined::<L, F>(joined::<L, F>(a, b), joined::<L, F>(c, d))
}

#[inline(always)]
fn joined<const L: usize, F: Fold>(mut a: [f32; L], b: [f32; L]) -> [f32; L] {
    for i in 0..L {
        a[i] = F::step::<false>(a[i], b[i], 1.0);
    }
    a
}
