//! Registers of 16-bit floats, widened.

use std::arch::x86_64::{
    __m256, __m512, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_slli_epi32,
    _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_slli_epi32,
};

features! { Avx512 enabled
    #[inline]
    pub(super) fn f16x16(x: &[u16; 16]) -> __m512 {
        _mm512_cvtph_ps(bytemuck::cast(*x))
    }
}

features! { Avx512 enabled
    #[inline]
    pub(super) fn bf16x16(x: &[u16; 16]) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bytemuck::cast(*x))))
    }
}

features! { Avx2 enabled
    #[inline]
    pub(super) fn f16x8(x: &[u16; 8]) -> __m256 {
        _mm256_cvtph_ps(bytemuck::cast(*x))
    }
}

features! { Avx2 enabled
    #[inline]
    pub(super) fn bf16x8(x: &[u16; 8]) -> __m256 {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bytemuck::cast(*x))))
    }
}
