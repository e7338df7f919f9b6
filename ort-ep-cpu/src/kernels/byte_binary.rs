//! QLinearAdd and QLinearMul of operands of one shape.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_kernels::quantize::{Binary, binary_i8, binary_u8};
use ort_ops::ops::microsoft::qlinear_binary::QLinearBinary;
use ort_tensor::{DType, Inputs, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// What an element costs, in multiply-adds.
const COST: usize = 4;

/// One operation.
#[derive(Debug)]
struct ByteBinary {
    isa: Isa,
    op: QLinearBinary,
}

/// Scale and zero point of a tensor.
struct Scheme {
    scale: f32,
    zero: f32,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
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

fn scheme(inputs: Inputs<'_>, index: usize) -> Result<Scheme, KernelError> {
    let scale = inputs.tensor(index)?.as_slice::<f32>()?.first().copied();
    let zero = match inputs.optional_tensor(index + 1)? {
        None => Some(0.0),
        Some(zero) if zero.dtype() == DType::I8 => {
            zero.as_slice::<i8>()?.first().map(|&zero| f32::from(zero))
        }
        Some(zero) => zero.as_slice::<u8>()?.first().map(|&zero| f32::from(zero)),
    };
    let (Some(scale), Some(zero)) = (scale, zero) else { return Err(KernelError::ForeignState) };
    Ok(Scheme { scale, zero })
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
        let [a, b, c] = [1, 4, 6].map(|index| scheme(inputs, index));
        let f = self.function(&a?, &b?, &c?);
        let (a, b) = (inputs.tensor(0)?, inputs.tensor(3)?);
        let y = io.outputs[0].tensor(a.dtype(), prepared.state::<Shape>()?)?;
        match a.dtype() {
            DType::I8 => {
                let operands = (a.as_slice()?, b.as_slice()?, y.into_slice()?);
                in_pieces(threads, operands, |a, b, y| binary_i8(isa, f, a, b, y));
            }
            _ => {
                let operands = (a.as_slice()?, b.as_slice()?, y.into_slice()?);
                in_pieces(threads, operands, |a, b, y| binary_u8(isa, f, a, b, y));
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "quantize")
    }
}

/// Calls `f` with pieces of the operands, on any thread.
fn in_pieces<T: Send + Sync>(
    threads: &dyn ort_ep::Threads,
    (a, b, y): (&[T], &[T], &mut [T]),
    f: impl Fn(&[T], &[T], &mut [T]) + Sync,
) {
    let n_parts = n_parts(threads, y.len().saturating_mul(COST));
    let piece = y.len().div_ceil(n_parts).next_multiple_of(64);
    let team = Team::new(threads, y.len().div_ceil(piece.max(1)));
    let pieces = a.chunks(piece.max(1)).zip(b.chunks(piece.max(1))).zip(y.chunks_mut(piece.max(1)));
    team.run(pieces, |((a, b), y), _| f(a, b, y));
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
