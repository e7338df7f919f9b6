//! QMoE with constant weights, which stay compressed in memory: [`Experts`] whose weights are multiplied like by
//! MatMulNBits.

use ort_ep::KernelError;
use ort_kernels::Isa;
use ort_kernels::gemm_nbits::{Floats, block_sums, float_variant};
use ort_ops::ops::microsoft::moe::MoE;

use super::matmul_nbits::weights::{Operand, PackedWeights};
use super::matmul_nbits::{Left, Parts};
use super::moe::{Experts, Layer, Own, is_f32};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A layer of quantized weights.
#[derive(Debug)]
struct QuantizedLayer {
    weights: PackedWeights,
    /// The columns of the result of one expert.
    n: usize,
    /// The positions of the bias, and of what is packed.
    bias: usize,
    packed: [usize; 3],
    /// The maximum number of rows for which weights are dequantized in registers.
    few_rows: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<MoE>().filter(|op| op.quantization.is_some()) else {
        return Ok(None);
    };
    if !is_f32(compiler, &op) {
        return Ok(None);
    }
    let layer = |index| QuantizedLayer::compile(compiler, &op, index);
    let (Some(first), Some(second)) = (layer(0), layer(1)) else { return Ok(None) };
    let n_experts = [&first, &second].map(|layer| layer.weights.format.n / layer.n);
    Ok(Experts::kernel(compiler.cpu, op, [first, second], n_experts))
}

impl QuantizedLayer {
    /// `None` if its weights are not constant, or those of an expert are not whole panels and blocks.
    fn compile(compiler: &Compiler<'_>, op: &MoE, index: usize) -> Option<Self> {
        let (at, quantization) = (op.layers()[index], op.quantization?);
        let bits = quantization.bits[index];
        let &[n_experts, n, row_bytes] = compiler.constant(at.weights)?.shape() else {
            return None;
        };
        let k = row_bytes * 8 / bits;
        // A row with one scale may have blocks of any size.
        let block = match quantization.block_size {
            Some(block) => block,
            None => [128, 64, 32, 16].into_iter().find(|&block| k.is_multiple_of(block))?,
        };
        let isa = compiler.cpu.isa;
        let nr = float_variant(isa).nr;
        if n == 0 || !n.is_multiple_of(nr) || !k.is_multiple_of(block) {
            return None;
        }
        let operand = Operand {
            bits,
            block,
            k,
            n: n_experts * n,
            table: None,
            inputs: [at.weights, at.scales, at.zero_points, usize::MAX],
            n_matrices: quantization.block_size.is_none().then_some(n_experts),
        };
        let weights = PackedWeights::compile(compiler, operand, nr)?;
        let few_rows = weights.format.few_rows(isa, false);
        let packed = [at.weights, at.scales, at.zero_points];
        Some(Self { weights, n, bias: at.bias, packed, few_rows })
    }
}

