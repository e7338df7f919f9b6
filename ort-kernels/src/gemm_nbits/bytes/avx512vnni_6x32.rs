//! 6 rows by 32 columns: 12 sums of a block and 12 of all blocks, two registers of quantized values, one
//! broadcast of A.

use super::{Bytes, MAX_NR, Panel, Variant};
use crate::Avx512Vnni;
use crate::gemm_nbits::{WORD, by_rows, small};
use crate::isa::x86::{load_bytes64, load16, store16};
use std::arch::x86_64::{
    _mm512_add_ps, _mm512_and_si512, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
    _mm512_fnmadd_ps, _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_setzero_si512, _mm512_srlv_epi32,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512vnni_6x32", mr: 6, nr: NR };
const NR: usize = 32;
const LANES: usize = 16;
const BYTES: usize = 64;

pub(super) fn tile_of(
    token: Avx512Vnni,
    panel: &Panel<'_>,
    a: &Bytes<'_>,
    c: &mut [[f32; MAX_NR]],
) {
    by_rows!(panel, c, [1 2 3 4 5 6] => sums(token, panel, a, c));
}

kernel! {
    /// `R` rows.
    Avx512Vnni => fn sums<const R: usize, const BITS: usize, const STEP: usize>(
        panel: &Panel<'_>,
        a: &Bytes<'_>,
        c: &mut [[f32; MAX_NR]],
    ) {
        let (format, n_blocks) = (panel.format, panel.format.n_blocks());
        let (k, per_block) = (format.padded_k(), format.block / STEP);
        let words = panel.quantized.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let (scales, zeros) = (panel.scales.as_chunks::<NR>().0, panel.zeros.as_chunks::<NR>().0);
        let mask = _mm512_set1_epi8((u8::MAX >> (8 - BITS)).cast_signed());
        let middle = _mm512_set1_ps(format.middle() as f32);
        let a_bytes: &[u8] = bytemuck::cast_slice(a.a);
        let (mut rows, mut ends): ([&[[u8; STEP]]; R], [(&[f32], &[f32]); R]) =
            ([&[]; R], [(&[], &[]); R]);
        for r in 0..R {
            rows[r] = a_bytes[r * k..][..k].as_chunks::<STEP>().0;
            let of = r * n_blocks..(r + 1) * n_blocks;
            ends[r] = (&a.scales[of.clone()], &a.sums[of]);
        }
        let mut y = [[_mm512_setzero_ps(); 2]; R];
        for (b, (scales, words)) in scales.iter().zip(words.chunks_exact(per_block)).enumerate() {
            let mut dots = [[_mm512_setzero_si512(); 2]; R];
            for (w, word) in words.iter().enumerate() {
                let word = [load_bytes64(&word[0]), load_bytes64(&word[1])];
                for s in 0..STEP / WORD {
                    let shift = _mm512_set1_epi32(small(BITS * s));
                    let quantized = [
                        _mm512_and_si512(_mm512_srlv_epi32(word[0], shift), mask),
                        _mm512_and_si512(_mm512_srlv_epi32(word[1], shift), mask),
                    ];
                    for r in 0..R {
                        // A bounds check that may fail is an exit from the loop, which would keep sums in
                        // memory.
                        let a = rows[r].get(b * per_block + w).unwrap_or(&[0; STEP]);
                        let quad = a.as_chunks::<WORD>().0[s];
                        let a = _mm512_set1_epi32(i32::from_le_bytes(quad));
                        dots[r][0] = _mm512_dpbusd_epi32(dots[r][0], quantized[0], a);
                        dots[r][1] = _mm512_dpbusd_epi32(dots[r][1], quantized[1], a);
                    }
                }
            }
            for v in 0..2 {
                let scale = load16(&scales[v * LANES..]);
                let zero = match zeros.get(b) {
                    Some(zeros) => _mm512_add_ps(middle, load16(&zeros[v * LANES..])),
                    None => middle,
                };
                for r in 0..R {
                    let a_scale = _mm512_set1_ps(*ends[r].0.get(b).unwrap_or(&0.0));
                    let sum = _mm512_set1_ps(*ends[r].1.get(b).unwrap_or(&0.0));
                    let dot = _mm512_fnmadd_ps(zero, sum, _mm512_cvtepi32_ps(dots[r][v]));
                    y[r][v] = _mm512_fmadd_ps(dot, _mm512_mul_ps(scale, a_scale), y[r][v]);
                }
            }
        }
        for (c, y) in c.iter_mut().zip(&y) {
            store16(&mut c[..LANES], y[0]);
            store16(&mut c[LANES..], y[1]);
        }
    }
}
