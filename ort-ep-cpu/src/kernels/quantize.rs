//! QuantizeLinear from and DequantizeLinear to f32, bytes with one scale for the whole tensor.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Dim, Fact};
use ort_kernels::Isa;
use ort_kernels::quantize::{dequantize_i8, dequantize_u8, quantize_i8, quantize_u8};
use ort_ops::ops::quantization::{DequantizeLinear, QuantizeLinear};
use ort_tensor::{DType, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::scheme::{Scheme, in_pieces};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One of the two.
#[derive(Debug)]
struct Quantize {
    isa: Isa,
    /// The type of the bytes.
    bytes: DType,
    direction: Direction,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    ToBytes,
    ToFloats,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let is_f32 = |dtype: Option<DType>| dtype.is_none_or(|dtype| dtype == DType::F32);
    let (direction, is_plain) = match (compiler.op(), compiler.op()) {
        (Some(QuantizeLinear { precision, output_dtype, .. }), None) => {
            (Direction::ToBytes, is_f32(*precision) && output_dtype.is_none())
        }
        (None, Some(DequantizeLinear { output_dtype, .. })) => {
            (Direction::ToFloats, is_f32(*output_dtype))
        }
        _ => return Ok(None),
    };
    let dtype = |input| compiler.fact(input).and_then(Fact::dtype);
    // A scale of rank 0 or 1: one for the whole tensor, whatever the axis.
    let is_one = |input| {
        let dims = compiler.fact(input).map(|fact| fact.dims());
        dims.is_none_or(|dims| matches!(dims, Some([] | [Dim::Known(1)])))
    };
    let (bytes, floats) = match direction {
        Direction::ToBytes => (dtype(2).or(Some(DType::U8)), dtype(0)),
        Direction::ToFloats => (dtype(0), dtype(1)),
    };
    let are_f32 = floats == Some(DType::F32) && dtype(1) == Some(DType::F32);
    let Some(bytes) = bytes.filter(|bytes| bytes.is_byte()) else { return Ok(None) };
    if !(is_plain && are_f32 && is_one(1) && is_one(2)) {
        return Ok(None);
    }
    Ok(Some(Box::new(Quantize { isa: compiler.cpu.isa, bytes, direction })))
}

impl Kernel for Quantize {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&x) = shapes.first() else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Shape::from(x)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, threads, shape) = (self.isa, io.threads, prepared.state::<Shape>()?);
        let Scheme { scale, zero } = Scheme::read(io.inputs, 1)?;
        let x = io.inputs.tensor(0)?;
        let dtype = match self.direction {
            Direction::ToBytes => self.bytes,
            Direction::ToFloats => DType::F32,
        };
        let y = io.outputs[0].tensor(dtype, shape)?;
        match (self.direction, self.bytes == DType::I8) {
            (Direction::ToBytes, false) => {
                let operands = (x.as_slice()?, y.into_slice()?);
                in_pieces(threads, operands, |x, y| quantize_u8(isa, x, scale, zero, y));
            }
            (Direction::ToBytes, true) => {
                let operands = (x.as_slice()?, y.into_slice()?);
                in_pieces(threads, operands, |x, y| quantize_i8(isa, x, scale, zero, y));
            }
            (Direction::ToFloats, false) => {
                let operands = (x.as_slice()?, y.into_slice()?);
                in_pieces(threads, operands, |x, y| dequantize_u8(isa, x, scale, zero, y));
            }
            (Direction::ToFloats, true) => {
                let operands = (x.as_slice()?, y.into_slice()?);
                in_pieces(threads, operands, |x, y| dequantize_i8(isa, x, scale, zero, y));
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

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn results_are_those_of_eval() {
        for shape in [&[][..], &[0], &[3], &[2, 300, 77]] {
            let to = || Case::new("QuantizeLinear", 21).input(floats(shape));
            to().input(Tensor::scalar(0.01_f32)).check(exact);
            let one = || Tensor::from_slice(&[1], &[0.02_f32]).unwrap();
            if shape.len() > 1 {
                let zero = Tensor::from_slice(&[1], &[-3_i8]).unwrap();
                to().input(one()).input(zero).check(exact);
            }
            let scale = || Tensor::scalar(0.3_f32);
            let from = |x| Case::new("DequantizeLinear", 21).input(x).input(scale());
            from(bytes(shape, |bits| bits)).input(Tensor::scalar(7_u8)).check(exact);
            from(bytes(shape, u8::cast_signed)).check(exact);
        }
    }
}
