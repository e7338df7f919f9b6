//! `C[m,n] = bias[n] + Σ_k A[m,k]·(q[k,n] − zero[b,n])·scale[b,n]`, `b` = `k / block`: products with
//! weights of 2, 4 or 8 bits, which stay packed in memory and are dequantized in registers.
//!
//! **Weights.** [`Format`] defines how quantized values are stored and packed: panels of `nr` columns,
//! in which a 32-bit word holds the values of a column for `32 / bits` consecutive `k`, so that one
//! register holds one column per lane: byte `q`, bits `s·bits…` is `k = 4·s + q`. Scales and zero points
//! are in panels `[blocks][nr]`. Zero points are relative to the middle of the range, `2^(bits−1)`.
//!
//! **Floats** ([`Weights::times_floats`]): for a few rows. A block is summed in two chains of
//! multiply-adds of `a·(q − middle)`, joined, minus `zero·Σa`, times the scale, and added to the
//! sum of the previous blocks. Error: at most `γ(k+4)·Σ|a|·(|q − middle| + |zero|)·|scale|`.
//! For more than [`Format::few_rows`], use [`Gemm`](crate::gemm::Gemm), which accepts [`Weights`] as its right
//! operand: each weight is then rounded twice, with the error of that product.
//!
//! **Bytes** ([`Weights::times_bytes`]): A is quantized by block, [`quantize_blocks`], sums of a block
//! are exact in i32 and f32, and the blocks form one chain of multiply-adds:
//! so bits depend neither on the instruction set, if it has fused multiply-adds, nor on how rows and
//! columns are split. Error in addition to that of floats: half a step of A per block, `max|a|/254·Σ|weight|`.
//!
//! ```
//! use ort_kernels::Isa;
//! use ort_kernels::gemm::Strided;
//! use ort_kernels::gemm_nbits::{Floats, Format, Weights, float_variant};
//!
//! // One column of 16 weights: the 4-bit value 9 is 1 above the middle.
//! let format = Format { bits: 4, block: 16, k: 16, n: 1, nr: float_variant(Isa::best()).nr };
//! let (mut quantized, mut scales) = (vec![0; format.quantized_len()], vec![0.0; format.scales_len()]);
//! format.pack_quantized(Isa::best(), &[0x99; 8], &mut quantized);
//! format.pack_by_block(&[0.5], &mut scales);
//! let weights = Weights { format, quantized: &quantized, scales: &scales, zeros: None, table: None, bias: None };
//! let (a, mut c) = ([1.0; 16], [0.0]);
//! let a = Floats { a: &a, stride: 16, sums: &[] };
//! weights.times_floats(Isa::best(), &a, (0..1, 0..1), &mut Strided { data: &mut c, stride: 1 });
//! assert_eq!(c, [8.0]);
//! ```

mod bytes;
mod floats;
mod format;
mod unpack;

pub use bytes::{Quantized, all as all_bytes, quantize_blocks, variant as byte_variant};
pub use floats::{all as all_floats, block_sums, variant as float_variant};
pub use format::Format;

use std::ops::Range;

use crate::Isa;
use crate::gemm::Rows;

/// Bytes per word, which holds consecutive quantized values of one column.
const WORD: usize = 4;
/// Columns of the widest panel.
const MAX_NR: usize = 32;
/// Rows of the highest tile.
const MAX_MR: usize = 6;
/// The maximum block size whose sums of bytes are exact in f32: 255·127·512 is less than 2²⁴.
pub const MAX_BLOCK: usize = 512;

/// A register tile: its name, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// The maximum number of rows per tile.
    pub mr: usize,
    /// Columns per panel.
    pub nr: usize,
}

/// Packed weights.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Sizes and bits.
    pub format: Format,
    /// Output of [`Format::pack_quantized`].
    pub quantized: &'a [u8],
    /// Scales, packed by [`Format::pack_by_block`].
    pub scales: &'a [f32],
    /// Zero points minus the middle of the range, packed likewise; `None` if they equal the middle.
    pub zeros: Option<&'a [f32]>,
    /// What each quantized value of 4 bits stands for, if that is not its distance from the middle of the range; only
    /// for [`Weights::times_floats`] and float products.
    pub table: Option<&'a [f32; 16]>,
    /// Added to each column.
    pub bias: Option<&'a [f32]>,
}

/// Rows of A in f32.
#[derive(Clone, Copy, Debug)]
pub struct Floats<'a> {
    /// Row `i` is `a[i·stride..]`, [`Format::padded_k`] elements, zero starting at `k`.
    pub a: &'a [f32],
    /// The row stride.
    pub stride: usize,
    /// `[rows, blocks]`: [`block_sums`] of the rows; unused without zero points.
    pub sums: &'a [f32],
}

/// Rows of A, written by [`quantize_blocks`].
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    /// `[rows, padded_k]`.
    pub a: &'a [i8],
    /// `[rows, blocks]`.
    pub scales: &'a [f32],
    /// `[rows, blocks]`: the sums of the bytes.
    pub sums: &'a [f32],
}

/// One panel of weights.
#[derive(Clone, Copy, Debug)]
struct Panel<'a> {
    format: Format,
    /// `[words][nr]` words.
    quantized: &'a [u8],
    /// `[blocks][nr]`.
    scales: &'a [f32],
    /// The same, or empty.
    zeros: &'a [f32],
    table: Option<&'a [f32; 16]>,
}