impl Layer for QuantizedLayer {
    fn variant(isa: Isa) -> &'static str {
        match float_variant(isa).nr {
            32 => "nbits_f32/avx512_4x32",
            16 => "nbits_f32/avx2_2x16",
            _ => "nbits_f32/generic",
        }
    }

    fn size(&self) -> [usize; 2] {
        [self.n, self.weights.format.k]
    }

    fn bias(&self) -> usize {
        self.bias
    }

    fn reads(&self, input: usize) -> bool {
        !self.packed.contains(&input)
    }

    /// The sums of the blocks of `m` rows.
    fn shared_len(&self, m: usize) -> usize {
        if self.weights.has_zeros() { m * self.weights.format.n_blocks() } else { 0 }
    }

    fn scratch_len(&self, cpu: Cpu, m: usize) -> usize {
        let left = Left::Floats(Floats { a: &[], stride: 0, sums: &[] });
        let weights = self.weights.matrix([0, self.n], None);
        Parts { isa: cpu.isa, m, is_few: m <= self.few_rows, weights, left }.scratch_len()
    }

    fn apply(
        &self,
        Own { cpu, expert, m, threads, .. }: Own<'_>,
        (a, bias): (&[f32], Option<&[f32]>),
        y: &mut [f32],
        (sums, scratch): (&mut [f32], &mut [u8]),
    ) -> Result<(), KernelError> {
        let (isa, format) = (cpu.isa, &self.weights.format);
        let (k, is_few) = (format.k, m <= self.few_rows);
        if is_few && self.weights.has_zeros() {
            let rows = a.chunks_exact(k).zip(sums.chunks_exact_mut(format.n_blocks()));
            rows.take(m).for_each(|(a, sums)| block_sums(isa, a, format.block, sums));
        }
        let bias = bias.map(|bias| &bias[expert * self.n..][..self.n]);
        let weights = self.weights.matrix([expert, self.n], bias);
        let left = Left::Floats(Floats { a: &a[..m * k], stride: k, sums });
        let cost = self.n.saturating_mul(k).saturating_mul(m + 3);
        let parts = Parts { isa, m, is_few, weights, left };
        parts.compute(cost, &mut y[..m * self.n], (threads, scratch));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, bytes, floats};

    const N_EXPERTS: usize = 5;

    /// A mixture with one scale per row, or per block; optional inputs are there, or absent.
    fn case([m, hidden, inner]: [usize; 3], bits: usize, block: usize, is_full: bool) -> Case {
        let int = |size: usize| Attr::Int(i64::try_from(size).unwrap());
        let first = 2 * inner;
        // Weights are at most a quarter.
        let scale: fn(u8) -> f32 = match bits {
            2 => |bits| f32::from(bits) / (4 * 2 * 255) as f32,
            4 => |bits| f32::from(bits) / (4 * 8 * 255) as f32,
            _ => |bits| f32::from(bits) / (4 * 128 * 255) as f32,
        };
        let by_row = |n: usize, k: usize| match block {
            0 => vec![N_EXPERTS, n],
            _ => vec![N_EXPERTS, n, k / block],
        };
        let packed = |mut shape: Vec<usize>| {
            let last = shape.last_mut().unwrap();
            *last = (*last * bits).div_ceil(8);
            bytes(&shape, |bits| bits)
        };
        let layer = |case: Case, n: usize, k: usize| {
            let case = case.constant(packed(vec![N_EXPERTS, n, k]));
            let case = case.constant(bytes(&by_row(n, k), scale));
            if is_full { case.input(floats(&[N_EXPERTS, n])) } else { case.absent() }
        };
        let case = Case::new("QMoE", 1)
            .domain("com.microsoft")
            .attr("k", int(2))
            .attr("expert_weight_bits", int(bits))
            .attr("block_size", int(block))
            .attr("activation_type", Attr::String("swiglu".into()))
            .attr("swiglu_fusion", int(1))
            .input(floats(&[m, hidden]))
            .input(floats(&[m, N_EXPERTS]));
        let case = layer(layer(case, first, hidden), hidden, inner);
        if !is_full {
            return case;
        }
        let case = case.absent().absent().absent();
        let case = case.constant(packed(by_row(first, hidden)));
        let case = case.constant(packed(by_row(hidden, inner))).absent();
        case.input(bytes(&[m, N_EXPERTS], |bits| f32::from(bits) / 256.0))
    }

    #[test]
    fn results_equal_eval() {
        // Between the layers are numbers of about 25: 192 products of them and weights are below 1200.
        let is_close = |found: f64, expected: f64| {
            (found - expected).abs() <= 1200.0 * f64::from(f32::EPSILON) * (1.0 + expected.abs())
        };
        for [m, hidden, inner] in [[1, 64, 96], [7, 96, 64], [150, 64, 192], [0, 64, 64]] {
            for bits in [2, 4, 8] {
                for block in [0, 16, 32] {
                    for is_full in [false, true] {
                        case([m, hidden, inner], bits, block, is_full).check(is_close);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_of_partial_panels_have_no_kernel() {
        assert_eq!(case([1, 64, 96], 4, 32, true).variant().split('/').next(), Some("nbits_f32"));
        assert_eq!(case([1, 48, 33], 8, 0, true).variant(), "eval");
    }
}
