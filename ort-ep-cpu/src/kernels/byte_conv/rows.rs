//! Channels-last images: rows of the inputs of each output, times weights packed as a right operand.

use std::cell::RefCell;
use std::ops::Range;

use ort_ep::{Packed, Recipe, Threads};
use ort_kernels::Isa;
use ort_kernels::gemm_i8::{
    Bytes, Gemm, Signs, Start, correct, pack_b_while, packed_b_len, row_sum, rows_of_far, variant,
};
use ort_kernels::transpose::Transposed;
use ort_tensor::{AlignedBuf, go_on};

use super::{ByteConv, Channels, Finish, Geometry, Operands};
use crate::bytes::rows_at_once;
use crate::cpu::{Team, n_parts};
use crate::kernels::Compiler;
use crate::pieces::wanted;

/// The overhead of a result in addition to its sum, in f32 multiply-adds.
const COST: usize = 8;

/// Packs the weights `[filters, channels, taps…]` of the only group as `[taps…, channels, filters]`,
/// a right operand.
pub(super) fn pack(compiler: &Compiler<'_>, input: usize, flip: u8) -> Option<Packed> {
    let &[n, channels, ref kernel @ ..] = compiler.constant(input)?.shape() else { return None };
    let taps = kernel.iter().product::<usize>();
    let (isa, k) = (compiler.cpu.isa, channels * taps);
    let recipe = Recipe {
        name: "gemm_i8/b",
        parameters: vec![variant(isa, k).layout(), 2],
        n_bytes: packed_b_len(isa, k, n),
    };
    // Allocated here, as packing cannot fail. Nothing is written to it if the packed form exists already.
    let by_tap =
        RefCell::new(AlignedBuf::try_block(if taps == 1 { 0 } else { n.checked_mul(k)? })?);
    compiler.pack_for_runs(input, &recipe, |data: &[u8], packed| {
        let (strides, may_continue) = ([1, k], || go_on().is_ok());
        if taps == 1 {
            let b = Bytes { data, k, n, strides };
            return pack_b_while(isa, &b, flip, packed, may_continue);
        }
        let mut by_tap = by_tap.borrow_mut();
        let filters = by_tap.as_mut().chunks_exact_mut(k.max(1));
        for (filter, to) in wanted(data.chunks_exact(k.max(1)).zip(filters)) {
            u8::transpose(isa, [channels, taps], (filter, taps), (to, channels));
        }
        let b = Bytes { data: (*by_tap).as_ref(), k, n, strides };
        pack_b_while(isa, &b, flip, packed, may_continue);
    })
}

/// Elements of scratch per thread: rows, in units of four bytes, and sums.
pub(super) fn scratch_len(isa: Isa, geometry: &Geometry) -> usize {
    rows_len(isa, geometry) + rows_at_once(isa, geometry.k, 0) * geometry.filters
}

/// The rows that a thread gathers at a time if no sums are stored: more where the weights are not in a near cache.
fn n_gathered(isa: Isa, geometry: &Geometry) -> usize {
    let far = rows_of_far(isa, padded(isa, geometry.k), geometry.filters);
    rows_at_once(isa, geometry.k, 0).max(far.unwrap_or(0))
}

/// Elements of scratch for the rows that a thread gathers at a time.
fn rows_len(isa: Isa, geometry: &Geometry) -> usize {
    n_gathered(isa, geometry) * padded(isa, geometry.k) / 4
}

/// The length of gathered rows, in whole steps: what follows a row is multiplied by the zeros that pad the weights.
fn padded(isa: Isa, k: usize) -> usize {
    variant(isa, k).padded_k(k)
}

