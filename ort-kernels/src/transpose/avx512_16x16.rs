//! Sixteen registers of sixteen lanes.

use super::{Variant, each_tile};
use crate::isa::x86::{load16, store16};
use std::arch::x86_64::{
    __m512, _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_shuffle_ps, _mm512_unpackhi_ps,
    _mm512_unpacklo_ps,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512_16x16", size: SIZE };
const SIZE: usize = 16;

kernel! {
    Avx512 => pub(super) fn tiles(size: [usize; 2], x: (&[f32], usize), y: (&mut [f32], usize)) {
        let (x_stride, y_stride) = (x.1, y.1);
        each_tile::<SIZE>(size, x, y, |[rows, columns], x, y| {
            let mut lanes = [_mm512_setzero_ps(); SIZE];
            for i in 0..SIZE {
                if i < rows {
                    lanes[i] = load16(&x[i * x_stride..][..columns]);
                }
            }
            let lanes = transpose16(lanes);
            for j in 0..SIZE {
                if j < columns {
                    store16(&mut y[j * y_stride..][..rows], lanes[j]);
                }
            }
        });
    }
}

features! { Avx512 enabled
    /// Transposes sixteen rows.
    #[inline]
    pub(super) fn transpose16(rows: [__m512; SIZE]) -> [__m512; SIZE] {
        // Pairs of rows, element by element, then pairs of pairs: a quarter of each of `fours[4·i +
        // j]` is a part of a column, of rows 4·i to 4·i + 3.
        let mut pairs = rows;
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
        }
        let mut fours = pairs;
        for i in 0..4 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * i + j], pairs[4 * i + j + 2]);
                fours[4 * i + 2 * j] = _mm512_shuffle_ps::<0b0100_0100>(a, b);
                fours[4 * i + 2 * j + 1] = _mm512_shuffle_ps::<0b1110_1110>(a, b);
            }
        }
        let mut columns = fours;
        for j in 0..4 {
            let four = quarters([fours[j], fours[4 + j], fours[8 + j], fours[12 + j]]);
            for k in 0..4 {
                columns[j + 4 * k] = four[k];
            }
        }
        columns
    }
}

features! { Avx512 enabled
    /// Transposes the quarters of four registers, as a matrix of four rows.
    #[inline]
    pub(super) fn quarters([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        let (ab, cd) = (shuffle::<0b0100_0100>(a, b), shuffle::<0b0100_0100>(c, d));
        let [first, second] = [shuffle::<0b1000_1000>(ab, cd), shuffle::<0b1101_1101>(ab, cd)];
        let (ab, cd) = (shuffle::<0b1110_1110>(a, b), shuffle::<0b1110_1110>(c, d));
        [first, second, shuffle::<0b1000_1000>(ab, cd), shuffle::<0b1101_1101>(ab, cd)]
    }
}

features! { Avx512 enabled
    /// Two quarters of `a`, then two of `b`.
    #[inline]
    fn shuffle<const QUARTERS: i32>(a: __m512, b: __m512) -> __m512 {
        _mm512_shuffle_f32x4::<QUARTERS>(a, b)
    }
}
