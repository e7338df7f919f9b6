//! 4 rows by 16 columns: 8 accumulators; one call computes the tiles of a block. Two products are added in 16 bits where
//! B's mask says that none saturates; elsewhere bytes are widened first, the even bytes of each four in one register, the
//! odd ones in another.

use super::{MASKED, QUAD, Rows, Signs, Start, Tile, To, Variant, from_sums, n_masks};
use crate::isa::x86::{load_bytes32, load8, store_ints8, store8};
use crate::quantize::requantize::x86::avx2::quantized;
use crate::quantize::{Requantize, Scales};
use crate::{Avx2, Isa};
use std::arch::x86_64::{
    __m256, __m256i, _mm256_add_epi32, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_permutevar8x32_epi32, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_slli_epi16,
    _mm256_srai_epi16, _mm256_srli_epi16,
};

pub(super) const VARIANT: Variant =
    Variant { has_masks: true, is_blocked: true, ..Variant::new("avx2_4x16", MR, NR) };
const MR: usize = 4;
const NR: usize = 16;
/// Bytes per register.
const BYTES: usize = 32;
/// Words of 32 bits per register.
const LANES: usize = 8;

pub(super) fn tile(token: Avx2, rows: &Rows<'_>, b: &[u8], mut tile: Tile<'_>) {
    if let To::AnyQuantized(..) = tile.to {
        return any_quantized(token, rows, b, tile);
    }
    let (whole, panel_len) = (tile.n_rows / MR * MR, VARIANT.panel_len(rows.k));
    // Panel by panel if two products share them.
    let step = if [0, tile.n_rows].contains(&whole) { tile.n } else { NR };
    for (i, column) in (0..tile.n).step_by(step).enumerate() {
        let (b, columns) = (&b[i * panel_len..], column..tile.n.min(column + step));
        if whole > 0 {
            let tile = tile.part(0..whole, columns.clone());
            by_rows!(rows, MR, [1 2 3 4] => product(token, rows, b, tile));
        }
        if whole < tile.n_rows {
            let (rows, tile) = (after(rows, whole), tile.part(whole..tile.n_rows, columns));
            by_rows!(rows, tile.n_rows, [1 2 3] => product(token, &rows, b, tile));
        }
    }
}

/// The rows from row `first`.
#[inline(always)]
fn after<'a>(rows: &Rows<'a>, first: usize) -> Rows<'a> {
    let masks = rows.masks.get(first / MR * n_masks(rows.k)..).unwrap_or_default();
    Rows { a: &rows.a[first * rows.stride..], masks, ..*rows }
}

/// The same for factors that are not all finite, tile by tile.
fn any_quantized(token: Avx2, rows: &Rows<'_>, b: &[u8], mut tile: Tile<'_>) {
    let panel_len = VARIANT.panel_len(rows.k);
    for (i, column) in (0..tile.n).step_by(NR).enumerate() {
        let (b, columns) = (&b[i * panel_len..], column..tile.n.min(column + NR));
        for row in (0..tile.n_rows).step_by(MR) {
            let own = row..tile.n_rows.min(row + MR);
            let (rows, part) = (after(rows, row), tile.part(own, columns.clone()));
            from_sums::<MR>(Isa::Avx2(token), part, |sums| self::tile(token, &rows, b, sums));
        }
    }
}

features! { Avx2 enabled
    /// The even bytes as 16-bit integers.
    #[inline]
    fn even(bytes: __m256i, is_signed: bool) -> __m256i {
        match is_signed {
            true => _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
            false => _mm256_srli_epi16::<8>(_mm256_slli_epi16::<8>(bytes)),
        }
    }
}

features! { Avx2 enabled
    /// The odd bytes as 16-bit integers.
    #[inline]
    fn odd(bytes: __m256i, is_signed: bool) -> __m256i {
        match is_signed {
            true => _mm256_srai_epi16::<8>(bytes),
            false => _mm256_srli_epi16::<8>(bytes),
        }
    }
}

features! { Avx2 enabled
    /// Loads up to 16 columns, followed by zeros.
    #[inline]
    fn load_columns(x: &[f32]) -> [__m256; 2] {
        let (low, high) = x.split_at(x.len().min(LANES));
        [load8(low), load8(high)]
    }
}

