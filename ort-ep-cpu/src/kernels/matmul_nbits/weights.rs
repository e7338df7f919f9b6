//! Constant weights of a few bits, packed.

// collects are bounded: by the packed length, which was checked

use ort_ep::{Packed, Recipe};
use ort_kernels::gemm_nbits::{Format, Weights};
use ort_kernels::vec::{bf16_to_f32, f16_to_f32};
use ort_ops::ops::microsoft::matmul_bnb4::MatMulBnb4;
use ort_ops::ops::microsoft::matmul_nbits::MatMulNBits;
use ort_tensor::{DType, Tensor, go_on};

use super::groups::Groups;
use crate::kernels::Compiler;

/// The quantized values of a matrix with their scales and zero points.
#[derive(Debug)]
pub(in crate::kernels) struct PackedWeights {
    pub(in crate::kernels) format: Format,
    quantized: Packed,
    scales: Packed,
    zeros: Option<Packed>,
    table: Option<[f32; 16]>,
    /// The order of A's columns, if they are in groups.
    pub(super) groups: Option<Groups>,
}

/// The right operand of either operator.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernels) struct Operand {
    pub(in crate::kernels) bits: usize,
    pub(in crate::kernels) block: usize,
    pub(in crate::kernels) k: usize,
    pub(in crate::kernels) n: usize,
    /// What quantized values stand for, if they are not integers; the first is then in the highest bits.
    pub(in crate::kernels) table: Option<[f32; 16]>,
    /// The positions of quantized values, scales, zero points and groups among the inputs.
    pub(in crate::kernels) inputs: [usize; 4],
    /// The number of matrices whose columns are concatenated, if each column has one scale. The zero points of a
    /// matrix are packed.
    pub(in crate::kernels) n_matrices: Option<usize>,
}

/// The positions of the inputs of a product.
const INPUTS: [usize; 4] = [1, 2, 3, 4];

impl Operand {
    pub(in crate::kernels) const fn of_integers(op: &MatMulNBits) -> Self {
        let &MatMulNBits { bits, block_size: block, k, n, .. } = op;
        Self { bits, block, k, n, table: None, inputs: INPUTS, n_matrices: None }
    }

    /// `None` if rows are not whole blocks, or are not columns of the product.
    pub(in crate::kernels) fn of_floats(op: &MatMulBnb4) -> Option<Self> {
        let &MatMulBnb4 { block_size: block, k, n, .. } = op;
        let mut table = [0.0; 16];
        #[expect(clippy::cast_possible_truncation, reason = "the nearest f32")]
        table.iter_mut().zip(0..).for_each(|(value, q)| *value = op.value(q) as f32);
        let is_taken = op.is_transposed && k.is_multiple_of(block);
        let table = Some(table);
        let operand = Self { bits: 4, block, k, n, table, inputs: INPUTS, n_matrices: None };
        is_taken.then_some(operand)
    }
}

impl PackedWeights {
    /// The constants of an operator, in panels of `nr` columns. `None` if they are not constant, or
    /// are empty.
    pub(in crate::kernels) fn compile(
        compiler: &Compiler<'_>,
        operand: Operand,
        nr: usize,
    ) -> Option<Self> {
        let Operand { bits, block, k, n, table, .. } = operand;
        let [codes, scales, zeros, groups] = operand.inputs;
        let format = Format { bits, block, k, n, nr };
        let quantized = compiler.constant(codes)?;
        if k == 0 || n == 0 || quantized.len() != n * format.padded_k() * bits / 8 {
            return None;
        }
        let groups = match compiler.fact(groups) {
            None => None,
            Some(_) => Some(Groups::of(compiler.constant(groups)?, &operand)?),
        };
        // Sizes, and the order of what is packed.
        let parameters = |order: &mut dyn Iterator<Item = u64>| {
            [bits, block, k, n, nr].map(|size| size as u64).into_iter().chain(order).collect()
        };
        let columns = groups.iter().flat_map(|groups| &groups.order);
        let recipe = Recipe {
            name: if table.is_none() { "gemm_nbits/codes" } else { "gemm_nbits/swapped_codes" },
            parameters: parameters(&mut columns.map(|&column| column.into())),
            n_bytes: format.quantized_len(),
        };
        let isa = compiler.cpu.isa;
        let quantized = compiler.pack_for_runs(codes, &recipe, |quantized, to| {
            let permuted = groups.as_ref().map(|groups| groups.permuted(quantized, &operand));
            let quantized = permuted.as_deref().unwrap_or(quantized);
            format.pack_while(isa, (quantized, table.is_some()), to, || go_on().is_ok());
        })?;
        let by_block = |input, name, middle: f32| {
            let constant = compiler.constant(input)?;
            let given = match operand.n_matrices {
                None => format,
                Some(count) => Format { block: 1, k: n / count.max(1), n: count, ..format },
            };
            let numbers = Numbers::of(constant, &given)?;
            let n_bytes = format.scales_len() * size_of::<f32>();
            let blocks = groups.iter().flat_map(|groups| &groups.blocks);
            let parameters = parameters(&mut blocks.map(|&block| block as u64));
            let recipe = Recipe { name, parameters, n_bytes };
            compiler.pack_for_runs(input, &recipe, |bytes: &[u8], to: &mut [u8]| {
                let given: Vec<f32> = numbers.read(bytes, &given).map(|x| x - middle).collect();
                let numbers = match (&groups, operand.n_matrices) {
                    (Some(groups), _) => groups.by_block(&given, format.n_blocks()),
                    (None, Some(_)) => repeated(&given, format.n_blocks()),
                    (None, None) => given,
                };
                format.pack_by_block(&numbers, bytemuck::cast_slice_mut(to));
            })
        };
        let scales = by_block(scales, "gemm_nbits/scales", 0.0)?;
        let zeros = match compiler.fact(zeros) {
            None => None,
            Some(_) => Some(by_block(zeros, "gemm_nbits/zeros", format.middle() as f32)?),
        };
        Some(Self { format, quantized, scales, zeros, table, groups })
    }

    pub(in crate::kernels) fn has_zeros(&self) -> bool {
        self.zeros.is_some()
    }

    pub(in crate::kernels) fn has_table(&self) -> bool {
        self.table.is_some()
    }

    pub(in crate::kernels) fn weights<'a>(&'a self, bias: Option<&'a [f32]>) -> Weights<'a> {
        self.matrix([0, self.format.n], bias)
    }

    /// Matrix `index`, of `n` columns, which are whole panels unless it is the only one.
    pub(in crate::kernels) fn matrix<'a>(
        &'a self,
        [index, n]: [usize; 2],
        bias: Option<&'a [f32]>,
    ) -> Weights<'a> {
        let format = Format { n, ..self.format };
        let by_block = |packed: &'a Packed| {
            let numbers: &[f32] = bytemuck::cast_slice(packed.bytes());
            &numbers[index * format.scales_len()..]
        };
        Weights {
            format,
            quantized: &self.quantized.bytes()[index * format.quantized_len()..],
            scales: by_block(&self.scales),
            zeros: self.zeros.as_ref().map(by_block),
            table: self.table.as_ref(),
            bias,
        }
    }
}

/// Each number `n` times.
fn repeated(numbers: &[f32], n: usize) -> Vec<f32> {
    numbers.iter().flat_map(|&x| std::iter::repeat_n(x, n)).collect()
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
