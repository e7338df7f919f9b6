//! Convolution of an image with few filters, read where it stands.
//!
//! As a product of weights and columns, `y[o,p] = act(start[o,p] + Σ_{c,t} w[o,c,t]·x[c, s·p + d·t − pad])`,
//! but without the columns: what consecutive outputs read with one tap is consecutive in the image,
//! or in a *band* of its rows with zeros around them, where strides have been sorted out. Columns
//! hold each element once a tap, which only many filters make up for.
//!
//! **Operands** and **order** are those of [`Gemm`](crate::gemm::Gemm) with
//! [`Columns`](super::Columns), and so are the bits: weights packed by
//! [`pack_a`](crate::gemm::pack_a), one chain of multiply-adds in the order of `(c, t)`.
//!
//! **Edges.** As there: NaN and infinities follow IEEE 754, a tap beside the image counts as zero.
//!
//! **Loops.** Bands of rows ▸ rows ▸ tiles of adjacent outputs ▸ panels of filters ▸ the register
//! tile.

mod band;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod tiles;

use super::Axis;
use crate::gemm::{self, Region, Rows, row_panels};
use crate::{Activation, Isa};
use band::Layout;

/// The most filters, and panels of them, for which columns are not worth while: so often the image is
/// read again.
const MOST: [usize; 2] = [42, 4];
/// Channels of an image that is so small that any number of panels may read it again.
const FEW_CHANNELS: usize = 4;
/// Bytes of the filters and of what a tile reads: a quarter of the smallest second-level cache, which is
/// read in order.
const RESIDENT: usize = 256 * 1024;
/// Bytes of an image that may still lie in the second-level cache: from beyond, columns are read in
/// longer runs, if more than one panel of filters reads them.
const MOST_BYTES: usize = 512 * 1024;
/// The fewest outputs of a row: half a tile of the widest registers.
const LEAST_ROW: usize = 16;
/// The most taps of a row of a filter.
const MAX_TAPS: usize = 64;
/// The most rows of any tile.
const MAX_ROWS: usize = 14;

/// The convolution of one group of one image.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a> {
    /// Which tile to use.
    pub isa: Isa,
    /// Filters: rows of the weights and of y.
    pub filters: usize,
    /// Channels of the image.
    pub channels: usize,
    /// Height and width.
    pub axes: [Axis; 2],
    /// `[channels, H, W]`.
    pub x: &'a [f32],
    /// `[filters, channels·taps]`, packed.
    pub w: &'a [f32],
    /// One element a filter that sums start from; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether sums start from what y holds instead.
    pub is_sum: bool,
    /// What is applied to the sums.
    pub activation: Activation,
}

/// What the filters of a tile read: the element of channel, row and column of a filter is at
/// `channel·channel_len + row·row_len + columns[column]`, those of the next outputs behind it.
struct Taps<'a> {
    band: &'a [f32],
    channels: usize,
    channel_len: usize,
    rows: usize,
    row_len: usize,
    columns: &'a [usize],
}

/// How a tile meets y.
struct Merge<'a> {
    bias: Option<&'a [f32]>,
    is_sum: bool,
    min: f32,
    max: f32,
}

/// A register tile: its name, its rows and its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// The most rows a tile has.
    pub mr: usize,
    /// The most columns.
    pub nr: usize,
}

ladder! {
    // `c[r][j] = clamp(start + Σ_t w[t][r]·x[t][j])` for the rows of `c`, 1 to `mr` of them and all
    // of one width, 1 to `nr`. `w: [taps][rows]`.
    fn tile(w: &[f32], x: &Taps<'_>, c: &mut [&mut [f32]], merge: &Merge<'_>);
    Avx512 => avx512_14x32, Avx2 => avx2_6x16; generic
}

impl Direct<'_> {
    /// Whether this is the faster way to convolve so many channels with so many filters.
    #[must_use]
    pub fn is_suited(isa: Isa, [filters, channels]: [usize; 2], axes: &[Axis; 2]) -> bool {
        let variant = best(isa);
        let [height, width] = &band::flattened(*axes);
        let per_row = filters * width.kernel + width.reach(variant.nr);
        let bytes = channels * height.kernel * per_row * size_of::<f32>();
        let image = channels * height.input * width.input * size_of::<f32>();
        // Weights are packed for the tile of products.
        let is_packed_so = gemm::variant(isa).mr == variant.mr;
        is_packed_so
            && isa != Isa::Generic
            && (filters <= MOST[0] && filters.div_ceil(variant.mr) <= MOST[1]
                || channels <= FEW_CHANNELS)
            && bytes <= RESIDENT
            && (image <= MOST_BYTES || filters <= variant.mr)
            && width.output >= LEAST_ROW
            && width.kernel <= MAX_TAPS
    }

    /// The elements of scratch [`Direct::run`] needs.
    #[must_use]
    pub fn scratch_len(channels: usize, axes: &[Axis; 2]) -> usize {
        Layout::new(channels, band::flattened(*axes)).scratch_len()
    }

    /// Computes `region`, filters by positions, row-major over the output. Row `i` of `c` is filter
    /// `region.rows.start + i`, and begins with position `region.columns.start`.
    ///
    /// # Panics
    /// If an operand, `c` or the scratch is too short, or the filters are cut inside a panel.
    pub fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        let layout = Layout::new(self.channels, band::flattened(self.axes));
        let width = layout.width();
        let mut position = region.columns.start;
        while position < region.columns.end {
            let row = position / width;
            let end = region.columns.end.div_ceil(width).min(row + layout.rows_of_band());
            let band = layout.band(self.isa, self.x, row..end, scratch);
            for row in row..end {
                let from = position.max(row * width);
                let to = region.columns.end.min((row + 1) * width);
                let columns = from - row * width..to - row * width;
                let place = from - region.columns.start;
                let taps = layout.taps(band.from(row));
                self.row(region, (&taps, columns.start..columns.end), place, c);
                position = to;
            }
        }
    }

    /// Some columns of one row; in `c` they begin at `place`.
    fn row(
        &self,
        region: &Region,
        (taps, columns): (&Taps<'_>, std::ops::Range<usize>),
        place: usize,
        c: &mut (impl Rows + ?Sized),
    ) {
        let (terms, nr) = (taps.channels * taps.rows * taps.columns.len(), best(self.isa).nr);
        let clamp = self.activation.as_clamp();
        let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        for first in columns.clone().step_by(nr) {
            let n = nr.min(columns.end - first);
            let left = place + first - columns.start;
            let taps = Taps { band: taps.band.get(first..).unwrap_or_default(), ..*taps };
            let within = |rows: &std::ops::Range<usize>| {
                region.rows.start <= rows.start && rows.end <= region.rows.end
            };
            for rows in row_panels(self.isa, self.filters).filter(within) {
                let mut pieces: [&mut [f32]; MAX_ROWS] = Default::default();
                let pieces = &mut pieces[..rows.len()];
                let of_panel = c.rows(rows.start - region.rows.start, rows.len());
                let all = pieces.iter_mut().zip(of_panel);
                all.for_each(|(piece, row)| *piece = &mut row[left..left + n]);
                let bias = self.bias.map(|bias| &bias[rows.clone()]);
                let merge = Merge { bias, is_sum: self.is_sum, min, max };
                tile(
                    self.isa,
                    &self.w[rows.start * terms..rows.end * terms],
                    &taps,
                    pieces,
                    &merge,
                );
                if clamp.is_none() {
                    pieces.iter_mut().for_each(|row| self.activation.apply(self.isa, row));
                }
            }
        }
    }
}
