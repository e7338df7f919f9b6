//! Products of bytes, `C = Σ_k (A − a_zero)·(B − b_zero)`, exact in i32, shared by the threads of a
//! run. The right operand is a constant, packed once.

mod right;

pub(crate) use right::{Right, RightView};

use std::ops::Range;

use ort_ep::{KernelError, Threads};
use ort_kernels::Isa;
use ort_kernels::gemm_i8::{Gemm, Signs, Start, Variant, correct, row_sum, variant};
use ort_kernels::quantize::Requantize;
use ort_tensor::{DType, Inputs, Pace, Tensor, TensorView, collected};

use crate::cpu::{Cpu, Team, floats, n_parts, numbers};
use crate::cut::{Along, Cut, Part};
use crate::pieces::wanted;

/// XOR mask between unsigned bytes and signed ones, which are 128 less.
pub(crate) const FLIP: u8 = 0x80;
/// About the rows whose sums a thread computes at a time.
const ROWS: usize = 40;
/// Columns whose sums a thread computes at a time: an odd number of panels, as rows that are many lines apart share few sets;
/// and more of few rows.
const COLUMNS: usize = 160;
/// Sums of few rows that a thread computes at a time.
const SUMS: usize = 8 << 10;
/// Bytes of rows that stay in a cache while they are multiplied.
const CACHED_BYTES: usize = 128 << 10;

/// The rows whose sums a thread computes at a time: whole tiles, more than one if variants compute several together and
/// rows of `k` terms, and of sums of `n` columns, fit the cache.
pub(crate) fn rows_at_once(isa: Isa, k: usize, n: usize) -> usize {
    let Variant { mr, n_tiles, .. } = variant(isa, k);
    let len = k.max(n * size_of::<i32>());
    (ROWS / mr).max(n_tiles.min(CACHED_BYTES / len.max(1) / mr)).max(1) * mr
}

/// The flip that converts elements of this type to signed bytes; `None` if they are not bytes.
pub(crate) fn flip_to_signed(dtype: DType) -> Option<u8> {
    match dtype {
        DType::I8 => Some(0),
        DType::U8 => Some(FLIP),
        _ => None,
    }
}

/// The quantized values of a constant of bytes, flipped to signed.
pub(crate) fn quantized_values(constant: &Tensor, flip: u8) -> Option<Vec<i32>> {
    flip_to_signed(constant.dtype()).filter(|&own| own == flip)?;
    let signed = |&byte: &u8| i32::from((byte ^ flip).cast_signed());
    collected(constant.view().as_bytes()?.iter().map(signed)).ok()
}

/// The zero point of quantized values at `index`, 0 if it is absent.
pub(crate) fn zero_point(inputs: Inputs<'_>, index: usize) -> Result<i16, KernelError> {
    let Some(zero) = inputs.optional_tensor(index)? else { return Ok(0) };
    let byte = zero.as_bytes().and_then(|bytes| bytes.first().copied()).unwrap_or_default();
    Ok(if zero.dtype() == DType::I8 { byte.cast_signed().into() } else { byte.into() })
}

/// The left operand `[m, k]`, unsigned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) zero: i32,
}

impl<'a> Left<'a> {
    /// Rows of bytes with this zero point, 0 if there is none; signed ones are flipped in `room`.
    pub(crate) fn of(a: TensorView<'a>, zero: Option<TensorView<'_>>, room: &'a mut [u8]) -> Self {
        let bytes = a.as_bytes().unwrap_or_default();
        let flip = if a.dtype() == DType::I8 { FLIP } else { 0 };
        let zero = zero.and_then(|zero| zero.as_bytes()?.first().copied()).unwrap_or(0);
        let zero = i32::from(zero ^ flip);
        Self { bytes: flipped(bytes, flip, room), zero }
    }
}

