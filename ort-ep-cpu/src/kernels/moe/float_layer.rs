//! A layer of floats, multiplied like by MatMul.

use ort_ep::KernelError;
use ort_kernels::Isa;
use ort_kernels::gemm::{Start, packed_b_len};
use ort_ops::ops::microsoft::moe::MoE;
use ort_tensor::DType;
use smallvec::SmallVec;

use super::{Layer, Own};
use crate::cpu::Cpu;
use crate::kernels::Compiler;
use crate::product::{Operands, PackedRight, Product, RightOperand, pack_right};
use crate::summand::Summand;

/// A layer of floats.
#[derive(Debug)]
pub(super) struct FloatLayer {
    pub(super) n_experts: usize,
    size: [usize; 2],
    /// The position of the weights.
    weights: usize,
    bias: usize,
    /// The weights of all experts, if they are constant.
    packed: Option<PackedRight>,
}

impl FloatLayer {
    /// `None` if its sizes are not known.
    pub(super) fn compile(compiler: &Compiler<'_>, op: &MoE, index: usize) -> Option<Self> {
        let at = op.layers()[index];
        let fact = compiler.fact(at.weights)?;
        let mut dims = fact.dims()?.iter().map(|dim| dim.known().filter(|&n| n > 0));
        let [n_experts, n, k] = [dims.next()??, dims.next()??, dims.next()??];
        if fact.dtype() != Some(DType::F32) {
            return None;
        }
        let packed = pack_right::<f32>(compiler, at.weights, true);
        Some(Self { n_experts, size: [n, k], weights: at.weights, bias: at.bias, packed })
    }

    fn product(&self, cpu: Cpu, m: usize) -> Product {
        let [n, k] = self.size;
        let (a, b, batch) = ([k, 1], [1, k], SmallVec::new());
        let mut product = Product { cpu, m, n, k, a, b, batch, is_exchanged: false };
        if self.packed.is_none() {
            product.exchange_column();
        }
        product
    }
}

impl Layer for FloatLayer {
    fn variant(isa: Isa) -> &'static str {
        f32::variant_name(isa)
    }

    fn size(&self) -> [usize; 2] {
        self.size
    }

    fn bias(&self) -> usize {
        self.bias
    }

    fn reads(&self, input: usize) -> bool {
        input != self.weights || self.packed.is_none()
    }

    fn scratch_len(&self, cpu: Cpu, m: usize) -> usize {
        self.product(cpu, m).scratch_len()
    }

    fn apply(
        &self,
        Own { cpu, expert, m, inputs, threads }: Own<'_>,
        (a, bias): (&[f32], Option<&[f32]>),
        y: &mut [f32],
        (_, scratch): (&mut [f32], &mut [u8]),
    ) -> Result<(), KernelError> {
        let [n, k] = self.size;
        let (b, each) = match &self.packed {
            Some(packed) => (packed.operand(), packed_b_len(cpu.isa, k, n)),
            None => (RightOperand::Plain(inputs.tensor(self.weights)?.as_slice()?), n * k),
        };
        let b = b.part(expert * each..(expert + 1) * each).ok_or(KernelError::ForeignState)?;
        let start = match bias {
            Some(bias) => Start::ByColumn(&bias[expert * n..][..n]),
            None => Start::Zero,
        };
        let epilogue = f32::no_epilogue();
        let operands = Operands { a: &a[..m * k], alpha: 1.0, b, start, epilogue };
        self.product(cpu, m).run(&operands, &mut y[..m * n], (threads, scratch), |_| {});
        Ok(())
    }
}
