//! The loops around the register tile.

use super::element::{Left, Tile, line_len};
use super::next::{Next, Turn};
use super::pack::{RowPanels, pack_panel};
use super::rows::{Place, Target};
use super::step::{K_SLICE, PANELS, Steps};
use super::{Element, Lhs, Matrix, Panels, RowTimesPanels, Rows, Slice, Start, Stored};
use crate::Isa;
use std::ops::Range;

/// Rows of A per block if B is written to scratch.
const M_BLOCK: usize = 336;
/// The maximum rows of B per pass over a block of A.
const K_BLOCK: usize = 1024;
/// The maximum rows of A for which B is not packed.
const FEW: usize = 4;
/// The maximum rows of A for which B is not prefetched even from the third-level cache: a line takes
/// 2.5 cycles to arrive, and as many cycles as rows to use.
const MAX_UNPREFETCHED: usize = 2;
/// The most rows of a tile that fit one set of a first-level cache, beside a line of B and one of C:
/// unpacked rows of A are read as fast as packed ones, whatever their strides.
const MAX_UNPACKED: usize = 6;
/// Bytes of B that stay in the caches while it is read again and again. If there are more, packing
/// A costs less than not prefetching B.
const NEAR: usize = 3 << 20;
/// The maximum columns of B for which A is not packed, whatever its strides: it is read only a few
/// times.
const NARROWEST: usize = 64;
/// The same for good strides: with more, packing A costs less than not prefetching
/// B.
const NARROW: usize = 128;
/// The same if B is written to scratch, so that there is nothing to prefetch.
const WIDE: usize = 1024;
/// Rows of A whose stride is a multiple of this many elements map to the same sets of a
/// first-level cache.
const CONFLICTING: usize = 512;
/// Tiles that share a panel of 16-bit floats if it is widened before them, and not by each.
const MANY: usize = 3;
/// The maximum rows of a tile of any variant.
const MAX_MR: usize = 14;

/// One product; threads share it and each runs its own [`Region`].
#[derive(Clone, Copy, Debug)]
pub struct Gemm<'a, B, T: Element = f32> {
    /// The instruction set of the tile.
    pub isa: Isa,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// A: [m, k].
    pub a: Lhs<'a, T>,
    /// B: [k, n].
    pub b: B,
    /// The initial value of C.
    pub start: Start<'a, T>,
    /// Applied to the sums.
    pub activation: T::Activation,
}

/// The part of C that one call computes.
///
/// For a packed A, rows start and end at panels of [`row_panels`](super::row_panels); for
/// a packed B, columns start at a multiple of [`Variant::nr`](super::Variant::nr).
#[derive(Clone, Debug)]
pub struct Region {
    /// Rows of C.
    pub rows: Range<usize>,
    /// Columns of C.
    pub columns: Range<usize>,
}

/// A block of rows of A.
struct Block<'a, T> {
    /// Starting at the first row of the block, all of `k`.
    a: Left<'a, T>,
    rows: Range<usize>,
    panels: RowPanels,
    /// The range of `panels` that makes up `rows`.
    which: Range<usize>,
}

/// Splits `range` into nearly equal parts of at most `len`; one part if it is empty.
pub(super) fn cuts(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let (start, total) = (range.start, range.len());
    let count = total.div_ceil(len).max(1);
    let boundary = move |i| start + i * total / count;
    (0..count).map(move |i| boundary(i)..boundary(i + 1))
}

