//! MatMulNBits and MatMulBnb4 with constant weights, which stay compressed in memory.
//!
//! ```text
//! accuracy_level 4:        A is quantized by block, int8 products
//! else, for few rows:      weights are dequantized in registers
//! else:                    weights are dequantized to panels of an f32 product
//! ```
//! 16-bit floats are widened first, and results rounded to them once. With `g_idx`, both operands are reordered so that
//! groups are blocks.

mod groups;
pub(super) mod weights;

use bytemuck::cast_slice_mut;
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Region, Rows, Start};
use ort_kernels::gemm_nbits::{
    Bytes, Floats, MAX_BLOCK, Quantized, block_sums, byte_variant, float_variant, quantize_blocks,
};
use ort_kernels::{Activation, Isa};
use ort_ops::infer::matmul_shape;
use ort_ops::ops::microsoft::matmul_nbits::MatMulNBits;
use ort_tensor::{DType, Number, Shape, TensorView, bf16, f16};

use self::groups::Groups;
use self::weights::{Operand, PackedWeights};
use super::halves::Half;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, READ, Team, floats, n_parts};
use crate::cut::{Along, Cut, Product};
use crate::scheme::in_pieces;
use crate::summand::Summand;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The format of A in the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Floats,
    Bytes,
}

#[derive(Debug)]
struct NBitsKernel {
    cpu: Cpu,
    weights: PackedWeights,
    dtype: DType,
    form: Form,
    /// The maximum number of rows for which weights are dequantized in registers.
    few_rows: usize,
}

/// Prepared state for one shape signature.
struct State {
    m: usize,
    shape: Shape,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (operand, may_round) = match (compiler.op::<MatMulNBits>(), compiler.op()) {
        (Some(op), _) => (Some(Operand::of_integers(op)), op.accuracy_level == 4),
        (_, Some(op)) => (Operand::of_floats(op), false),
        _ => (None, false),
    };
    let Some(operand) = operand else { return Ok(None) };
    let is_float = |dtype: &DType| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    let dtype = compiler.fact(0).and_then(Fact::dtype).filter(is_float);
    let Some(dtype) = dtype else { return Ok(None) };
    let isa = compiler.cpu.isa;
    let (form, nr) = match may_round && compiler.cpu.int8_blocks && operand.block <= MAX_BLOCK {
        true => (Form::Bytes, byte_variant(isa).nr),
        false => (Form::Floats, float_variant(isa).nr),
    };
    let Some(weights) = PackedWeights::compile(compiler, operand, nr) else { return Ok(None) };
    let few_rows = weights.format.few_rows(isa, weights.has_table());
    Ok(Some(Box::new(NBitsKernel { cpu: compiler.cpu, weights, dtype, form, few_rows })))
}

/// The offsets of operands in scratch, in bytes; each is aligned to a cache line.
struct Room {
    /// Rows as floats, padded to whole blocks.
    a: usize,
    /// The same as bytes.
    quantized: usize,
    /// Scales and sums of blocks of rows.
    by_block: usize,
    bias: usize,
    /// Results as floats.
    y: usize,
}

/// The product in one of the formats.
pub(super) struct Parts<'a> {
    pub(super) isa: Isa,
    pub(super) m: usize,
    pub(super) is_few: bool,
    pub(super) weights: ort_kernels::gemm_nbits::Weights<'a>,
    pub(super) left: Left<'a>,
}

pub(super) enum Left<'a> {
    Floats(Floats<'a>),
    Bytes(Bytes<'a>),
}

impl Parts<'_> {
    /// The f32 product with [`Weights`](ort_kernels::gemm_nbits::Weights) as the right operand.
    fn gemm<'a>(&'a self, a: &Floats<'a>) -> Gemm<'a, ort_kernels::gemm_nbits::Weights<'a>> {
        let (n, k) = (self.weights.format.n, self.weights.format.k);
        let rows = Matrix { row_stride: a.stride, ..Matrix::row_major(a.a, self.m, k) };
        Gemm {
            isa: self.isa,
            m: self.m,
            n,
            k,
            a: Lhs::Strided { a: rows, alpha: 1.0 },
            b: self.weights,
            start: self.weights.bias.map_or(Start::Zero, Start::ByColumn),
            activation: Activation::None,
        }
    }
}

