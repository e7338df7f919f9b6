//! Four registers, each of four elements of two lines.

use super::{by_width, each_tile, four};
use std::arch::x86_64::{
    __m256, _mm256_castps128_ps256, _mm256_insertf128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps,
    _mm256_unpacklo_ps,
};

use crate::isa::x86::store8;

const LINES: usize = 8;

kernel! {
    Avx2 => pub(super) fn tiles(starts: &[usize], x: &[f32], y: &mut [f32]) {
        by_width!(tiles_of, starts, x, y);
    }
}

features! { Avx2 enabled
    #[inline]
    fn tiles_of<const WIDTH: usize>(starts: &[usize], x: &[f32], y: &mut [f32]) {
        let n = starts.len();
        each_tile::<LINES, WIDTH>(starts, x, y, |lines, y| {
            for j in (0..WIDTH).step_by(4) {
                let [a, b, c, d] = [quad::<0, WIDTH>(lines, j), quad::<1, WIDTH>(lines, j), quad::<2, WIDTH>(lines, j), quad::<3, WIDTH>(lines, j)];
                let columns = transpose4([a, b, c, d]);
                for i in 0..4 {
                    store8(&mut y[(j + i) * n..][..LINES], columns[i]);
                }
            }
        });
    }
}

features! { Avx2 enabled
    /// Four elements of two lines: `I` and the fourth after it.
    #[inline]
    fn quad<const I: usize, const WIDTH: usize>(lines: &[&[f32; WIDTH]; LINES], j: usize) -> __m256 {
        let of = |line: usize| lines[line].as_chunks::<4>().0[j / 4];
        let a = _mm256_castps128_ps256(four(&of(I)));
        _mm256_insertf128_ps::<1>(a, four(&of(I + 4)))
    }
}

features! { Avx2 enabled
    /// Transposes each half of four registers.
    #[inline]
    fn transpose4([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let [first, second] = [
            _mm256_shuffle_ps::<0b0100_0100>(ab, cd), _mm256_shuffle_ps::<0b1110_1110>(ab, cd),
        ];
        let (ab, cd) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        let third = _mm256_shuffle_ps::<0b0100_0100>(ab, cd);
        [first, second, third, _mm256_shuffle_ps::<0b1110_1110>(ab, cd)]
    }
}
