//! 6 positions by 4 output blocks of 16: 24 accumulators, 4 registers of filters, one broadcast.

use super::line::MAX_WINDOW;
use super::{Form, Line, Variant};
use crate::Avx512;
use crate::isa::x86::{load16, store16};
use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_max_ps, _mm512_min_ps, _mm512_set1_ps,
    _mm512_setzero_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_6x4", block: LANES, filters: 4 };
const LANES: usize = 16;
const POSITIONS: usize = 6;
/// Positions of a depthwise tile.
const LANE_POSITIONS: usize = 8;

pub(super) fn line(token: Avx512, line: &Line<'_>, y: &mut [&mut [f32]]) {
    match line.form {
        Form::Blocks => line.each_tile(POSITIONS, |first, len| {
            by_size!((len, y.len()): [1 2 3 4 5 6] x [1 2 3 4], usize::from(line.is_pointwise()) => [0 1]
                blocks(token, line, first, y));
        }),
        Form::Planes => line.each_tile(POSITIONS, |first, len| {
            by_size!((len, y.len()): [1 2 3 4 5 6] x [1 2 3 4], line.step(first, len) => [0 1 2]
                planes(token, line, first, y));
        }),
        Form::Depthwise => {
            let (window, padded) = (line.window(), &mut [[0.0; LANES]; MAX_WINDOW]);
            line.each_tile(LANE_POSITIONS, |first, len| {
                if window == 0 {
                    by_size!((len, y.len()): [1 2 3 4 5 6 7 8] x [1], 0 => [0]
                        depthwise(token, line, first, y));
                } else {
                    by_size!((len, y.len()): [1 2 3 4 5 6 7 8] x [1], window => [31 32 51 52]
                        windows(token, line, first, y, padded));
                }
            });
        }
    }
}

kernel! {
    /// `R` positions from `first` on, by `F` output blocks. `POINTWISE`: filters are one tap.
    Avx512 => fn blocks<const R: usize, const F: usize, const POINTWISE: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
    ) {
        let mut sums = start::<R, F>(line, first, y);
        // Loops of one step vanish.
        let (taps_y, n_taps) = if POINTWISE == 1 { (0..1, 1) } else { (line.taps_y(), line.n_taps()) };
        for input in 0..line.inputs {
            for tap_y in taps_y.clone() {
                let row = line.row::<LANES>(input, tap_y);
                for tap in 0..n_taps {
                    let x = line.pixels::<LANES, R, 0>(row, first, tap);
                    let w = line.tap::<LANES, LANES, F>(input, tap_y, tap);
                    for k in 0..LANES {
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
            }
        }
        store(line, first, &sums, y);
    }
}

kernel! {
    /// `R` positions from `first` on, by `F` output blocks; `S` is the step.
    Avx512 => fn planes<const R: usize, const F: usize, const S: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
    ) {
        let mut sums = start::<R, F>(line, first, y);
        let taps_y = line.taps_y();
        for input in 0..line.inputs {
            for tap_y in taps_y.clone() {
                let row = line.row::<1>(input, tap_y);
                let w = line.taps::<LANES, 1, F>(input, tap_y, line.n_taps());
                for tap in 0..line.n_taps() {
                    let x = line.pixels::<1, R, S>(row, first, tap);
                    for r in 0..R {
                        for f in 0..F {
                            let x = _mm512_set1_ps(x[r][0]);
                            sums[r][f] = _mm512_fmadd_ps(x, load16(&w[f][tap][0]), sums[r][f]);
                        }
                    }
                }
            }
        }
        store(line, first, &sums, y);
    }
}

kernel! {
    /// `R` positions from `first` on, of `F` = 1 blocks, for any filter; `S` is the step.
    Avx512 => fn depthwise<const R: usize, const F: usize, const S: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
    ) {
        let mut sums = start::<R, F>(line, first, y);
        for tap_y in line.taps_y() {
            let row = line.row::<LANES>(0, tap_y);
            let [w] = line.taps::<LANES, 1, 1>(0, tap_y, line.n_taps());
            for tap in 0..line.n_taps() {
                let x = line.pixels::<LANES, R, S>(row, first, tap);
                let w = load16(&w[tap][0]);
                for r in 0..R {
                    sums[r][0] = _mm512_fmadd_ps(load16(x[r]), w, sums[r][0]);
                }
            }
        }
        store(line, first, &sums, y);
    }
}

kernel! {
    /// `R` positions from `first` on, of `F` = 1 blocks, for filters `WINDOW / 10` wide and of
    /// stride `WINDOW % 10`: a pixel that several outputs read is loaded once.
    Avx512 => fn windows<const R: usize, const F: usize, const WINDOW: usize>(
        line: &Line<'_>,
        first: usize,
        y: &mut [&mut [f32]],
        padded: &mut [[f32; LANES]; MAX_WINDOW],
    ) {
        let (n_taps, stride) = (WINDOW / 10, WINDOW % 10);
        let mut sums = start::<R, F>(line, first, y);
        for tap_y in line.taps_y() {
            let row = line.row::<LANES>(0, tap_y);
            let [w] = line.taps::<LANES, 1, 1>(0, tap_y, n_taps);
            // A length the compiler knows, so that indices below it need no check.
            let len = (R - 1) * stride + n_taps;
            let x = &line.adjacent(row, first, len, padded)[..len];
            for tap in 0..n_taps {
                let w = load16(&w[tap][0]);
                for r in 0..R {
                    sums[r][0] = _mm512_fmadd_ps(load16(&x[r * stride + tap]), w, sums[r][0]);
                }
            }
        }
        store(line, first, &sums, y);
    }
}

features! { Avx512 enabled
    /// What the sums of a tile start from.
    #[inline]
    fn start<const R: usize, const F: usize>(
        line: &Line<'_>,
        first: usize,
        y: &[&mut [f32]],
    ) -> [[__m512; F]; R] {
        let mut sums = [[_mm512_setzero_ps(); F]; R];
        let start = line.merge.start;
        for f in 0..F {
            let y = &y[f].as_chunks::<LANES>().0[line.places::<R>(first)];
            let bias = start.bias.map_or(_mm512_setzero_ps(), |bias| load16(&bias[f * LANES..]));
            for r in 0..R {
                sums[r][f] = if start.is_sum { _mm512_add_ps(load16(&y[r]), bias) } else { bias };
            }
        }
        sums
    }
}

features! { Avx512 enabled
    /// Stores the sums of a tile, clamped.
    #[inline]
    fn store<const R: usize, const F: usize>(
        line: &Line<'_>,
        first: usize,
        sums: &[[__m512; F]; R],
        y: &mut [&mut [f32]],
    ) {
        let (min, max) = (_mm512_set1_ps(line.merge.min), _mm512_set1_ps(line.merge.max));
        for f in 0..F {
            let y = &mut y[f].as_chunks_mut::<LANES>().0[line.places::<R>(first)];
            for r in 0..R {
                // Both return their second operand when either is NaN, so NaN passes through.
                store16(&mut y[r], _mm512_min_ps(max, _mm512_max_ps(min, sums[r][f])));
            }
        }
    }
}
