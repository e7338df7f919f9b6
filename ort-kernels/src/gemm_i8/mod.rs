//! `C[m,n] = start + Σ_k A[m,k]·B[k,n]` of bytes, exact in i32 (which wraps).
//!
//! **Operands.** One is signed, the other unsigned: see [`Signs`]. A: contiguous rows of `k` bytes.
//! B: panels, packed by [`pack_b`] (constants are packed once) or generated from an
//! image by [`Columns`]. [`Start`] is the initial value of sums: bias and zero point corrections, see [`Zeros`].
//! Flipping the highest bit of bytes changes their signedness, which adds 128 to them and to
//! their zero point, or subtracts it.
//!
//! **Exactness.** Products of bytes are at most 2¹⁵ in magnitude, so sums are exact up to
//! `k` = 65536; beyond, they wrap like ONNX's operators. No variant saturates in between.
//!
//! **Results.** Sums, or the quantized values that [`Requantize`] computes from them in registers.
//!
//! **Pairs.** AVX2 adds the products of two pairs of bytes in 16 bits at once, which saturates beyond 2¹⁵. Where the
//! variant asks for it, panels end with masks: which quads of B have pairs so small that
//! no unsigned A saturates; [`row_masks`] says the same about signed A. The other quads are widened to 16 bits first,
//! which takes half as long again.
//!
//! **Loops.** As many rows of A as the first-level cache holds, or the second-level one if B is larger ▸ panels of B, `nr`
//! columns wide ▸ tiles of at most `mr` rows, `n_tiles` at a time. `k` advances by four. Matrix tiles read 64 terms of a row
//! at once: their panels are padded with zeros, so that what follows the row does not matter; where A ends before that, the
//! last terms are copied.
//!
//! ```
//! use ort_kernels::Isa;
//! use ort_kernels::gemm_i8::{Bytes, Gemm, Signs, Start, pack_b, packed_b_len};
//!
//! let (m, n, k) = (1, 2, 3);
//! let isa = Isa::best();
//! let mut b = vec![0; packed_b_len(isa, k, n)];
//! pack_b(isa, &Bytes { data: &[1, 0, 0, 1, 255, 255], k, n, strides: [2, 1] }, 0, &mut b);
//! let (signs, start) = (Signs::UnsignedA, Start::ByColumn(&[10, 0]));
//! let gemm = Gemm { isa, n, k, signs, a: &[200, 2, 3], a_stride: k, a_masks: &[], b: &b, start };
//! let mut c = [0; 2];
//! gemm.run(0..m, 0..n, &mut c);
//! assert_eq!(c, [207, -1]);
//! ```

mod columns;
mod pack;
mod tile;
mod variant;

pub use columns::{Columns, columns_k};
pub use pack::{
    Bytes, Zeros, column_sums, column_sums_while, correct, pack_b, pack_b_while, packed_b_len,
    row_masks, row_masks_len, row_sum,
};
pub use variant::Variant;

use crate::Isa;
use crate::quantize::Requantize;
use std::ops::Range;
use tile::{Finish, Rows, Step, TAIL, Tile, To};
use variant::{Mask, n_masks};

/// Bytes of `k` per instruction.
const QUAD: usize = 4;
/// Quads per mask.
const MASKED: usize = 64;
/// Columns of the widest panel.
const MAX_NR: usize = 32;
/// The least rows, terms of a row, and terms of all rows, for which matrix tiles are faster than dot products, on an Emerald
/// Rapids.
const TILED_ROWS: usize = 5;
const TILED_K: usize = 49;
const TILED_TERMS: usize = 2560;
/// Bytes of A that are multiplied with all panels before the next rows, in the first-level cache; and where the panels
/// do not fit the second-level cache, so that few blocks read them.
const BLOCK_BYTES: usize = 16 << 10;
const LARGE_BLOCK_BYTES: usize = 256 << 10;
/// Bytes of panels that do not fit the second-level cache.
const FAR: usize = 1 << 20;

/// Which operand is signed; the other is unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// A is unsigned, B signed.
    UnsignedA,
    /// A is signed, B unsigned.
    SignedA,
}