/// The bytes, with the bits of `flip` flipped in `room`. Incomplete once the run is cancelled.
pub(crate) fn flipped<'a>(bytes: &'a [u8], flip: u8, room: &'a mut [u8]) -> &'a [u8] {
    if flip == 0 {
        return bytes;
    }
    let pieces = room.chunks_mut(Pace::STEP).zip(bytes.chunks(Pace::STEP));
    for (room, bytes) in wanted(pieces) {
        room.iter_mut().zip(bytes).for_each(|(to, from)| *to = from ^ flip);
    }
    room
}

/// The product of `m` rows with a right operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteProduct<'a> {
    pub(crate) cpu: Cpu,
    pub(crate) m: usize,
    pub(crate) right: RightView<'a>,
}

impl ByteProduct<'_> {
    /// Bytes of scratch for the initial sums of columns.
    fn start_bytes(&self) -> usize {
        (self.right.n * size_of::<i32>()).next_multiple_of(64)
    }

    /// The bytes of scratch for a left operand.
    fn left_bytes(&self) -> usize {
        (self.m * self.right.k).next_multiple_of(64)
    }

    /// The rows and columns whose sums a thread computes at a time.
    fn at_once(&self) -> [usize; 2] {
        let RightView { k, n, .. } = self.right;
        let rows = self.m.min(rows_at_once(self.cpu.isa, k, COLUMNS));
        let columns = (SUMS / rows.max(1) / COLUMNS).max(1) * COLUMNS;
        [rows, n.min(columns)]
    }

    /// Elements of scratch per thread: the sums of a few rows and columns, and those of the rows of A.
    fn scratch_len(&self) -> usize {
        let [rows, columns] = self.at_once();
        rows * columns + rows
    }

    /// Bytes of scratch for a run.
    pub(crate) fn scratch_bytes(&self) -> usize {
        let own = self.start_bytes() + self.left_bytes();
        own + self.cpu.scratch_bytes(self.scratch_len())
    }

    /// Splits scratch into a left operand and the rest, which [`ByteProduct::run`] takes.
    pub(crate) fn room<'s>(&self, scratch: &'s mut [u8]) -> (&'s mut [u8], &'s mut [u8]) {
        let (room, rest) = scratch.split_at_mut(self.left_bytes());
        (&mut room[..self.m * self.right.k], rest)
    }

    /// Computes the requantized sums, with a bias per column: `y: [m, n]`, contiguous, bytes with the sign of the results.
    pub(crate) fn run_quantized(
        &self,
        operands: (Left<'_>, Option<&[i32]>),
        y: &mut [u8],
        (threads, scratch): (&dyn Threads, &mut [u8]),
        requantize: &Requantize<'_>,
    ) {
        self.parts(operands, y, (threads, scratch), |gemm, mut part, scratch| {
            let (rows, columns) = (part.rows.clone(), part.columns.clone());
            match part.contiguous() {
                Some(y) if !self.has_zeros(&columns) => {
                    gemm.run_quantized(rows, columns, requantize, y)
                }
                _ => self.part(
                    gemm,
                    part,
                    scratch,
                    &|columns: Range<usize>, sums: &[i32], y: &mut [u8]| {
                        requantize.part(0..1, columns).row(self.cpu.isa, 0, sums, y);
                    },
                ),
            }
        });
    }

    /// Computes the sums, with a bias per column, and calls `finish(columns, sums, y)` for pieces of
    /// the rows of `y`: `[m, n]`, contiguous.
    pub(crate) fn run<T: Send>(
        &self,
        operands: (Left<'_>, Option<&[i32]>),
        y: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
        finish: impl Fn(Range<usize>, &[i32], &mut [T]) + Sync,
    ) {
        self.parts(operands, y, (threads, scratch), |gemm, part, scratch| {
            self.part(gemm, part, scratch, &finish);
        });
    }

    /// Calls `compute(product, part of y, scratch)` for each part.
    fn parts<T: Send>(
        &self,
        (left, bias): (Left<'_>, Option<&[i32]>),
        y: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
        compute: impl Fn(&Gemm<'_>, Part<'_, T>, &mut [i32]) + Sync,
    ) {
        let RightView { k, n, panels, .. } = self.right;
        if y.is_empty() {
            return;
        }
        let (start, scratch) = scratch.split_at_mut(self.start_bytes());
        let start: &mut [i32] = &mut numbers(start)[..n];
        for (j, (start, own)) in start.iter_mut().zip(self.right.starts(left.zero)).enumerate() {
            *start = own.wrapping_add(bias.map_or(0, |bias| bias[j]));
        }
        let gemm = Gemm {
            isa: self.cpu.isa,
            n,
            k,
            a: left.bytes,
            a_stride: k,
            a_masks: &[],
            signs: Signs::UnsignedA,
            b: panels,
            start: Start::ByColumn(start),
        };
        let parts = n_parts(threads, self.m.saturating_mul(n).saturating_mul(k) / 4);
        let along = if self.m > n { Along::Rows } else { Along::Columns };
        let cut = Cut::new(self.cpu.isa, [self.m, n], parts, along);
        let team = Team::new(threads, cut.n_parts()).with_scratch(scratch, self.scratch_len());
        team.run(cut.parts(y), |part, scratch| {
            compute(&gemm, part, bytemuck::cast_slice_mut(scratch));
        });
    }

    /// Whether the sums of these columns need a correction for zero points.
    fn has_zeros(&self, columns: &Range<usize>) -> bool {
        self.right.zeros[columns.clone()].iter().any(|&zero| zero != 0)
    }

    /// Computes a part of the product, a few rows and columns at a time.
    fn part<T>(
        &self,
        gemm: &Gemm<'_>,
        mut part: Part<'_, T>,
        scratch: &mut [i32],
        finish: &impl Fn(Range<usize>, &[i32], &mut [T]),
    ) {
        let ([n_rows, n_columns], k) = (self.at_once(), gemm.k);
        let (sums, row_sums) = scratch.split_at_mut(n_rows * n_columns);
        let (rows, columns) = (part.rows.clone(), part.columns.clone());
        let zeros = Some(self.right.zeros).filter(|_| self.has_zeros(&columns));
        for first in rows.clone().step_by(n_rows.max(1)) {
            let block = first..rows.end.min(first + n_rows);
            if zeros.is_some() {
                for (sum, row) in row_sums.iter_mut().zip(block.clone()) {
                    *sum = row_sum(&gemm.a[row * k..][..k]);
                }
            }
            for column in columns.clone().step_by(n_columns.max(1)) {
                let own = column..columns.end.min(column + n_columns);
                let sums = &mut sums[..block.len() * own.len()];
                gemm.run(block.clone(), own.clone(), sums);
                for (i, sums) in sums.chunks_exact_mut(own.len()).enumerate() {
                    if let Some(zeros) = zeros {
                        correct(gemm.isa, sums, row_sums[i], &zeros[own.clone()]);
                    }
                    let y = part.row(first - rows.start + i);
                    finish(own.clone(), sums, &mut y[column - columns.start..][..own.len()]);
                }
            }
        }
    }
}

/// The name of the kernel that computes the sums of products of `k` terms.
pub(crate) fn variant_name(isa: Isa, k: usize) -> &'static str {
    match variant(isa, k).name {
        "amx_32x32" => "gemm_i8/amx_32x32",
        "avx512vnni_10x32" => "gemm_i8/avx512vnni_10x32",
        "avx2_4x16" => "gemm_i8/avx2_4x16",
        "neondotprod_8x8" => "gemm_i8/neondotprod_8x8",
        "simd128_4x8" => "gemm_i8/simd128_4x8",
        _ => "gemm_i8/generic",
    }
}

/// Splits off `len` floats at the start of scratch, one per column, for the epilogue.
pub(crate) fn split_floats(scratch: &mut [u8], len: usize) -> (&mut [f32], &mut [u8]) {
    let (first, rest) = scratch.split_at_mut((len * size_of::<f32>()).next_multiple_of(64));
    (&mut floats(first)[..len], rest)
}
