//! 10 rows by 32 columns: 20 accumulators, two registers of B and one broadcast of A. With more rows
//! their addresses no longer fit the general registers.

use super::{MAX_NR, QUAD, Rows, Signs, Variant};
use crate::Avx512Vnni;
use crate::isa::x86::{load_bytes64, store_ints16};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_set1_epi32, _mm512_setzero_si512,
};

pub(super) const VARIANT: Variant = Variant { name: "avx512vnni_10x32", mr: 10, nr: NR };
const NR: usize = 32;
/// Bytes of a register.
const BYTES: usize = 64;

pub(super) fn tile(token: Avx512Vnni, rows: &Rows<'_>, b: &[u8], c: &mut [[i32; MAX_NR]]) {
    if let [c] = c {
        return match rows.signs {
            Signs::UnsignedA => row::<false>(token, rows, b, c),
            Signs::SignedA => row::<true>(token, rows, b, c),
        };
    }
    super::by_rows!(rows, c, [2 3 4 5 6 7 8 9 10] => sums(token, rows, b, c));
}

features! { Avx512Vnni enabled
    /// `sum + Σ a·b` of each four bytes, of which those of `a` are signed or those of `b`.
    #[inline]
    fn add<const SIGNED: bool>(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // The unsigned operand comes first.
        match SIGNED {
            true => _mm512_dpbusd_epi32(sum, b, a),
            false => _mm512_dpbusd_epi32(sum, a, b),
        }
    }
}

/// Sums of a single row that are added up at the end: one alone waits for itself.
const CHAINS: usize = 4;

kernel! {
    /// One row; `b: [k/4][32][4]`.
    Avx512Vnni => fn row<const SIGNED: bool>(rows: &Rows<'_>, b: &[u8], c: &mut [i32; MAX_NR]) {
        let ([whole], [rest]) = rows.quads::<1>();
        let b = b.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let (fours, others) = b.as_chunks::<CHAINS>();
        let mut sums = [[_mm512_setzero_si512(); 2]; CHAINS];
        for (i, b) in fours.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let a = *whole.get(i * CHAINS + j).unwrap_or(&rest);
                let a = _mm512_set1_epi32(i32::from_le_bytes(a));
                sums[j][0] = add::<SIGNED>(sums[j][0], a, load_bytes64(&b[0]));
                sums[j][1] = add::<SIGNED>(sums[j][1], a, load_bytes64(&b[1]));
            }
        }
        for (i, b) in others.iter().enumerate() {
            let a = *whole.get(fours.len() * CHAINS + i).unwrap_or(&rest);
            let a = _mm512_set1_epi32(i32::from_le_bytes(a));
            sums[0][0] = add::<SIGNED>(sums[0][0], a, load_bytes64(&b[0]));
            sums[0][1] = add::<SIGNED>(sums[0][1], a, load_bytes64(&b[1]));
        }
        for (w, c) in c.as_chunks_mut().0.iter_mut().enumerate() {
            let halves = [
                _mm512_add_epi32(sums[0][w], sums[1][w]),
                _mm512_add_epi32(sums[2][w], sums[3][w]),
            ];
            store_ints16(c, _mm512_add_epi32(halves[0], halves[1]));
        }
    }
}

kernel! {
    /// `R` rows; `b: [k/4][32][4]`.
    Avx512Vnni => fn sums<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        c: &mut [[i32; MAX_NR]],
    ) {
        let (quads, rest) = rows.quads::<R>();
        let n_whole = rows.k / QUAD;
        // Lengths that are known to be equal, where a call of `map` may not be inlined: an index that may be
        // wrong is a way out of the loop, for which sums would be kept in memory.
        let mut whole = [&quads[0][..n_whole]; R];
        for r in 0..R {
            whole[r] = &quads[r][..n_whole];
        }
        let mut sums = [[_mm512_setzero_si512(); 2]; R];
        let b = b.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let (b, last) = b.split_at(n_whole);
        for (i, b) in b.iter().enumerate() {
            let lanes = [load_bytes64(&b[0]), load_bytes64(&b[1])];
            for r in 0..R {
                let a = _mm512_set1_epi32(i32::from_le_bytes(whole[r][i]));
                for w in 0..2 {
                    sums[r][w] = add::<SIGNED>(sums[r][w], a, lanes[w]);
                }
            }
        }
        if let [b, ..] = last {
            for r in 0..R {
                let a = _mm512_set1_epi32(i32::from_le_bytes(rest[r]));
                for w in 0..2 {
                    sums[r][w] = add::<SIGNED>(sums[r][w], a, load_bytes64(&b[w]));
                }
            }
        }
        for (c, sums) in c.iter_mut().zip(&sums) {
            for (c, lanes) in c.as_chunks_mut().0.iter_mut().zip(sums) {
                store_ints16(c, *lanes);
            }
        }
    }
}
