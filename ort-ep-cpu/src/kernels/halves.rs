//! Functions of one operand in 16-bit floats: a tile at a time is widened to f32, computed by the functions
//! for f32, and rounded once.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_kernels::vec::{bf16_to_f32, each, f32_to_bf16, narrow_f16, widen_f16};
use ort_ops::ops::gelu::Gelu;
use ort_tensor::{DType, Element, Inputs, bf16, f16};

use super::unary::Function;
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::{Rows, first_and_output};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Elements per tile: 4 KiB of f32, which stay in the first-level cache.
pub(super) const TILE: usize = 1024;

/// A 16-bit float.
pub(super) trait Half: Element {
    fn widen(isa: Isa, x: &[Self], y: &mut [f32]);
    fn narrow(isa: Isa, x: &[f32], y: &mut [Self]);
}

impl Half for f16 {
    fn widen(isa: Isa, x: &[Self], y: &mut [f32]) {
        widen_f16(isa, bytemuck::cast_slice(x), y);
    }

    fn narrow(isa: Isa, x: &[f32], y: &mut [Self]) {
        narrow_f16(isa, x, bytemuck::cast_slice_mut(y));
    }
}

impl Half for bf16 {
    fn widen(isa: Isa, x: &[Self], y: &mut [f32]) {
        each(isa, x, y, |x: bf16| bf16_to_f32(x.to_bits()));
    }

    fn narrow(isa: Isa, x: &[f32], y: &mut [Self]) {
        each(isa, x, y, |x| bf16::from_bits(f32_to_bf16(x)));
    }
}

#[derive(Debug)]
struct HalfKernel {
    isa: Isa,
    function: Function,
    dtype: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let &[id] = compiler.claim.nodes.as_slice() else { return Ok(None) };
    let has_bias = compiler.op::<Gelu>().is_some() && compiler.fact(1).is_some();
    let Some(function) = Function::of(compiler.graph, id).filter(|_| !has_bias) else {
        return Ok(None);
    };
    let dtype = compiler.fact(0).and_then(ort_graph::Fact::dtype);
    let Some(dtype) = dtype.filter(|dtype| matches!(dtype, DType::F16 | DType::Bf16)) else {
        return Ok(None);
    };
    Ok(Some(Box::new(HalfKernel { isa: compiler.cpu.isa, function, dtype })))
}

impl Kernel for HalfKernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.dtype {
            DType::F16 => self.compute::<f16>(io),
            _ => self.compute::<bf16>(io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "unary_16_bits")
    }
}

impl HalfKernel {
    fn compute<T: Half>(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, function) = (self.isa, self.bounded::<T>(io.inputs)?);
        let (x, y) = first_and_output::<T>(io.inputs, &mut io.outputs[0])?;
        let rows = Rows { cost: function.cost() + Rows::ELEMENTS.cost, ..Rows::ELEMENTS };
        rows.for_each(io.threads, y, |start, y| {
            let mut tile = [0.0; TILE];
            for (i, y) in y.chunks_mut(TILE).enumerate() {
                let tile = &mut tile[..y.len()];
                T::widen(isa, x.map_or(&*y, |x| &x[start + i * TILE..][..y.len()]), tile);
                function.apply(isa, tile);
                T::narrow(isa, tile, y);
            }
        });
        Ok(())
    }

    /// The function with the bounds given in this run.
    fn bounded<T: Half>(&self, inputs: Inputs<'_>) -> Result<Function, KernelError> {
        let bound = |index, absent| {
            let Some(bound) = inputs.optional_tensor(index)? else { return Ok(absent) };
            let bound = bound.as_slice::<T>()?;
            let mut wide = [0.0];
            if bound.len() != 1 {
                let what = "a bound is not one element";
                return Err(KernelError::Op(OpError::InputValue { index, what }));
            }
            T::widen(self.isa, bound, &mut wide);
            Ok(wide[0])
        };
        Ok(match self.function {
            Function::ClipByInputs => {
                Function::clip(bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?)
            }
            function => function,
        })
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Number, Tensor, bf16, f16};

    use crate::case::{Case, relative};

    fn numbers<T: Number>(n: usize) -> Tensor {
        let elements = (0..n).map(|i| T::from_f64((i * 7919 % 8191) as f64 / 512.0 - 8.0));
        Tensor::from_slice(&[n], &elements.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn functions_are_within_a_unit_of_the_operator() {
        let names = [
            ("Abs", 13),
            ("Exp", 13),
            ("Round", 11),
            ("Relu", 14),
            ("Tanh", 13),
            ("Sqrt", 13),
            ("Celu", 12),
            ("LeakyRelu", 16),
            ("Softplus", 22),
        ]; // The others are listed in unary.rs.
        for (name, version) in names {
            for n in [0, 1, 17, 3000, 150_001] {
                let case = |x| Case::new(name, version).input(x);
                case(numbers::<f16>(n)).check(relative(1.0 / 1024.0));
                case(numbers::<bf16>(n)).check(relative(1.0 / 128.0));
            }
        }
        let bound = |x: f32| Tensor::scalar(f16::from_f32(x));
        let case = Case::new("Clip", 13).input(numbers::<f16>(3000));
        case.weight(bound(-1.5)).weight(bound(2.25)).check(relative(0.0));
    }
}
