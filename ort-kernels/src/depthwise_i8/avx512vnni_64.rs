//! 64 lanes: four accumulators. Bytes are permuted so that unpacking within 128 bits leaves
//! the lanes of each register contiguous.

use super::{LANES, Line, QUAD, Variant, Weights};
use crate::Avx512Vnni;
use crate::isa::x86::{load_bytes, load_bytes64, store_ints16};
use std::arch::x86_64::{
    __m512i, _mm512_dpbusd_epi32, _mm512_permutexvar_epi32, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_setr_epi32, _mm512_setzero_si512, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16,
    _mm512_unpacklo_epi8, _mm512_unpacklo_epi16, _mm512_xor_si512,
};

pub(super) const VARIANT: Variant = Variant { name: "depthwise_i8/avx512vnni_64" };

pub(super) fn add(token: Avx512Vnni, line: &Line<'_>, sums: &mut [[i32; LANES]]) {
    match line.weights {
        Weights::Each(_) => blocks::<true>(token, line, sums),
        Weights::Shared(_) => blocks::<false>(token, line, sums),
    }
}

features! { Avx512Vnni enabled
    /// Interleaves four lines of 64 bytes to 64 quads.
    #[inline]
    fn interleaved(x: [__m512i; 4]) -> [__m512i; 4] {
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        let a = _mm512_permutexvar_epi32(order, x[0]);
        let b = _mm512_permutexvar_epi32(order, x[1]);
        let c = _mm512_permutexvar_epi32(order, x[2]);
        let d = _mm512_permutexvar_epi32(order, x[3]);
        let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
        [
            _mm512_unpacklo_epi16(ab, cd),
            _mm512_unpackhi_epi16(ab, cd),
            _mm512_unpacklo_epi16(ab_high, cd_high),
            _mm512_unpackhi_epi16(ab_high, cd_high),
        ]
    }
}

kernel! {
    /// All blocks; each lane has separate weights if `EACH`.
    Avx512Vnni => fn blocks<const EACH: bool>(line: &Line<'_>, sums: &mut [[i32; LANES]]) {
        let flip = _mm512_set1_epi8(line.flip.cast_signed());
        let n_quads = line.taps.len().div_ceil(QUAD);
        for (block, sums) in sums.iter_mut().enumerate() {
            let sums = sums.as_chunks_mut::<16>().0;
            let weights = line.block(block);
            let mut lanes = [_mm512_setzero_si512(); 4];
            for r in 0..4 {
                lanes[r] = load_bytes64(bytemuck::cast_ref(&sums[r]));
            }
            for quad in 0..n_quads {
                let mut x = [_mm512_setzero_si512(); 4];
                for (q, x) in x.iter_mut().enumerate() {
                    let bytes = load_bytes(line.tap(quad * QUAD + q, block * LANES));
                    *x = _mm512_xor_si512(bytes, flip);
                }
                let x = interleaved(x);
                for part in quad * line.parts..(quad + 1) * line.parts {
                    if EACH {
                        let weights = weights.as_chunks::<64>().0;
                        for r in 0..4 {
                            let w = load_bytes64(&weights[part * 4 + r]);
                            lanes[r] = _mm512_dpbusd_epi32(lanes[r], x[r], w);
                        }
                    } else {
                        let w = i32::from_le_bytes(weights.as_chunks::<QUAD>().0[part]);
                        let w = _mm512_set1_epi32(w);
                        for r in 0..4 {
                            lanes[r] = _mm512_dpbusd_epi32(lanes[r], x[r], w);
                        }
                    }
                }
            }
            for r in 0..4 {
                store_ints16(&mut sums[r], lanes[r]);
            }
        }
    }
}
