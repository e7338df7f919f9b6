//! Exponentials, logarithms, sines and inverse hyperbolic functions of f64.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::Isa;
use ort_kernels::vec::{FunctionF64, map_f64};
use ort_ops::ops::activation::Activation;
use ort_ops::ops::unary::Unary;
use ort_tensor::DType;

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::{Rows, first_and_output};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A cache line of results, in multiply-adds.
const LINE: Rows = Rows { len: 8, cost: 1024 };

#[derive(Debug)]
struct UnaryF64Kernel {
    isa: Isa,
    function: FunctionF64,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let unary = compiler.op::<Unary>().and_then(|op| of_unary(*op));
    let function = unary.or_else(|| of_activation(*compiler.op::<Activation>()?));
    let (Some(function), Some(DType::F64)) = (function, compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    Ok(Some(Box::new(UnaryF64Kernel { isa: compiler.cpu.isa, function })))
}

const fn of_unary(op: Unary) -> Option<FunctionF64> {
    Some(match op {
        Unary::Acosh => FunctionF64::Acosh,
        Unary::Atanh => FunctionF64::Atanh,
        Unary::Cos => FunctionF64::Cos,
        Unary::Exp => FunctionF64::Exp,
        Unary::Log => FunctionF64::Ln,
        Unary::Sigmoid => FunctionF64::Sigmoid,
        Unary::Sin => FunctionF64::Sin,
        Unary::Tanh => FunctionF64::Tanh,
        _ => return None,
    })
}

fn of_activation(op: Activation) -> Option<FunctionF64> {
    let elu = |alpha: f32, scale: f32, gamma: f32| FunctionF64::Elu {
        alpha: f64::from(alpha),
        scale: f64::from(scale),
        gamma: f64::from(gamma),
    };
    Some(match op {
        Activation::Celu { alpha } => elu(alpha, alpha, 1.0),
        Activation::Elu { alpha } => elu(alpha, 1.0, 1.0),
        Activation::Selu { alpha, gamma } => elu(alpha, 1.0, gamma),
        _ => return None,
    })
}

impl Kernel for UnaryF64Kernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (x, y) = first_and_output::<f64>(io.inputs, &mut io.outputs[0])?;
        LINE.for_each(io.threads, y, |start, y| {
            map_f64(self.isa, self.function, x.map(|x| &x[start..][..y.len()]), y);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "unary_f64")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, relative};

    fn numbers(n: usize) -> Tensor {
        let special = [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 0.0, 1e-310, -745.0, 709.0];
        let number = |i: usize| match i % 50 {
            0 => special[i / 50 % 8],
            _ => (i * 7919 % 6011) as f64 / 128.0 - 23.0,
        };
        Tensor::from_slice(&[n], &(0..n).map(number).collect::<Vec<f64>>()).unwrap()
    }

    #[test]
    fn results_equal_the_operators() {
        for n in [0, 1, 1001, 200_001] {
            for (name, version) in [("Exp", 13), ("Log", 13), ("Sigmoid", 13), ("Tanh", 13)] {
                Case::new(name, version).input(numbers(n)).check(relative(1e-15));
            }
            for name in ["Sin", "Cos", "Atanh"] {
                Case::new(name, 22).input(numbers(n)).check(relative(1e-15));
            }
            // That of the standard library is less accurate near 1.
            Case::new("Acosh", 22).input(numbers(n)).check(relative(1e-14));
            Case::new("Selu", 22).input(numbers(n)).check(relative(1e-15));
            for name in ["Celu", "Elu"] {
                let version = if name == "Elu" { 22 } else { 12 };
                let case = || Case::new(name, version).input(numbers(n));
                case().check(relative(1e-15));
                case().attr("alpha", Attr::Float(0.75)).check(relative(1e-15));
                case().attr("alpha", Attr::Float(-0.75)).check(relative(1e-15));
            }
        }
    }
}
