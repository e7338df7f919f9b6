//! Convolution of an image with few filters, reading the image directly.
//!
//! Computes the product of weights and columns, `y[o,p] = act(start[o,p] + Σ_{c,t} w[o,c,t]·x[c, s·p + d·t − pad])`,
//! without writing the columns: consecutive outputs read consecutive elements with each tap, in the image,
//! or in a zero-padded *band* of its rows with strides separated. Columns
//! store each element once per tap, which only pays off with many filters.
//!
//! **Operands** and **order** are those of [`Gemm`](crate::gemm::Gemm) with
//! [`Columns`](super::Columns), so the bits are the same: weights packed by
//! [`pack_a`](crate::gemm::pack_a), one chain of multiply-adds in the order of `(c, t)`.
//!
//! **Edges.** As in Gemm: NaN and infinities follow IEEE 754; padding counts as zero.
//!
//! **Loops.** Bands of rows ▸ rows ▸ chunks of adjacent outputs, whose inputs the first-level cache holds ▸ panels of
//! filters ▸ the register tile.

mod band;
#[cfg(test)]
mod tests;
#[macro_use]
mod tiles;

use super::Axis;
use crate::gemm::{self, Region, Rows, row_panels};
use crate::{Activation, Isa};
use band::Layout;

/// The maximum number of filters, and of panels of them, for which this is faster than columns: each panel reads
/// the image again.
const MAX_FILTERS: [usize; 2] = [42, 4];
/// Images with so few channels are small enough for any number of panels to read them again.
const FEW_CHANNELS: usize = 4;
/// Bytes of the filters and of the inputs of a tile: a quarter of the smallest second-level cache; they are
/// read in order.
const RESIDENT: usize = 256 * 1024;
/// Bytes of an image that may be in the second-level cache: a larger one that needs no band is better read in the
/// longer runs of columns, if it is read by more than one panel of filters.
const MAX_BYTES: usize = 512 * 1024;
/// The minimum outputs per row: half a tile of the widest registers.
const MIN_ROW: usize = 16;
/// Bytes of the inputs of a chunk: half of the smallest first-level cache.
const CHUNK: usize = 16 * 1024;
/// The maximum number of taps per row of a filter.
const MAX_TAPS: usize = 64;
/// The maximum number of rows of any tile.
const MAX_ROWS: usize = 14;

/// The convolution of one group of one image.
#[derive(Clone, Copy, Debug)]
pub struct Direct<'a> {
    /// The instruction set of the tile.
    pub isa: Isa,
    /// Filters: rows of the weights and of y.
    pub filters: usize,
    /// Channels of the image.
    pub channels: usize,
    /// Height and width of the image.
    pub axes: [Axis; 2],
    /// `[channels, H, W]`.
    pub x: &'a [f32],
    /// `[filters, channels·taps]`, packed.
    pub w: &'a [f32],
    /// One element per filter, the initial value of sums; absent: zero.
    pub bias: Option<&'a [f32]>,
    /// Whether products are added to the contents of y.
    pub is_sum: bool,
    /// Applied to the sums.
    pub activation: Activation,
}

/// The inputs of the filters of a tile: the element of channel, row and column of a filter is at
/// `channel·channel_len + row·row_len + columns[column]`, followed by those of the next outputs.
struct Taps<'a> {
    band: &'a [f32],
    channels: usize,
    channel_len: usize,
    rows: usize,
    row_len: usize,
    columns: &'a [usize],
}

/// How a tile is combined with y.
struct Merge<'a> {
    /// The first column of the tile.
    at: usize,
    bias: Option<&'a [f32]>,
    is_sum: bool,
    min: f32,
    max: f32,
}

/// A register tile: its name, rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// `<isa>_<rows>x<columns>`, the name of its file.
    pub name: &'static str,
    /// The maximum number of rows per tile.
    pub mr: usize,
    /// The columns of a tile of `mr` rows.
    pub nr: usize,
}

ladder! {
    // `c[r][j] = clamp(start + Σ_t w[t][r]·x[t][j])` for the rows of `c`, 1 to `mr` of them and all
    // of one length, tile by tile. `w: [taps][rows]`.
    fn tile(w: &[f32], x: &Taps<'_>, c: &mut [&mut [f32]], merge: &Merge<'_>);
    Avx512 => avx512_14x32, Avx2 => avx2_6x16, Neon => neon_12x8, Simd128 => simd128_4x8;
    generic
}

impl Direct<'_> {
    /// Whether this is the faster algorithm for these numbers of filters and channels.
    #[must_use]
    pub fn is_suited(isa: Isa, [filters, channels]: [usize; 2], axes: &[Axis; 2]) -> bool {
        let variant = best(isa);
        let [height, width] = &band::flattened(channels, *axes);
        let per_row = filters * width.kernel + width.reach(variant.nr);
        let bytes = channels * height.kernel * per_row * size_of::<f32>();
        let image = channels * height.input * width.input * size_of::<f32>();
        // Weights are packed for the tile of the product.
        let has_tile_of_product = gemm::variant(isa).mr == variant.mr;
        has_tile_of_product
            && isa != Isa::Generic
            && (filters <= MAX_FILTERS[0] && filters.div_ceil(variant.mr) <= MAX_FILTERS[1]
                || channels <= FEW_CHANNELS)
            && bytes <= RESIDENT
            && (image <= MAX_BYTES || filters <= variant.mr || !band::is_image([height, width]))
            && width.output >= MIN_ROW
            && width.kernel <= MAX_TAPS
    }

    /// Elements of scratch for [`Direct::run`].
    #[must_use]
    pub fn scratch_len(channels: usize, axes: &[Axis; 2]) -> usize {
        Layout::new(channels, band::flattened(channels, *axes)).scratch_len()
    }

    /// Computes `region`, filters by positions, row-major over the output. Row `i` of `c` is filter
    /// `region.rows.start + i`, and starts with position `region.columns.start`.
    ///
    /// # Panics
    /// If an operand, `c` or the scratch is too short, or the rows do not start and end at panels.
    pub fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        let layout = Layout::new(self.channels, band::flattened(self.channels, self.axes));
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

    /// Computes some columns of one row, at `place` in `c`.
    fn row(
        &self,
        region: &Region,
        (taps, columns): (&Taps<'_>, std::ops::Range<usize>),
        place: usize,
        c: &mut (impl Rows + ?Sized),
    ) {
        let (lines, nr) = (taps.channels * taps.rows, best(self.isa).nr);
        let terms = lines * taps.columns.len();
        let clamp = self.activation.as_clamp();
        let (min, max) = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        let bytes_of_tile = lines * self.axes[1].stride * nr * size_of::<f32>();
        // A single panel reads its inputs once.
        let chunk = match row_panels(self.isa, self.filters).len() {
            0..=1 => columns.len().max(1),
            _ => nr * (CHUNK / bytes_of_tile.max(1)).max(1),
        };
        for first in columns.clone().step_by(chunk) {
            let n = chunk.min(columns.end - first);
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
                let merge = Merge { at: 0, bias, is_sum: self.is_sum, min, max };
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
