//! Products of bytes, `C = Σ_k (A − a_zero)·(B − b_zero)`, exact in i32, shared by the threads of a
//! run. The right operand is a constant, packed once.

use std::ops::Range;

use ort_ep::{KernelError, Packed, Recipe, Threads};
use ort_kernels::Isa;
use ort_kernels::gemm_i8::{
    Bytes, Gemm, Signs, Start, Variant, Zeros, column_sums_while, pack_b_while, packed_b_len,
    row_sum, variant,
};
use ort_kernels::quantize::Requantize;
use ort_tensor::{DType, Inputs, Pace, Tensor, TensorView, collected, filled, go_on};

use crate::cpu::{Cpu, Team, floats, n_parts, numbers};
use crate::cut::{Along, Cut, Part};
use crate::kernels::Compiler;
use crate::pieces::wanted;

/// XOR mask between unsigned bytes and signed ones, which are 128 less.
pub(crate) const FLIP: u8 = 0x80;
/// About the rows whose sums a thread computes at a time.
const ROWS: usize = 40;
/// Columns whose sums a thread computes at a time: an odd number of panels, as rows that are many lines apart share few sets.
const COLUMNS: usize = 160;
/// Bytes of rows that stay in a cache while they are multiplied.
const CACHED_BYTES: usize = 128 << 10;

/// The rows whose sums a thread computes at a time: whole tiles, more than one if variants compute several together and
/// rows of `len` bytes fit the cache.
pub(crate) fn rows_at_once(isa: Isa, len: usize) -> usize {
    let Variant { mr, n_tiles, .. } = variant(isa);
    (ROWS / mr).max(n_tiles.min(CACHED_BYTES / len.max(1) / mr)).max(1) * mr
}

/// A constant right operand `[k, n]` of int8 or uint8, with its zero points.
#[derive(Debug)]
pub(crate) struct Right {
    panels: Packed,
    /// The sum of each column, flipped like the panels, as i32.
    sums: Packed,
    /// The zero point of each column, flipped likewise.
    zeros: Vec<i32>,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl Right {
    /// The constant at `input`, `[k, n]` or stored transposed, with the zero points at `zero_input`:
    /// absent, one, or one per column. `None` if either is not such a constant.
    pub(crate) fn compile(
        compiler: &Compiler<'_>,
        input: usize,
        zero_input: usize,
        is_transposed: bool,
    ) -> Option<Self> {
        let constant = compiler.constant(input)?;
        let &[rows, columns] = constant.shape() else { return None };
        let (k, n) = if is_transposed { (columns, rows) } else { (rows, columns) };
        let flip = flip_to_signed(constant.dtype())?;
        let zeros = match compiler.fact(zero_input) {
            None => vec![i32::from(flip.cast_signed())],
            Some(_) => quantized_values(compiler.constant(zero_input)?, flip)?,
        };
        Stored { input, first: 0, k, n, flip, is_transposed }.pack(compiler, &zeros)
    }

    /// Matrix `d` of the constant at `input`, `[matrices, k, n]`, with the zero points at
    /// `zero_input`: `[matrices]` or `[matrices, n]`. `None` if either is not such a constant.
    pub(crate) fn compile_one(
        compiler: &Compiler<'_>,
        input: usize,
        zero_input: usize,
        d: usize,
    ) -> Option<Self> {
        let constant = compiler.constant(input)?;
        let &[n_matrices, k, n] = constant.shape() else { return None };
        let flip = flip_to_signed(constant.dtype())?;
        let zeros = quantized_values(compiler.constant(zero_input)?, flip)?;
        let zeros = zeros.chunks_exact((zeros.len() / n_matrices.max(1)).max(1)).nth(d)?;
        let stored = Stored { input, first: d * k * n, k, n, flip, is_transposed: false };
        stored.pack(compiler, zeros)
    }

    /// The operand of a product.
    pub(crate) fn view(&self) -> RightView<'_> {
        RightView {
            panels: self.panels.bytes(),
            sums: bytemuck::cast_slice(self.sums.bytes()),
            zeros: &self.zeros,
            k: self.k,
            n: self.n,
        }
    }

    /// The sum of each column minus `k` times its zero point: the factor of the left operand's zero point.
    /// `None` if the allocation fails.
    pub(crate) fn less(&self) -> Option<Vec<i32>> {
        collected(self.view().starts(1).map(i32::wrapping_neg)).ok()
    }
}

