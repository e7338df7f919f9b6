//! Depthwise convolutions: plane by plane.

use ort_ep::Threads;
use ort_kernels::conv_f32::{Depthwise, Padded, plane_parts};
use ort_kernels::{Activation, vec};

use super::{ConvKernel, Geometry, Operands, Residual};
use crate::cpu::{MAX_OPERATIONS, Team, n_parts};
use crate::pieces::wanted;

/// Elements of scratch per thread.
pub(super) fn scratch_len(geometry: &Geometry) -> usize {
    let axes = &geometry.axes;
    Padded::scratch_len(axes).unwrap_or_else(|| Depthwise::scratch_len(axes))
}

/// Computes `y`: `[images, channels, positions]`.
pub(super) fn run(
    kernel: &ConvKernel,
    geometry: &Geometry,
    operands: &Operands<'_>,
    y: &mut [f32],
    (threads, scratch): (&dyn Threads, &mut [u8]),
) {
    let (taps, plane) = (geometry.taps(), geometry.n_outputs());
    let n_planes = y.len() / plane;
    let n_parts = n_parts(threads, y.len().saturating_mul(taps));
    let per_part = n_planes.div_ceil(n_parts);
    let team = Team::new(threads, n_planes.div_ceil(per_part));
    let team = team.with_scratch(scratch, scratch_len(geometry));
    let parts = y.chunks_mut(per_part * plane).enumerate();
    team.run(parts, |(i, y), scratch| {
        let planes = y.chunks_exact_mut(plane).enumerate();
        let planes = planes.map(|(j, y)| (i * per_part + j, y));
        match Padded::new(geometry.axes, scratch) {
            Some(mut padded) => wanted(planes).for_each(|(at, y)| {
                one_plane(kernel, geometry, operands, (at, y), |depthwise, x, y| {
                    depthwise.run_padded(&mut padded, x, y);
                });
            }),
            None => planes.for_each(|(at, y)| {
                one_plane(kernel, geometry, operands, (at, y), |depthwise, x, y| {
                    by_parts(depthwise, x, y, scratch);
                });
            }),
        }
    });
}

/// Computes plane `at` of the output by `run`.
fn one_plane(
    kernel: &ConvKernel,
    geometry: &Geometry,
    operands: &Operands<'_>,
    (at, y): (usize, &mut [f32]),
    run: impl FnOnce(&Depthwise<'_>, &[f32], &mut [f32]),
) {
    let (taps, n_inputs) = (geometry.taps(), geometry.n_inputs());
    let channel = at % (geometry.group * geometry.m);
    let z = match operands.z {
        Residual::Given(z) => Some(&z[at * y.len()..][..y.len()]),
        Residual::None | Residual::InPlace => None,
    };
    let depthwise = Depthwise {
        isa: kernel.cpu.isa,
        axes: geometry.axes,
        weights: &operands.w[channel * taps..][..taps],
        bias: operands.bias.map_or(0.0, |bias| bias[channel]),
        activation: if z.is_some() { Activation::None } else { kernel.epilogue.fused() },
    };
    run(&depthwise, &operands.x[at / geometry.m * n_inputs..][..n_inputs], y);
    match z {
        Some(z) => {
            vec::add(kernel.cpu.isa, y, z);
            kernel.epilogue.apply(kernel.cpu.isa, y);
        }
        None => kernel.epilogue.finish(y),
    }
}

/// Computes a plane of any size.
fn by_parts(depthwise: &Depthwise<'_>, x: &[f32], y: &mut [f32], scratch: &mut [f32]) {
    let n_outputs = MAX_OPERATIONS / depthwise.weights.len().max(1);
    for part in wanted(plane_parts(depthwise.axes, n_outputs)) {
        let n_rows = part.axes[0].output * part.axes[1].output;
        let depthwise = Depthwise { axes: part.axes, ..*depthwise };
        depthwise.run(&x[part.inputs], 0..n_rows, &mut y[part.outputs], scratch);
    }
}
