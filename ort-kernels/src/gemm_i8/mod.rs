//! `C[m,n] = start + Σ_k A[m,k]·B[k,n]` of bytes, exact in i32 (which wraps).
//!
//! **Operands.** One is signed, the other unsigned: [`Signs`] says which. A: rows of `k` bytes that
//! are contiguous. B: panels, packed with [`pack_b`] (constants are packed once) or made of an
//! image with [`Columns`]. [`Start`] is what sums begin with: bias and zero points, [`Zeros`] says
//! how. Bytes become of the other sign by flipping their highest bit, which adds 128 to them and to
//! their zero point, or takes it.
//!
//! **Exactness.** Products of bytes are at most 2¹⁵ in magnitude, so that sums are exact up to
//! `k` = 65536; beyond, they wrap as the operators of ONNX do. No variant saturates in between.
//!
//! **Results.** Sums, or the quantized values that [`Requantize`] makes of them while they are in registers.
//!
//! **Loops.** As many rows of A as the first-level cache holds ▸ panels of B, `nr` columns wide ▸ tiles of
//! at most `mr` rows. Four of `k` at a time.
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
//! let gemm = Gemm { isa, n, k, signs, a: &[200, 2, 3], a_stride: k, b: &b, start };
//! let mut c = [0; 2];
//! gemm.run(0..m, 0..n, &mut c);
//! assert_eq!(c, [207, -1]);
//! ```

mod columns;
mod pack;

pub use columns::Columns;
pub use pack::{Bytes, Zeros, column_sums, pack_b, packed_b_len, row_sum};

use crate::quantize::Requantize;
use crate::{Isa, Task};
use std::ops::Range;

/// Bytes of `k` that one instruction takes together.
const QUAD: usize = 4;
/// The columns of the widest panel.
const MAX_NR: usize = 32;
/// Bytes of A that are multiplied with all panels before the next are.
const BLOCK_BYTES: usize = 16 << 10;

/// A register tile: its name, its rows and its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// The most rows a tile has.
    pub mr: usize,
    /// The columns of a panel of B.
    pub nr: usize,
}

/// Which operand is signed; the other is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// A is unsigned, B signed.
    UnsignedA,
    /// A is signed, B unsigned.
    SignedA,
}

/// What the elements of C begin with.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// Zero.
    Zero,
    /// One value a column.
    ByColumn(&'a [i32]),
    /// One value a row.
    ByRow(&'a [i32]),
}

/// Rows of A that a tile reads: `a[row·stride..][..k]`.
#[derive(Clone, Copy, Debug)]
struct Rows<'a> {
    a: &'a [u8],
    stride: usize,
    k: usize,
    signs: Signs,
}

impl<'a> Rows<'a> {
    /// `R` rows as whole quads, all as many, and what is left of each, filled up with zeros.
    #[inline(always)]
    fn quads<const R: usize>(&self) -> ([&'a [[u8; QUAD]]; R], [[u8; QUAD]; R]) {
        let (mut whole, mut rest): ([&'a [[u8; QUAD]]; R], _) = ([&[]; R], [[0; QUAD]; R]);
        let (n_whole, n_left) = (self.k / QUAD, self.k % QUAD);
        // Loops, not closures or copies: those may be calls, for each tile.
        for r in 0..R {
            let (quads, left) = self.a[r * self.stride..][..self.k].as_chunks();
            whole[r] = &quads[..n_whole];
            if n_left > 0 {
                rest[r].iter_mut().zip(left).for_each(|(to, from)| *to = *from);
            }
        }
        (whole, rest)
    }
}

/// A tile of results: up to `mr` rows, up to `nr` columns.
#[derive(Debug)]
struct Tile<'a> {
    n_rows: usize,
    n: usize,
    /// What its sums begin with.
    start: Start<'a>,
    to: To<'a>,
    /// From one row of results to the next.
    stride: usize,
}

/// Where results go, from the first of a tile on.
#[derive(Debug)]
enum To<'a> {
    Sums(&'a mut [i32]),
    /// Quantized values from finite factors, with which no product is NaN.
    Codes(Requantize<'a>, &'a mut [u8]),
    /// Quantized values from any factors.
    AnyCodes(Requantize<'a>, &'a mut [u8]),
}

impl To<'_> {
    /// The results of a tile that begins with element `at`.
    fn part(&mut self, (rows, columns): (Range<usize>, Range<usize>), at: usize) -> To<'_> {
        match self {
            To::Sums(c) => To::Sums(&mut c[at..]),
            To::Codes(codes, y) => To::Codes(codes.part(rows, columns), &mut y[at..]),
            To::AnyCodes(codes, y) => To::AnyCodes(codes.part(rows, columns), &mut y[at..]),
        }
    }
}