impl Parts<'_> {
    /// Elements of scratch per thread.
    pub(super) fn scratch_len(&self) -> usize {
        match &self.left {
            Left::Floats(a) if !self.is_few => self.gemm(a).scratch_len(self.m),
            _ => 0,
        }
    }

    /// Computes the product, in multiply-adds of this cost.
    pub(super) fn compute(
        &self,
        cost: usize,
        y: &mut [f32],
        (threads, scratch): (&dyn ort_ep::Threads, &mut [u8]),
    ) {
        let n = self.weights.format.n;
        let along = if self.m > n { Along::Rows } else { Along::Columns };
        let cut = Cut::new(self.isa, [self.m, n], n_parts(threads, cost), along);
        let team = Team::new(threads, cut.n_parts()).with_scratch(scratch, self.scratch_len());
        team.run(cut.parts(y), |mut part, scratch| {
            part.compute(self, f32::no_epilogue(), scratch);
        });
    }
}

impl Product for Parts<'_> {
    fn n_columns(&self) -> usize {
        self.weights.format.n
    }

    fn run(&self, region: &Region, c: &mut (impl Rows + ?Sized), scratch: &mut [f32]) {
        let part = (region.rows.clone(), region.columns.clone());
        match &self.left {
            Left::Bytes(a) => self.weights.times_bytes(self.isa, a, part, c),
            Left::Floats(a) if self.is_few => self.weights.times_floats(self.isa, a, part, c),
            Left::Floats(a) => self.gemm(a).run(region, c, scratch),
        }
    }
}

const fn lines(n_bytes: usize) -> usize {
    n_bytes.next_multiple_of(64)
}

impl NBitsKernel {
    fn room(&self, m: usize) -> Room {
        let (f32s, format) = (|len: usize| lines(len * size_of::<f32>()), self.weights.format);
        let (is_f32, is_few) = (self.dtype == DType::F32, m <= self.few_rows);
        let is_padded = format.padded_k() != format.k && is_few && self.form == Form::Floats;
        let is_moved = is_padded || self.weights.groups.is_some();
        let only_if = |is_needed, n_bytes| if is_needed { n_bytes } else { 0 };
        let needs_sums = self.form == Form::Floats && is_few && self.weights.has_zeros();
        let n_sums = f32s(m * format.n_blocks());
        Room {
            a: only_if(!is_f32 || is_moved, f32s(m * self.stride(m))),
            quantized: only_if(self.form == Form::Bytes, lines(m * format.padded_k())),
            by_block: match self.form {
                Form::Bytes => 2 * n_sums,
                Form::Floats => only_if(needs_sums, n_sums),
            },
            bias: only_if(!is_f32, f32s(format.n)),
            y: only_if(!is_f32, f32s(m * format.n)),
        }
    }

    /// The row stride of floats: for few rows, blocks are padded.
    fn stride(&self, m: usize) -> usize {
        let is_whole = self.form == Form::Floats && m <= self.few_rows;
        if is_whole { self.weights.format.padded_k() } else { self.weights.format.k }
    }

    /// Elements of scratch per thread for a product of `m` rows.
    fn scratch_len(&self, m: usize) -> usize {
        if self.form == Form::Bytes || m <= self.few_rows {
            return 0;
        }
        let left = Left::Floats(Floats { a: &[], stride: 0, sums: &[] });
        let weights = self.weights.weights(None);
        Parts { isa: self.cpu.isa, m, is_few: false, weights, left }.scratch_len()
    }