/// The initial value of the elements of C.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Zero.
    Zero,
    /// One value per column.
    ByColumn(&'a [i32]),
    /// One value per row.
    ByRow(&'a [i32]),
}

/// Calls `$sums::<R, is_a_signed>` for `$n_rows` rows.
macro_rules! by_rows {
    ($rows:ident, $n_rows:expr, [$($r:literal)+] => $sums:ident $args:tt) => {
        match ($n_rows, $rows.signs) {
            $(($r, Signs::UnsignedA) => by_rows!(@call $sums $r false $args),
            ($r, Signs::SignedA) => by_rows!(@call $sums $r true $args),)+
            (rows, _) => unreachable!("invariant: a tile has no {rows} rows"),
        }
    };
    (@call $sums:ident $r:literal $is_a_signed:literal ($($arg:expr),+)) => {
        $sums::<$r, $is_a_signed>($($arg),+)
    };
}

/// Expands `$body` for each row `$r` of `$rows`, unrolled: a loop that indexes sums would keep them in memory.
#[cfg(target_arch = "x86_64")]
macro_rules! each_row {
    ($r:ident of $rows:ident => $body:block) => {
        each_row!(@ $r $rows $body 0 1 2 3 4 5 6 7 8 9)
    };
    ($r:ident of pairs of $rows:ident => $body:block) => {
        each_row!(@ $r $rows $body 0 2 4 6 8)
    };
    (@ $r:ident $rows:ident $body:block $($index:literal)+) => {
        $(if $index < $rows {
            let $r = $index;
            $body
        })+
    };
}

ladder! {
    // `start + Σ_k rows[r][k]·b[k][j]` and what becomes of it; `b: [k/4][nr][4]` and masks.
    fn tile(rows: &Rows<'_>, b: &[u8], tile: Tile<'_>);
    Amx => amx_32x32, Avx512Vnni => avx512vnni_10x32, Avx2 => avx2_4x16, NeonDotprod => neondotprod_8x8,
    Simd128 => simd128_4x8; generic
}

/// Describes the tile that serves products of `k` terms.
#[must_use]
pub fn variant(isa: Isa, k: usize) -> Variant {
    best(for_terms(isa, k))
}

/// The instruction set for products of `k` terms: for few, dot products take less time than matrix tiles.
fn for_terms(isa: Isa, k: usize) -> Isa {
    match isa {
        Isa::Amx(token) if k < TILED_K => Isa::Avx512(token.into()),
        isa => isa,
    }
}

/// The rows of A that are multiplied with all panels of B before the next, if those do not fit the second-level cache.
#[must_use]
pub fn rows_of_far(isa: Isa, k: usize, n: usize) -> Option<usize> {
    let variant @ Variant { mr, nr, n_tiles, .. } = variant(isa, k);
    let is_far = n.div_ceil(nr).saturating_mul(variant.panel_len(k)) > FAR;
    is_far.then(|| (LARGE_BLOCK_BYTES / k.max(1) / mr).max(n_tiles) * mr)
}

/// One product; threads share it, and each computes its rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// The instruction set of the tile.
    pub isa: Isa,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Which operand is signed.
    pub signs: Signs,
    /// Row `i` of A is `a[i·a_stride..][..k]`.
    pub a: &'a [u8],
    /// The row stride of A.
    pub a_stride: usize,
    /// What [`row_masks`] wrote for the rows of A, if it is signed, or nothing.
    pub a_masks: &'a [u8],
    /// B, packed.
    pub b: &'a [u8],
    /// The initial value of C.
    pub start: Start<'a>,
}

