//! Lines of pixels with windows of five by five, 64 channels at a time: the bytes of the first four rows of a column are
//! interleaved once, and stay in registers for all windows that contain them. The fifth row is interleaved for each
//! window, four columns and the last.

use super::avx512vnni_columns::{bytes, column, interleaved, load_words, quantized, transposed};
use super::pixels::Columns;
use crate::isa::x86::{load_bytes64, store_bytes};
use std::arch::x86_64::{__m512i, _mm512_dpbusd_epi32, _mm512_set1_epi8, _mm512_setzero_si512};

/// Rows and columns per window.
pub(super) const WIDTH: usize = 5;
/// Quads of taps per window: one per column, and those of the fifth row.
const QUADS: usize = WIDTH + 2;
/// Channels per block.
const LANES: usize = super::LANES;

kernel! {
    /// Computes the quantized values of the pixels of a line.
    Avx512Vnni => pub(super) fn run(line: &Columns<'_>, y: &mut [u8]) {
        let (n, axis, zero) = (line.padding.len(), &line.axis, _mm512_setzero_si512());
        let flip = _mm512_set1_epi8(line.flip.cast_signed());
        // Columns that the next window shares.
        let n_shared = if axis.dilation == 1 { WIDTH.saturating_sub(axis.stride) } else { 0 };
        for block in 0..n.div_ceil(LANES) {
            let (own, at_block) = (block * LANES..n.min((block + 1) * LANES), (block, flip));
            let weights = &line.weights[block * LANES * QUADS * 4..][..LANES * QUADS * 4];
            let weights = weights.as_chunks::<64>().0.as_chunks::<4>().0;
            let mut w = [[zero; 4]; QUADS];
            for (w, weights) in w.iter_mut().zip(weights) {
                for r in 0..4 {
                    w[r] = load_bytes64(&weights[r]);
                }
                *w = transposed(*w);
            }
            let start = load_words(bytemuck::cast_slice(&line.start[own.clone()]));
            let factors = load_words(bytemuck::cast_slice(&line.factors[own.clone()]));
            let mut x: [[__m512i; 4]; WIDTH] = [[zero; 4]; WIDTH];
            for (at, y) in line.outputs.clone().zip(y.chunks_exact_mut(n)) {
                let n_there = if at == line.outputs.start { 0 } else { n_shared };
                match n_there {
                    4 => x = [x[1], x[2], x[3], x[4], x[4]],
                    3 => x = [x[2], x[3], x[4], x[3], x[4]],
                    _ => {
                        for (c, x) in x[..3].iter_mut().enumerate() {
                            *x = column(line, axis.at(at, c), at_block);
                        }
                    }
                }
                if n_there < 4 {
                    x[3] = column(line, axis.at(at, 3), at_block);
                }
                x[4] = column(line, axis.at(at, 4), at_block);
                let mut fifth = [zero; WIDTH];
                for (c, fifth) in fifth.iter_mut().enumerate() {
                    *fifth = bytes(line, 4, axis.at(at, c), at_block);
                }
                let fifth = [
                    interleaved([fifth[0], fifth[1], fifth[2], fifth[3]]),
                    interleaved([fifth[4], zero, zero, zero]),
                ];
                let mut sums = start;
                for (x, w) in x.iter().chain(&fifth).zip(&w) {
                    for r in 0..4 {
                        sums[r] = _mm512_dpbusd_epi32(sums[r], x[r], w[r]);
                    }
                }
                store_bytes(&mut y[own.clone()], quantized(line, sums, &factors));
            }
        }
    }
}
