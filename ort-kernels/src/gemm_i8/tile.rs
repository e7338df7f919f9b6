//! A tile of a product: the rows it reads, where its sums start, and where its results go.

use super::{MAX_NR, Mask, QUAD, Signs, Start};
use crate::Task;
use crate::quantize::Requantize;
use std::ops::Range;

/// The rows of A of a tile: `a[row·stride..][..k]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    pub(super) a: &'a [u8],
    pub(super) stride: usize,
    pub(super) k: usize,
    pub(super) signs: Signs,
    /// The masks of each `mr` rows, if they are known.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no variant has masks"))]
    pub(super) masks: &'a [Mask],
    /// The last terms, fewer than a step, of the last rows, if the variant reads steps but A ends before that.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no variant reads steps"))]
    pub(super) tail: &'a [Step],
}

/// The bytes that matrix tiles read of a row at once.
pub(super) type Step = [u8; 64];
/// Rows of a matrix tile.
pub(super) const TAIL: usize = 32;
impl<'a> Rows<'a> {
    /// `R` rows as whole quads, equal in number, and the rest of each, padded with zeros.
    #[inline(always)]
    pub(super) fn quads<const R: usize>(&self) -> ([&'a [[u8; QUAD]]; R], [[u8; QUAD]; R]) {
        let (mut whole, mut rest): ([&'a [[u8; QUAD]]; R], _) = ([&[]; R], [[0; QUAD]; R]);
        let (n_whole, n_left) = (self.k / QUAD, self.k % QUAD);
        // Loops, because closures or copies may not be inlined.
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

/// Tiles of results: up to `mr` rows for each of up to `n_tiles`, up to `nr` columns; or those of a block.
#[derive(Debug)]
pub(super) struct Tile<'a> {
    pub(super) n_rows: usize,
    pub(super) n: usize,
    /// The initial value of its sums.
    pub(super) start: Start<'a>,
    pub(super) to: To<'a>,
    /// The row stride of results.
    pub(super) stride: usize,
}

/// The destination of results, starting at the tile.
#[derive(Debug)]
pub(super) enum To<'a> {
    Sums(&'a mut [i32]),
    /// Quantized values with finite factors, so that no product is NaN.
    Quantized(Requantize<'a>, &'a mut [u8]),
    /// Quantized values with any factors.
    AnyQuantized(Requantize<'a>, &'a mut [u8]),
}

impl Start<'_> {
    /// The initial values of these rows and columns.
    pub(super) fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::ByColumn(start) => Self::ByColumn(&start[columns]),
            Self::ByRow(start) => Self::ByRow(&start[rows]),
        }
    }
}

impl Tile<'_> {
    /// These rows and columns of it.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> Tile<'_> {
        let (n_rows, n, stride) = (rows.len(), columns.len(), self.stride);
        let start = self.start.part(rows.clone(), columns.clone());
        let at = rows.start * stride + columns.start;
        Tile { n_rows, n, start, to: self.to.part((rows, columns), at), stride }
    }
}

impl To<'_> {
    /// The destination of a tile that starts at element `at`.
    pub(super) fn part(
        &mut self,
        (rows, columns): (Range<usize>, Range<usize>),
        at: usize,
    ) -> To<'_> {
        match self {
            To::Sums(c) => To::Sums(&mut c[at..]),
            To::Quantized(requantize, y) => {
                To::Quantized(requantize.part(rows, columns), &mut y[at..])
            }
            To::AnyQuantized(requantize, y) => {
                To::AnyQuantized(requantize.part(rows, columns), &mut y[at..])
            }
        }
    }
}

/// Converts sums without initial values to the results of a tile.
pub(super) struct Finish<'a> {
    pub(super) sums: &'a mut [[i32; MAX_NR]],
    pub(super) tile: Tile<'a>,
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
                To::Quantized(requantize, y) | To::AnyQuantized(requantize, y) => {
                    requantize.write(r, sums, &mut y[r * stride..][..n]);
                }
            }
        }
    }
}
