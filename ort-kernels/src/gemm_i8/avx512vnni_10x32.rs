//! 10 rows by 32 columns: 20 accumulators, two registers of B and one broadcast of A. With more rows,
//! their addresses would not fit the general registers.

use super::{QUAD, Rows, Signs, Start, Tile, To, Variant, from_sums};
use crate::isa::x86::{load_bytes, load_bytes64, store_bytes, store_bytes32};
use crate::isa::{FIRST_LEVEL, prefetch};
use crate::quantize::requantize::x86::scaled;
use crate::quantize::{Requantize, Scales};
use crate::{Avx512Vnni, Isa};
use std::arch::x86_64::{
    __m256i, __m512i, _mm512_add_epi32, _mm512_adds_epi16, _mm512_castps_si512,
    _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64,
    _mm512_packs_epi16, _mm512_packs_epi32, _mm512_packus_epi16, _mm512_permutexvar_epi32,
    _mm512_set1_epi16, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_setzero_si512,
};

pub(super) const VARIANT: Variant = Variant::new("avx512vnni_10x32", MR, NR);
const MR: usize = 10;
const NR: usize = 32;
/// Bytes per register.
const BYTES: usize = 64;
/// Bytes of B between a load and a prefetch: what comes from memory while they are multiplied.
const AHEAD: usize = 2 << 10;
/// The least terms of a panel that the first-level cache does not hold.
const LONG: usize = 1024;

pub(super) fn tile(token: Avx512Vnni, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    if let To::AnyQuantized(..) = tile.to {
        return from_sums::<MR>(Isa::Avx512(token.into()), tile, |sums| {
            self::tile(token, rows, b, sums);
        });
    }
    by_rows!(rows, tile.n_rows, [1 2 3 4 5 6 7 8 9 10] => product(token, rows, b, tile));
}

features! { Avx512Vnni enabled
    /// `sum + Σ a·b` of each four bytes; the bytes of `a` are signed, or those of `b`.
    #[inline]
    fn add<const SIGNED: bool>(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        // The unsigned operand comes first.
        match SIGNED {
            true => _mm512_dpbusd_epi32(sum, b, a),
            false => _mm512_dpbusd_epi32(sum, a, b),
        }
    }
}

/// Accumulators of a single row that are added at the end: a single one would wait for its own latency.
const CHAINS: usize = 4;

features! { Avx512Vnni enabled
    /// `sums + Σ a·b` of one row, whole quads.
    #[inline]
    fn row<const SIGNED: bool>(
        sums: [__m512i; 2],
        a: &[[u8; QUAD]],
        b: &[[[u8; BYTES]; 2]],
    ) -> [__m512i; 2] {
        let mut chains = [[_mm512_setzero_si512(); 2]; CHAINS];
        chains[0] = sums;
        let ((fours_a, rest_a), (fours_b, rest_b)) = (a.as_chunks::<CHAINS>(), b.as_chunks::<CHAINS>());
        for (a, b) in fours_a.iter().zip(fours_b) {
            for j in 0..CHAINS {
                let a = _mm512_set1_epi32(i32::from_le_bytes(a[j]));
                for w in 0..2 {
                    chains[j][w] = add::<SIGNED>(chains[j][w], a, load_bytes64(&b[j][w]));
                }
            }
        }
        for (a, b) in rest_a.iter().zip(rest_b) {
            let a = _mm512_set1_epi32(i32::from_le_bytes(*a));
            for w in 0..2 {
                chains[0][w] = add::<SIGNED>(chains[0][w], a, load_bytes64(&b[w]));
            }
        }
        let mut sums = chains[0];
        for w in 0..2 {
            let others = _mm512_add_epi32(chains[1][w], chains[2][w]);
            sums[w] = _mm512_add_epi32(_mm512_add_epi32(sums[w], chains[3][w]), others);
        }
        sums
    }
}

features! { Avx512Vnni enabled
    /// Loads up to 32 columns, followed by zeros.
    #[inline]
    pub(super) fn load_columns(x: &[u8]) -> [__m512i; 2] {
        let (low, high) = x.split_at(x.len().min(BYTES));
        [load_bytes(low), load_bytes(high)]
    }
}

features! { Avx512Vnni enabled
    /// Loads two lines, and prefetches those behind them if panels are long.
    #[inline]
    fn fetch(b: &[[u8; BYTES]; 2], is_long: bool) -> [__m512i; 2] {
        if is_long {
            for line in b {
                prefetch::<FIRST_LEVEL>(line.as_ptr().wrapping_add(AHEAD).cast());
            }
        }
        [load_bytes64(&b[0]), load_bytes64(&b[1])]
    }
}