/// Calls `$sums::<R, is_a_signed>` for as many rows as `$n_rows` says.
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

ladder! {
    // `start + Σ_k rows[r][k]·b[k][j]` and what becomes of it; `b: [k/4][nr][4]`.
    fn tile(rows: &Rows<'_>, b: &[u8], tile: Tile<'_>);
    Avx512Vnni => avx512vnni_10x32, Avx2 => avx2_4x16; generic
}

/// Describes the tile that serves `isa`.
#[must_use]
pub fn variant(isa: Isa) -> Variant {
    best(isa)
}

/// One product; threads share it, and each runs rows and columns of its own.
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a> {
    /// Which tile to use.
    pub isa: Isa,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Which operand is signed.
    pub signs: Signs,
    /// Row `i` of A is `a[i·a_stride..][..k]`.
    pub a: &'a [u8],
    /// From one row of A to the next.
    pub a_stride: usize,
    /// B, packed.
    pub b: &'a [u8],
    /// What C begins with.
    pub start: Start<'a>,
}

impl Gemm<'_> {
    /// Computes the part of C in `rows` and `columns`, which begin where a panel of B does (a
    /// multiple of [`Variant::nr`]), into `c`: `[rows, columns]`, contiguous.
    ///
    /// # Panics
    /// If an operand or `c` is too short, or columns are cut inside a panel.
    pub fn run(&self, rows: Range<usize>, columns: Range<usize>, c: &mut [i32]) {
        let stride = columns.len();
        self.tiles((rows, columns), To::Sums(c), stride);
    }

    /// Computes the quantized values of that part into `y`, likewise contiguous.
    ///
    /// # Panics
    /// As [`Gemm::run`], or if there are too few factors.
    pub fn run_codes(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        codes: &Requantize<'_>,
        y: &mut [u8],
    ) {
        let (stride, codes) = (columns.len(), *codes);
        let to = if codes.is_finite() { To::Codes(codes, y) } else { To::AnyCodes(codes, y) };
        self.tiles((rows, columns), to, stride);
    }

    /// Computes `to`, tile by tile.
    fn tiles(&self, (rows, columns): (Range<usize>, Range<usize>), mut to: To<'_>, stride: usize) {
        let Variant { mr, nr, .. } = best(self.isa);
        assert_eq!(columns.start % nr, 0, "columns are cut inside a panel");
        let panel_len = self.k.div_ceil(QUAD) * QUAD * nr;
        let block = (BLOCK_BYTES / self.k.max(1) / mr).max(1) * mr;
        for first in rows.clone().step_by(block) {
            for column in columns.clone().step_by(nr) {
                let own = column..columns.end.min(column + nr);
                let b = &self.b[column / nr * panel_len..][..panel_len];
                for row in (first..rows.end.min(first + block)).step_by(mr) {
                    let tile_rows = row..rows.end.min(row + mr);
                    let start = match self.start {
                        Start::Zero => Start::Zero,
                        Start::ByColumn(start) => Start::ByColumn(&start[own.clone()]),
                        Start::ByRow(start) => Start::ByRow(&start[tile_rows.clone()]),
                    };
                    let at = (row - rows.start) * stride + own.start - columns.start;
                    let (n_rows, n) = (tile_rows.len(), own.len());
                    let to = to.part((tile_rows, own.clone()), at);
                    tile(self.isa, &self.rows(row), b, Tile { n_rows, n, start, to, stride });
                }
            }
        }
    }

    fn rows(&self, first: usize) -> Rows<'_> {
        let Self { k, a_stride: stride, signs, .. } = *self;
        Rows { a: &self.a[first * stride..], stride, k, signs }
    }
}

/// Sums without what they begin with, to become the results of a tile.
struct Finish<'a> {
    sums: &'a mut [[i32; MAX_NR]],
    tile: Tile<'a>,
}

impl Task for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { sums, tile: Tile { n_rows, n, start, mut to, stride } } = self;
        for (r, sums) in sums[..n_rows].iter_mut().enumerate() {
            let sums = &mut sums[..n];
            match start {
                Start::Zero => {}
                Start::ByColumn(start) => {
                    let start = &start[..n];
                    for j in 0..n {
                        sums[j] = sums[j].wrapping_add(start[j]);
                    }
                }
                Start::ByRow(start) => {
                    sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(start[r]));
                }
            }
            match &mut to {
                To::Sums(c) => c[r * stride..][..n].copy_from_slice(sums),
                To::Codes(codes, y) | To::AnyCodes(codes, y) => {
                    codes.write(r, sums, &mut y[r * stride..][..n]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
