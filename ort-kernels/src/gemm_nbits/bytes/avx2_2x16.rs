//! 2 rows by 16 columns. Pairs of products of values of up to four bits fit in 16 bits; values of eight bits
//! are widened first, the even and the odd ones of each four, so that none saturates.

use super::{Bytes, MAX_NR, Panel, Variant};
use crate::Avx2;
use crate::gemm_nbits::{WORD, by_rows, small};
use crate::isa::x86::{load_bytes32, load8, store8};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_cvtepi32_ps,
    _mm256_fmadd_ps, _mm256_fnmadd_ps, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_mul_ps,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps,
    _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16,
    _mm256_srlv_epi32,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_2x16", mr: 2, nr: NR };
const NR: usize = 16;
const LANES: usize = 8;
const BYTES: usize = 32;

pub(super) fn tile_of(token: Avx2, panel: &Panel<'_>, a: &Bytes<'_>, c: &mut [[f32; MAX_NR]]) {
    by_rows!(panel, c, [1 2] => sums(token, panel, a, c));
}

features! { Avx2 enabled
    /// `sum + Σ q·a` of each four bytes.
    #[inline]
    fn add<const BITS: usize>(sum: __m256i, quantized: __m256i, a: __m256i) -> __m256i {
        if BITS < 8 {
            let pairs = _mm256_maddubs_epi16(quantized, a);
            return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
        let even = _mm256_and_si256(quantized, _mm256_set1_epi16(0xff));
        let odd = _mm256_srli_epi16::<8>(quantized);
        let even_a = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a));
        let even = _mm256_madd_epi16(even, even_a);
        let odd = _mm256_madd_epi16(odd, _mm256_srai_epi16::<8>(a));
        _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
    }
}

kernel! {
    /// `R` rows.
    Avx2 => fn sums<const R: usize, const BITS: usize, const STEP: usize>(
        panel: &Panel<'_>,
        a: &Bytes<'_>,
        c: &mut [[f32; MAX_NR]],
    ) {
        let (format, n_blocks) = (panel.format, panel.format.n_blocks());
        let (k, per_block) = (format.padded_k(), format.block / STEP);
        let words = panel.quantized.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let (scales, zeros) = (panel.scales.as_chunks::<NR>().0, panel.zeros.as_chunks::<NR>().0);
        let mask = _mm256_set1_epi8((u8::MAX >> (8 - BITS)).cast_signed());
        let middle = _mm256_set1_ps(format.middle() as f32);
        let a_bytes: &[u8] = bytemuck::cast_slice(a.a);
        let mut rows: [&[[u8; STEP]]; R] = [&[]; R];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = a_bytes[r * k..][..k].as_chunks::<STEP>().0;
        }
        let mut y = [[_mm256_setzero_ps(); 2]; R];
        for (b, (scales, words)) in scales.iter().zip(words.chunks_exact(per_block)).enumerate() {
            let mut dots = [[_mm256_setzero_si256(); 2]; R];
            for (w, word) in words.iter().enumerate() {
                let word = [load_bytes32(&word[0]), load_bytes32(&word[1])];
                for s in 0..STEP / WORD {
                    let shift = _mm256_set1_epi32(small(BITS * s));
                    let quantized = [
                        _mm256_and_si256(_mm256_srlv_epi32(word[0], shift), mask),
                        _mm256_and_si256(_mm256_srlv_epi32(word[1], shift), mask),
                    ];
                    for r in 0..R {
                        // A bounds check that may fail is an exit from the loop, which would keep sums in
                        // memory.
                        let a = rows[r].get(b * per_block + w).unwrap_or(&[0; STEP]);
                        let quad = a.as_chunks::<WORD>().0[s];
                        let a = _mm256_set1_epi32(i32::from_le_bytes(quad));
                        dots[r][0] = add::<BITS>(dots[r][0], quantized[0], a);
                        dots[r][1] = add::<BITS>(dots[r][1], quantized[1], a);
                    }
                }
            }
            for r in 0..R {
                let sum = _mm256_set1_ps(a.sums[r * n_blocks + b]);
                let scale = _mm256_set1_ps(a.scales[r * n_blocks + b]);
                for v in 0..2 {
                    let zero = zeros.get(b).map_or(middle, |zeros| {
                        _mm256_add_ps(middle, load8(&zeros[v * LANES..]))
                    });
                    let dot = _mm256_fnmadd_ps(zero, sum, _mm256_cvtepi32_ps(dots[r][v]));
                    let scale = _mm256_mul_ps(load8(&scales[v * LANES..]), scale);
                    y[r][v] = _mm256_fmadd_ps(dot, scale, y[r][v]);
                }
            }
        }
        for (c, y) in c.iter_mut().zip(&y) {
            store8(&mut c[..LANES], y[0]);
            store8(&mut c[LANES..], y[1]);
        }
    }
}
