//! Convolution to few positions: one lane per filter.
//!
//! If the right operand of the product of weights and columns is narrower than a register, most
//! lanes are idle. Here a register holds the weights of a panel's filters for one term, and
//! each position has separate sums.
//!
//! **Operands** and **order** are those of [`Gemm`](crate::gemm::Gemm) with [`Columns`], so
//! the bits are the same: weights packed by [`pack_a`](crate::gemm::pack_a), one chain of multiply-adds
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

/// The maximum number of positions.
const MAX_POSITIONS: usize = 8;
/// The maximum number of panels computed at once: enough sums to hide the latency of a multiply-add.
const PANELS: usize = 2;
/// The maximum number of lanes of a register.
const LANES: usize = 16;

/// The sums of each position of each panel, one lane per filter.
type Sums = [[f32; LANES]; MAX_POSITIONS * PANELS];

/// The convolution of one group of one image.
#[derive(Clone, Copy, Debug)]
pub struct Narrow<'a> {
    /// The instruction set of the tile.
    pub isa: Isa,
    /// Filters: rows of the weights and of y.
    pub filters: usize,
    /// `[filters, channels·taps]`, packed.
    pub w: &'a [f32],
    /// The image.
    pub columns: Columns<'a>,
    /// One element per filter, the initial value of sums; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether products are added to the contents of y.
    pub is_sum: bool,
    /// Applied to the sums.
    pub activation: Activation,
}

/// The weights of a panel: `[terms][filters]`.
#[derive(Clone, Copy, Debug, Default)]
struct Panel<'a> {
    w: &'a [f32],
    filters: usize,
}

/// A register tile: its name and the filters per panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<filters>x<panels>`, the name of its file.
    pub name: &'static str,
    /// The maximum number of filters per panel.
    pub mr: usize,
}

ladder! {
    // `sums[p·n + j][r] += Σ_t panels[p].w[t][r]·x[t][j]` for one or two panels and the first `n`
    // columns of `x: [terms][8]`.
    fn tile(panels: &[Panel<'_>], x: &[[f32; MAX_POSITIONS]], n: usize, sums: &mut Sums);
    Avx512 => avx512_14x2, Avx2 => avx2_6x2; generic
}

impl Narrow<'_> {
    /// Whether this is the faster algorithm for this number of positions.
    #[must_use]
    pub fn is_suited(isa: Isa, filters: usize, positions: usize) -> bool {
        let mr = best(isa).mr;
        // Weights are packed for the tile of the product, where a row costs as much as a position here.
        mr == gemm::variant(isa).mr && filters >= mr && positions <= MAX_POSITIONS.min(2 * mr / 3)
    }

    /// Elements of scratch for [`Narrow::run`], for sums of this many terms.
    #[must_use]
    pub fn scratch_len(terms: usize) -> usize {
        terms * MAX_POSITIONS
    }

    /// Computes `region`, filters by at most 8 positions. Row `i` of `c` is
    /// filter `region.rows.start + i`, and starts with position `region.columns.start`.
    ///
    /// # Panics
    /// If an operand, `c` or the scratch is too short, there are more positions, or the rows do not
    /// start and end at panels.
    pub fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        let (n, terms) = (region.columns.len(), self.columns.k());
        assert!(n <= MAX_POSITIONS, "{n} positions");
        let x = &mut scratch[..terms * MAX_POSITIONS];
        let (isa, column) = (self.isa, region.columns.start);
        self.columns.write(&Slice { isa, k: 0..terms, column, nr: MAX_POSITIONS }, x);
        let x = x.as_chunks::<MAX_POSITIONS>().0;
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
        x: &[[f32; MAX_POSITIONS]],
        (region, rows, n): (&Region, Range<usize>, usize),
        c: &mut (impl Rows + ?Sized),
    ) {
        let mut sums: Sums = [[0.0; LANES]; MAX_POSITIONS * PANELS];
        // The offset of the sums of each row, and its lane.
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
