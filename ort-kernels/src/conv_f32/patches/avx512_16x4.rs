//! Registers of four elements of four lines.

use super::{each_tile, four, tiles};
use crate::isa::x86::store16 as store;
use std::arch::x86_64::{
    __m512 as Register, _mm512_castps128_ps512 as widen, _mm512_insertf32x4 as insert,
    _mm512_shuffle_ps as shuffle, _mm512_unpackhi_ps as high, _mm512_unpacklo_ps as low,
};

const LINES: usize = 16;

tiles! { Avx512 }

features! { Avx512 enabled
    /// Four elements of every fourth line, from line `I` on.
    #[inline]
    fn quad<const I: usize, const WIDTH: usize>(lines: &[&[f32; WIDTH]; LINES], j: usize) -> Register {
        let of = |line: usize| four(&lines[line].as_chunks::<4>().0[j / 4]);
        let ab = insert::<1>(widen(of(I)), of(I + 4));
        insert::<3>(insert::<2>(ab, of(I + 8)), of(I + 12))
    }
}