    /// The cost of `m` rows, in multiply-adds, including reading and unpacking the weights.
    fn cost(&self, m: usize) -> usize {
        const UNPACK: usize = 6;
        let n_weights = self.weights.format.n.saturating_mul(self.weights.format.k);
        match self.form {
            Form::Bytes => n_weights.saturating_mul(m + UNPACK) / 4,
            Form::Floats => n_weights.saturating_mul(m + UNPACK / 2),
        }
    }

    /// The rows as floats.
    fn widened<'a>(
        &self,
        x: TensorView<'a>,
        stride: usize,
        room: &'a mut [f32],
    ) -> Result<&'a [f32], KernelError> {
        let k = self.weights.format.k;
        if room.is_empty() {
            return Ok(x.as_slice()?);
        }
        let rows = room.chunks_exact_mut(stride);
        if let Some(groups) = &self.weights.groups {
            match self.dtype {
                DType::F32 => gather_rows::<f32>(groups, x.as_slice()?, k, rows),
                DType::F16 => gather_rows::<f16>(groups, x.as_slice()?, k, rows),
                _ => gather_rows::<bf16>(groups, x.as_slice()?, k, rows),
            }
            return Ok(room);
        }
        match self.dtype {
            DType::F32 => {
                let x = x.as_slice::<f32>()?.chunks_exact(k);
                rows.zip(x).for_each(|(to, x)| {
                    to[..k].copy_from_slice(x);
                    to[k..].fill(0.0);
                });
            }
            DType::F16 => widen_rows::<f16>(self.cpu.isa, x.as_slice()?, k, rows),
            _ => widen_rows::<bf16>(self.cpu.isa, x.as_slice()?, k, rows),
        }
        Ok(room)
    }

    /// The rows in the selected format.
    fn left<'a>(
        &self,
        (a, stride, m): (&'a [f32], usize, usize),
        (quantized, by_block): (&'a mut [u8], &'a mut [f32]),
        threads: &dyn ort_ep::Threads,
    ) -> Left<'a> {
        let (isa, format) = (self.cpu.isa, self.weights.format);
        let (k, block) = (format.k, format.block);
        let (padded, n_blocks) = (format.padded_k(), format.n_blocks());
        if self.form == Form::Floats {
            if !by_block.is_empty() {
                let sums = by_block.chunks_exact_mut(n_blocks);
                let rows = a.chunks_exact(stride).zip(sums).take(m);
                rows.for_each(|(a, sums)| block_sums(isa, a, block, sums));
            }
            return Left::Floats(Floats { a, stride, sums: by_block });
        }
        let (scales, sums) = by_block.split_at_mut(by_block.len() / 2);
        let q = &mut cast_slice_mut::<u8, i8>(quantized)[..m * padded];
        let per = m.div_ceil(n_parts(threads, a.len() * READ)).max(1);
        let by_block = scales[..m * n_blocks].chunks_mut(per * n_blocks);
        let by_block = by_block.zip(sums[..m * n_blocks].chunks_mut(per * n_blocks));
        let parts = a.chunks(per * stride).zip(q.chunks_mut(per * padded)).zip(by_block);
        Team::new(threads, m.div_ceil(per)).run(parts, |((a, q), (scales, sums)), _| {
            let by_row = scales.chunks_exact_mut(n_blocks).zip(sums.chunks_exact_mut(n_blocks));
            let rows = a.chunks_exact(stride).zip(q.chunks_exact_mut(padded)).zip(by_row);
            rows.for_each(|((a, q), (scales, sums))| {
                quantize_blocks(isa, &a[..k], block, Quantized { q, scales, sums });
            });
        });
        Left::Bytes(Bytes { a: q, scales, sums })
    }
}

fn gather_rows<'a, T: Number>(
    groups: &Groups,
    x: &[T],
    k: usize,
    rows: impl Iterator<Item = &'a mut [f32]>,
) {
    rows.zip(x.chunks_exact(k)).for_each(|(to, x)| groups.gather(x, to));
}

