//! Registers of four elements of two lines.

use super::{each_tile, four, tiles};
use crate::isa::x86::store8 as store;
use std::arch::x86_64::{
    __m256 as Register, _mm256_castps128_ps256 as widen, _mm256_insertf128_ps as insert,
    _mm256_shuffle_ps as shuffle, _mm256_unpackhi_ps as high, _mm256_unpacklo_ps as low,
};

const LINES: usize = 8;

tiles! { Avx2 }

features! { Avx2 enabled
    /// Four elements of two lines: `I` and the fourth after it.
    #[inline]
    fn quad<const I: usize, const WIDTH: usize>(lines: &[&[f32; WIDTH]; LINES], j: usize) -> Register {
        let of = |line: usize| four(&lines[line].as_chunks::<4>().0[j / 4]);
        insert::<1>(widen(of(I)), of(I + 4))
    }
}