impl Gemm<'_> {
    /// Computes the part of C in `rows` and `columns`, which start at a panel of B (a
    /// multiple of [`Variant::nr`]), into `c`: `[rows, columns]`, contiguous.
    ///
    /// # Panics
    /// If an operand or `c` is too short, or columns are split inside a panel.
    pub fn run(&self, rows: Range<usize>, columns: Range<usize>, c: &mut [i32]) {
        let stride = columns.len();
        self.tiles((rows, columns), To::Sums(c), stride);
    }

    /// Computes the quantized values of that part into `y`, likewise contiguous.
    ///
    /// # Panics
    /// Like [`Gemm::run`], or if there are too few factors.
    pub fn run_quantized(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        requantize: &Requantize<'_>,
        y: &mut [u8],
    ) {
        let (stride, requantize) = (columns.len(), *requantize);
        let to = if requantize.is_finite() {
            To::Quantized(requantize, y)
        } else {
            To::AnyQuantized(requantize, y)
        };
        self.tiles((rows, columns), to, stride);
    }

    /// Computes `to`, tile by tile.
    fn tiles(&self, (rows, columns): (Range<usize>, Range<usize>), to: To<'_>, stride: usize) {
        let isa = self.isa(rows.len());
        let variant @ Variant { mr, k_step, .. } = best(isa);
        let needed = || self.a_stride * (rows.end - 1) + variant.padded_k(self.k);
        if !variant.reads_steps() || needed() <= self.a.len() {
            return self.blocks(isa, (rows, columns), &[], (to, stride));
        }
        // A step of the last row alone cannot be read: rows have more terms than what pads them. It is copied with the others
        // of its tile.
        let (mut tail, n) = ([[0; size_of::<Step>()]; TAIL], (rows.len() - 1) % mr + 1);
        for (row, copy) in (rows.end - n..rows.end).zip(&mut tail) {
            let terms = &self.a[row * self.a_stride..][..self.k];
            let last = &terms[self.k / k_step * k_step..];
            copy[..last.len()].copy_from_slice(last);
        }
        self.blocks(isa, (rows, columns), &tail[..n], (to, stride));
    }

    /// Computes `to`; `tail` holds the last terms of the rows of the last tile, see [`Rows::tail`].
    fn blocks(
        &self,
        isa: Isa,
        (rows, columns): (Range<usize>, Range<usize>),
        tail: &[Step],
        (mut to, stride): (To<'_>, usize),
    ) {
        let Variant { mr, nr, n_tiles, is_blocked, .. } = best(isa);
        assert_eq!(columns.start % nr, 0, "columns start inside a panel");
        // Of the variant that packed them.
        let panel_len = variant(self.isa, self.k).panel_len(self.k);
        let b = &self.b[columns.start / nr * panel_len..];
        let near = || (BLOCK_BYTES / self.k.max(1) / mr).max(n_tiles) * mr;
        let block = rows_of_far(isa, self.k, columns.len()).unwrap_or_else(near);
        let (n_rows, n_columns) =
            if is_blocked { (block, columns.len()) } else { (mr * n_tiles, nr) };
        // Loops without divisions, which would take as long as a short row.
        let mut first = rows.start;
        while first < rows.end {
            let last = rows.end.min(first + block);
            let (mut column, mut panels) = (columns.start, b);
            while column < columns.end {
                let own = column..columns.end.min(column + n_columns);
                let panel = if is_blocked { panels } else { &panels[..panel_len] };
                let mut row = first;
                while row < last {
                    let tile_rows = row..last.min(row + n_rows);
                    let start = self.start.part(tile_rows.clone(), own.clone());
                    let at = (row - rows.start) * stride + own.start - columns.start;
                    let (n_rows, n) = (tile_rows.len(), own.len());
                    let to = to.part((tile_rows, own.clone()), at);
                    let tail = if row + n_rows == rows.end { tail } else { &[] };
                    let tile = Tile { n_rows, n, start, to, stride };
                    self::tile(isa, &self.rows(row, tail), panel, tile);
                    row += n_rows;
                }
                (column, panels) = (own.end, &panels[panel_len..]);
            }
            first = last;
        }
    }

    /// The instruction set for this many rows: for few, dot products take less time than matrix tiles.
    fn isa(&self, n_rows: usize) -> Isa {
        let Self { k, a_stride, .. } = *self;
        let are_few = n_rows < TILED_ROWS || n_rows.saturating_mul(k) < TILED_TERMS;
        match for_terms(self.isa, k) {
            // Rows that overlap are not worth tiles either.
            Isa::Amx(token) if are_few || a_stride < k => Isa::Avx512(token.into()),
            isa => isa,
        }
    }

    /// The rows from `first` on.
    fn rows<'r>(&'r self, first: usize, tail: &'r [Step]) -> Rows<'r> {
        let Self { k, a_stride: stride, signs, .. } = *self;
        let mr = variant(self.isa, k).mr;
        let masks = match self.a_masks.as_chunks().0 {
            masks if !masks.is_empty() && first.is_multiple_of(mr) => {
                &masks[first / mr * n_masks(k)..]
            }
            _ => &[],
        };
        Rows { a: &self.a[first * stride..], stride, k, signs, masks, tail }
    }
}

/// Computes quantized values in rare cases, from sums that `tile_of` stores first.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn from_sums<const MR: usize>(isa: Isa, tile: Tile<'_>, tile_of: impl Fn(Tile<'_>)) {
    let mut c = [[0; MAX_NR]; MR];
    let sums = &mut c[..tile.n_rows];
    let (n_rows, n, to) = (tile.n_rows, tile.n, To::Sums(sums.as_flattened_mut()));
    tile_of(Tile { n_rows, n, start: Start::Zero, to, stride: MAX_NR });
    isa.run(Finish { sums, tile });
}

#[cfg(test)]
mod tests;