fn widen_rows<'a, T: Half>(isa: Isa, x: &[T], k: usize, rows: impl Iterator<Item = &'a mut [f32]>) {
    rows.zip(x.chunks_exact(k)).for_each(|(to, x)| {
        T::widen(isa, x, &mut to[..k]);
        to[k..].fill(0.0);
    });
}

impl Kernel for NBitsKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&a) = shapes.first() else { return Err(KernelError::ForeignState) };
        let format = self.weights.format;
        let shape = matmul_shape(a, &[format.k, format.n]).map_err(KernelError::Op)?;
        let m = a.split_last().map_or(1, |(_, rows)| rows.iter().product());
        let Room { a, quantized, by_block, bias, y } = self.room(m);
        let own = a + quantized + by_block + bias + y;
        let scratch = own + self.cpu.scratch_bytes(self.scratch_len(m));
        Ok(Prepared::new(State { m, shape }).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { m, shape } = prepared.state()?;
        let (m, isa, n) = (*m, self.cpu.isa, self.weights.format.n);
        let (room, stride) = (self.room(m), self.stride(m));
        let (a, rest) = io.scratch.split_at_mut(room.a);
        let (quantized, rest) = rest.split_at_mut(room.quantized);
        let (by_block, rest) = rest.split_at_mut(room.by_block);
        let (bias_room, rest) = rest.split_at_mut(room.bias);
        let (y_room, scratch) = rest.split_at_mut(room.y);
        let bias = match io.inputs.optional_tensor(5)? {
            None => None,
            Some(bias) if self.dtype == DType::F32 => Some(bias.as_slice::<f32>()?),
            Some(bias) => {
                let room = &mut floats(bias_room)[..n];
                match self.dtype {
                    DType::F16 => f16::widen(isa, bias.as_slice()?, room),
                    _ => bf16::widen(isa, bias.as_slice()?, room),
                }
                Some(&*room)
            }
        };
        let y = io.outputs[0].tensor(self.dtype, shape)?;
        if m == 0 {
            return Ok(());
        }
        let a = self.widened(io.inputs.tensor(0)?, stride, &mut floats(a)[..])?;
        let left = self.left((a, stride, m), (quantized, floats(by_block)), io.threads);
        let is_few = m <= self.few_rows;
        let parts = Parts { isa, m, is_few, weights: self.weights.weights(bias), left };
        let mut run = |y: &mut [f32]| parts.compute(self.cost(m), y, (io.threads, scratch));
        match self.dtype {
            DType::F32 => run(y.into_slice::<f32>()?),
            DType::F16 => narrowed::<f16>(isa, io.threads, (run, floats(y_room)), y.into_slice()?),
            _ => narrowed::<bf16>(isa, io.threads, (run, floats(y_room)), y.into_slice()?),
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        !matches!(input, 1..=3)
    }

    fn variant(&self) -> &'static str {
        match self.form {
            Form::Bytes => match byte_variant(self.cpu.isa).nr {
                32 => "nbits_i8/avx512vnni_6x32",
                16 => "nbits_i8/avx2_2x16",
                _ => "nbits_i8/generic",
            },
            Form::Floats => match float_variant(self.cpu.isa).nr {
                32 => "nbits_f32/avx512_4x32",
                16 => "nbits_f32/avx2_2x16",
                _ => "nbits_f32/generic",
            },
        }
    }
}

/// Rounds the results that `run` writes to `room`.
fn narrowed<T: Half>(
    isa: Isa,
    threads: &dyn ort_ep::Threads,
    (run, room): (impl FnOnce(&mut [f32]), &mut [f32]),
    y: &mut [T],
) {
    let room = &mut room[..y.len()];
    run(room);
    in_pieces(threads, (&*room, y), |x, y| T::narrow(isa, x, y));
}

#[cfg(test)]
mod tests;
