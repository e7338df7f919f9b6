//! 6 positions by 2 output blocks of 8: 12 accumulators, 2 registers of filters, one broadcast.

use super::line::MAX_WINDOW;
use super::{Line, Variant};
use crate::Avx2;
use crate::isa::x86::{load8, store8};
use std::arch::x86_64::{
    __m256, _mm256_add_ps, _mm256_fmadd_ps, _mm256_max_ps, _mm256_min_ps, _mm256_set1_ps,
    _mm256_setzero_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_6x2", block: LANES, filters: 2 };
const LANES: usize = 8;
const LANE_POSITIONS: usize = 8;
const POSITIONS: usize = 6;

pub(super) fn line(token: Avx2, line: &Line<'_>, y: &mut [&mut [f32]]) {
    if line.is_depthwise() {
        let padded = &mut [[0.0; LANES]; MAX_WINDOW];
        return line
            .each_tile(LANE_POSITIONS, |first, len| lanes(token, line, (first, len), (y, padded)));
    }
    line.each_tile(POSITIONS, |first, len| {
        super::by_size!((len, y.len()): [1 2 3 4 5 6] x [1 2] => dense(token, line, first, y));
    });
}

fn lanes(
    token: Avx2,
    line: &Line<'_>,
    (first, len): (usize, usize),
    (y, padded): (&mut [&mut [f32]], &mut [[f32; LANES]; MAX_WINDOW]),
) {
    let width = &line.axes[1];
    match (width.kernel, width.stride, width.dilation) {
        (3, 1, 1) => {
            super::by_len!(len, [1 2 3 4 5 6 7 8] => windows[3, 1](token, line, first, y, padded))
        }
        (3, 2, 1) => {
            super::by_len!(len, [1 2 3 4 5 6 7 8] => windows[3, 2](token, line, first, y, padded))
        }
        (5, 1, 1) => {
            super::by_len!(len, [1 2 3 4 5 6 7 8] => windows[5, 1](token, line, first, y, padded))
        }
        (5, 2, 1) => {
            super::by_len!(len, [1 2 3 4 5 6 7 8] => windows[5, 2](token, line, first, y, padded))
        }
        _ => super::by_len!(len, [1 2 3 4 5 6 7 8] => depthwise[](token, line, first, y)),
    }
}

kernel! {
    /// `R` positions from `first` on, by `F` output blocks.
    Avx2 => fn dense<const R: usize, const F: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
    ) {
        let mut sums = start::<R, F>(line, first, y);
        for (mut x, mut w) in line.runs::<R, F, LANES>(first) {
            // One length for all, so that indices below it need no check.
            let depth = w[0].len();
            x.iter_mut().for_each(|x| *x = &x[..depth]);
            w.iter_mut().for_each(|w| *w = &w[..depth]);
            for k in 0..depth {
                let mut lanes = [_mm256_setzero_ps(); F];
                for f in 0..F {
                    lanes[f] = load8(&w[f][k]);
                }
                for r in 0..R {
                    let x = _mm256_set1_ps(x[r][k]);
                    for f in 0..F {
                        sums[r][f] = _mm256_fmadd_ps(x, lanes[f], sums[r][f]);
                    }
                }
            }
        }
        store(line, first, &sums, y);
    }
}

kernel! {
    /// `R` positions from `first` on, of one block.
    Avx2 => fn depthwise<const R: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
    ) {
        let mut sums = start::<R, 1>(line, first, y);
        for (x, [w]) in line.runs::<R, 1, LANES>(first) {
            let mut blocks: [&[[f32; LANES]]; R] = [&[]; R];
            for r in 0..R {
                blocks[r] = &x[r].as_chunks().0[..w.len()];
            }
            for k in 0..w.len() {
                let w = load8(&w[k]);
                for r in 0..R {
                    sums[r][0] = _mm256_fmadd_ps(load8(&blocks[r][k]), w, sums[r][0]);
                }
            }
        }
        store(line, first, &sums, y);
    }
}

kernel! {
    /// `R` positions from `first` on, of one block, for windows `K` wide and `S` apart.
    Avx2 => fn windows<const R: usize, const K: usize, const S: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
        padded: &mut [[f32; LANES]; MAX_WINDOW],
    ) {
        let mut sums = start::<R, 1>(line, first, y);
        for (row, w) in line.rows::<K, LANES>() {
            let x = line.window(row, first, (R - 1) * S + K, padded);
            // A length the compiler knows, so that indices below it need no check.
            let x = &x[..(R - 1) * S + K];
            for k in 0..K {
                let w = load8(&w[k]);
                for r in 0..R {
                    sums[r][0] = _mm256_fmadd_ps(load8(&x[r * S + k]), w, sums[r][0]);
                }
            }
        }
        store(line, first, &sums, y);
    }
}

features! { Avx2 enabled
    #[inline]
    fn start<const R: usize, const F: usize>(
        line: &Line<'_>,
        first: usize,
        y: &[&mut [f32]],
    ) -> [[__m256; F]; R] {
        let mut sums = [[_mm256_setzero_ps(); F]; R];
        let start = line.merge.start;
        for f in 0..F {
            let y = &y[f].as_chunks::<LANES>().0[line.places::<R>(first)];
            let bias = start.bias.map_or(_mm256_setzero_ps(), |bias| load8(&bias[f * LANES..]));
            for r in 0..R {
                sums[r][f] = if start.is_sum { _mm256_add_ps(load8(&y[r]), bias) } else { bias };
            }
        }
        sums
    }
}

features! { Avx2 enabled
    #[inline]
    fn store<const R: usize, const F: usize>(
        line: &Line<'_>,
        first: usize,
        sums: &[[__m256; F]; R],
        y: &mut [&mut [f32]],
    ) {
        let (min, max) = (_mm256_set1_ps(line.merge.min), _mm256_set1_ps(line.merge.max));
        for f in 0..F {
            let y = &mut y[f].as_chunks_mut::<LANES>().0[line.places::<R>(first)];
            for r in 0..R {
                // Both return their second operand when either is NaN, so NaN passes through.
                store8(&mut y[r], _mm256_min_ps(max, _mm256_max_ps(min, sums[r][f])));
            }
        }
    }
}
