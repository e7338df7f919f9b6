//! Transposed convolutions whose output channels read one input channel each.
//!
//! ```text
//! y[q·stride + r − pad] = f(b + Σ_t w[t]·x[q − ⌊t·dilation / stride⌋])    over t·dilation ≡ r
//! ```
//! A band of rows of `x`, or a piece of a long row, is copied with its padding. The sums of one remainder per axis are then one long row, in
//! which each tap is a shift; those of the remainders of the last axis are interleaved row by row.

// collects are bounded: by MAX_STEPS and MAX_TAPS

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::Isa;
use ort_kernels::conv_f32::ShiftedSum;
use ort_kernels::transpose::transpose;

use super::geometry::Geometry;
use super::phases::Transposed;
use super::{ConvTransposeKernel, Operands};
use crate::cpu::{Team, n_parts};
use crate::pieces::wanted;

/// The maximum remainders of the axes together; more are rare.
const MAX_STEPS: usize = 1 << 12;
/// The maximum taps of a kernel.
const MAX_TAPS: usize = 1 << 14;
/// The maximum elements of scratch: more would not fit the second-level cache.
const MAX_SCRATCH: usize = 1 << 16;
/// The elements of a band and its sums, which the first-level cache should hold.
const BAND: usize = 6 << 10;

/// What all planes have in common.
#[derive(Debug)]
pub(super) struct Planes {
    axes: [Transposed; 3],
    /// How far back the taps of each axis reach.
    shifts: [usize; 3],
    /// The `q` of each axis.
    positions: [Range<usize>; 3],
    /// The `q` of the last two axes in a band.
    n_lines: usize,
    n_columns: usize,
    /// For each remainder of the first two axes, and of the last: offsets in the band, and taps.
    taps: Vec<Vec<Vec<(usize, usize)>>>,
}

impl Planes {
    /// `None` if strides or windows are too large.
    pub(super) fn new(axes: &[Transposed; 3]) -> Option<Self> {
        let strides = axes.map(|axis| axis.stride);
        let product = |n: [usize; 3]| n.into_iter().fold(1, usize::saturating_mul);
        let n_taps = product(axes.map(|axis| axis.kernel));
        if product(strides) > MAX_STEPS || n_taps > MAX_TAPS {
            return None;
        }
        let shifts = axes.map(|axis| (axis.kernel.max(1) - 1) * axis.dilation / axis.stride);
        let positions = axes.each_ref().map(Transposed::positions);
        // A line has the elements that are read, and as many sums of each remainder.
        let line = BAND / (1 + strides[2]);
        let n_columns = line.saturating_sub(shifts[2]).max(shifts[2]).max(1);
        let n_columns = n_columns.min(positions[2].len());
        let mut planes =
            Self { axes: *axes, shifts, positions, n_lines: 1, n_columns, taps: Vec::new() };
        let n_lines = line / planes.row_len().max(1);
        planes.n_lines = n_lines.clamp(1, planes.positions[1].len().max(1));
        if planes.scratch_len() > MAX_SCRATCH {
            return None;
        }
        let taps = (0..strides[0] * strides[1]).map(|row| {
            let of_last = |column| planes.taps_of([row / strides[1], row % strides[1], column]);
            (0..strides[2]).map(of_last).collect()
        });
        planes.taps = taps.collect();
        Some(planes)
    }

    /// The taps of one remainder per axis, in ascending order.
    fn taps_of(&self, remainders: [usize; 3]) -> Vec<(usize, usize)> {
        let [d, h, w] = [0, 1, 2].map(|i| self.along(i, remainders[i]));
        let kernel = self.axes.map(|axis| axis.kernel);
        let (n_rows, row_len) = (self.rows_of_layer(), self.row_len());
        let taps = d.flat_map(|(layer, z)| {
            let w = w.clone();
            h.clone().flat_map(move |(line, y)| {
                w.clone().map(move |(column, x)| {
                    let offset = (layer * n_rows + line) * row_len + column;
                    (offset, (z * kernel[1] + y) * kernel[2] + x)
                })
            })
        });
        taps.collect()
    }

    /// The taps of a remainder of an axis: the distance of each from the first copied input, and its number.
    fn along(
        &self,
        axis: usize,
        remainder: usize,
    ) -> impl Iterator<Item = (usize, usize)> + Clone + use<> {
        let Transposed { kernel, stride, dilation, .. } = self.axes[axis];
        let shift = self.shifts[axis];
        let is_of = move |tap: &usize| tap * dilation % stride == remainder;
        (0..kernel).filter(is_of).map(move |tap| (shift - tap * dilation / stride, tap))
    }

    /// Elements of a copied row: those that its positions read.
    fn row_len(&self) -> usize {
        self.n_columns.saturating_add(self.shifts[2])
    }

    /// Copied rows of a layer.
    fn rows_of_layer(&self) -> usize {
        self.n_lines.saturating_add(self.shifts[1])
    }

    /// Sums of a remainder: those of all rows of a band, in whole blocks.
    fn n_sums(&self) -> usize {
        ShiftedSum::padded(self.n_lines.saturating_mul(self.row_len()))
    }

    /// Elements of the copied rows, and those that a block reads behind them.
    fn band_len(&self) -> usize {
        let n_rows = self.rows_of_layer().saturating_mul(self.shifts[0].saturating_add(1));
        let behind = ShiftedSum::padded(1).saturating_add(self.shifts[2]);
        n_rows.saturating_mul(self.row_len()).saturating_add(behind)
    }

    /// Elements of scratch per thread: the band, and the sums of each remainder of the last axis.
    pub(super) fn scratch_len(&self) -> usize {
        self.band_len().saturating_add(self.n_sums().saturating_mul(self.axes[2].stride))
    }

