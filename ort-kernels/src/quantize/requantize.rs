//! Requantization of the sums of a product, with a factor per column or row.

use std::ops::Range;

use super::{Factors, requantize};
use crate::{Isa, Task};

/// Factors of the elements of a matrix.
#[derive(Clone, Copy, Debug)]
pub enum Scales<'a> {
    /// One per column.
    ByColumn(&'a [f32]),
    /// One per row.
    ByRow(&'a [f32]),
}

/// The requantization of sums: `y = saturate(round(sum·factor) + zero_point)`, half to even, NaN to 0.
#[derive(Clone, Copy, Debug)]
pub struct Requantize<'a> {
    /// The factors of sums.
    pub factors: Scales<'a>,
    /// The zero point of the results.
    pub zero_point: i16,
    /// Whether results are int8; else they are uint8.
    pub is_signed: bool,
}

impl Requantize<'_> {
    /// Whether no product with a factor is NaN.
    pub(crate) fn is_finite(&self) -> bool {
        let (Scales::ByColumn(factors) | Scales::ByRow(factors)) = self.factors;
        factors.iter().all(|factor| factor.is_finite())
    }

    /// The requantization of a part of the matrix.
    ///
    /// # Panics
    /// If there are too few factors.
    #[must_use]
    pub fn part(&self, rows: Range<usize>, columns: Range<usize>) -> Self {
        let factors = match self.factors {
            Scales::ByColumn(factors) => Scales::ByColumn(&factors[columns]),
            Scales::ByRow(factors) => Scales::ByRow(&factors[rows]),
        };
        Self { factors, ..*self }
    }

    /// Writes the quantized values of the sums of row `r`.
    #[inline(always)]
    pub(crate) fn write(&self, r: usize, sums: &[i32], y: &mut [u8]) {
        let factors = match self.factors {
            Scales::ByColumn(factors) => Factors::Each(factors),
            Scales::ByRow(factors) => Factors::One(factors[r]),
        };
        let zero_point = f32::from(self.zero_point);
        if self.is_signed {
            let y: &mut [i8] = bytemuck::cast_slice_mut(y);
            requantize(sums, factors, zero_point, y);
        } else {
            requantize(sums, factors, zero_point, y);
        }
    }

    /// Writes the quantized values of the sums of row `r` to `y`, bytes with the sign of the results.
    ///
    /// # Panics
    /// If there are fewer sums or factors than `y` has elements.
    pub fn row(&self, isa: Isa, r: usize, sums: &[i32], y: &mut [u8]) {
        isa.run(Row { requantize: self, r, sums, y });
    }
}

/// One row of a matrix.
struct Row<'a> {
    requantize: &'a Requantize<'a>,
    r: usize,
    sums: &'a [i32],
    y: &'a mut [u8],
}

impl Task for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.requantize.write(self.r, self.sums, self.y);
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::{
        __m512i, _mm512_castsi512_ps, _mm512_cvtepi32_ps, _mm512_cvtps_epi32, _mm512_min_ps,
        _mm512_mul_ps, _mm512_set1_ps,
    };

    /// Saturates every type, but still converts to an integer.
    const LARGE: f32 = 1e9;

    features! { Avx512 enabled
        /// `round(sum·factor)`, half to even, of 16 lanes; `factors` are the bits of finite floats. Packing with
        /// saturation completes the quantization.
        #[inline]
        pub(crate) fn scaled(sums: __m512i, factors: __m512i) -> __m512i {
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_castsi512_ps(factors));
            // Too small values convert to the least integer, and so would too large ones.
            _mm512_cvtps_epi32(_mm512_min_ps(scaled, _mm512_set1_ps(LARGE)))
        }
    }

    pub(crate) mod avx2 {
        use super::LARGE;
        use crate::quantize::Requantize;
        use std::arch::x86_64::{
            __m256, __m256i, _mm256_adds_epi16, _mm256_cvtepi32_ps, _mm256_cvtps_epi32,
            _mm256_min_ps, _mm256_mul_ps, _mm256_packs_epi16, _mm256_packs_epi32,
            _mm256_packus_epi16, _mm256_set1_epi16, _mm256_set1_ps,
        };

        features! { Avx2 enabled
            /// `round(sum·factor)`, half to even, of 8 lanes; factors are finite.
            #[inline]
            fn scaled(sums: __m256i, factors: __m256) -> __m256i {
                let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), factors);
                // Too small values convert to the least integer, and so would too large ones.
                _mm256_cvtps_epi32(_mm256_min_ps(scaled, _mm256_set1_ps(LARGE)))
            }
        }

        features! { Avx2 enabled
            /// The quantized values of four times 8 sums. Each 128 bits hold four of each register.
            #[inline]
            pub(crate) fn quantized(
                sums: [__m256i; 4],
                factors: [__m256; 4],
                requantize: &Requantize<'_>,
            ) -> __m256i {
                let zero_point = _mm256_set1_epi16(requantize.zero_point);
                let [a, b] = [scaled(sums[0], factors[0]), scaled(sums[1], factors[1])];
                let [c, d] = [scaled(sums[2], factors[2]), scaled(sums[3], factors[3])];
                let low = _mm256_adds_epi16(_mm256_packs_epi32(a, b), zero_point);
                let high = _mm256_adds_epi16(_mm256_packs_epi32(c, d), zero_point);
                match requantize.is_signed {
                    true => _mm256_packs_epi16(low, high),
                    false => _mm256_packus_epi16(low, high),
                }
            }
        }
    }
}