/// Stores the quantized values of a row, up to 16, which are the bytes from `from`.
#[inline(always)]
fn store_row(y: &mut [u8], bytes: &[u8; BYTES], from: usize) {
    let (mut y, mut bytes) = (y, &bytes[from..][..NR]);
    if let Some(y) = y.as_mut_array::<NR>() {
        y.copy_from_slice(bytes);
        return;
    }
    // In pieces: a copy of any length is a call.
    store_piece::<8>(&mut y, &mut bytes);
    store_piece::<4>(&mut y, &mut bytes);
    store_piece::<2>(&mut y, &mut bytes);
    store_piece::<1>(&mut y, &mut bytes);
}

/// Stores the first `N` bytes, if that many are left.
#[inline(always)]
fn store_piece<const N: usize>(y: &mut &mut [u8], bytes: &mut &[u8]) {
    if y.len() >= N {
        let (piece, rest) = std::mem::take(y).split_at_mut(N);
        piece.copy_from_slice(&bytes[..N]);
        (*y, *bytes) = (rest, &bytes[N..]);
    }
}

/// 16 sums.
type Row = [__m256i; 2];

features! { Avx2 enabled
    /// The initial values of the sums of `n` columns from `column`, of the rows from `row`.
    #[inline]
    fn initial<const R: usize>(start: Start<'_>, [row, column]: [usize; 2], n: usize) -> [Row; R] {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        match start {
            Start::Zero => {}
            Start::ByColumn(start) => {
                let [low, high] = load_columns(bytemuck::cast_slice(&start[column..][..n]));
                sums = [[_mm256_castps_si256(low), _mm256_castps_si256(high)]; R];
            }
            Start::ByRow(start) => {
                let start = &start[row..][..R];
                for r in 0..R {
                    sums[r] = [_mm256_set1_epi32(start[r]); 2];
                }
            }
        }
        sums
    }
}

features! { Avx2 enabled
    /// The quantized values of two rows of sums, one after the other.
    #[inline]
    fn quantized_rows(sums: [Row; 2], factors: [[__m256; 2]; 2], requantize: &Requantize<'_>) -> [u8; BYTES] {
        let [[a, b], [c, d]] = sums;
        let [[fa, fb], [fc, fd]] = factors;
        let bytes = quantized([a, b, c, d], [fa, fb, fc, fd], requantize);
        // Each 128 bits hold four of the first 8 columns and four of the others, of either row.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let mut rows = [0; LANES];
        store_ints8(&mut rows, _mm256_permutevar8x32_epi32(bytes, order));
        bytemuck::cast(rows)
    }
}

/// Writes the quantized values of the rows from `$first` and columns `$columns`: a macro, because passing sums to a
/// function would keep them in memory.
macro_rules! write_quantized {
    ($sums:ident of $rows:ident from $first:ident, $columns:ident, $stride:expr, $to:ident, $y:ident) => {
        let mut factors = [[_mm256_setzero_ps(); 2]; 2];
        if let Scales::ByColumn(all) = $to.factors {
            factors = [load_columns(&all[$columns.clone()]); 2];
        }
        each_row!(r of pairs of $rows => {
            // The last row may be a pair with itself.
            let (row, other) = ($first + r, $first + if r + 1 < $rows { r + 1 } else { r });
            if let Scales::ByRow(all) = $to.factors {
                factors = [[_mm256_set1_ps(all[row]); 2], [_mm256_set1_ps(all[other]); 2]];
            }
            let last = if r + 1 < $rows { $sums[r + 1] } else { $sums[r] };
            let bytes = quantized_rows([$sums[r], last], factors, $to);
            store_row(&mut $y[row * $stride..][$columns.clone()], &bytes, 0);
            if other > row {
                store_row(&mut $y[other * $stride..][$columns.clone()], &bytes, NR);
            }
        });
    };
}

features! { Avx2 enabled
    /// `sums + Σ a·b` of a quad of each row, where two products fit in 16 bits.
    #[inline]
    fn add_pairs<const R: usize, const SIGNED: bool>(
        mut sums: [Row; R],
        a: [[u8; QUAD]; R],
        b: &[[u8; BYTES]; 2],
    ) -> [Row; R] {
        let ones = _mm256_set1_epi16(1);
        for r in 0..R {
            let a = _mm256_set1_epi32(i32::from_le_bytes(a[r]));
            for w in 0..2 {
                // The unsigned operand comes first.
                let pairs = match SIGNED {
                    true => _mm256_maddubs_epi16(load_bytes32(&b[w]), a),
                    false => _mm256_maddubs_epi16(a, load_bytes32(&b[w])),
                };
                sums[r][w] = _mm256_add_epi32(sums[r][w], _mm256_madd_epi16(pairs, ones));
            }
        }
        sums
    }
}

