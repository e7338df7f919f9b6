//! 4 rows by 16 columns: 8 accumulators. Bytes are widened to 16 bits, so that no pair of products
//! saturates: the even bytes of each four in one register, the odd ones in another.

use super::{Finish, MAX_NR, Rows, Signs, Tile, Variant};
use crate::isa::x86::{load_bytes32, store_ints8};
use crate::{Avx2, Isa};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_madd_epi16, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_slli_epi16, _mm256_srai_epi16,
    _mm256_srli_epi16,
};

pub(super) const VARIANT: Variant = Variant { name: "avx2_4x16", mr: MR, n_tiles: 1, nr: NR };
const MR: usize = 4;
const NR: usize = 16;
/// Bytes per register.
const BYTES: usize = 32;

pub(super) fn tile(token: Avx2, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    let mut c = [[0; MAX_NR]; MR];
    let c = &mut c[..tile.n_rows];
    by_rows!(rows, c.len(), [1 2 3 4] => sums(token, rows, b, c));
    Isa::Avx2(token).run(Finish { sums: c, tile });
}

features! { Avx2 enabled
    /// The even and the odd bytes as 16-bit integers.
    #[inline]
    fn widened<const SIGNED: bool>(bytes: __m256i) -> [__m256i; 2] {
        match SIGNED {
            true => [
                _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
                _mm256_srai_epi16::<8>(bytes),
            ],
            false => [
                _mm256_and_si256(bytes, _mm256_set1_epi16(0xff)),
                _mm256_srli_epi16::<8>(bytes),
            ],
        }
    }
}

features! { Avx2 enabled
    /// [`widened`] with the signedness that the other operand does not have.
    #[inline]
    fn widened_other<const SIGNED: bool>(bytes: __m256i) -> [__m256i; 2] {
        if SIGNED { widened::<false>(bytes) } else { widened::<true>(bytes) }
    }
}

kernel! {
    /// `R` rows; `b: [k/4][16][4]`.
    Avx2 => fn sums<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        c: &mut [[i32; MAX_NR]],
    ) {
        let (whole, rest) = rows.quads::<R>();
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        for (i, b) in b.as_chunks::<BYTES>().0.as_chunks::<2>().0.iter().enumerate() {
            let b = [0, 1].map(|w| widened_other::<SIGNED>(load_bytes32(&b[w])));
            for r in 0..R {
                let a = *whole[r].get(i).unwrap_or(&rest[r]);
                let a = widened::<SIGNED>(_mm256_set1_epi32(i32::from_le_bytes(a)));
                for w in 0..2 {
                    let even = _mm256_madd_epi16(a[0], b[w][0]);
                    let odd = _mm256_madd_epi16(a[1], b[w][1]);
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
