//! Transposed convolutions whose output channels read one input channel each: row by row.
//!
//! ```text
//! y[q·stride + r − pad] = f(b + Σ_t w[t]·x[q − ⌊t·dilation / stride⌋])    over t·dilation ≡ r
//! ```
//! The rows of `x` that a `q` of the axes before the last reads are copied with their padding, and all
//! remainders of these axes read them.

// collects are bounded: by MAX_STEPS and MAX_TAPS

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::conv_f32::TransposedRow;

use super::phases::Transposed;
use super::{ConvTransposeKernel, Geometry, Operands};
use crate::cpu::{Team, n_parts};
use crate::pieces::wanted;

/// The maximum remainders of the axes together; more are rare.
const MAX_STEPS: usize = 1 << 12;
/// The maximum taps of a kernel.
const MAX_TAPS: usize = 1 << 14;
/// The maximum elements of scratch: more would not fit the second-level cache.
const MAX_SCRATCH: usize = 1 << 16;

/// What all planes have in common.
#[derive(Debug)]
pub(super) struct Planes {
    axes: [Transposed; 3],
    /// How far back the taps of each axis reach.
    shifts: [usize; 3],
    /// The `q` of each axis.
    positions: [Range<usize>; 3],
    /// For each remainder of the first two axes, and of the last: offsets in the copied rows, and taps.
    taps: Vec<Vec<Vec<(usize, usize)>>>,
}

impl Planes {
    /// `None` if strides or windows are too large.
    pub(super) fn new(axes: &[Transposed; 3]) -> Option<Self> {
        let strides = axes.map(|axis| axis.stride);
        let product = |n: [usize; 3]| n.into_iter().fold(1, usize::saturating_mul);
        let n_taps = product(axes.map(|axis| axis.kernel));
        let shifts = axes.map(|axis| (axis.kernel.max(1) - 1) * axis.dilation / axis.stride);
        let positions = axes.each_ref().map(Transposed::positions);
        let mut planes = Self { axes: *axes, shifts, positions, taps: Vec::new() };
        if product(strides) > MAX_STEPS || n_taps > MAX_TAPS || planes.scratch_len() > MAX_SCRATCH {
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
        let (n_rows, row_len) = (self.shifts[1] + 1, self.row_len());
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

    /// Positions of a row, in whole blocks.
    fn n_positions(&self) -> usize {
        TransposedRow::padded(self.positions[2].len())
    }

    /// Elements of a copied row: from `x[-shift]` to the last that a block reads.
    fn row_len(&self) -> usize {
        let positions = self.positions[2].start.saturating_add(self.n_positions());
        positions.max(self.axes[2].input).saturating_add(self.shifts[2])
    }

    fn n_rows(&self) -> usize {
        (self.shifts[0] + 1).saturating_mul(self.shifts[1] + 1)
    }

    /// Elements of a row of results.
    fn line_len(&self) -> usize {
        self.n_positions().saturating_mul(self.axes[2].stride)
    }

    /// Elements of scratch per thread: the copied rows, a row of results, and the scratch of a row.
    pub(super) fn scratch_len(&self) -> usize {
        let rows = self.n_rows().saturating_mul(self.row_len());
        rows.saturating_add(self.line_len().saturating_mul(2))
    }

    /// Copies the rows of `x` that a position of the first two axes reads.
    fn copy(&self, x: &[f32], [z, y]: [usize; 2], rows: &mut [f32]) {
        let [depth, height, width] = self.axes.map(|axis| axis.input);
        let n_lines = self.shifts[1] + 1;
        for (i, row) in rows.chunks_exact_mut(self.row_len()).enumerate() {
            let row = &mut row[self.shifts[2]..][..width];
            // Above the first layer and line, the differences are not below the sizes.
            let layer = (z + i / n_lines).wrapping_sub(self.shifts[0]);
            let line = (y + i % n_lines).wrapping_sub(self.shifts[1]);
            match layer < depth && line < height {
                true => row.copy_from_slice(&x[(layer * height + line) * width..][..width]),
                false => row.fill(0.0),
            }
        }
    }

    /// Computes one plane.
    fn plane(
        &self,
        (x, y): (&[f32], &mut [f32]),
        row: &TransposedRow<'_>,
        [rows, line, rest]: [&mut [f32]; 3],
    ) {
        let [depth, height, width] = &self.axes;
        let (first, n) = (self.positions[2].start, self.n_positions());
        let skipped = width.pad - first * width.stride;
        let of_layer = height.output * width.output;
        let [of_depth, of_height, _] = &self.positions;
        let positions = of_depth.clone().flat_map(|z| of_height.clone().map(move |y| [z, y]));
        for at in wanted(positions) {
            self.copy(x, at, rows);
            for (i, taps) in self.taps.iter().enumerate() {
                let layer = depth.output_of(at[0], i / height.stride);
                let to = height.output_of(at[1], i % height.stride);
                let Some((layer, to)) = layer.zip(to) else { continue };
                let row = TransposedRow { taps, ..*row };
                // The excess of a row is overwritten by the next row of the layer; its last rows have no room
                // for it.
                let layer = &mut y[layer * of_layer..][..of_layer];
                let to = &mut layer[to * width.output..];
                match to.get_mut(..line.len()) {
                    Some(to) if skipped == 0 => row.run(&rows[first..], n, to, rest),
                    _ => {
                        row.run(&rows[first..], n, line, rest);
                        to[..width.output].copy_from_slice(&line[skipped..][..width.output]);
                    }
                }
            }
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
        let (rows, rest) = scratch.split_at_mut(planes.n_rows() * planes.row_len());
        let (line, rest) = rest.split_at_mut(planes.line_len());
        rows.fill(0.0);
        for (i, y) in y.chunks_exact_mut(plane).enumerate() {
            let at = part * per_part + i;
            let channel = at % (geometry.group * geometry.m);
            let row = TransposedRow {
                isa: kernel.cpu.isa,
                taps: &[],
                weights: &operands.w[channel * taps..][..taps],
                bias: operands.bias.map_or(0.0, |bias| bias[channel]),
                activation: kernel.activation,
            };
            let x = &operands.x[at / geometry.m * n_inputs..][..n_inputs];
            planes.plane((x, y), &row, [&mut *rows, &mut *line, &mut *rest]);
        }
    });
}
