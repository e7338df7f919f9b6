//! 32 lanes: four accumulators, two passes per block. Bytes are widened to 16 bits, so that no pair of products
//! saturates.

use super::{LANES, Line, QUAD, Variant, Weights};
use crate::Avx2;
use crate::isa::x86::{load_bytes32, store_ints8};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_madd_epi16, _mm256_permutevar8x32_epi32,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setr_epi32,
    _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16,
    _mm256_unpackhi_epi8, _mm256_unpackhi_epi16, _mm256_unpacklo_epi8, _mm256_unpacklo_epi16,
    _mm256_xor_si256,
};

pub(super) const VARIANT: Variant = Variant { name: "depthwise_i8/avx2_32" };

pub(super) fn add(token: Avx2, line: &Line<'_>, sums: &mut [[i32; LANES]]) {
    match line.weights {
        Weights::Each(_) => blocks::<true>(token, line, sums),
        Weights::Shared(_) => blocks::<false>(token, line, sums),
    }
}

features! { Avx2 enabled
    /// Interleaves four lines of 32 bytes to 32 quads.
    #[inline]
    fn interleaved(x: [__m256i; 4]) -> [__m256i; 4] {
        let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        let a = _mm256_permutevar8x32_epi32(x[0], order);
        let b = _mm256_permutevar8x32_epi32(x[1], order);
        let c = _mm256_permutevar8x32_epi32(x[2], order);
        let d = _mm256_permutevar8x32_epi32(x[3], order);
        let (ab, cd) = (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d));
        [
            _mm256_unpacklo_epi16(ab, cd),
            _mm256_unpackhi_epi16(ab, cd),
            _mm256_unpacklo_epi16(ab_high, cd_high),
            _mm256_unpackhi_epi16(ab_high, cd_high),
        ]
    }
}

features! { Avx2 enabled
    /// `sum + Σ x·w` of each four bytes, those of `x` unsigned, those of `w` signed.
    #[inline]
    fn dot(sum: __m256i, x: __m256i, w: __m256i) -> __m256i {
        let even = _mm256_madd_epi16(
            _mm256_and_si256(x, _mm256_set1_epi16(0xff)),
            _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(w)),
        );
        let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(x), _mm256_srai_epi16::<8>(w));
        _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
    }
}

features! { Avx2 enabled
    /// Loads up to 32 bytes, followed by zeros.
    #[inline]
    fn load(x: &[u8]) -> __m256i {
        match x.first_chunk() {
            Some(x) => load_bytes32(x),
            None => {
                let mut bytes = [0; 32];
                bytes[..x.len()].copy_from_slice(x);
                load_bytes32(&bytes)
            }
        }
    }
}

kernel! {
    /// All blocks; each lane has separate weights if `EACH`.
    Avx2 => fn blocks<const EACH: bool>(line: &Line<'_>, sums: &mut [[i32; LANES]]) {
        let flip = _mm256_set1_epi8(line.flip.cast_signed());
        let n_quads = line.taps.len().div_ceil(QUAD);
        for (half, sums) in sums.as_flattened_mut().as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let sums = sums.as_chunks_mut::<8>().0;
            let weights = line.block(half / 2);
            let mut lanes = [_mm256_setzero_si256(); 4];
            for r in 0..4 {
                lanes[r] = load_bytes32(bytemuck::cast_ref(&sums[r]));
            }
            for quad in 0..n_quads {
                let mut x = [_mm256_setzero_si256(); 4];
                for (q, x) in x.iter_mut().enumerate() {
                    let bytes = load(line.tap(quad * QUAD + q, half * 32));
                    *x = _mm256_xor_si256(bytes, flip);
                }
                let x = interleaved(x);
                for part in quad * line.parts..(quad + 1) * line.parts {
                    if EACH {
                        let weights = weights.as_chunks::<32>().0;
                        for r in 0..4 {
                            let w = load_bytes32(&weights[part * 8 + half % 2 * 4 + r]);
                            lanes[r] = dot(lanes[r], x[r], w);
                        }
                    } else {
                        let w = i32::from_le_bytes(weights.as_chunks::<QUAD>().0[part]);
                        let w = _mm256_set1_epi32(w);
                        for r in 0..4 {
                            lanes[r] = dot(lanes[r], x[r], w);
                        }
                    }
                }
            }
            for r in 0..4 {
                store_ints8(&mut sums[r], lanes[r]);
            }
        }
    }
}
