//! 6 positions by 4 output blocks of 16: 24 accumulators, 4 registers of filters, one broadcast.

use super::{Line, Variant};
use crate::Avx512;
use crate::isa::x86::{load16, store16};
use std::arch::x86_64::{
    _mm512_add_ps, _mm512_fmadd_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps,
    _mm512_setzero_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_6x4", block: LANES, filters: 4 };
const LANES: usize = 16;
const POSITIONS: usize = 6;

pub(super) fn dense(token: Avx512, line: &Line<'_>, y: &mut [&mut [f32]]) {
    line.each_tile(POSITIONS, |first, len| {
        super::by_size!((len, y.len()): [1 2 3 4 5 6] => tile(token, line, first, y));
    });
}

kernel! {
    /// `R` positions from `first` on, by `F` output blocks.
    Avx512 => fn tile<const R: usize, const F: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
    ) {
        let mut sums = [[_mm512_setzero_ps(); F]; R];
        let start = line.merge.start;
        let places = line.places::<R>(first);
        for f in 0..F {
            let y = &y[f].as_chunks::<LANES>().0[places.clone()];
            let bias = start.bias.map_or(_mm512_setzero_ps(), |bias| load16(&bias[f * LANES..]));
            for r in 0..R {
                sums[r][f] = if start.is_sum { _mm512_add_ps(load16(&y[r]), bias) } else { bias };
            }
        }
        for (mut x, mut w) in line.runs::<R, F, LANES>(first) {
            // One length for all, so that indices below it need no check.
            let depth = w[0].len();
            x.iter_mut().for_each(|x| *x = &x[..depth]);
            w.iter_mut().for_each(|w| *w = &w[..depth]);
            for k in 0..depth {
                let mut lanes = [_mm512_setzero_ps(); F];
                for f in 0..F {
                    lanes[f] = load16(&w[f][k]);
                }
                for r in 0..R {
                    let x = _mm512_set1_ps(x[r][k]);
                    for f in 0..F {
                        sums[r][f] = _mm512_fmadd_ps(x, lanes[f], sums[r][f]);
                    }
                }
            }
        }
        let (min, max) = (_mm512_set1_ps(line.merge.min), _mm512_set1_ps(line.merge.max));
        for f in 0..F {
            let y = &mut y[f].as_chunks_mut::<LANES>().0[places.clone()];
            for r in 0..R {
                // Both return their second operand when either is NaN, so NaN passes through.
                store16(&mut y[r], _mm512_min_ps(max, _mm512_max_ps(min, sums[r][f])));
            }
        }
    }
}
