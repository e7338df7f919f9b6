//! Constant weights of a few bits, packed.

// collects are bounded: by the packed length, which was checked

use ort_ep::{Packed, Recipe};
use ort_kernels::gemm_nbits::{Format, Weights};
use ort_kernels::vec::{bf16_to_f32, f16_to_f32};
use ort_ops::ops::microsoft::matmul_bnb4::MatMulBnb4;
use ort_ops::ops::microsoft::matmul_nbits::MatMulNBits;
use ort_tensor::{DType, Tensor, go_on};

use crate::kernels::Compiler;

/// The quantized values of a matrix with their scales and zero points.
#[derive(Debug)]
pub(super) struct PackedWeights {
    pub(super) format: Format,
    quantized: Packed,
    scales: Packed,
    zeros: Option<Packed>,
    table: Option<[f32; 16]>,
}

/// The right operand of either operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) bits: usize,
    pub(super) block: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    /// What quantized values stand for, if they are not integers; the first is then in the highest bits.
    pub(super) table: Option<[f32; 16]>,
}

impl Operand {
    pub(super) const fn of_integers(op: &MatMulNBits) -> Self {
        let &MatMulNBits { bits, block_size: block, k, n, .. } = op;
        Self { bits, block, k, n, table: None }
    }

    /// `None` if rows are not whole blocks, or are not columns of the product.
    pub(super) fn of_floats(op: &MatMulBnb4) -> Option<Self> {
        let &MatMulBnb4 { block_size: block, k, n, .. } = op;
        let mut table = [0.0; 16];
        #[expect(clippy::cast_possible_truncation, reason = "the nearest f32")]
        table.iter_mut().zip(0..).for_each(|(value, q)| *value = op.value(q) as f32);
        let is_taken = op.is_transposed && k.is_multiple_of(block);
        is_taken.then_some(Self { bits: 4, block, k, n, table: Some(table) })
    }
}

impl PackedWeights {
    /// The constants of an operator, in panels of `nr` columns. `None` if they are not constant, or
    /// are empty.
    pub(super) fn compile(compiler: &Compiler<'_>, operand: Operand, nr: usize) -> Option<Self> {
        let Operand { bits, block, k, n, table } = operand;
        let format = Format { bits, block, k, n, nr };
        let quantized = compiler.constant(1)?;
        if k == 0 || n == 0 || quantized.len() != n * format.padded_k() * bits / 8 {
            return None;
        }
        let parameters = [bits, block, k, n, nr].map(|size| size as u64).to_vec();
        let recipe = Recipe {
            name: if table.is_none() { "gemm_nbits/codes" } else { "gemm_nbits/swapped_codes" },
            parameters: parameters.clone(),
            n_bytes: format.quantized_len(),
        };
        let isa = compiler.cpu.isa;
        let quantized = compiler.pack_for_runs(1, &recipe, |quantized, to| {
            format.pack_while(isa, (quantized, table.is_some()), to, || go_on().is_ok());
        })?;
        let by_block = |input, name, middle: f32| {
            let constant = compiler.constant(input)?;
            let numbers = Numbers::of(constant, &format)?;
            let n_bytes = format.scales_len() * size_of::<f32>();
            let recipe = Recipe { name, parameters: parameters.clone(), n_bytes };
            compiler.pack_for_runs(input, &recipe, |bytes: &[u8], to: &mut [u8]| {
                let numbers: Vec<f32> = numbers.read(bytes, &format).map(|x| x - middle).collect();
                format.pack_by_block(&numbers, bytemuck::cast_slice_mut(to));
            })
        };
        let scales = by_block(2, "gemm_nbits/scales", 0.0)?;
        let zeros = match compiler.fact(3) {
            None => None,
            Some(_) => Some(by_block(3, "gemm_nbits/zeros", format.middle() as f32)?),
        };
        Some(Self { format, quantized, scales, zeros, table })
    }

    pub(super) fn has_zeros(&self) -> bool {
        self.zeros.is_some()
    }

    pub(super) fn has_table(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn weights<'a>(&'a self, bias: Option<&'a [f32]>) -> Weights<'a> {
        Weights {
            format: self.format,
            quantized: self.quantized.bytes(),
            scales: bytemuck::cast_slice(self.scales.bytes()),
            zeros: self.zeros.as_ref().map(|zeros| bytemuck::cast_slice(zeros.bytes())),
            table: self.table.as_ref(),
            bias,
        }
    }
}

/// How values per block are stored.
#[derive(Clone, Copy, Debug)]
enum Numbers {
    F32,
    F16,
    Bf16,
    /// Like quantized weights, each column padded to whole bytes.
    Quantized,
}

impl Numbers {
    /// `None` if their number does not match the blocks.
    fn of(constant: &Tensor, format: &Format) -> Option<Self> {
        let (this, n_expected) = match constant.dtype() {
            DType::F32 => (Self::F32, format.n_blocks()),
            DType::F16 => (Self::F16, format.n_blocks()),
            DType::Bf16 => (Self::Bf16, format.n_blocks()),
            DType::U8 => (Self::Quantized, (format.n_blocks() * format.bits).div_ceil(8)),
            _ => return None,
        };
        (constant.len() == format.n * n_expected).then_some(this)
    }

    /// One number per block, column by column.
    fn read<'a>(self, bytes: &'a [u8], format: &'a Format) -> Box<dyn Iterator<Item = f32> + 'a> {
        let halves = bytes.as_chunks().0.iter().map(|half| u16::from_le_bytes(*half));
        match self {
            Self::F32 => Box::new(bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x))),
            Self::F16 => Box::new(halves.map(f16_to_f32)),
            Self::Bf16 => Box::new(halves.map(bf16_to_f32)),
            Self::Quantized => {
                let (bits, n_blocks) = (format.bits, format.n_blocks());
                let columns = bytes.chunks((n_blocks * bits).div_ceil(8).max(1));
                let value = move |column: &[u8], b: usize| {
                    let value = column[b * bits / 8] >> (b * bits % 8);
                    f32::from(value & (0xff >> (8 - bits)))
                };
                Box::new(columns.flat_map(move |c| (0..n_blocks).map(move |b| value(c, b))))
            }
        }
    }
}