impl<B: Panels<T>, T: Element> Gemm<'_, B, T> {
    /// All of C.
    #[must_use]
    pub fn whole(&self) -> Region {
        Region { rows: 0..self.m, columns: 0..self.n }
    }

    /// Elements of scratch that [`Gemm::run`] needs for a region of `rows` rows; sufficient for all
    /// products that differ from this one only by fewer rows or columns.
    #[must_use]
    pub fn scratch_len(&self, rows: usize) -> usize {
        // A product of fewer rows may not use tiles, and need more scratch.
        let tiled = T::tiled_scratch_len(self, rows);
        let packed_a = match self.a {
            Lhs::Strided { .. } => rows.min(self.block_rows()) * self.k,
            Lhs::Packed(_) => 0,
        };
        tiled.max(packed_a + PANELS * self.panel_len() + line_len::<T>())
    }

    /// Computes `region`. Row `i` of `c` is row `region.rows.start + i` of C, and starts with
    /// column `region.columns.start`.
    ///
    /// # Panics
    /// If an operand, `c` or the scratch is too short, or a packed operand is split inside a panel.
    pub fn run(&self, region: &Region, c: &mut (impl Rows<T> + ?Sized), scratch: &mut [T]) {
        // Decided first, by the sizes of the whole product, not by how callers split it.
        if T::is_tiled(self) {
            return T::run_on_tiles(self, region, c, scratch);
        }
        if let Some((a, alpha, b)) = self.dots() {
            let (a, b) = (a.part(region.rows.start, 0), b.part(0, region.columns.start));
            return self.run_few(region, c, |c| T::add_dots(self.isa, (&a, alpha), &b, c));
        }
        if let (1..=FEW, Lhs::Strided { a, alpha }) = (region.rows.len(), &self.a)
            && let Some(b) = self.b.as_rows()
        {
            let (a, b) = (a.part(region.rows.start, 0), b.part(0, region.columns.start));
            return self.run_few(region, c, |c| T::add_products(self.isa, (&a, *alpha), &b, c));
        }
        let (b_panels, packed) = from_line(scratch).split_at_mut(PANELS * self.panel_len());
        let panels = match self.a {
            Lhs::Strided { .. } => RowPanels::new::<T>(self.isa, &region.rows),
            Lhs::Packed(_) => RowPanels::new::<T>(self.isa, &(0..self.m)),
        };
        let within = panels.within(&region.rows);
        if let (1, Some((kernel, b))) = (region.rows.len(), self.row_panels(&region.columns)) {
            let (Left::Packed(a) | Left::Rows(a, _)) = self.left(&panels, &within, 0, packed);
            return self.run_few(region, c, |c| kernel(self.isa, &a[..self.k], b, c[0]));
        }
        let per_block = self.block_rows() / T::variant(self.isa).mr;
        for which in cuts(within, per_block).filter(|which| !which.is_empty()) {
            let rows = panels.get(which.start).start..panels.get(which.end - 1).end;
            let a = self.left(&panels, &which, region.columns.len(), packed);
            self.block(&Block { a, rows, panels, which }, region, c, b_panels);
        }
    }

    /// The unpacked A, alpha and B, if the product has few rows and contiguous columns of B: also
    /// decided by the whole product, because the order of sums differs.
    fn dots(&self) -> Option<(Matrix<'_, T>, T, Matrix<'_, T>)> {
        match self.a {
            Lhs::Strided { a, alpha } if a.column_stride == 1 && self.m <= FEW => {
                Some((a, alpha, self.b.as_columns()?))
            }
            _ => None,
        }
    }

    /// Elements of A that stay in the second-level cache while B is streamed: half of the 1 MiB or
    /// more of processors with AVX-512 or AMX, half of the 512 KiB or more of the others.
    fn resident(&self) -> usize {
        let bytes = if self.isa.avx512().is_some() { 512 * 1024 } else { 256 * 1024 };
        bytes / size_of::<T>()
    }

    /// The maximum rows per block of A. Each block reads all of B, which is cheap if B is packed.
    fn block_rows(&self) -> usize {
        if self.b.is_stored() {
            self.resident() / self.k.clamp(self.resident() / M_BLOCK, K_BLOCK)
        } else {
            M_BLOCK
        }
    }

    /// The kernel and the packed panels of `columns` for a single row of A.
    fn row_panels(&self, columns: &Range<usize>) -> Option<(RowTimesPanels<T>, Stored<'_, T>)> {
        Some((T::ROW_TIMES_PANELS?, self.b.stored_whole(self.isa, columns)?))
    }

    /// Computes a region of a few rows; `add` adds the products.
    fn run_few(
        &self,
        region: &Region,
        c: &mut (impl Rows<T> + ?Sized),
        add: impl FnOnce(&mut [&mut [T]]),
    ) {
        let Region { rows, columns } = region;
        let mut few: [&mut [T]; FEW] = Default::default();
        let few = &mut few[..rows.len()];
        few.iter_mut().zip(c.rows(0, rows.len())).for_each(|(few, row)| *few = row);
        for (i, c) in rows.clone().zip(&mut *few) {
            let row = std::mem::take(c);
            *c = &mut row[..columns.len()];
            match self.start {
                Start::Zero => c.fill(T::zeroed()),
                Start::C => {}
                Start::ByColumn(bias) => c.copy_from_slice(&bias[columns.clone()]),
                Start::ByRow(bias) => c.fill(bias[i]),
            }
        }
        add(few);
        few.iter_mut().for_each(|row| T::activate(self.activation, self.isa, row));
    }

    /// The maximum size of a piece of a panel of B written to scratch.
    fn panel_len(&self) -> usize {
        self.k.min(K_SLICE) * T::variant(self.isa).nr
    }

    /// A starting at the first row of the panels `which`, for a product of `n_columns`.
    fn left<'s>(
        &'s self,
        panels: &RowPanels,
        which: &Range<usize>,
        n_columns: usize,
        packed: &'s mut [T],
    ) -> Left<'s, T> {
        let first = panels.get(which.start).start;
        match &self.a {
            Lhs::Packed(a) => Left::Packed(&a[first * self.k..]),
            Lhs::Strided { a, alpha }
                if *alpha == T::ONE
                    && self.k > 0
                    && a.column_stride == 1
                    && n_columns <= self.most_columns(a.row_stride) =>
            {
                Left::Rows(a.from(first, 0), a.row_stride)
            }
            Lhs::Strided { a, alpha } => {
                for rows in which.clone().map(|i| panels.get(i)) {
                    let panel = (rows.start - first) * self.k..(rows.end - first) * self.k;
                    pack_panel(self.isa, a, rows, *alpha, &mut packed[panel]);
                }
                Left::Packed(packed)
            }
        }
    }

    /// The maximum columns of B for which A, with this stride, is not packed.
    fn most_columns(&self, row_stride: usize) -> usize {
        let is_near = self.k.saturating_mul(self.n) <= NEAR / size_of::<T>();
        match self.b.is_stored() {
            _ if T::variant(self.isa).mr <= MAX_UNPACKED && is_near => usize::MAX,
            _ if row_stride.is_multiple_of(CONFLICTING) => NARROWEST,
            true => NARROW,
            false => WIDE,
        }
    }

    /// Multiplies a block of A by all of B, block by block of rows of B.
    fn block(
        &self,
        block: &Block<'_, T>,
        region: &Region,
        c: &mut (impl Rows<T> + ?Sized),
        scratch: &mut [T],
    ) {
        let steps = Steps {
            isa: self.isa,
            k: 0..self.k,
            k_block: (self.resident() / block.rows.len()).clamp(K_SLICE, K_BLOCK),
            columns: region.columns.clone(),
        };
        let is_prefetched = block.rows.len() > MAX_UNPREFETCHED || !self.isa.fetches_ahead();
        let mut all = steps.each::<T, B>(&self.b).peekable();
        while let Some(step) = all.next() {
            let next = all.peek().filter(|_| is_prefetched).map(|next| Next::new(&self.b, next));
            let panel_len = step.slice.k.len() * step.slice.nr;
            if self.stored(block, &step.slice).is_none() {
                self.b.write(&step.slice, &mut scratch[..step.panels * panel_len]);
            }
            for (i, slice) in step.each_panel().enumerate() {
                let written = Stored::Whole(&scratch[i * panel_len..][..panel_len]);
                let b = self.stored(block, &slice).unwrap_or(written);
                let next = next.as_ref().map(|next| (next, i));
                self.panel(block, &slice, (b, next), (region, &mut *c));
            }
        }
    }

    /// The panel of B that the tiles of a block read, if it need not be written first.
    fn stored(&self, block: &Block<'_, T>, slice: &Slice) -> Option<Stored<'_, T>> {
        let panel = self.b.stored(slice);
        panel.filter(|panel| block.which.len() < MANY || panel.whole().is_some())
    }

    /// Multiplies every panel of A in the block by one panel of B, prefetching the next.
    fn panel(
        &self,
        block: &Block<'_, T>,
        slice: &Slice,
        (b, next): (Stored<'_, T>, Option<(&Next<'_, T>, usize)>),
        (region, c): (&Region, &mut (impl Rows<T> + ?Sized)),
    ) {
        let left = slice.column - region.columns.start;
        let width = slice.nr.min(region.columns.end - slice.column);
        let n_passes = block.which.len();
        for (pass, rows) in block.which.clone().map(|i| block.panels.get(i)).enumerate() {
            let first = rows.start - block.rows.start;
            let a = match block.a {
                Left::Packed(a) => Left::Packed(
                    &a[first * self.k + slice.k.start * rows.len()..][..slice.k.len() * rows.len()],
                ),
                Left::Rows(a, stride) => Left::Rows(&a[first * stride + slice.k.start..], stride),
            };
            let (row, count) = (rows.start - region.rows.start, rows.len());
            let mut pieces: [&mut [T]; MAX_MR];
            let place = if let Some((c, stride)) = c.strided() {
                Place::Strided(&mut c[row * stride + left..], stride)
            } else {
                pieces = Default::default();
                pieces
                    .iter_mut()
                    .zip(c.rows(row, count))
                    .for_each(|(to, row)| *to = &mut row[left..]);
                Place::Apart(&mut pieces)
            };
            let mut c = Target { place, count, width };
            let turn = |i| Turn { k: slice.k.len(), panel: i, pass, n_passes };
            let (start, clamp) = self.ends(slice, rows.start);
            // If there is nothing to prefetch, the current panel.
            let next = next.and_then(|(next, i)| next.share(&turn(i)));
            let (next, apart) = next.unwrap_or((b.bytes(), 0));
            match b {
                Stored::Whole(b) => {
                    T::tile(self.isa, &Tile { a, b, next, apart, start, clamp }, &mut c);
                }
                Stored::Halves(b, half) => {
                    let tile = Tile { a, b, next, apart, start, clamp };
                    T::tile_of_halves(self.isa, half, &tile, &mut c);
                }
            }
            if slice.k.end == self.k && T::as_clamp(self.activation).is_none() {
                (0..count).for_each(|r| T::activate(self.activation, self.isa, c.row(r)));
            }
        }
    }

    /// The initial value of a tile whose first row is `row`, and the bounds of its results.
    fn ends(&self, slice: &Slice, row: usize) -> (Start<'_, T>, Option<(T, T)>) {
        let start = match self.start {
            _ if slice.k.start > 0 => Start::C,
            Start::ByColumn(bias) => Start::ByColumn(&bias[slice.column..]),
            Start::ByRow(bias) => Start::ByRow(&bias[row..]),
            start => start,
        };
        let clamp = if slice.k.end == self.k { T::as_clamp(self.activation) } else { None };
        (start, clamp.filter(|clamp| *clamp != T::EVERYTHING))
    }
}

/// Scratch, aligned to a cache line.
pub(super) fn from_line<T>(scratch: &mut [T]) -> &mut [T] {
    let skipped = scratch.as_ptr().align_offset(64);
    &mut scratch[skipped.min(line_len::<T>())..]
}
