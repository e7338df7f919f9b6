//! QLinearAdd and QLinearMul, whose operands broadcast.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_kernels::quantize::{Binary, binary_i8, binary_u8};
use ort_ops::ops::microsoft::qlinear_binary::QLinearBinary;
use ort_tensor::DType;

use super::pairs::{Call, held_elements};
use super::{Compiled, Compiler, KernelDef};
use crate::operation::Broadcast;
use crate::scheme::Scheme;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One operation.
#[derive(Debug)]
struct ByteBinary {
    isa: Isa,
    op: QLinearBinary,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<QLinearBinary>() else { return Ok(None) };
    if ![1, 2, 4, 5, 6, 7].into_iter().all(|input| compiler.is_one_or_none(input)) {
        return Ok(None);
    }
    Ok(Some(Box::new(ByteBinary { isa: compiler.cpu.isa, op })))
}

impl ByteBinary {
    fn function(&self, a: &Scheme, b: &Scheme, c: &Scheme) -> Binary {
        match self.op {
            QLinearBinary::Add => {
                let ratios = [a.scale / c.scale, b.scale / c.scale];
                let fixed = c.zero - (ratios[0] * a.zero + ratios[1] * b.zero);
                Binary::Add { ratios, fixed }
            }
            QLinearBinary::Mul => {
                let factor = a.scale * b.scale / c.scale;
                Binary::Mul { zeros: [a.zero, b.zero], factor, zero: c.zero }
            }
        }
    }
}

impl Kernel for ByteBinary {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, _, _, b, ..] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Broadcast::new(&[a, b])?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, inputs, threads) = (self.isa, io.inputs, io.threads);
        let [a, b, c] = [1, 4, 6].map(|index| Scheme::read(inputs, index));
        let f = self.function(&a?, &b?, &c?);
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let state: &Broadcast = prepared.state()?;
        let y = io.outputs[0].tensor(a.dtype(), &state.shape)?;
        let call = Call { isa, dtype: a.dtype(), state };
        match a.dtype() {
            DType::I8 => {
                let operands = [Some(a.as_slice()?), Some(b.as_slice()?)];
                let y = y.into_slice()?;
                call.write(operands, (y, held_elements), threads, &|a, b, y| {
                    binary_i8(isa, f, a, b, y)
                });
            }
            _ => {
                let operands = [Some(a.as_slice()?), Some(b.as_slice()?)];
                let y = y.into_slice()?;
                call.write(operands, (y, held_elements), threads, &|a, b, y| {
                    binary_u8(isa, f, a, b, y)
                });
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "quantize")
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};

    const SHAPES: [[&[usize]; 2]; 9] = [
        [&[], &[]],
        [&[0], &[0]],
        [&[3], &[3]],
        [&[2, 300, 77], &[2, 300, 77]],
        [&[3, 700], &[]],
        [&[1, 40, 30], &[30]],
        [&[2, 16, 9, 9], &[1, 16, 1, 1]],
        [&[2, 16, 90, 9], &[2, 16, 1, 1]],
        [&[5, 1, 70], &[1, 6, 1]],
    ];

    #[test]
    fn results_equal_eval() {
        for name in ["QLinearAdd", "QLinearMul"] {
            for [shape, other] in SHAPES {
                let scale = |x: f32| Tensor::scalar(x);
                let case = |x: Tensor, y: Tensor, zero: fn(i8) -> Tensor| {
                    let case = Case::new(name, 1).domain("com.microsoft");
                    let case = case.input(x).input(scale(0.03)).input(zero(7));
                    case.input(y).input(scale(0.05)).input(zero(100)).input(scale(0.07))
                };
                let unsigned = |shape| bytes(shape, |bits| bits);
                let zero = |zero: i8| Tensor::scalar(zero.cast_unsigned());
                case(unsigned(shape), unsigned(other), zero).input(zero(3)).check(exact);
                let signed = |shape| bytes(shape, u8::cast_signed);
                case(signed(other), signed(shape), Tensor::scalar::<i8>).check(exact);
            }
        }
    }
}
