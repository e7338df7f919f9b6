//! 32 lanes: four accumulators. Taps in pairs are widened to 16 bits, so that no pair of products saturates.

use super::{Line, MAX_TAPS, QUAD, Variant, Weights};
use crate::Avx2;
use crate::isa::x86::{load_bytes32, load_up_to32, store_ints8};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_add_epi32, _mm256_madd_epi16, _mm256_permute2x128_si256,
    _mm256_set1_epi8, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_slli_epi16,
    _mm256_srai_epi16, _mm256_unpackhi_epi8, _mm256_unpacklo_epi8, _mm256_xor_si256,
};

pub(super) const VARIANT: Variant = Variant { name: "depthwise_i8/avx2_32" };
/// Lanes per register block.
pub(super) const LANES: usize = 32;
/// Bytes of these lanes in a quad of packed weights, and of all lanes of a block.
const BYTES: usize = LANES * QUAD;
const BLOCK_BYTES: usize = super::LANES * QUAD;

pub(super) fn add(token: Avx2, line: &Line<'_>, sums: &mut [[i32; super::LANES]]) {
    match line.weights {
        Weights::Each(_) => blocks::<true>(token, line, sums),
        Weights::Shared(_) => blocks::<false>(token, line, sums),
    }
}

features! { Avx2 enabled
    /// Permutes registers of eight channels each to the order in which unpacking bytes leaves them: register `r` has
    /// four of each 16.
    #[inline]
    pub(super) fn reordered([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        [
            _mm256_permute2x128_si256::<0x20>(a, c),
            _mm256_permute2x128_si256::<0x31>(a, c),
            _mm256_permute2x128_si256::<0x20>(b, d),
            _mm256_permute2x128_si256::<0x31>(b, d),
        ]
    }
}

features! { Avx2 enabled
    /// The inverse of [`reordered`].
    #[inline]
    fn in_order([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
        [
            _mm256_permute2x128_si256::<0x20>(a, b),
            _mm256_permute2x128_si256::<0x20>(c, d),
            _mm256_permute2x128_si256::<0x31>(a, b),
            _mm256_permute2x128_si256::<0x31>(c, d),
        ]
    }
}

features! { Avx2 enabled
    /// The weights at index `i` of their order as 16-bit integers, and those two further on behind each.
    #[inline]
    pub(super) fn widened(weights: &[u8], i: usize, parts: usize) -> [__m256i; 4] {
        let mut sums = [_mm256_setzero_si256(); 4];
        for part in 0..parts {
            let bytes = &weights[(i / QUAD * parts + part) * BLOCK_BYTES..][..BYTES];
            let mut words = [_mm256_setzero_si256(); 4];
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = load_bytes32(bytes);
            }
            let words = reordered(words);
            for r in 0..4 {
                let word = if i.is_multiple_of(2) { _mm256_slli_epi16::<8>(words[r]) } else { words[r] };
                sums[r] = _mm256_add_epi16(sums[r], _mm256_srai_epi16::<8>(word));
            }
        }
        sums
    }
}

features! { Avx2 enabled
    /// `sums + Σ x·w` of the two taps of a pair.
    #[inline]
    pub(super) fn add_pair(sums: [__m256i; 4], x: [__m256i; 2], flip: __m256i, w: [__m256i; 4]) -> [__m256i; 4] {
        let zero = _mm256_setzero_si256();
        let x = [_mm256_xor_si256(x[0], flip), _mm256_xor_si256(x[1], flip)];
        let (low, high) = (_mm256_unpacklo_epi8(x[0], x[1]), _mm256_unpackhi_epi8(x[0], x[1]));
        let x = [
            _mm256_unpacklo_epi8(low, zero),
            _mm256_unpackhi_epi8(low, zero),
            _mm256_unpacklo_epi8(high, zero),
            _mm256_unpackhi_epi8(high, zero),
        ];
        let mut sums = sums;
        for r in 0..4 {
            sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(x[r], w[r]));
        }
        sums
    }
}

/// The weights at index `i` of their order and two further on, as 16-bit integers.
fn shared(weights: &[u8], i: usize, parts: usize) -> i32 {
    let quads = weights.as_chunks::<QUAD>().0;
    let sum = |j: usize| -> i32 {
        let parts = &quads[i / QUAD * parts..][..parts];
        parts.iter().map(|quad| i32::from(quad[i % QUAD + j].cast_signed())).sum()
    };
    sum(0) & 0xffff | sum(2) << 16
}

kernel! {
    /// All blocks; each lane has separate weights if `EACH`.
    Avx2 => fn blocks<const EACH: bool>(line: &Line<'_>, sums: &mut [[i32; super::LANES]]) {
        let flip = _mm256_set1_epi8(line.flip.cast_signed());
        let (n_taps, n_lanes) = (line.taps.len(), line.taps.first().map_or(0, |tap| tap.len()));
        let mut all = [0; MAX_TAPS];
        if let Weights::Shared(weights) = line.weights {
            for (i, w) in all.iter_mut().enumerate().take(n_taps).filter(|(i, _)| i % QUAD < 2) {
                *w = shared(weights, i, line.parts);
            }
        }
        let blocks = sums.as_flattened_mut().as_chunks_mut::<LANES>().0.iter_mut();
        for (half, sums) in blocks.enumerate().take(n_lanes.div_ceil(LANES)) {
            let sums = sums.as_chunks_mut::<8>().0;
            let weights = &line.block(half / 2)[if EACH { half % 2 * BYTES } else { 0 }..];
            let mut lanes = [_mm256_setzero_si256(); 4];
            for r in 0..4 {
                lanes[r] = load_bytes32(bytemuck::cast_ref(&sums[r]));
            }
            lanes = reordered(lanes);
            for i in (0..n_taps).filter(|i| i % QUAD < 2) {
                let tap = |t: usize| line.tap(t, half * LANES);
                let x = [load_up_to32(tap(i)), load_up_to32(tap(i + 2))];
                let w = match EACH {
                    true => widened(weights, i, line.parts),
                    false => [_mm256_set1_epi32(all[i]); 4],
                };
                lanes = add_pair(lanes, x, flip, w);
            }
            lanes = in_order(lanes);
            for r in 0..4 {
                store_ints8(&mut sums[r], lanes[r]);
            }
        }
    }
}