/// 32 sums.
pub(super) type Row = [__m512i; 2];

features! { Avx512Vnni enabled
    /// The quantized values of two rows of sums, one after the other: conversion rounds half to even, packing saturates.
    #[inline]
    pub(super) fn quantized(sums: [Row; 2], factors: [Row; 2], requantize: &Requantize<'_>) -> __m512i {
        let zero_point = _mm512_set1_epi16(requantize.zero_point);
        let mut words = [zero_point; 2];
        for r in 0..2 {
            let [low, high] = [scaled(sums[r][0], factors[r][0]), scaled(sums[r][1], factors[r][1])];
            words[r] = _mm512_adds_epi16(_mm512_packs_epi32(low, high), zero_point);
        }
        let bytes = match requantize.is_signed {
            true => _mm512_packs_epi16(words[0], words[1]),
            false => _mm512_packus_epi16(words[0], words[1]),
        };
        // Each 128 bits hold four of the first 16 columns and four of the others, of either row.
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        _mm512_permutexvar_epi32(order, bytes)
    }
}

features! { Avx512Vnni enabled
    /// Stores the quantized values of a row, up to 32.
    #[inline]
    pub(super) fn store_row(y: &mut [u8], bytes: __m256i) {
        match y.as_mut_array() {
            Some(y) => store_bytes32(y, bytes),
            None => store_bytes(y, _mm512_castsi256_si512(bytes)),
        }
    }
}

/// Writes the quantized values of the rows of a tile: a macro, because passing sums to a function would keep them in memory.
macro_rules! write_quantized {
    ($sums:ident of $rows:ident, $tile:ident, $to:ident, $y:ident) => {
        let mut factors = [[_mm512_setzero_si512(); 2]; 2];
        if let Scales::ByColumn(all) = $to.factors {
            factors = [load_columns(bytemuck::cast_slice(&all[..$tile.n])); 2];
        }
        each_row!(r of pairs of $rows => {
            // The last row may be a pair with itself.
            let other = if r + 1 < $rows { r + 1 } else { r };
            if let Scales::ByRow(all) = $to.factors {
                factors = [r, other].map(|r| [_mm512_castps_si512(_mm512_set1_ps(all[r])); 2]);
            }
            let bytes = quantized([$sums[r], $sums[other]], factors, &$to);
            store_row(&mut $y[r * $tile.stride..][..$tile.n], _mm512_castsi512_si256(bytes));
            if other > r {
                store_row(&mut $y[other * $tile.stride..][..$tile.n], _mm512_extracti64x4_epi64::<1>(bytes));
            }
        });
    };
}

kernel! {
    /// The results of `R` rows; `b: [k/4][32][4]`.
    Avx512Vnni => fn product<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        tile: Tile<'_>,
    ) {
        // The lengths must be known to be equal: a bounds check that may fail is an exit from the loop, which
        // would keep sums in memory.
        let (whole, rest) = rows.quads::<R>();
        let n_whole = rows.k / QUAD;
        let mut sums = [[_mm512_setzero_si512(); 2]; R];
        match tile.start {
            Start::Zero => {}
            Start::ByColumn(start) => {
                sums = [load_columns(bytemuck::cast_slice(&start[..tile.n])); R];
            }
            Start::ByRow(start) => {
                let start = &start[..R];
                for r in 0..R {
                    sums[r] = [_mm512_set1_epi32(start[r]); 2];
                }
            }
        }
        let b = b.as_chunks::<BYTES>().0.as_chunks::<2>().0;
        let (b, last) = b.split_at(n_whole);
        let mut b = b;
        if R == 1 {
            sums[0] = row::<SIGNED>(sums[0], whole[0], b);
            b = &[];
        }
        let is_long = rows.k >= LONG;
        for (i, b) in b.iter().enumerate() {
            let lanes = fetch(b, is_long);
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
        match tile.to {
            To::Sums(c) => {
                each_row!(r of R => {
                    let c = bytemuck::cast_slice_mut(&mut c[r * tile.stride..][..tile.n]);
                    let (low, high) = c.split_at_mut(c.len().min(BYTES));
                    store_bytes(low, sums[r][0]);
                    store_bytes(high, sums[r][1]);
                });
            }
            To::Quantized(to, y) | To::AnyQuantized(to, y) => {
                write_quantized!(sums of R, tile, to, y);
            }
        }
    }
}
