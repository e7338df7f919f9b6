//! Add, Sub, Mul, Div, and Max, Min and Sum of two operands, in f32: `y = a ∘ b`, broadcast.
//!
//! Adjacent dimensions that broadcast alike are merged, so the innermost is a long run in most models:
//! the whole tensor (same shape, scalar), a plane (a value per channel) or a row (a bias). Short rows
//! are repeated to fill a longer run: a bias of few elements, or one block of channels for all
//! pixels.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_ops::ops::binary::Binary;
use ort_ops::ops::variadic::Variadic;
use ort_tensor::{DType, TensorViewMut};

use super::{Compiled, Compiler, KernelDef};
use crate::operation::{Broadcast, Combiner, Operation};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One operation.
#[derive(Debug)]
struct BinaryKernel {
    isa: Isa,
    op: Operation,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let op = compiler.op::<Binary>().and_then(|op| Operation::of_op(*op));
    let Some(op) = op.or_else(|| of_variadic(compiler)) else { return Ok(None) };
    if !compiler.are_f32(0..2) {
        return Ok(None);
    }
    Ok(Some(Box::new(BinaryKernel { isa: compiler.cpu.isa, op })))
}

fn of_variadic(compiler: &Compiler<'_>) -> Option<Operation> {
    let op = compiler.op::<Variadic>().filter(|_| compiler.claim.inputs.len() == 2)?;
    match op {
        Variadic::Max => Some(Operation::Max),
        Variadic::Min => Some(Operation::Min),
        Variadic::Sum => Some(Operation::Add),
        Variadic::Mean => None,
    }
}

impl Kernel for BinaryKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(Broadcast::new(shapes)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Broadcast { shape, runs } = prepared.state()?;
        let in_place = io.outputs[0].in_place_of();
        let operand = |index| match in_place == Some(index) {
            true => Ok(None),
            false => io.inputs.tensor(index)?.as_slice::<f32>().map(Some),
        };
        let (a, b) = (operand(0)?, operand(1)?);
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        Rows::ELEMENTS.for_each(io.threads, y, |start, y| {
            Combiner::new(self.isa).piece(self.op, runs, (start, y), [a, b]);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "binary_f32")
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, exact, floats};

    #[test]
    fn every_broadcast_equals_the_formula() {
        let shapes: [[&[usize]; 2]; 14] = [
            [&[], &[]],
            [&[3, 20], &[3, 20]],
            [&[3, 70], &[]],
            [&[1], &[2, 33]],
            [&[5, 2, 40], &[40]],
            [&[5, 2, 40], &[3, 5, 1, 1]],
            [&[2, 3, 5, 7], &[1, 3, 1, 1]],
            [&[3, 1, 1], &[2, 3, 4, 9]],
            [&[6, 1], &[1, 50]],
            [&[70, 3], &[3]],
            [&[2, 1, 4, 1], &[1, 3, 1, 5]],
            [&[0, 3], &[1, 3]],
            [&[3, 1, 211, 211], &[3, 4, 1, 1]],
            [&[1, 400, 333], &[400, 333]],
        ];
        for name in ["Add", "Sub", "Mul", "Div"] {
            for [a, b] in shapes {
                Case::new(name, 14).input(floats(a)).weight(floats(b)).check(exact);
            }
        }
    }

    #[test]
    fn values_of_short_rows_are_broadcast() {
        let shapes: [[&[usize]; 2]; 6] = [
            [&[40, 7], &[40, 1]],
            [&[3, 40, 5], &[40, 1]],
            [&[3, 1, 40, 5], &[3, 2, 1, 1]],
            [&[400, 1], &[1, 8]],
            [&[2, 1, 50, 3], &[2, 5, 50, 1]],
            // Large enough for several threads.
            [&[5000, 1], &[31]],
        ];
        for [a, b] in shapes {
            Case::new("Sub", 14).input(floats(a)).weight(floats(b)).check(exact);
            Case::new("Div", 14).input(floats(b)).weight(floats(a)).check(exact);
        }
    }

    #[test]
    fn short_rows_repeat() {
        let shapes: [[&[usize]; 2]; 6] = [
            [&[2, 3, 7, 9, 16], &[1, 3, 1, 1, 16]],
            [&[2, 3, 1, 1, 8], &[2, 3, 40, 21, 8]],
            [&[3, 1, 5], &[1, 70, 5]],
            [&[40, 256], &[256]],
            [&[7, 500], &[500]],
            // Large enough for several threads.
            [&[1, 2, 130, 64, 16], &[1, 2, 1, 1, 16]],
        ];
        for [a, b] in shapes {
            Case::new("Sub", 14).input(floats(a)).weight(floats(b)).check(exact);
        }
    }
}
