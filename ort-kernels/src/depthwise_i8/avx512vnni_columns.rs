//! Lines of pixels with windows of width three and height three or four, 64 channels at a time: the bytes
//! of a column are interleaved once, and stay in registers for all windows that contain them.

use super::pixels::Columns;
use crate::isa::x86::{load_bytes, load_bytes64, store_bytes};
use crate::quantize::requantize::x86::scaled;
use std::arch::x86_64::{
    __m512i, _mm512_adds_epi16, _mm512_dpbusd_epi32, _mm512_packs_epi16, _mm512_packs_epi32,
    _mm512_packus_epi16, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_setzero_si512,
    _mm512_shuffle_i32x4, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16, _mm512_unpacklo_epi8,
    _mm512_unpacklo_epi16, _mm512_xor_si512,
};

/// Columns per window.
pub(super) const WIDTH: usize = 3;
/// Channels per block.
const LANES: usize = super::LANES;

features! { Avx512Vnni enabled
    /// Permutes registers of 16 channels each to the order in which unpacking bytes leaves them: register `r` has
    /// four of each 16.
    #[inline]
    pub(super) fn transposed(x: [__m512i; 4]) -> [__m512i; 4] {
        let (a, b) = (_mm512_shuffle_i32x4::<0x44>(x[0], x[1]), _mm512_shuffle_i32x4::<0x44>(x[2], x[3]));
        let (c, d) = (_mm512_shuffle_i32x4::<0xee>(x[0], x[1]), _mm512_shuffle_i32x4::<0xee>(x[2], x[3]));
        [
            _mm512_shuffle_i32x4::<0x88>(a, b),
            _mm512_shuffle_i32x4::<0xdd>(a, b),
            _mm512_shuffle_i32x4::<0x88>(c, d),
            _mm512_shuffle_i32x4::<0xdd>(c, d),
        ]
    }
}

features! { Avx512Vnni enabled
    /// Loads up to 64 words, followed by zeros, in that order.
    #[inline]
    pub(super) fn load_words(x: &[u8]) -> [__m512i; 4] {
        let mut words = [_mm512_setzero_si512(); 4];
        for (r, words) in words.iter_mut().enumerate() {
            *words = load_bytes(x.get(r * 64..).unwrap_or_default());
        }
        transposed(words)
    }
}

features! { Avx512Vnni enabled
    /// Interleaves the bytes of four rows to quads.
    #[inline]
    pub(super) fn interleaved(x: [__m512i; 4]) -> [__m512i; 4] {
        let (ab, cd) = (_mm512_unpacklo_epi8(x[0], x[1]), _mm512_unpacklo_epi8(x[2], x[3]));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi8(x[0], x[1]), _mm512_unpackhi_epi8(x[2], x[3]));
        [
            _mm512_unpacklo_epi16(ab, cd),
            _mm512_unpackhi_epi16(ab, cd),
            _mm512_unpacklo_epi16(ab_high, cd_high),
            _mm512_unpackhi_epi16(ab_high, cd_high),
        ]
    }
}

features! { Avx512Vnni enabled
    /// Row `r` of column `i` of the inputs, or padding.
    #[inline]
    pub(super) fn bytes(line: &Columns<'_>, r: usize, i: Option<usize>, (block, flip): (usize, __m512i)) -> __m512i {
        let (first, n) = (block * LANES, line.padding.len());
        let pixel = match (line.rows[r], i) {
            (Some(row), Some(i)) => &row[i * n..][..n],
            _ => line.padding,
        };
        _mm512_xor_si512(load_bytes(&pixel[first..n.min(first + LANES)]), flip)
    }
}

features! { Avx512Vnni enabled
    /// The first four rows of column `i` of the inputs, or padding.
    #[inline]
    pub(super) fn column(line: &Columns<'_>, i: Option<usize>, block: (usize, __m512i)) -> [__m512i; 4] {
        let mut rows = [_mm512_setzero_si512(); 4];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = bytes(line, r, i, block);
        }
        interleaved(rows)
    }
}

features! { Avx512Vnni enabled
    /// The quantized values of sums.
    #[inline]
    pub(super) fn quantized(line: &Columns<'_>, sums: [__m512i; 4], factors: &[__m512i; 4]) -> __m512i {
        let zero_point = _mm512_set1_epi16(line.requantize.zero_point);
        let mut whole = sums;
        for r in 0..4 {
            whole[r] = scaled(sums[r], factors[r]);
        }
        let low = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero_point);
        let high = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero_point);
        match line.requantize.is_signed {
            true => _mm512_packs_epi16(low, high),
            false => _mm512_packus_epi16(low, high),
        }
    }
}

kernel! {
    /// Computes the quantized values of the pixels of a line.
    Avx512Vnni => pub(super) fn run(line: &Columns<'_>, y: &mut [u8]) {
        let (n, axis) = (line.padding.len(), &line.axis);
        let flip = _mm512_set1_epi8(line.flip.cast_signed());
        // Columns that the next window shares.
        let n_shared = if axis.dilation == 1 { WIDTH.saturating_sub(axis.stride) } else { 0 };
        for block in 0..n.div_ceil(LANES) {
            let own = block * LANES..n.min((block + 1) * LANES);
            let weights = &line.weights[block * LANES * WIDTH * 4..][..LANES * WIDTH * 4];
            let weights = weights.as_chunks::<64>().0.as_chunks::<4>().0;
            let mut w = [[_mm512_setzero_si512(); 4]; WIDTH];
            for (w, weights) in w.iter_mut().zip(weights) {
                for r in 0..4 {
                    w[r] = load_bytes64(&weights[r]);
                }
                *w = transposed(*w);
            }
            let start = load_words(bytemuck::cast_slice(&line.start[own.clone()]));
            let factors = load_words(bytemuck::cast_slice(&line.factors[own.clone()]));
            let mut x = [[_mm512_setzero_si512(); 4]; WIDTH];
            for (at, y) in line.outputs.clone().zip(y.chunks_exact_mut(n)) {
                let n_there = if at == line.outputs.start { 0 } else { n_shared };
                match n_there {
                    2 => {
                        x[0] = x[1];
                        x[1] = x[2];
                    }
                    1 => x[0] = x[2],
                    _ => x[0] = column(line, axis.at(at, 0), (block, flip)),
                }
                if n_there < 2 {
                    x[1] = column(line, axis.at(at, 1), (block, flip));
                }
                x[2] = column(line, axis.at(at, 2), (block, flip));
                let mut sums = start;
                for c in 0..WIDTH {
                    for r in 0..4 {
                        sums[r] = _mm512_dpbusd_epi32(sums[r], x[c][r], w[c][r]);
                    }
                }
                store_bytes(&mut y[own.clone()], quantized(line, sums, &factors));
            }
        }
    }
}