/// Computes `y`: `[images, positions, filters]`. `finish` converts sums to results.
pub(super) fn compute<T: Send>(
    kernel: &ByteConv,
    (geometry, operands): (&Geometry, &Operands<'_>),
    y: &mut [T],
    (threads, scratch): (&dyn Threads, &mut [u8]),
    finish: &impl Finish<T>,
) {
    let (m, n) = (geometry.n_outputs(), geometry.filters);
    let n_images = y.len() / (m * n);
    let cost = y.len().saturating_mul(geometry.k / 4 + COST);
    let n_parts = n_parts(threads, cost).div_ceil(n_images);
    let band = band(variant(kernel.cpu.isa, geometry.k).mr, m, n_parts);
    let team = Team::new(threads, n_images * m.div_ceil(band));
    let team = team.with_scratch(scratch, scratch_len(kernel.cpu.isa, geometry));
    let images = y.chunks_exact_mut(m * n).enumerate();
    let parts = images.flat_map(|(image, y)| {
        y.chunks_mut(band * n).enumerate().map(move |(i, y)| (image, i * band, y))
    });
    team.run(parts, |(image, first, y), scratch| {
        let rows = first..first + y.len() / n;
        part(kernel, (geometry, operands), (image, rows, y), scratch, finish);
    });
}

/// Rows per part, for `m` rows in about `n_parts` parts: whole tiles of `mr` if there are many.
fn band(mr: usize, m: usize, n_parts: usize) -> usize {
    let rows = m.div_ceil(n_parts.clamp(1, m.div_ceil(2 * mr)));
    if rows < 8 * mr { rows } else { rows.next_multiple_of(mr) }
}

/// A part of image `i`, a few rows at a time.
fn part<T>(
    kernel: &ByteConv,
    (geometry, operands): (&Geometry, &Operands<'_>),
    (i, rows, y): (usize, Range<usize>, &mut [T]),
    scratch: &mut [f32],
    finish: &impl Finish<T>,
) {
    let (k, n, image_len) = (geometry.k, geometry.filters, geometry.channels * geometry.n_inputs());
    let image = &operands.x[i * image_len..][..image_len];
    let (isa, n_rows) = (kernel.cpu.isa, rows_at_once(kernel.cpu.isa, k, 0));
    let (read, sums) = scratch.split_at_mut(rows_len(isa, geometry));
    let read: &mut [u8] = bytemuck::cast_slice_mut(read);
    let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
    let is_direct = operands.flip == 0 && geometry.axes.iter().all(|axis| axis.is_pointwise());
    let (row_len, has_zeros) =
        (if is_direct { k } else { padded(isa, k) }, kernel.filters.has_zeros());
    let gemm = Gemm {
        isa,
        n,
        k: row_len,
        signs: Signs::UnsignedA,
        a: image,
        a_stride: row_len,
        a_masks: &[],
        b: operands.w,
        start: Start::ByColumn(operands.start),
    };
    if !has_zeros && let Some((requantize, y)) = finish.requantize(y) {
        if is_direct {
            return gemm.run_quantized(rows, 0..n, &requantize, y);
        }
        let n_rows = n_gathered(isa, geometry);
        for (first, y) in rows.clone().step_by(n_rows).zip(y.chunks_mut(n_rows * n)) {
            let block = first..rows.end.min(first + n_rows);
            gather((geometry, row_len), operands, image, (block.clone(), &mut *read));
            Gemm { a: read, ..gemm }.run_quantized(0..block.len(), 0..n, &requantize, y);
        }
        return;
    }
    for (first, y) in rows.clone().step_by(n_rows).zip(y.chunks_mut(n_rows * n)) {
        let block = first..rows.end.min(first + n_rows);
        let a = match is_direct {
            true => &image[first * k..][..block.len() * k],
            false => {
                gather((geometry, row_len), operands, image, (block.clone(), &mut *read));
                &*read
            }
        };
        Gemm { a, ..gemm }.run(0..block.len(), 0..n, &mut sums[..block.len() * n]);
        for ((i, sums), y) in sums.chunks_exact_mut(n).enumerate().zip(y.chunks_exact_mut(n)) {
            if has_zeros {
                correct(isa, sums, row_sum(&a[i * row_len..][..k]), &kernel.filters.zeros);
            }
            finish.run(Channels::From(0), sums, y);
        }
    }
}

/// Gathers the inputs of outputs `rows`, row by row, `row_len` apart: the channels of each tap.
fn gather(
    (geometry, row_len): (&Geometry, usize),
    operands: &Operands<'_>,
    image: &[u8],
    (rows, read): (Range<usize>, &mut [u8]),
) {
    let [_, _, axis2] = &geometry.axes;
    let read = &mut read[..rows.len() * row_len];
    let (mut row, mut rest) = (rows.start, &mut *read);
    while row < rows.end {
        let (line, at) = (row / axis2.output, row % axis2.output);
        let n = (axis2.output - at).min(rows.end - row);
        let (own, others) = rest.split_at_mut(n * row_len);
        gather_line((geometry, row_len), operands, image, (line, at..at + n), own);
        (row, rest) = (row + n, others);
    }
    if operands.flip != 0 {
        read.iter_mut().for_each(|byte| *byte ^= operands.flip);
    }
}

/// Gathers the inputs of these outputs of a line.
fn gather_line(
    (geometry, row_len): (&Geometry, usize),
    operands: &Operands<'_>,
    image: &[u8],
    (line, outputs): (usize, Range<usize>),
    read: &mut [u8],
) {
    let ([axis0, axis1, axis2], channels) = (&geometry.axes, geometry.channels);
    let (at0, at1) = (line / axis1.output, line % axis1.output);
    let len = axis2.kernel * channels;
    // The outputs whose pixels are adjacent and inside the image: they are copied together.
    let whole = match axis2.dilation {
        1 => axis2.inside(&axis2.inside(&outputs, 0), axis2.kernel - 1),
        _ => outputs.end..outputs.end,
    };
    for t in 0..axis0.kernel * axis1.kernel {
        let (t0, t1) = (t / axis1.kernel, t % axis1.kernel);
        let own = |at: usize| (at - outputs.start) * row_len + t * len;
        let Some((i0, i1)) = axis0.at(at0, t0).zip(axis1.at(at1, t1)) else {
            outputs.clone().for_each(|at| read[own(at)..][..len].fill(operands.x_zero));
            continue;
        };
        let line = &image[(i0 * axis1.input + i1) * axis2.input * channels..];
        for at in (outputs.start..whole.start).chain(whole.end..outputs.end) {
            let row = &mut read[own(at)..][..len];
            for (t2, pixel) in row.chunks_exact_mut(channels).enumerate() {
                match axis2.at(at, t2) {
                    Some(i2) => pixel.copy_from_slice(&line[i2 * channels..][..channels]),
                    None => pixel.fill(operands.x_zero),
                }
            }
        }
        if let Some(first) = axis2.at(whole.start, 0).filter(|_| !whole.is_empty()) {
            let from = (&line[first * channels..], axis2.stride * channels);
            let to = (&mut read[own(whole.start)..], row_len);
            let what = (len, whole.len());
            // A few bytes are copied as two overlapping halves: a call takes longer.
            match len {
                4..=8 => copy_runs(copy_ends::<4>, what, from, to),
                9..=16 => copy_runs(copy_ends::<8>, what, from, to),
                17..=32 => copy_runs(copy_ends::<16>, what, from, to),
                33..=64 => copy_runs(copy_ends::<32>, what, from, to),
                65..=128 => copy_runs(copy_ends::<64>, what, from, to),
                _ => copy_runs(|from, to| to.copy_from_slice(from), what, from, to),
            }
        }
    }
}

/// Copies `n` runs of `len` bytes that are so far apart.
#[inline(always)]
fn copy_runs(
    copy: impl Fn(&[u8], &mut [u8]),
    (len, n): (usize, usize),
    (x, x_step): (&[u8], usize),
    (y, y_step): (&mut [u8], usize),
) {
    for i in 0..n {
        copy(&x[i * x_step..][..len], &mut y[i * y_step..][..len]);
    }
}

#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *to = *first;
    }
    if let (Some(last), Some(to)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *to = *last;
    }
}