impl<'a> Weights<'a> {
    /// The panel that starts with `column`.
    fn panel(&self, column: usize) -> Panel<'a> {
        let format = self.format;
        assert_eq!(column % format.nr, 0, "columns start inside a panel");
        let (index, n_scales) = (column / format.nr, format.n_blocks() * format.nr);
        let of = |all: &'a [f32]| &all[index * n_scales..][..n_scales];
        Panel {
            format,
            quantized: &self.quantized[index * format.panel_bytes()..][..format.panel_bytes()],
            scales: of(self.scales),
            zeros: self.zeros.map_or(&[], of),
            table: self.table.filter(|_| format.bits == 4),
        }
    }

    /// Computes the part of C in these rows and columns, which start at a panel, from rows of
    /// floats. Row `i` of `c` is row `rows.start + i`, and starts with column `columns.start`.
    ///
    /// # Panics
    /// If an operand or `c` is too short, weights are packed for another instruction set, or columns are
    /// split inside a panel.
    pub fn times_floats(
        &self,
        isa: Isa,
        a: &Floats<'_>,
        (rows, columns): (Range<usize>, Range<usize>),
        c: &mut (impl Rows + ?Sized),
    ) {
        let variant = float_variant(isa);
        self.each_tile(variant, (rows, columns), c, |panel, rows, sums| {
            let n_blocks = self.format.n_blocks();
            let block_sums = a.sums.get(rows.start * n_blocks..).unwrap_or_default();
            let a = Floats { a: &a.a[rows.start * a.stride..], sums: block_sums, ..*a };
            floats::tile(isa, panel, &a, sums);
        });
    }

    /// [`Weights::times_floats`] with rows of bytes.
    ///
    /// # Panics
    /// Like that, or if a block has more than [`MAX_BLOCK`] quantized values.
    pub fn times_bytes(
        &self,
        isa: Isa,
        a: &Bytes<'_>,
        (rows, columns): (Range<usize>, Range<usize>),
        c: &mut (impl Rows + ?Sized),
    ) {
        assert!(self.format.block <= MAX_BLOCK, "at most MAX_BLOCK quantized values per block");
        let variant = byte_variant(isa);
        self.each_tile(variant, (rows, columns), c, |panel, rows, sums| {
            let (k, n_blocks) = (self.format.padded_k(), self.format.n_blocks());
            let own = Bytes {
                a: &a.a[rows.start * k..],
                scales: &a.scales[rows.start * n_blocks..],
                sums: &a.sums[rows.start * n_blocks..],
            };
            bytes::tile(isa, panel, &own, sums);
        });
    }

    /// Calls `tile` for each panel and the rows of each tile, and writes the results.
    fn each_tile(
        &self,
        Variant { mr, nr, .. }: Variant,
        (rows, columns): (Range<usize>, Range<usize>),
        c: &mut (impl Rows + ?Sized),
        tile: impl Fn(&Panel<'_>, Range<usize>, &mut [[f32; MAX_NR]]),
    ) {
        assert_eq!(nr, self.format.nr, "weights are packed for another instruction set");
        let mut sums = [[0.0; MAX_NR]; MAX_MR];
        for column in columns.clone().step_by(nr) {
            let own = column..columns.end.min(column + nr);
            let panel = self.panel(column);
            for first in rows.clone().step_by(mr) {
                let own_rows = first..rows.end.min(first + mr);
                let sums = &mut sums[..own_rows.len()];
                tile(&panel, own_rows.clone(), sums);
                for (c, sums) in c.rows(first - rows.start, own_rows.len()).zip(sums) {
                    let c = &mut c[own.start - columns.start..own.end - columns.start];
                    match self.bias {
                        None => c.copy_from_slice(&sums[..own.len()]),
                        Some(bias) => {
                            let sums = sums.iter().zip(&bias[own.clone()]);
                            c.iter_mut().zip(sums).for_each(|(c, (sum, bias))| *c = sum + bias);
                        }
                    }
                }
            }
        }
    }
}

/// The first bit of quantized value `i` in a word.
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a word has 32 bits"
)]
#[inline(always)]
const fn small(bit: usize) -> i32 {
    bit as i32
}

/// Calls `$sums::<R, BITS, STEP>` for the number of rows of `$c` and values of `$bits` bits, `STEP` of
/// them per word.
macro_rules! by_rows {
    ($panel:ident, $c:ident, [$($r:literal)+] => $sums:ident $args:tt) => {
        match ($c.len(), $panel.format.bits) {
            $(($r, 2) => by_rows!(@call $sums [$r, 2, 16] $args),
            ($r, 4) => by_rows!(@call $sums [$r, 4, 8] $args),
            ($r, _) => by_rows!(@call $sums [$r, 8, 4] $args),)+
            (rows, _) => unreachable!("invariant: a tile has no {rows} rows"),
        }
    };
    (@call $sums:ident [$($parameter:literal),+] ($($arg:expr),+)) => {
        $sums::<$($parameter),+>($($arg),+)
    };
}
use by_rows;

#[cfg(test)]
mod tests;
