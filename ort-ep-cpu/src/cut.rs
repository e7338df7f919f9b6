//! A matrix of results, partitioned into ranges of rows, of columns, or both, which threads compute.

// collects are bounded: a piece of a row for each row of a part

use std::ops::Range;

use ort_kernels::Isa;
use ort_kernels::conv_f32::{Direct, Narrow};
use ort_kernels::gemm::{Element, Gemm, Panels, Region, Rows, Strided, row_panels, variant};
use smallvec::SmallVec;

use crate::summand::Summand;

/// How a matrix is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    isa: Isa,
    m: usize,
    n: usize,
    /// Panels of rows per part.
    panels: usize,
    /// Columns per part.
    columns: usize,
}

/// The dimension that is partitioned first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Along {
    /// Each part has all columns: all parts reuse the right operand.
    Rows,
    /// Each part has all rows: all parts reuse the left operand.
    Columns,
}

impl Cut {
    /// A matrix of `m` rows and `n` columns in about `n_parts` parts, none smaller than a tile.
    pub(crate) fn new(isa: Isa, [m, n]: [usize; 2], n_parts: usize, along: Along) -> Self {
        let n_panels = row_panels(isa, m).len().max(1);
        let nr = variant(isa).nr;
        let by_rows = || n_panels.div_ceil(n_parts.clamp(1, n_panels));
        let by_columns = || n.div_ceil(n_parts.max(1)).next_multiple_of(nr);
        let (panels, columns) = match along {
            Along::Rows if n_panels >= n_parts => (by_rows(), n),
            Along::Columns if n.div_ceil(nr) >= n_parts => (n_panels, by_columns()),
            // The other dimension, unless it has even fewer tiles.
            _ if n.div_ceil(nr) > n_panels => (n_panels, by_columns()),
            _ => (by_rows(), n),
        };
        Self { isa, m, n, panels, columns: columns.max(1) }
    }

    /// The number of parts.
    pub(crate) fn n_parts(&self) -> usize {
        row_panels(self.isa, self.m).len().div_ceil(self.panels) * self.n.div_ceil(self.columns)
    }

    /// The parts of `c`: `[m, n]`, contiguous.
    pub(crate) fn parts<T: Send>(
        self,
        mut c: &mut [T],
    ) -> impl Iterator<Item = Part<'_, T>> + Send {
        let panels = move || row_panels(self.isa, self.m);
        let starts = (0..panels().len()).step_by(self.panels);
        starts.flat_map(move |first| {
            let start = panels().nth(first).map_or(0, |rows| rows.start);
            let end = panels().nth(first + self.panels).map_or(self.m, |rows| rows.start);
            let (block, rest) = std::mem::take(&mut c).split_at_mut((end - start) * self.n);
            c = rest;
            Columns {
                rows: start..end,
                rest: Piece::Rows(block),
                n: self.n,
                width: self.columns,
                next: 0,
            }
        })
    }
}

/// One part of a matrix.
pub(crate) struct Part<'c, T = f32> {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    piece: Piece<'c, T>,
}

enum Piece<'c, T> {
    /// Whole rows, contiguous.
    Rows(&'c mut [T]),
    /// A piece of each row.
    Columns(SmallVec<[&'c mut [T]; 1]>),
}

impl<T> Part<'_, T> {
    /// The elements, `[rows, columns]`, if they are contiguous.
    pub(crate) fn contiguous(&mut self) -> Option<&mut [T]> {
        match &mut self.piece {
            Piece::Rows(c) => Some(c),
            Piece::Columns(_) => None,
        }
    }

    /// The elements of the row `i`, counted from the first of the part.
    pub(crate) fn row(&mut self, i: usize) -> &mut [T] {
        let width = self.columns.len();
        match &mut self.piece {
            Piece::Rows(c) => &mut c[i * width..][..width],
            Piece::Columns(c) => c[i],
        }
    }

    /// Calls `f` with each row's index and its elements.
    pub(crate) fn for_each_row(&mut self, mut f: impl FnMut(usize, &mut [T])) {
        let width = self.columns.len().max(1);
        match &mut self.piece {
            Piece::Rows(c) => self.rows.clone().zip(c.chunks_mut(width)).for_each(|(i, c)| f(i, c)),
            Piece::Columns(c) => self.rows.clone().zip(c).for_each(|(i, c)| f(i, c)),
        }
    }
}

/// Computes a matrix of results region by region.
pub(crate) trait Product<T = f32> {
    /// Columns of the whole matrix.
    fn n_columns(&self) -> usize;

    /// Computes a region, writing to its rows.
    fn run(&self, region: &Region, c: &mut (impl Rows<T> + ?Sized), scratch: &mut [T]);
}

impl<T: Element, B: Panels<T>> Product<T> for Gemm<'_, B, T> {
    fn n_columns(&self) -> usize {
        self.n
    }

    fn run(&self, region: &Region, c: &mut (impl Rows<T> + ?Sized), scratch: &mut [T]) {
        self.run(region, c, scratch);
    }
}

