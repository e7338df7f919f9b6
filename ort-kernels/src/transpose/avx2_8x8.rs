//! Eight registers of eight lanes.

use super::{Variant, each_tile};
use crate::isa::x86::{load8, store8};
use std::arch::x86_64::{
    __m256, _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps,
    _mm256_unpacklo_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_8x8", size: SIZE };
const SIZE: usize = 8;

kernel! {
    Avx2 => pub(super) fn tiles(size: [usize; 2], x: (&[f32], usize), y: (&mut [f32], usize)) {
        let strides = [x.1, y.1];
        if size.into_iter().all(|n| n >= SIZE) {
            each_tile::<SIZE>(size, x, y, |size, x, y| tile::<true>(size, strides, x, y));
        } else {
            each_tile::<SIZE>(size, x, y, |size, x, y| tile::<false>(size, strides, x, y));
        }
    }
}

features! { Avx2 enabled
    /// One tile. If `IS_WHOLE`, its size is a constant, and loads and stores need no masks.
    #[inline]
    fn tile<const IS_WHOLE: bool>(
        size: [usize; 2],
        [x_stride, y_stride]: [usize; 2],
        x: &[f32],
        y: &mut [f32],
    ) {
        let [rows, columns] = if IS_WHOLE { [SIZE; 2] } else { size };
        let mut lanes = [_mm256_setzero_ps(); SIZE];
        // Missing rows repeat the last one, and are not stored.
        for i in 0..SIZE {
            lanes[i] = load8(&x[i.min(rows - 1) * x_stride..][..columns]);
        }
        let lanes = transpose8(lanes);
        for j in 0..SIZE {
            if j < columns {
                store8(&mut y[j * y_stride..][..rows], lanes[j]);
            }
        }
    }
}

features! { Avx2 enabled
    /// Transposes eight rows.
    #[inline]
    fn transpose8(rows: [__m256; SIZE]) -> [__m256; SIZE] {
        // Pairs of rows, element by element, then pairs of pairs, then the halves.
        let mut pairs = rows;
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
        }
        let mut fours = pairs;
        for i in 0..2 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * i + j], pairs[4 * i + j + 2]);
                fours[4 * i + 2 * j] = _mm256_shuffle_ps::<0b0100_0100>(a, b);
                fours[4 * i + 2 * j + 1] = _mm256_shuffle_ps::<0b1110_1110>(a, b);
            }
        }
        let mut columns = fours;
        for i in 0..4 {
            columns[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
            columns[i + 4] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
        }
        columns
    }
}
