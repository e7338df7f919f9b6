//! 4 rows by 16 columns: 8 accumulators. Bytes are widened to 16 bits, so that no pair of products
//! saturates: the even ones of each four in one register, the odd ones in another.

use super::{MAX_NR, Rows, Variant};
use crate::Avx2;
use crate::isa::x86::{load_bytes32, store_ints8};
use std::arch::x86_64::{
    _mm256_add_epi32, _mm256_and_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_srli_epi16,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x16", mr: 4, nr: NR };
const NR: usize = 16;
/// Bytes of a register.
const BYTES: usize = 32;

pub(super) fn tile(token: Avx2, rows: &Rows<'_>, b: &[i8], c: &mut [[i32; MAX_NR]]) {
    match c.len() {
        1 => sums::<1>(token, rows, b, c),
        2 => sums::<2>(token, rows, b, c),
        3 => sums::<3>(token, rows, b, c),
        _ => sums::<4>(token, rows, b, c),
    }
}

kernel! {
    /// `R` rows; `b: [k/4][16][4]`.
    Avx2 => fn sums<const R: usize>(rows: &Rows<'_>, b: &[i8], c: &mut [[i32; MAX_NR]]) {
        let (whole, rest) = rows.quads::<R>();
        let low = _mm256_set1_epi16(0xff);
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        for (i, b) in b.as_chunks::<BYTES>().0.as_chunks::<2>().0.iter().enumerate() {
            let lanes = [load_bytes32(&b[0]), load_bytes32(&b[1])];
            let even = lanes.map(|b| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)));
            let odd = lanes.map(|b| _mm256_srai_epi16::<8>(b));
            for r in 0..R {
                let a = *whole[r].get(i).unwrap_or(&rest[r]);
                let a = _mm256_set1_epi32(i32::from_le_bytes(a));
                let (a_even, a_odd) = (_mm256_and_si256(a, low), _mm256_srli_epi16::<8>(a));
                for w in 0..2 {
                    let even = _mm256_madd_epi16(a_even, even[w]);
                    let odd = _mm256_madd_epi16(a_odd, odd[w]);
                    sums[r][w] = _mm256_add_epi32(sums[r][w], _mm256_add_epi32(even, odd));
                }
            }
        }
        for (c, sums) in c.iter_mut().zip(&sums) {
            for (c, lanes) in c.as_chunks_mut().0.iter_mut().zip(sums) {
                store_ints8(c, *lanes);
            }
        }
    }
}
