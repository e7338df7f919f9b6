//! 32 rows by 32 columns: two by two matrix tiles of sums, two of A and two of B, whose panels are those of
//! `avx512vnni_10x32`.

use super::avx512vnni_10x32::{Row, load_columns, quantized, store_row};
use super::{Finish, MAX_NR, QUAD, Rows, Signs, Start, Tile, To, Variant};
use crate::isa::amx::bytes::{Aligned, BStep, N_SQUARES, SIDE, STEP, Sums, Terms};
use crate::isa::x86::load_bytes64;
use crate::quantize::Scales;
use crate::{Amx, Isa};
use std::arch::x86_64::{
    _mm512_castps_si512, _mm512_castsi512_si256, _mm512_extracti64x4_epi64, _mm512_set1_ps,
    _mm512_setzero_si512,
};

pub(super) const VARIANT: Variant = Variant {
    name: "amx_32x32",
    mr: SIDE,
    n_tiles: N_SQUARES,
    nr: MAX_NR,
    has_masks: false,
    is_blocked: false,
};

pub(super) fn tile(token: Amx, rows: &Rows<'_>, b: &[u8], tile: Tile<'_>) {
    let mut start = Aligned([0; MAX_NR]);
    if let Start::ByColumn(own) = tile.start {
        start.0[..tile.n].copy_from_slice(&own[..tile.n]);
    }
    let whole = whole_steps(rows, b);
    let has_rest = rows.k == 0 || !rows.k.is_multiple_of(STEP);
    let rest = has_rest.then(|| Rest::of(rows, b, tile.n_rows));
    let both = [whole, rest.as_ref().map_or(whole, |rest| rest.terms(rows))];
    let terms = &both[usize::from(whole.b.is_empty())..1 + usize::from(has_rest)];
    let mut sums = Sums::new();
    let sums = match rows.signs {
        Signs::UnsignedA => sums.multiply::<false>(token, tile.n_rows, terms, &start),
        Signs::SignedA => sums.multiply::<true>(token, tile.n_rows, terms, &start),
    };
    match tile.to {
        To::AnyQuantized(..) => {
            let start = match tile.start {
                Start::ByRow(start) => Start::ByRow(start),
                Start::ByColumn(_) | Start::Zero => Start::Zero,
            };
            Isa::Amx(token).run(Finish { sums, tile: Tile { start, ..tile } });
        }
        To::Sums(_) | To::Quantized(..) => finish(token.into(), sums, tile),
    }
}

/// Rows of a call.
const MAX_ROWS: usize = N_SQUARES * SIDE;

/// The whole steps of a product.
fn whole_steps<'t>(rows: &Rows<'t>, b: &'t [u8]) -> Terms<'t> {
    let steps = b.as_chunks().0.as_chunks().0;
    Terms { a: rows.a, stride: rows.stride, b: &steps[..rows.k / STEP] }
}

/// The last terms, fewer than a step, followed by zeros.
struct Rest {
    b: Aligned<BStep>,
    /// The rows, if what follows them cannot be read: it is multiplied by zeros.
    a: Option<Aligned<[[u8; STEP]; MAX_ROWS]>>,
}

impl Rest {
    fn of(rows: &Rows<'_>, b: &[u8], n_rows: usize) -> Self {
        let (first, n_left) = (rows.k / STEP * STEP, rows.k % STEP);
        let mut own = Self { b: Aligned([[0; 4 * SIDE]; STEP / 4]), a: None };
        let last = &b.as_chunks().0[first / 4..];
        own.b.0.iter_mut().zip(last).for_each(|(to, from)| *to = *from);
        if let n_used @ 1.. = n_left % QUAD {
            // What pads the last four terms of panels is not specified.
            let quads = own.b.0[n_left / QUAD].as_chunks_mut::<QUAD>().0;
            quads.iter_mut().for_each(|quad| quad[n_used..].fill(0));
        }
        if rows.a.len() < (n_rows - 1) * rows.stride + first + STEP {
            let mut a = [[0; STEP]; MAX_ROWS];
            for (r, row) in a[..n_rows].iter_mut().enumerate() {
                row[..n_left].copy_from_slice(&rows.a[r * rows.stride + first..][..n_left]);
            }
            own.a = Some(Aligned(a));
        }
        own
    }

    fn terms<'t>(&'t self, rows: &Rows<'t>) -> Terms<'t> {
        let b = std::slice::from_ref(&self.b.0);
        match &self.a {
            Some(Aligned(a)) => Terms { a: a.as_flattened(), stride: STEP, b },
            None => Terms { a: &rows.a[rows.k / STEP * STEP..], stride: rows.stride, b },
        }
    }
}

kernel! {
    /// Results of sums that lack only the initial values of rows.
    Avx512Vnni => fn finish(sums: &mut [[i32; MAX_NR]], tile: Tile<'_>) {
        let Tile { n, start, stride, to, .. } = tile;
        if let Start::ByRow(start) = start {
            for (sums, start) in sums.iter_mut().zip(start) {
                sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(*start));
            }
        }
        let (to, y) = match to {
            To::Sums(c) => {
                for (r, sums) in sums.iter().enumerate() {
                    c[r * stride..][..n].copy_from_slice(&sums[..n]);
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
            let bytes = quantized([row(&pair[0]), row(&pair[1])], factors, &to);
            let (y, other) = y[2 * i * stride..].split_at_mut(stride);
            store_row(&mut y[..n], _mm512_castsi512_si256(bytes));
            store_row(&mut other[..n], _mm512_extracti64x4_epi64::<1>(bytes));
        }
        if let [last] = last {
            let r = 2 * pairs.len();
            if let Scales::ByRow(all) = to.factors {
                factors = [row_factors(all[r]); 2];
            }
            let bytes = quantized([row(last); 2], factors, &to);
            store_row(&mut y[r * stride..][..n], _mm512_castsi512_si256(bytes));
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
    fn row(sums: &[i32; MAX_NR]) -> Row {
        let [low, high] = bytemuck::cast_ref::<_, [[u8; 64]; 2]>(sums);
        [load_bytes64(low), load_bytes64(high)]
    }
}
