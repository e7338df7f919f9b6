//! NCHW images: the unpacked weights times columns of the image, which are computed on the fly.

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::Isa;
use ort_kernels::gemm_i8::{
    Columns, Gemm, Signs, Start, columns_k, correct, packed_b_len, row_masks_len, variant,
};

use super::{ByteConv, Channels, Finish, Geometry, Operands};
use crate::cpu::{Team, n_parts};
use crate::cut::{Along, Cut, Part};
use crate::pieces::wanted;

/// Columns whose sums a thread computes at a time: a few panels of any variant; and more while these are short. Rows of sums
/// that are an odd number of panels apart share few sets of a cache.
const COLUMNS: [usize; 2] = [160, 992];
/// Bytes of columns and their sums: fewer where more rows of these are written at once, which should share pages.
const BLOCK_BYTES: usize = 256 << 10;
/// The least number of columns: a panel of the widest variant.
const MIN_COLUMNS: usize = 32;
/// Bytes of a line of a cache, where all parts of the scratch start.
const LINE: usize = 64;
/// The most bytes that are copied to panels between two checks for cancellation.
const MAX_PACKED: usize = 1 << 23;

/// The scratch of a thread: elements of four bytes.
#[derive(Clone, Copy)]
struct Scratch {
    /// Columns whose sums are computed at a time.
    n_columns: usize,
    lines: usize,
    panels: usize,
    ones: usize,
    sums: usize,
}

impl Scratch {
    fn of(isa: Isa, geometry: &Geometry) -> Self {
        let (k, filters) = (k(geometry), geometry.filters);
        let most = (MAX_PACKED / k.max(1)).next_multiple_of(MIN_COLUMNS).max(MIN_COLUMNS);
        let [few, many] = COLUMNS;
        let bytes = size_of::<i32>().saturating_mul(filters).saturating_add(k);
        let block = BLOCK_BYTES / variant(isa, k).n_tiles;
        let n = (block / bytes.max(1)).clamp(few, many).min(most) / MIN_COLUMNS;
        let n = (n - usize::from(n.is_multiple_of(2))) * MIN_COLUMNS;
        let whole_lines = |bytes: usize| bytes.next_multiple_of(LINE) / 4;
        let lines = whole_lines(Columns::scratch_len(&geometry.axes, geometry.channels, n));
        let (panels, ones) = (whole_lines(packed_b_len(isa, k, n)), whole_lines(k));
        Self { n_columns: n, lines, panels, ones, sums: filters * n }
    }

    fn len(self) -> usize {
        self.lines + self.panels + self.ones + self.n_columns + self.sums
    }

    /// Lines, columns and ones; the sums of columns, and sums.
    fn split(self, scratch: &mut [f32]) -> ([&mut [u8]; 3], [&mut [i32]; 2]) {
        let (lines, rest) = scratch.split_at_mut(self.lines);
        let (panels, rest) = rest.split_at_mut(self.panels);
        let (ones, rest) = rest.split_at_mut(self.ones);
        let (column_sums, sums) = rest.split_at_mut(self.n_columns);
        let bytes = [lines, panels, ones].map(bytemuck::cast_slice_mut);
        (bytes, [column_sums, sums].map(bytemuck::cast_slice_mut))
    }
}

/// Elements of scratch per thread: lines, columns, a row of ones, the sums of the columns, and sums.
pub(super) fn scratch_len(isa: Isa, geometry: &Geometry) -> usize {
    Scratch::of(isa, geometry).len()
}

/// Rows of the columns.
fn k(geometry: &Geometry) -> usize {
    columns_k(geometry.channels, geometry.axes.iter().map(|axis| axis.kernel).product())
}

/// Writes 1 for each channel of each tap, and 0 for what pads them.
fn fill_ones(ones: &mut [u8], channels: usize) {
    let padded = columns_k(channels, 2) / 2;
    for tap in ones.chunks_mut(padded) {
        let n = channels.min(tap.len());
        tap[..n].fill(1);
        tap[n..].fill(0);
    }
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
    let &Geometry { channels, filters, axes, .. } = geometry;
    let (isa, k, image_len) = (kernel.cpu.isa, k(geometry), channels * geometry.n_inputs());
    let (padding, flip) = (operands.x_zero, operands.flip);
    let image = &operands.x[i * image_len..][..image_len];
    let columns = Columns { image, channels, axes, padding, flip };
    let first = i % kernel.group * filters;
    let masks_len = row_masks_len(isa, filters, k);
    let a_masks = operands.masks.chunks(masks_len.max(1)).nth(i % kernel.group).unwrap_or_default();
    let lens = Scratch::of(isa, geometry);
    let ([lines, panels, ones], [column_sums, sums]) = lens.split(scratch);
    let ones = &mut ones[..k];
    let has_zeros = kernel.filters.has_zeros();
    if has_zeros {
        fill_ones(ones, channels);
    }
    let (rows, all) = (part.rows.clone(), part.columns.clone());
    let next = |from: usize| {
        Some(columns.first(&(from..all.end), lens.n_columns)).filter(|own| !own.is_empty())
    };
    for own in wanted(std::iter::successors(next(all.start), |own| next(own.end))) {
        columns.pack(isa, own.clone(), lines, panels);
        let gemm = Gemm {
            isa,
            n: own.len(),
            k,
            signs: Signs::SignedA,
            a: &operands.w[first * k..],
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
                correct(isa, sums, kernel.filters.zeros[first + row], column_sums);
            }
            finish.run(Channels::One(first + row), sums, &mut y[within.clone()]);
        });
    }
}
