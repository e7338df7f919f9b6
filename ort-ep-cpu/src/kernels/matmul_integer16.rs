//! MatMulInteger16: operands are widened to 32 bits, in which products wrap, and multiplied like by MatMul.

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::Fact;
use ort_kernels::Isa;
use ort_kernels::gemm::Start;
use ort_kernels::vec::each;
use ort_ops::ops::matmul::MatMul;
use ort_ops::ops::microsoft::matmul_integer16::MatMulInteger16;
use ort_tensor::{DType, TensorView, n_elements};

use super::matmul::{MatMulKernel, State as Plain};
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::numbers;
use crate::pieces::{Rows, elements_of};
use crate::product::{Operands, RightOperand};
use crate::summand::Summand;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct MatMulInteger16Kernel {
    /// The kernel of the same product in i32.
    wide: MatMulKernel,
    /// The type of the result.
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    plain: Plain,
    /// The elements of scratch for each operand.
    room: [usize; 2],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtypes = [0, 1].map(|input| compiler.fact(input).and_then(Fact::dtype));
    let is_short = |dtype: &Option<DType>| matches!(dtype, Some(DType::I16 | DType::U16));
    if compiler.op::<MatMulInteger16>().is_none() || !dtypes.iter().all(is_short) {
        return Ok(None);
    }
    let dtype = if dtypes == [Some(DType::U16); 2] { DType::U32 } else { DType::I32 };
    let (cpu, op) = (compiler.cpu, MatMul::INTEGERS);
    let wide = MatMulKernel { cpu, dtype: DType::I32, op, b: None };
    Ok(Some(Box::new(MatMulInteger16Kernel { wide, dtype })))
}

impl Kernel for MatMulInteger16Kernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        let plain = self.wide.state(a, b, b)?;
        let scratch_bytes = self.wide.cpu.scratch_bytes(plain.product.scratch_len_of::<i32>());
        let room = [a, b].map(|x| n_elements(x).unwrap_or(usize::MAX >> 8).next_multiple_of(16));
        let own = room[0].saturating_add(room[1]).saturating_mul(size_of::<i32>());
        let state = State { plain, room };
        Ok(Prepared::new(state).with_scratch(own.saturating_add(scratch_bytes)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { plain: Plain { product, shape, .. }, room } = prepared.state()?;
        let n_bytes = (room[0] + room[1]) * size_of::<i32>();
        let (own, scratch) = io.scratch.split_at_mut(n_bytes);
        let (a, b) = numbers::<i32>(own).split_at_mut(room[0]);
        let isa = self.wide.cpu.isa;
        widen(isa, io.inputs.tensor(0)?, a, io.threads)?;
        widen(isa, io.inputs.tensor(1)?, b, io.threads)?;
        let (epilogue, start) = (i32::no_epilogue(), Start::Zero);
        let operands = Operands { a, alpha: 1, b: RightOperand::Plain(b), start, epilogue };
        let y = elements_of::<i32>(io.outputs[0].tensor(self.dtype, shape)?)?;
        product.run(&operands, y, (io.threads, scratch), |_| {});
        Ok(())
    }

    fn variant(&self) -> &'static str {
        i32::variant_name(self.wide.cpu.isa)
    }
}

/// `wide = x`
fn widen(
    isa: Isa,
    x: TensorView<'_>,
    wide: &mut [i32],
    threads: &dyn Threads,
) -> Result<(), KernelError> {
    let wide = &mut wide[..x.len()];
    if x.dtype() == DType::I16 {
        let x = x.as_slice::<i16>()?;
        Rows::ELEMENTS.for_each(threads, wide, |start, wide| {
            each(isa, &x[start..][..wide.len()], wide, i32::from);
        });
    } else {
        let x = x.as_slice::<u16>()?;
        Rows::ELEMENTS.for_each(threads, wide, |start, wide| {
            each(isa, &x[start..][..wide.len()], wide, i32::from);
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};

    fn signed(shape: &[usize]) -> Tensor {
        bytes(shape, |bits| i16::from_le_bytes([bits.wrapping_mul(37), bits]))
    }

    fn unsigned(shape: &[usize]) -> Tensor {
        bytes(shape, |bits| u16::from_le_bytes([bits.wrapping_mul(37), bits]))
    }

    #[test]
    fn sums_wrap_like_those_of_eval() {
        let sizes: [(&[usize], &[usize]); 8] = [
            (&[3], &[3]),
            (&[7], &[7, 5]),
            (&[37, 70], &[70, 45]),
            (&[1, 256], &[256, 300]),
            (&[300, 256], &[256, 1]),
            (&[3, 1, 17, 8], &[2, 8, 9]),
            (&[200, 500], &[500, 120]),
            (&[4, 0], &[0, 5]),
        ];
        for (a, b) in sizes {
            for make_a in [signed, unsigned] {
                for make_b in [signed, unsigned] {
                    let case = Case::new("MatMulInteger16", 1).domain("com.microsoft");
                    case.input(make_a(a)).weight(make_b(b)).check(exact);
                }
            }
        }
    }
}