/// The quad `q` of each row.
#[inline(always)]
fn each<const R: usize>(rows: &[&[[u8; QUAD]]; R], q: usize) -> [[u8; QUAD]; R] {
    let mut quads = [[0; QUAD]; R];
    for r in 0..R {
        quads[r] = rows[r][q];
    }
    quads
}

features! { Avx2 enabled
    /// `sums + Σ a·b` of a quad of each row.
    #[inline]
    fn add<const R: usize, const SIGNED: bool>(
        mut sums: [Row; R],
        a: [[u8; QUAD]; R],
        b: &[[u8; BYTES]; 2],
    ) -> [Row; R] {
        let b = [load_bytes32(&b[0]), load_bytes32(&b[1])];
        let evens = [even(b[0], !SIGNED), even(b[1], !SIGNED)];
        let odds = [odd(b[0], !SIGNED), odd(b[1], !SIGNED)];
        for r in 0..R {
            let a = _mm256_set1_epi32(i32::from_le_bytes(a[r]));
            let (even, odd) = (even(a, SIGNED), odd(a, SIGNED));
            for w in 0..2 {
                sums[r][w] = _mm256_add_epi32(sums[r][w], _mm256_madd_epi16(even, evens[w]));
                sums[r][w] = _mm256_add_epi32(sums[r][w], _mm256_madd_epi16(odd, odds[w]));
            }
        }
        sums
    }
}

kernel! {
    /// The results of tiles of `R` rows, panel by panel: `b: [k/4][16][4]` and masks.
    Avx2 => fn product<const R: usize, const SIGNED: bool>(
        rows: &Rows<'_>,
        b: &[u8],
        tile: Tile<'_>,
    ) {
        let Tile { n_rows, n, start, mut to, stride } = tile;
        let (quads_len, panel_len) = (VARIANT.quads_len(rows.k), VARIANT.panel_len(rows.k));
        let (mut column, mut panels) = (0, b);
        while column < n {
            let columns = column..n.min(column + NR);
            let (b, masks) = panels[..panel_len].split_at(quads_len);
            let (b, last) = b.as_chunks::<BYTES>().0.as_chunks::<2>().0.split_at(rows.k / QUAD);
            let masks = masks.as_chunks().0;
            let mut first = 0;
            while first < n_rows {
                let own = after(rows, first);
                let (a, rest) = own.quads::<R>();
                let masks = if SIGNED { own.masks } else { masks };
                let mut sums: [Row; R] = initial(start, [first, column], columns.len());
                for (word, i) in (0..b.len()).step_by(MASKED).enumerate() {
                    let all = u64::MAX >> MASKED.saturating_sub(b.len() - i);
                    let fit = masks.get(word).map_or(0, |mask| u64::from_le_bytes(*mask));
                    let mut pairs = all & fit;
                    while pairs > 0 {
                        let q = i + pairs.trailing_zeros() as usize;
                        sums = add_pairs::<R, SIGNED>(sums, each(&a, q), &b[q]);
                        pairs &= pairs - 1;
                    }
                    let mut others = all & !fit;
                    while others > 0 {
                        let q = i + others.trailing_zeros() as usize;
                        sums = add::<R, SIGNED>(sums, each(&a, q), &b[q]);
                        others &= others - 1;
                    }
                }
                if let [last] = last {
                    sums = add::<R, SIGNED>(sums, rest, last);
                }
                match &mut to {
                    To::Sums(c) => {
                        each_row!(r of R => {
                            let c = &mut c[(first + r) * stride..][columns.clone()];
                            let c = bytemuck::cast_slice_mut(c);
                            let (low, high) = c.split_at_mut(c.len().min(LANES));
                            store8(low, _mm256_castsi256_ps(sums[r][0]));
                            store8(high, _mm256_castsi256_ps(sums[r][1]));
                        });
                    }
                    To::Quantized(to, y) | To::AnyQuantized(to, y) => {
                        write_quantized!(sums of R from first, columns, stride, to, y);
                    }
                }
                first += R;
            }
            (column, panels) = (columns.end, &panels[panel_len..]);
        }
    }
}