/// A right operand `[k, n]`, packed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RightView<'a> {
    /// What [`pack_b`] wrote.
    pub(crate) panels: &'a [u8],
    /// The sum of each column, flipped like the panels.
    pub(crate) sums: &'a [i32],
    /// The zero point of each column, flipped likewise.
    pub(crate) zeros: &'a [i32],
    pub(crate) k: usize,
    pub(crate) n: usize,
}

impl RightView<'_> {
    /// The initial sum of each column, for left operands with zero point `a_zero`.
    fn starts(&self, a_zero: i32) -> impl Iterator<Item = i32> {
        let columns = self.zeros.iter().zip(self.sums);
        columns.map(move |(&b, &sum)| Zeros { a: a_zero, b }.by_column(self.k, sum))
    }
}

/// The location of a matrix in a constant of bytes.
#[derive(Clone, Copy, Debug)]
struct Stored {
    input: usize,
    /// Index of its first byte.
    first: usize,
    k: usize,
    n: usize,
    flip: u8,
    is_transposed: bool,
}

impl Stored {
    /// Packs the matrix as a right operand with these zero points, one or one per column.
    fn pack(self, compiler: &Compiler<'_>, zeros: &[i32]) -> Option<Right> {
        let Self { input, first, k, n, flip, is_transposed } = self;
        let strides = if is_transposed { [1, k] } else { [n, 1] };
        let zeros = match *zeros {
            [zero] => filled(zero, n).ok()?,
            _ if zeros.len() == n => collected(zeros.iter().copied()).ok()?,
            _ => return None,
        };
        let isa = compiler.cpu.isa;
        let recipe = Recipe {
            name: "gemm_i8/b",
            parameters: vec![variant(isa).layout(), u64::from(is_transposed), first as u64],
            n_bytes: packed_b_len(isa, k, n),
        };
        let panels = compiler.pack_for_runs(input, &recipe, |data: &[u8], packed| {
            let b = Bytes { data: &data[first..], k, n, strides };
            pack_b_while(isa, &b, flip, packed, || go_on().is_ok());
        })?;
        let recipe = Recipe {
            name: "gemm_i8/column_sums",
            parameters: vec![u64::from(is_transposed), first as u64],
            n_bytes: n * size_of::<i32>(),
        };
        let sums = compiler.pack(input, &recipe, |data: &[u8], sums: &mut [u8]| {
            let data = &data[first..];
            let b = Bytes { data, k, n, strides };
            let sums = bytemuck::cast_slice_mut(sums);
            column_sums_while(isa, &b, flip, sums, || go_on().is_ok());
        })?;
        Some(Right { panels, sums, zeros, k, n })
    }
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

    /// The rows whose sums a thread computes at a time.
    fn rows_at_once(&self) -> usize {
        rows_at_once(self.cpu.isa, self.right.k.max(self.columns_at_once() * size_of::<i32>()))
    }

    /// The columns whose sums a thread computes at a time.
    fn columns_at_once(&self) -> usize {
        self.right.n.clamp(1, COLUMNS)
    }

    /// Elements of scratch per thread: the sums of a few rows and columns.
    fn scratch_len(&self) -> usize {
        self.m.min(self.rows_at_once()) * self.columns_at_once()
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
        sums: &mut [i32],
        finish: &impl Fn(Range<usize>, &[i32], &mut [T]),
    ) {
        let (rows, columns) = (part.rows.clone(), part.columns.clone());
        let (n_rows, n_columns) = (self.rows_at_once(), self.columns_at_once());
        for row in rows.clone().step_by(n_rows) {
            let block = row..rows.end.min(row + n_rows);
            for column in columns.clone().step_by(n_columns) {
                let own = column..columns.end.min(column + n_columns);
                let (has_zeros, n) = (self.has_zeros(&own), own.len());
                let sums = &mut sums[..block.len() * n];
                gemm.run(block.clone(), own.clone(), sums);
                for (row, sums) in block.clone().zip(sums.chunks_exact_mut(n)) {
                    if has_zeros {
                        let row_sum = row_sum(&gemm.a[row * gemm.k..][..gemm.k]);
                        for (sum, &b) in sums.iter_mut().zip(&self.right.zeros[own.clone()]) {
                            *sum = sum.wrapping_add(Zeros { a: 0, b }.by_element(row_sum));
                        }
                    }
                    let y = &mut part.row(row - rows.start)[column - columns.start..][..n];
                    finish(own.clone(), sums, y);
                }
            }
        }
    }
}

/// The name of the kernel that computes the sums.
pub(crate) fn variant_name(isa: Isa) -> &'static str {
    match variant(isa).name {
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