impl Product for Narrow<'_> {
    fn n_columns(&self) -> usize {
        self.columns.n()
    }

    fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        self.run(region, c, scratch);
    }
}

impl Product for Direct<'_> {
    fn n_columns(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        self.run(region, c, scratch);
    }
}

impl<T: Summand> Part<'_, T> {
    /// Computes a part of a product, and what the kernel did not fuse of `epilogue`.
    pub(crate) fn compute(
        &mut self,
        product: &impl Product<T>,
        epilogue: T::Epilogue,
        scratch: &mut [T],
    ) {
        let region = Region { rows: self.rows.clone(), columns: self.columns.clone() };
        match &mut self.piece {
            Piece::Rows(c) => {
                let stride = product.n_columns();
                product.run(&region, &mut Strided { data: c, stride }, scratch);
            }
            Piece::Columns(rows) => product.run(&region, &mut rows[..], scratch),
        }
        self.for_each_row(|_, row| T::finish(epilogue, row));
    }
}

/// A block of rows, split into ranges of columns.
struct Columns<'c, T> {
    rows: Range<usize>,
    rest: Piece<'c, T>,
    n: usize,
    width: usize,
    next: usize,
}

impl<'c, T> Iterator for Columns<'c, T> {
    type Item = Part<'c, T>;

    fn next(&mut self) -> Option<Part<'c, T>> {
        let columns = self.next..self.n.min(self.next + self.width);
        if columns.is_empty() {
            return None;
        }
        self.next = columns.end;
        if columns.len() == self.n {
            let piece = std::mem::replace(&mut self.rest, Piece::Columns(SmallVec::new()));
            return Some(Part { rows: self.rows.clone(), columns, piece });
        }
        if let Piece::Rows(c) = &mut self.rest {
            self.rest = Piece::Columns(std::mem::take(c).chunks_mut(self.n).collect());
        }
        let Piece::Columns(rests) = &mut self.rest else { return None };
        let pieces = rests.iter_mut().map(|row| {
            let (piece, rest) = std::mem::take(row).split_at_mut(columns.len());
            *row = rest;
            piece
        });
        let piece = Piece::Columns(pieces.collect());
        Some(Part { rows: self.rows.clone(), columns, piece })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_element_once() {
        for isa in Isa::all() {
            for (m, n, n_parts, along) in [
                (1, 1, 4, Along::Rows),
                (1, 100, 4, Along::Rows),
                (29, 3, 2, Along::Columns),
                (50, 70, 3, Along::Rows),
                (50, 70, 2, Along::Columns),
                (0, 5, 2, Along::Rows),
                (5, 0, 2, Along::Columns),
            ] {
                let cut = Cut::new(isa, [m, n], n_parts, along);
                let mut c = vec![0.0; m * n];
                let mut count = 0;
                for mut part in cut.parts(&mut c) {
                    count += 1;
                    let columns = part.columns.clone();
                    part.for_each_row(|i, row| {
                        assert_eq!(row.len(), columns.len());
                        row.iter_mut()
                            .zip(columns.clone())
                            .for_each(|(c, j)| *c += (i * n + j) as f32);
                    });
                }
                assert!(c.iter().enumerate().all(|(i, &c)| c == i as f32), "{m} {n} {cut:?}");
                assert_eq!(count, if m * n == 0 { count } else { cut.n_parts() });
            }
        }
    }
}
