//! Four registers, each of four elements of four lines.

use super::{by_width, each_tile, four};
use std::arch::x86_64::{
    __m512, _mm512_castps128_ps512, _mm512_insertf32x4, _mm512_shuffle_ps, _mm512_unpackhi_ps,
    _mm512_unpacklo_ps,
};

use crate::isa::x86::store16;

const LINES: usize = 16;

kernel! {
    Avx512 => pub(super) fn tiles(starts: &[usize], x: &[f32], y: &mut [f32]) {
        by_width!(tiles_of, starts, x, y);
    }
}

features! { Avx512 enabled
    #[inline]
    fn tiles_of<const WIDTH: usize>(starts: &[usize], x: &[f32], y: &mut [f32]) {
        let n = starts.len();
        each_tile::<LINES, WIDTH>(starts, x, y, |lines, y| {
            for j in (0..WIDTH).step_by(4) {
                let [a, b, c, d] = [quad::<0, WIDTH>(lines, j), quad::<1, WIDTH>(lines, j), quad::<2, WIDTH>(lines, j), quad::<3, WIDTH>(lines, j)];
                let columns = transpose4([a, b, c, d]);
                for i in 0..4 {
                    store16(&mut y[(j + i) * n..][..LINES], columns[i]);
                }
            }
        });
    }
}

features! { Avx512 enabled
    /// Four elements of every fourth line, from line `I` on.
    #[inline]
    fn quad<const I: usize, const WIDTH: usize>(lines: &[&[f32; WIDTH]; LINES], j: usize) -> __m512 {
        let of = |line: usize| lines[line].as_chunks::<4>().0[j / 4];
        let ab = _mm512_castps128_ps512(four(&of(I)));
        let ab = _mm512_insertf32x4::<1>(ab, four(&of(I + 4)));
        let abc = _mm512_insertf32x4::<2>(ab, four(&of(I + 8)));
        _mm512_insertf32x4::<3>(abc, four(&of(I + 12)))
    }
}

features! { Avx512 enabled
    /// Transposes each quarter of four registers.
    #[inline]
    fn transpose4([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        let (ab, cd) = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
        let [first, second] = [
            _mm512_shuffle_ps::<0b0100_0100>(ab, cd), _mm512_shuffle_ps::<0b1110_1110>(ab, cd),
        ];
        let (ab, cd) = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
        let third = _mm512_shuffle_ps::<0b0100_0100>(ab, cd);
        [first, second, third, _mm512_shuffle_ps::<0b1110_1110>(ab, cd)]
    }
}
