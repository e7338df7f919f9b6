//! Depthwise convolution: lines of planes (NCHW), or pixels (channels-last).

use ort_ep::Threads;
use ort_kernels::depthwise_i8::{Pixels, Plane};

use super::{ByteConv, Channels, Finish, Geometry, Operands};
use crate::cpu::{Team, n_parts, per_part};

/// The cost of an output, in f32 multiply-adds: its sum and its epilogue.
const COST: usize = 8;

/// Elements of scratch per thread for planes: bytes and sums.
pub(super) fn planes_scratch_len(geometry: &Geometry) -> usize {
    lines_len(geometry) + Plane::sums_len(&geometry.axes)
}

/// The lines of a plane, in units of four bytes.
fn lines_len(geometry: &Geometry) -> usize {
    Plane::scratch_len(&geometry.axes).div_ceil(4)
}

/// Elements of scratch per thread for pixels: a pixel of padding, and sums.
pub(super) fn pixels_scratch_len(geometry: &Geometry) -> usize {
    padding_len(geometry) + Pixels::sums_len(geometry.all_filters())
}

fn padding_len(geometry: &Geometry) -> usize {
    geometry.all_filters().div_ceil(4)
}

/// Computes `y`: `[images, filters, positions]`. `finish` converts sums to results.
pub(super) fn planes<T: Send>(
    kernel: &ByteConv,
    (geometry, operands): (&Geometry, &Operands<'_>),
    y: &mut [T],
    (threads, scratch): (&dyn Threads, &mut [u8]),
    finish: &impl Finish<T>,
) {
    let [axis0, axis1, axis2] = geometry.axes;
    let (n_lines, n_inputs) = (axis0.output * axis1.output, geometry.n_inputs());
    let (n_planes, filters) = (y.len() / geometry.n_outputs(), geometry.all_filters());
    let n_parts = n_parts(threads, y.len().saturating_mul(COST)).min(n_planes * n_lines);
    let band = per_part(threads, n_planes * n_lines, n_parts);
    // With enough planes, none is split.
    let band = if n_parts <= n_planes { band.next_multiple_of(n_lines) } else { band };
    let team = Team::new(threads, (n_planes * n_lines).div_ceil(band));
    let team = team.with_scratch(scratch, planes_scratch_len(geometry));
    let packed_len = operands.w.len() / filters;
    team.run(y.chunks_mut(band * axis2.output).enumerate(), |(i, mut y), scratch| {
        let (lines, sums) = scratch.split_at_mut(lines_len(geometry));
        let (lines, sums) = (bytemuck::cast_slice_mut(lines), bytemuck::cast_slice_mut(sums));
        let mut at = i * band;
        while !y.is_empty() {
            let (plane, first) = (at / n_lines, at % n_lines);
            let own = first..n_lines.min(first + y.len() / axis2.output);
            let (now, rest) = std::mem::take(&mut y).split_at_mut(own.len() * axis2.output);
            (y, at) = (rest, at + own.len());
            let filter = plane % filters;
            let plane = Plane {
                axes: geometry.axes,
                x: &operands.x[plane / geometry.filters * n_inputs..][..n_inputs],
                padding: operands.x_zero,
                flip: operands.flip,
                weights: &operands.w[filter * packed_len..][..packed_len],
                parts: operands.parts,
                start: operands.start[filter],
            };
            plane.run(kernel.cpu.isa, own, (&mut *lines, &mut *sums), |line, sums| {
                let y = &mut now[(line - first) * axis2.output..][..sums.len()];
                finish.run(Channels::One(filter), sums, y);
            });
        }
    });
}

/// Computes `y`: `[images, positions, filters]`. `finish` converts sums to results.
pub(super) fn pixels<T: Send, F: Finish<T>>(
    kernel: &ByteConv,
    (geometry, operands): (&Geometry, &Operands<'_>),
    y: &mut [T],
    (threads, scratch): (&dyn Threads, &mut [u8]),
    finish: &F,
) {
    let (channels, n_pixels) = (geometry.all_filters(), geometry.n_outputs());
    let (n_images, image_len) = (y.len() / (channels * n_pixels), geometry.n_inputs() * channels);
    let n_parts = n_parts(threads, y.len().saturating_mul(COST)).div_ceil(n_images);
    let band = per_part(threads, n_pixels, n_parts.min(n_pixels));
    let team = Team::new(threads, n_images * n_pixels.div_ceil(band));
    let team = team.with_scratch(scratch, pixels_scratch_len(geometry));
    let images = y.chunks_exact_mut(n_pixels * channels).enumerate();
    let parts = images.flat_map(|(image, y)| {
        y.chunks_mut(band * channels).enumerate().map(move |(i, y)| (image, i * band, y))
    });
    team.run(parts, |(image, first, y), scratch| {
        let (padding, sums) = scratch.split_at_mut(padding_len(geometry));
        let padding: &mut [u8] = &mut bytemuck::cast_slice_mut(padding)[..channels];
        padding.fill(operands.x_zero);
        let pixels = Pixels {
            axes: geometry.axes,
            x: &operands.x[image * image_len..][..image_len],
            padding,
            flip: operands.flip,
            weights: operands.w,
            parts: operands.parts,
            start: operands.start,
        };
        let own = first..first + y.len() / channels;
        let (isa, sums) = (kernel.cpu.isa, bytemuck::cast_slice_mut(sums));
        if let Some((requantize, y)) = finish.requantize(y) {
            return pixels.run_quantized(isa, own, &requantize, (sums, y));
        }
        pixels.run(isa, own, sums, |pixel, sums| {
            finish.run(Channels::From(0), sums, &mut y[(pixel - first) * channels..][..channels]);
        });
    });
}
