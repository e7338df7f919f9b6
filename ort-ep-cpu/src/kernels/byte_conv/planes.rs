//! NCHW images: the unpacked weights times columns of the image, which are computed on the fly.

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::Isa;
use ort_kernels::gemm_i8::{Columns, Gemm, Signs, Start, Zeros, packed_b_len, row_masks_len};

use super::{ByteConv, Channels, Finish, Geometry, Operands};
use crate::cpu::{Team, n_parts};
use crate::cut::{Along, Cut, Part};
use crate::pieces::wanted;

/// Columns whose sums a thread computes at a time: a few panels of any variant.
const COLUMNS: usize = 128;
/// The least number of them: a panel of the widest variant.
const MIN_COLUMNS: usize = 32;
/// The most bytes that are copied to panels between two checks for cancellation.
const MAX_PACKED: usize = 1 << 23;

/// Elements of scratch per thread: columns, ones, the sums of the columns, and sums.
pub(super) fn scratch_len(isa: Isa, geometry: &Geometry) -> usize {
    panels_len(isa, geometry) + ones_len(geometry) + COLUMNS + geometry.filters * COLUMNS
}

/// A row of ones, in units of four bytes.
fn ones_len(geometry: &Geometry) -> usize {
    geometry.k.div_ceil(4)
}

/// The columns, in units of four bytes.
fn panels_len(isa: Isa, geometry: &Geometry) -> usize {
    packed_b_len(isa, geometry.k, COLUMNS).div_ceil(4)
}

/// Computes `y`: `[images, group, filters, positions]`. `finish` converts sums to results.
pub(super) fn compute<T: Send>(
    kernel: &ByteConv,
    (geometry, operands): (&Geometry, &Operands<'_>),
    y: &mut [T],
    (threads, scratch): (&dyn Threads, &mut [u8]),
    finish: &impl Finish<T>,
) {
    let (m, n) = (geometry.filters, geometry.n_outputs());
    let n_products = y.len() / (m * n);
    let cost = y.len().saturating_mul(geometry.k) / 4;
    let n_parts = n_parts(threads, cost).div_ceil(n_products);
    let cut = Cut::new(kernel.cpu.isa, [m, n], n_parts, Along::Columns);
    let team = Team::new(threads, n_products * cut.n_parts());
    let team = team.with_scratch(scratch, scratch_len(kernel.cpu.isa, geometry));
    let products = y.chunks_exact_mut(m * n).enumerate();
    let parts = products.flat_map(|(i, y)| cut.parts(y).map(move |part| (i, part)));
    team.run(parts, |(i, part), scratch| {
        self::part(kernel, (geometry, operands), (i, part), scratch, finish);
    });
}

/// A part of the product of image and group `i`, a few columns at a time.
fn part<T>(
    kernel: &ByteConv,
    (geometry, operands): (&Geometry, &Operands<'_>),
    (i, mut part): (usize, Part<'_, T>),
    scratch: &mut [f32],
    finish: &impl Finish<T>,
) {
    let &Geometry { channels, filters, k, axes, .. } = geometry;
    let image_len = channels * geometry.n_inputs();
    let (padding, flip) = (operands.x_zero, operands.flip);
    let image = &operands.x[i * image_len..][..image_len];
    let columns = Columns { image, channels, axes, padding, flip };
    let first = i % kernel.group * filters;
    let masks_len = row_masks_len(kernel.cpu.isa, filters, k);
    let a_masks = operands.masks.chunks(masks_len.max(1)).nth(i % kernel.group).unwrap_or_default();
    let (panels, sums) = scratch.split_at_mut(panels_len(kernel.cpu.isa, geometry));
    let panels: &mut [u8] = bytemuck::cast_slice_mut(panels);
    let (ones, sums) = sums.split_at_mut(ones_len(geometry));
    let ones: &mut [u8] = &mut bytemuck::cast_slice_mut(ones)[..k];
    let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
    let (column_sums, sums) = sums.split_at_mut(COLUMNS);
    let has_zeros = kernel.filters.has_zeros();
    if has_zeros {
        ones.fill(1);
    }
    let (rows, all) = (part.rows.clone(), part.columns.clone());
    let step = (MAX_PACKED / k.max(1)).next_multiple_of(MIN_COLUMNS).clamp(MIN_COLUMNS, COLUMNS);
    for start in wanted(all.clone().step_by(step)) {
        let own = start..all.end.min(start + step);
        columns.pack(kernel.cpu.isa, own.clone(), panels);
        let gemm = Gemm {
            isa: kernel.cpu.isa,
            n: own.len(),
            k,
            signs: Signs::SignedA,
            a: &operands.w[first * k..][..filters * k],
            a_stride: k,
            a_masks,
            b: panels,
            start: Start::ByRow(&operands.start[first..]),
        };
        gemm.run(rows.clone(), 0..own.len(), &mut sums[..rows.len() * own.len()]);
        if has_zeros {
            let gemm = Gemm { a: ones, a_masks: &[], start: Start::ByRow(&[0]), ..gemm };
            gemm.run(0..1, 0..own.len(), &mut column_sums[..own.len()]);
        }
        let within: Range<usize> = own.start - all.start..own.end - all.start;
        part.for_each_row(|row, y| {
            let sums = &mut sums[(row - rows.start) * own.len()..][..own.len()];
            if has_zeros {
                let zeros = Zeros { a: 0, b: kernel.filters.zeros[first + row] };
                for (sum, &column_sum) in sums.iter_mut().zip(&*column_sums) {
                    *sum = sum.wrapping_add(zeros.by_element(column_sum));
                }
            }
            finish.run(Channels::One(first + row), sums, &mut y[within.clone()]);
        });
    }
}
