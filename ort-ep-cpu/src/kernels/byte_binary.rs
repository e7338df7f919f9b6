//! QLinearAdd and QLinearMul of operands of one shape.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_kernels::quantize::{Binary, binary_i8, binary_u8};
use ort_ops::ops::microsoft::qlinear_binary::QLinearBinary;
use ort_tensor::{DType, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::scheme::{Scheme, in_pieces};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One operation.
#[derive(Debug)]
struct ByteBinary {
    isa: Isa,
    op: QLinearBinary,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<QLinearBinary>() else { return Ok(None) };
    let dims = |input| compiler.fact(input).and_then(|fact| fact.dims());
    // What has no name in common may have another size in each run.
    let (Some(a), Some(b)) = (dims(0), dims(3)) else { return Ok(None) };
    let is_alike = a == b && a.iter().all(|dim| *dim != ort_graph::Dim::Unknown);
    let is_one = |input| dims(input).is_none_or(<[_]>::is_empty);
    if !is_alike || ![1, 2, 4, 5, 6, 7].into_iter().all(is_one) {
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
        match shapes {
            &[a, _, _, b, ..] if a == b => Ok(Prepared::new(Shape::from(a))),
            _ => Err(KernelError::ForeignState),
        }
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, inputs, threads) = (self.isa, io.inputs, io.threads);
        let [a, b, c] = [1, 4, 6].map(|index| Scheme::read(inputs, index));
        let f = self.function(&a?, &b?, &c?);
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let y = io.outputs[0].tensor(a.dtype(), prepared.state::<Shape>()?)?;
        match a.dtype() {
            DType::I8 => {
                let operands = ((a.as_slice()?, b.as_slice()?), y.into_slice()?);
                in_pieces(threads, operands, |(a, b), y| binary_i8(isa, f, a, b, y));
            }
            _ => {
                let operands = ((a.as_slice()?, b.as_slice()?), y.into_slice()?);
                in_pieces(threads, operands, |(a, b), y| binary_u8(isa, f, a, b, y));
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

    #[test]
    fn results_are_those_of_eval() {
        for name in ["QLinearAdd", "QLinearMul"] {
            for shape in [&[][..], &[0], &[3], &[2, 300, 77]] {
                let scale = |x: f32| Tensor::scalar(x);
                let case = |x: Tensor, y: Tensor, zero: fn(i8) -> Tensor| {
                    let case = Case::new(name, 1).domain("com.microsoft");
                    let case = case.input(x).input(scale(0.03)).input(zero(7));
                    case.input(y).input(scale(0.05)).input(zero(100)).input(scale(0.07))
                };
                let unsigned = || bytes(shape, |bits| bits);
                let zero = |zero: i8| Tensor::scalar(zero.cast_unsigned());
                case(unsigned(), unsigned(), zero).input(zero(3)).check(exact);
                let signed = || bytes(shape, u8::cast_signed);
                case(signed(), signed(), Tensor::scalar::<i8>).check(exact);
            }
        }
    }
}
