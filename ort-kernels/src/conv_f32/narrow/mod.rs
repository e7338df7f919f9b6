//! Convolution to few positions: lanes are filters.
//!
//! A product of weights and columns whose right operand is narrower than registers would leave most
//! lanes idle. Here a register holds the weights that the filters of a panel have for one term, and
//! each position has sums of its own.
//!
//! **Operands** and **order** are those of [`Gemm`](crate::gemm::Gemm) with [`Columns`], and so
//! are the bits: weights packed by [`pack_a`](crate::gemm::pack_a), one chain of multiply-adds
//! in the order of `(c, t)`.

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod tiles;

use std::ops::Range;

use super::Columns;
use crate::gemm::{self, Panels, Region, Rows, Slice, row_panels};
use crate::{Activation, Isa};

/// The most positions.
const MOST: usize = 8;
/// The most panels that are computed at once: sums enough to hide the latency of a multiply-add.
const PANELS: usize = 2;
/// The most lanes of any register.
const LANES: usize = 16;

/// Sums of each position of each panel, a lane a filter.
type Sums = [[f32; LANES]; MOST * PANELS];

/// The convolution of one group of one image.
#[derive(Clone, Copy, Debug)]
pub struct Narrow<'a> {
    /// Which tile to use.
    pub isa: Isa,
    /// Filters: rows of the weights and of y.
    pub filters: usize,
    /// `[filters, channels·taps]`, packed.
    pub w: &'a [f32],
    /// The image.
    pub columns: Columns<'a>,
    /// One element a filter that sums start from; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether sums start from what y holds instead.
    pub is_sum: bool,
    /// What is applied to the sums.
    pub activation: Activation,
}

/// The weights of a panel: `[terms][filters]`.
#[derive(Clone, Copy, Debug, Default)]
struct Panel<'a> {
    w: &'a [f32],
    filters: usize,
}

/// A register tile: its name and the filters of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<filters>x<panels>`, the name of its file.
    pub name: &'static str,
    /// The most filters of a panel.
    pub mr: usize,
}

ladder! {
    // `sums[p·n + j][r] += Σ_t panels[p].w[t][r]·x[t][j]` for one or two panels and the first `n`
    // columns of `x: [terms][8]`.
    fn tile(panels: &[Panel<'_>], x: &[[f32; MOST]], n: usize, sums: &mut Sums);
    Avx512 => avx512_14x2, Avx2 => avx2_6x2; generic
}

impl Narrow<'_> {
    /// Whether this is the faster way to convolve to so many positions.
    #[must_use]
    pub fn is_suited(isa: Isa, filters: usize, positions: usize) -> bool {
        let mr = best(isa).mr;
        // Weights are packed for the tile of products, of which a row costs what a position does.
        mr == gemm::variant(isa).mr && filters >= mr && positions <= MOST.min(2 * mr / 3)
    }

    /// The elements of scratch [`Narrow::run`] needs for sums of so many terms.
    #[must_use]
    pub fn scratch_len(terms: usize) -> usize {
        terms * MOST
    }

    /// Computes `region`, filters by positions, of which there are at most 8. Row `i` of `c` is
    /// filter `region.rows.start + i`, and begins with position `region.columns.start`.
    ///
    /// # Panics
    /// If an operand, `c` or the scratch is too short, there are more positions, or the filters are
    /// cut inside a panel.
    pub fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        let (n, terms) = (region.columns.len(), self.columns.k());
        assert!(n <= MOST, "{n} positions");
        let x = &mut scratch[..terms * MOST];
        let (isa, column) = (self.isa, region.columns.start);
        self.columns.write(&Slice { isa, k: 0..terms, column, nr: MOST }, x);
        let x = x.as_chunks::<MOST>().0;
        let within =
            |rows: &Range<usize>| region.rows.start <= rows.start && rows.end <= region.rows.end;
        let mut panels = row_panels(isa, self.filters).filter(within);
        while let Some(first) = panels.next() {
            let second = panels.next();
            let rows = first.start..second.as_ref().unwrap_or(&first).end;
            let of = |rows: &Range<usize>| Panel {
                w: &self.w[rows.start * terms..rows.end * terms],
                filters: rows.len(),
            };
            let pair = [of(&first), second.as_ref().map(of).unwrap_or_default()];
            let pair = &pair[..1 + usize::from(second.is_some())];
            self.panels(pair, x, (region, rows, n), c);
        }
    }

    fn panels(
        &self,
        panels: &[Panel<'_>],
        x: &[[f32; MOST]],
        (region, rows, n): (&Region, Range<usize>, usize),
        c: &mut (impl Rows + ?Sized),
    ) {
        let mut sums: Sums = [[0.0; LANES]; MOST * PANELS];
        // Where the sums of each row begin, and its lane.
        let places = panels.iter().enumerate();
        let places = places.flat_map(|(p, panel)| (0..panel.filters).map(move |r| (p * n, r)));
        let at = rows.start - region.rows.start;
        if self.is_sum {
            for ((first, lane), row) in places.clone().zip(c.rows(at, rows.len())) {
                sums[first..].iter_mut().zip(&row[..n]).for_each(|(sums, y)| sums[lane] = *y);
            }
        } else if let Some(bias) = self.bias {
            for ((first, lane), bias) in places.clone().zip(&bias[rows.clone()]) {
                sums[first..][..n].iter_mut().for_each(|sums| sums[lane] = *bias);
            }
        }
        tile(self.isa, panels, x, n, &mut sums);
        self.activation.apply(self.isa, sums[..panels.len() * n].as_flattened_mut());
        for ((first, lane), row) in places.zip(c.rows(at, rows.len())) {
            row[..n].iter_mut().zip(&sums[first..]).for_each(|(y, sums)| *y = sums[lane]);
        }
    }
}
