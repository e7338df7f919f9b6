//! Folds of windows over a plane: shared by depthwise convolution and pooling.
//!
//! A band of input rows, of each layer of the window, is copied to scratch together with its padding,
//! small enough for the first-level cache. Then no window crosses an edge, and outputs are folded a block
//! of lanes at a time, all taps in registers, each output over its taps in ascending order.

use super::Axis;
use std::ops::Range;

/// The maximum elements per band: 16 KiB.
pub(super) const BAND: usize = 4096;
/// The maximum number of lanes per block.
pub(super) const MAX_LANES: usize = 32;

/// How an output is folded from the inputs of its window.
pub(crate) trait Fold {
    /// The initial value.
    fn start(&self) -> f32;

    /// The value of padding.
    fn outside(&self) -> f32;

    /// The weights of `K` taps starting at `first`, counted row-major over the kernel.
    fn weights<const K: usize>(&self, first: usize) -> [f32; K] {
        let _ = first;
        [1.0; K]
    }

    /// Combines `sum` with the input `x` of a tap.
    fn step<const FMA: bool>(sum: f32, x: f32, weight: f32) -> f32;
}

/// Output rows per band.
fn band_rows([depth, height, width]: &[Axis; 3]) -> usize {
    let line = depth.kernel.saturating_mul(width.padded());
    let room = (BAND / line).saturating_sub(height.reach(1));
    room / height.stride + 1
}

/// Elements of scratch for any number of rows. At most `usize::MAX`.
pub(super) fn scratch_len(axes: &[Axis; 3]) -> usize {
    let [depth, height, width] = axes;
    let rows = band_rows(axes).min(height.output.max(1));
    let layers = depth.kernel.saturating_mul(height.reach(rows));
    layers.saturating_mul(width.padded()).saturating_add(past_len(width))
}

/// Elements that a block at the end of the last row reads past it.
pub(super) fn past_len(width: &Axis) -> usize {
    MAX_LANES.saturating_mul(width.stride)
}

/// `rows` of the output, counted layer by layer, in bands: the layer of each, and its rows there.
pub(super) fn bands(
    axes: &[Axis; 3],
    rows: Range<usize>,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let (height, step) = (axes[1].output.max(1), band_rows(axes));
    (rows.start / height..rows.end.div_ceil(height)).flat_map(move |z| {
        let first = rows.start.max(z * height) - z * height;
        let end = rows.end.min((z + 1) * height) - z * height;
        (first..end).step_by(step).map(move |start| (z, start..end.min(start + step)))
    })
}

/// Copies the inputs in `volume` of output rows `rows` of layer `z` to `scratch`.
pub(super) fn fill_band(
    [depth, height, width]: &[Axis; 3],
    volume: &[f32],
    (z, rows): (usize, &Range<usize>),
    outside: f32,
    scratch: &mut [f32],
) {
    let layer = height.reach(rows.len()) * width.padded();
    let (band, past) = scratch.split_at_mut(depth.kernel * layer);
    band.fill(outside);
    past[..past_len(width)].fill(outside);
    let first = rows.start * height.stride;
    for (tap, layer) in band.chunks_exact_mut(layer.max(1)).enumerate() {
        let Some(z) = depth.at(z, tap) else { continue };
        let plane = &volume[z * height.input * width.input..];
        for (i, row) in layer.chunks_exact_mut(width.padded()).enumerate() {
            let y = (first + i).wrapping_sub(height.pad[0]);
            if y < height.input {
                let input = &plane[y * width.input..(y + 1) * width.input];
                row[width.pad[0]..width.pad[0] + width.input].copy_from_slice(input);
            }
        }
    }
}

/// Computes the output rows of a band: `out: [rows, width out]`, contiguous.
#[inline(always)]
pub(super) fn fold_band<const FMA: bool, F: Fold>(
    fold: &F,
    axes: &[Axis; 3],
    band: &[f32],
    out: &mut [f32],
) {
    match axes[2].output {
        ..=8 => fold_lanes::<FMA, 8, F>(fold, axes, band, out),
        9..=16 => fold_lanes::<FMA, 16, F>(fold, axes, band, out),
        17.. => fold_lanes::<FMA, MAX_LANES, F>(fold, axes, band, out),
    }
}

#[inline(always)]
fn fold_lanes<const FMA: bool, const LANES: usize, F: Fold>(
    fold: &F,
    axes: &[Axis; 3],
    band: &[f32],
    out: &mut [f32],
) {
    let [_, height, width] = axes;
    let from_row = height.stride * width.padded();
    let rows = out.len() / width.output.max(1);
    let layer = height.reach(rows) * width.padded();
    for y in 0..rows {
        for x in (0..width.output).step_by(LANES) {
            let input = &band[y * from_row + x * width.stride..];
            // With a constant stride, strided loads compile to loads and shuffles.
            let block: [f32; LANES] = match width.stride {
                1 => fold_block::<FMA, LANES, F>(fold, axes, (1, layer), input),
                2 => fold_block::<FMA, LANES, F>(fold, axes, (2, layer), input),
                stride => fold_block::<FMA, LANES, F>(fold, axes, (stride, layer), input),
            };
            // The excess of a block is overwritten by the next row; the last row has no room for
            // it.
            let out = &mut out[y * width.output + x..];
            match out.first_chunk_mut::<LANES>() {
                Some(out) => *out = block,
                None => out.copy_from_slice(&block[..out.len()]),
            }
        }
    }
}

/// The block of outputs whose first output's first tap is `input[0]`.
#[inline(always)]
fn fold_block<const FMA: bool, const LANES: usize, F: Fold>(
    fold: &F,
    [depth, height, width]: &[Axis; 3],
    (stride, layer): (usize, usize),
    input: &[f32],
) -> [f32; LANES] {
    let mut sums = [fold.start(); LANES];
    let row = height.dilation * width.padded();
    for tap_z in 0..depth.kernel {
        for tap_y in 0..height.kernel {
            let input = &input[tap_z * layer + tap_y * row..];
            let first = (tap_z * height.kernel + tap_y) * width.kernel;
            fold_row::<FMA, LANES, F>(fold, (width, first), stride, input, &mut sums);
        }
    }
    sums
}

/// Folds the taps of one row, starting at tap `first`.
#[inline(always)]
fn fold_row<const FMA: bool, const LANES: usize, F: Fold>(
    fold: &F,
    (width, first): (&Axis, usize),
    stride: usize,
    input: &[f32],
    sums: &mut [f32; LANES],
) {
    match (width.kernel, width.dilation) {
        (3, 1) => fold_taps::<FMA, LANES, 3, F>(fold.weights(first), stride, input, sums),
        (5, 1) => fold_taps::<FMA, LANES, 5, F>(fold.weights(first), stride, input, sums),
        (taps, dilation) => {
            for tap in 0..taps {
                let (weight, input) = (fold.weights(first + tap), &input[tap * dilation..]);
                fold_taps::<FMA, LANES, 1, F>(weight, stride, input, sums);
            }
        }
    }
}

/// Folds `K` adjacent taps of a row.
#[inline(always)]
fn fold_taps<const FMA: bool, const LANES: usize, const K: usize, F: Fold>(
    weights: [f32; K],
    stride: usize,
    input: &[f32],
    sums: &mut [f32; LANES],
) {
    let x = &input[..(LANES - 1) * stride + K];
    for tap in 0..K {
        for i in 0..LANES {
            sums[i] = F::step::<FMA>(sums[i], x[i * stride + tap], weights[tap]);
        }
    }
}