    /// Copies the elements of `x` that the positions of a band from these on read.
    fn copy(&self, x: &[f32], [z, y, first]: [usize; 3], band: &mut [f32]) {
        let [depth, height, width] = self.axes.map(|axis| axis.input);
        // The copied columns, and where they are in a row.
        let shift = self.shifts[2];
        let start = first.saturating_sub(shift).min(width);
        let at = shift.saturating_sub(first).min(self.row_len());
        let len = (width - start).min(self.row_len() - at);
        let n_rows = self.rows_of_layer() * (self.shifts[0] + 1);
        let rows = band.chunks_exact_mut(self.row_len().max(1)).take(n_rows);
        for (i, row) in rows.enumerate() {
            let (layer, line) = (i / self.rows_of_layer(), i % self.rows_of_layer());
            // Above the first layer and line, the differences are not below the sizes.
            let layer = (z + layer).wrapping_sub(self.shifts[0]);
            let line = (y + line).wrapping_sub(self.shifts[1]);
            match layer < depth && line < height {
                true => {
                    let from = (layer * height + line) * width + start;
                    row[..at].fill(0.0);
                    row[at..at + len].copy_from_slice(&x[from..from + len]);
                    row[at + len..].fill(0.0);
                }
                false => row.fill(0.0),
            }
        }
    }

    /// Computes one plane.
    fn plane(
        &self,
        (x, y): (&[f32], &mut [f32]),
        sum: &ShiftedSum<'_>,
        [band, sums]: [&mut [f32]; 2],
    ) {
        let [depth, height, width] = &self.axes;
        let (row_len, n_sums) = (self.row_len(), self.n_sums());
        for at @ [z, line, column] in wanted(self.bands()) {
            self.copy(x, at, band);
            let columns = column..self.positions[2].end.min(column + self.n_columns);
            let outputs = width.outputs(&columns);
            for (i, taps) in self.taps.iter().enumerate() {
                let Some(layer) = depth.output_of(z, i / height.stride) else { continue };
                for (taps, sums) in taps.iter().zip(sums.chunks_exact_mut(n_sums.max(1))) {
                    sum.run(taps, band, sums);
                }
                for row in 0..self.n_lines.min(self.positions[1].end - line) {
                    let to = height.output_of(line + row, i % height.stride);
                    let Some(to) = to else { continue };
                    let to = &mut y[(layer * height.output + to) * width.output..];
                    let from = (&sums[row * row_len..], n_sums);
                    self.interleave((sum.isa, column), from, &mut to[outputs.clone()]);
                }
            }
        }
    }

    /// The first position of each band.
    fn bands(&self) -> impl Iterator<Item = [usize; 3]> {
        let [depth, height, width] = self.positions.clone();
        let steps = [self.n_lines, self.n_columns.max(1)];
        depth.flat_map(move |z| {
            let width = width.clone();
            height
                .clone()
                .step_by(steps[0])
                .flat_map(move |y| width.clone().step_by(steps[1]).map(move |x| [z, y, x]))
        })
    }

    /// Interleaves the sums of a row from a position on, which are `n` apart for each remainder of the last axis.
    fn interleave(
        &self,
        (isa, position): (Isa, usize),
        (sums, n): (&[f32], usize),
        to: &mut [f32],
    ) {
        let Transposed { stride, pad, .. } = self.axes[2];
        // Outputs of the first position that are cut off, and those of it that are not.
        let skipped = pad.saturating_sub(position * stride);
        let n_first = if skipped > 0 { (stride - skipped).min(to.len()) } else { 0 };
        let (first, to) = to.split_at_mut(n_first);
        for (r, y) in first.iter_mut().enumerate() {
            *y = sums[(skipped + r) * n];
        }
        let position = usize::from(skipped > 0);
        let n_whole = to.len() / stride;
        let (whole, last) = to.split_at_mut(n_whole * stride);
        if stride == 1 {
            whole.copy_from_slice(&sums[position..][..n_whole]);
        } else if n_whole > 0 {
            transpose(isa, [stride, n_whole], (&sums[position..], n), (whole, stride));
        }
        for (r, y) in last.iter_mut().enumerate() {
            *y = sums[r * n + position + n_whole];
        }
    }
}

/// Computes `y`: `[images, channels, positions]`.
pub(super) fn run(
    kernel: &ConvTransposeKernel,
    (geometry, planes): (&Geometry, &Planes),
    operands: &Operands<'_>,
    y: &mut [f32],
    (threads, scratch): (&dyn Threads, &mut [u8]),
) {
    let (plane, taps, n_inputs) = (geometry.n_outputs(), geometry.n_taps(), geometry.n_inputs());
    let n_planes = y.len() / plane;
    let cost = n_planes.saturating_mul(n_inputs).saturating_mul(taps);
    let per_part = n_planes.div_ceil(n_parts(threads, cost));
    let team = Team::new(threads, n_planes.div_ceil(per_part)).if_worth(cost);
    let team = team.with_scratch(scratch, planes.scratch_len());
    team.run(y.chunks_mut(per_part * plane).enumerate(), |(part, y), scratch| {
        let (band, sums) = scratch.split_at_mut(planes.band_len());
        for (i, y) in y.chunks_exact_mut(plane).enumerate() {
            let at = part * per_part + i;
            let channel = at % (geometry.group * geometry.m);
            let sum = ShiftedSum {
                isa: kernel.cpu.isa,
                weights: &operands.w[channel * taps..][..taps],
                bias: operands.bias.map_or(0.0, |bias| bias[channel]),
                activation: kernel.activation,
            };
            let x = &operands.x[at / geometry.m * n_inputs..][..n_inputs];
            planes.plane((x, y), &sum, [&mut *band, &mut *sums]);
        }
    });
}
