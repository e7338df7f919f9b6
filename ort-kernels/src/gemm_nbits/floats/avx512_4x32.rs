//! 4 rows by 32 columns: 16 accumulators of a block and eight of all blocks. Values of up to four bits
//! are looked up in a register, which ignores higher bits.

use super::{Floats, MAX_NR, Panel, Variant};
use crate::Avx512;
use crate::gemm_nbits::{WORD, by_rows, small};
use crate::isa::x86::{load_bytes64, load16, store16};
use std::arch::x86_64::{
    __m512, __m512i, _mm512_add_ps, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_fnmadd_ps,
    _mm512_permutexvar_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_sllv_epi32,
    _mm512_srav_epi32, _mm512_srlv_epi32, _mm512_xor_si512,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_4x32", mr: 4, nr: NR };
const NR: usize = 32;
const LANES: usize = 16;
const BYTES: usize = 64;

pub(super) fn tile_of(token: Avx512, panel: &Panel<'_>, a: &Floats<'_>, c: &mut [[f32; MAX_NR]]) {
    by_rows!(panel, c, [1 2 3 4] => sums(token, panel, a, c));
}

/// 4-bit values minus the middle, and 2-bit values minus the middle whatever the higher bits.
static FOUR: [f32; LANES] =
    [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
static TWO: [f32; LANES] =
    [-2.0, -1.0, 0.0, 1.0, -2.0, -1.0, 0.0, 1.0, -2.0, -1.0, 0.0, 1.0, -2.0, -1.0, 0.0, 1.0];

features! { Avx512 enabled
    /// Value `i` of each word minus the middle.
    #[inline]
    fn centered<const BITS: usize>(words: __m512i, i: usize, table: __m512) -> __m512 {
        let bit = 8 * (i % WORD) + BITS * (i / WORD);
        if BITS < 8 {
            let shift = _mm512_set1_epi32(small(bit));
            return _mm512_permutexvar_ps(_mm512_srlv_epi32(words, shift), table);
        }
        // The highest bit of a byte becomes its sign.
        let words = _mm512_xor_si512(words, _mm512_set1_epi32(0x8080_8080_u32.cast_signed()));
        let words = _mm512_sllv_epi32(words, _mm512_set1_epi32(24 - small(bit)));
        _mm512_cvtepi32_ps(_mm512_srav_epi32(words, _mm512_set1_epi32(24)))
    }
}

kernel! {
    /// `R` rows.
    Avx512 => fn sums<const R: usize, const BITS: usize, const STEP: usize>(
        panel: &Panel<'_>,
        a: &Floats<'_>,
        c: &mut [[f32; MAX_NR]],
    ) {
        let (format, n_blocks) = (panel.format, panel.format.n_blocks());
        let per_block = format.block / STEP;
        let table = load16(panel.table.unwrap_or(if BITS == 4 { &FOUR } else { &TWO }));
        let words = panel.quantized.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let scales = panel.scales.as_chunks::<NR>().0;
        let zeros = panel.zeros.as_chunks::<NR>().0;
        let mut rows: [&[[f32; STEP]]; R] = [&[]; R];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = a.a[r * a.stride..][..format.padded_k()].as_chunks::<STEP>().0;
        }
        let mut y = [[_mm512_setzero_ps(); 2]; R];
        for (b, (scales, words)) in scales.iter().zip(words.chunks_exact(per_block)).enumerate() {
            let mut dots = [[[_mm512_setzero_ps(); 2]; 2]; R];
            for (w, word) in words.iter().enumerate() {
                let word = [load_bytes64(&word[0]), load_bytes64(&word[1])];
                let mut a = [&[0.0; STEP]; R];
                for r in 0..R {
                    // A bounds check that may fail is an exit from the loop, which would keep sums in
                    // memory.
                    a[r] = rows[r].get(b * per_block + w).unwrap_or(&[0.0; STEP]);
                }
                for i in 0..STEP {
                    let value = [
                        centered::<BITS>(word[0], i, table),
                        centered::<BITS>(word[1], i, table),
                    ];
                    for r in 0..R {
                        let a = _mm512_set1_ps(a[r][i]);
                        for v in 0..2 {
                            dots[r][i % 2][v] = _mm512_fmadd_ps(a, value[v], dots[r][i % 2][v]);
                        }
                    }
                }
            }
            for r in 0..R {
                for v in 0..2 {
                    let mut dot = _mm512_add_ps(dots[r][0][v], dots[r][1][v]);
                    if let Some(zeros) = zeros.get(b) {
                        let sum = _mm512_set1_ps(a.sums[r * n_blocks + b]);
                        dot = _mm512_fnmadd_ps(load16(&zeros[v * LANES..]), sum, dot);
                    }
                    y[r][v] = _mm512_fmadd_ps(dot, load16(&scales[v * LANES..]), y[r][v]);
                }
            }
        }
        for (c, y) in c.iter_mut().zip(&y) {
            store16(&mut c[..LANES], y[0]);
            store16(&mut c[LANES..], y[1]);
        }
    }
}
