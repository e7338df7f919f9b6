//! 32 rows by 32 columns: two by two matrix tiles of sums, two of A and two of B, whose panels are those of
//! `avx512vnni_10x32`, padded to whole steps.

use super::avx512vnni_10x32::{Row, load_columns, quantized, store_row};
use super::{Finish, MAX_NR, Rows, Signs, Start, Tile, To, Variant};
use crate::isa::amx::bytes::{N_SQUARES, SIDE, STEP, Sums, Terms};
use crate::isa::x86::{load_bytes64, store_bytes};
use crate::quantize::Scales;
use crate::{Amx, Isa};
use std::arch::x86_64::{
    _mm512_add_epi32, _mm512_castps_si512, _mm512_castsi512_si256, _mm512_extracti64x4_epi64,
    _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_si512,
};

pub(super) const VARIANT: Variant =
    Variant { n_tiles: N_SQUARES, k_step: STEP, ..Variant::new("amx_32x32", SIDE, MAX_NR) };

pub(super) fn tile(token: Amx, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    let Rows { a, stride, k, tail, .. } = *rows;
    let b = b.as_chunks().0.as_chunks().0;
    // Rows of which whole steps can be read, and the others: the whole steps of these, and the copies of their last terms.
    let n_near = tile.n_rows - tail.len();
    let near = [Terms { a, stride, b }];
    let (whole, last) = b.split_at(k / STEP);
    let far = [
        Terms { a: a.get(n_near * stride..).unwrap_or_default(), stride, b: whole },
        Terms { a: tail.as_flattened(), stride: STEP, b: last },
    ];
    let far = if whole.is_empty() { &far[1..] } else { &far };
    let parts = [(n_near, &near[..]), (tail.len(), far)];
    let mut sums = Sums::new();
    let sums = match rows.signs {
        Signs::UnsignedA => sums.multiply::<false>(token, parts),
        Signs::SignedA => sums.multiply::<true>(token, parts),
    };
    match tile.to {
        To::AnyQuantized(..) => Isa::Amx(token).run(Finish { sums, tile }),
        To::Sums(_) | To::Quantized(..) => finish(token.into(), sums, tile),
    }
}

kernel! {
    /// Results of sums that lack their initial values.
    Avx512Vnni => fn finish(sums: &mut [[i32; MAX_NR]], tile: Tile<'_>) {
        let Tile { n, start, stride, to, .. } = tile;
        let mut columns = [_mm512_setzero_si512(); 2];
        if let Start::ByColumn(start) = start {
            columns = load_columns(bytemuck::cast_slice(&start[..n]));
        }
        let (to, y) = match to {
            To::Sums(c) => {
                for (r, sums) in sums.iter().enumerate() {
                    let [low, high] = row(sums, row_start(start, columns, r));
                    let c = bytemuck::cast_slice_mut(&mut c[r * stride..][..n]);
                    let (first, second) = c.split_at_mut(c.len().min(STEP));
                    store_bytes(first, low);
                    store_bytes(second, high);
                }
                return;
            }
            To::Quantized(to, y) | To::AnyQuantized(to, y) => (to, y),
        };
        let mut factors = [[_mm512_setzero_si512(); 2]; 2];
        if let Scales::ByColumn(all) = to.factors {
            factors = [load_columns(bytemuck::cast_slice(&all[..n])); 2];
        }
        let (pairs, last) = sums.as_chunks::<2>();
        for (i, pair) in pairs.iter().enumerate() {
            if let Scales::ByRow(all) = to.factors {
                factors = [row_factors(all[2 * i]), row_factors(all[2 * i + 1])];
            }
            let first = row(&pair[0], row_start(start, columns, 2 * i));
            let second = row(&pair[1], row_start(start, columns, 2 * i + 1));
            let bytes = quantized([first, second], factors, &to);
            let (y, other) = y[2 * i * stride..].split_at_mut(stride);
            store_row(&mut y[..n], _mm512_castsi512_si256(bytes));
            store_row(&mut other[..n], _mm512_extracti64x4_epi64::<1>(bytes));
        }
        if let [last] = last {
            let r = 2 * pairs.len();
            if let Scales::ByRow(all) = to.factors {
                factors = [row_factors(all[r]); 2];
            }
            let last = row(last, row_start(start, columns, r));
            let bytes = quantized([last; 2], factors, &to);
            store_row(&mut y[r * stride..][..n], _mm512_castsi512_si256(bytes));
        }
    }
}

features! { Avx512Vnni enabled
    /// The initial values of a row; `columns` unless rows have their own.
    #[inline]
    fn row_start(start: Start<'_>, columns: Row, r: usize) -> Row {
        match start {
            Start::ByRow(start) => [_mm512_set1_epi32(start[r]); 2],
            Start::ByColumn(_) | Start::Zero => columns,
        }
    }
}

features! { Avx512Vnni enabled
    /// The factor of a row, for each of its columns.
    #[inline]
    fn row_factors(factor: f32) -> Row {
        [_mm512_castps_si512(_mm512_set1_ps(factor)); 2]
    }
}

features! { Avx512Vnni enabled
    #[inline]
    fn row(sums: &[i32; MAX_NR], start: Row) -> Row {
        let [low, high] = bytemuck::cast_ref::<_, [[u8; 64]; 2]>(sums);
        [_mm512_add_epi32(load_bytes64(low), start[0]), _mm512_add_epi32(load_bytes64(high), start[1])]
    }
}
