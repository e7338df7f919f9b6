//! Add, Sub, Mul and Div in f32: `y = a ∘ b`, broadcast.
//!
//! Dimensions that the operands walk alike are one, so the innermost is a long run in most models:
//! the whole tensor (same shape, scalar), a plane (a value a channel) or a row (a bias).

use std::ops::Range;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::{Isa, vec};
use ort_ops::broadcast::Runs;
use ort_ops::ops::binary::Binary;
use ort_tensor::{DType, Shape, TensorViewMut, broadcast};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Runs below this length are not worth a call for each.
const SHORT: usize = 16;

/// One operation.
#[derive(Debug)]
struct BinaryKernel {
    isa: Isa,
    op: Operation,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
}

/// What a shape signature makes of it.
struct State {
    shape: Shape,
    runs: Runs<2>,
}

/// An operand along a run.
#[derive(Clone, Copy)]
enum Operand<'a> {
    /// What the run holds already.
    InPlace,
    Row(&'a [f32]),
    /// One value for the whole run.
    Same(f32),
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Binary>().and_then(|op| Operation::of_op(*op)) else {
        return Ok(None);
    };
    if !compiler.are_f32(0..2) {
        return Ok(None);
    }
    Ok(Some(Box::new(BinaryKernel { isa: compiler.cpu.isa, op })))
}

impl Operation {
    pub(super) fn of_op(op: Binary) -> Option<Self> {
        Some(match op {
            Binary::Add => Self::Add,
            Binary::Sub => Self::Sub,
            Binary::Mul => Self::Mul,
            Binary::Div => Self::Div,
            _ => return None,
        })
    }

    fn of(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
        }
    }

    /// `y = y ∘ b`.
    fn row(self, isa: Isa, y: &mut [f32], b: &[f32]) {
        match self {
            Self::Add => vec::add(isa, y, b),
            Self::Sub => vec::sub(isa, y, b),
            Self::Mul => vec::mul(isa, y, b),
            Self::Div => vec::div(isa, y, b),
        }
    }

    /// `y = a ∘ y`.
    fn row_before(self, isa: Isa, y: &mut [f32], a: &[f32]) {
        match self {
            Self::Add | Self::Mul => self.row(isa, y, a),
            Self::Sub => y.iter_mut().zip(a).for_each(|(y, a)| *y = a - *y),
            Self::Div => y.iter_mut().zip(a).for_each(|(y, a)| *y = a / *y),
        }
    }

    /// `y = y ∘ b`.
    fn scalar(self, isa: Isa, y: &mut [f32], b: f32) {
        match self {
            Self::Add => vec::add_scalar(isa, y, b),
            Self::Sub => vec::sub_scalar(isa, y, b),
            Self::Mul => vec::mul_scalar(isa, y, b),
            Self::Div => vec::div_scalar(isa, y, b),
        }
    }

    /// `y = a ∘ y`.
    fn scalar_before(self, isa: Isa, y: &mut [f32], a: f32) {
        match self {
            Self::Add | Self::Mul => self.scalar(isa, y, a),
            Self::Sub => vec::sub_from_scalar(isa, y, a),
            Self::Div => vec::div_scalar_by(isa, y, a),
        }
    }

    /// A piece of the result, which begins at an element of it; an operand without data is what the
    /// piece holds already.
    pub(super) fn piece(
        self,
        isa: Isa,
        runs: &Runs<2>,
        (start, y): (usize, &mut [f32]),
        [a, b]: [Option<&[f32]>; 2],
    ) {
        let [a_advances, b_advances] = runs.advances();
        runs.for_each_within(start..start + y.len(), |Range { start: at, end }, [i, j]| {
            let y = &mut y[at - start..end - start];
            let a = Operand::new(a, i, y.len(), a_advances);
            let b = Operand::new(b, j, y.len(), b_advances);
            self.run(isa, y, a, b);
        });
    }

    /// One run, or a part of it.
    fn run(self, isa: Isa, y: &mut [f32], a: Operand<'_>, b: Operand<'_>) {
        if y.len() < SHORT {
            let each = y.iter_mut().enumerate();
            return each.for_each(|(i, y)| *y = self.of(a.get(i, *y), b.get(i, *y)));
        }
        match (a, b) {
            (Operand::Row(a), Operand::Row(b)) => {
                vec::map(a, y, |at, y| self.row(isa, y, &b[at..][..y.len()]));
            }
            (Operand::Row(a), Operand::Same(b)) => {
                vec::map(a, y, |_, y| self.scalar(isa, y, b));
            }
            (Operand::Same(a), Operand::Row(b)) => {
                vec::map(b, y, |_, y| self.scalar_before(isa, y, a));
            }
            (Operand::InPlace, Operand::Row(b)) => self.row(isa, y, b),
            (Operand::InPlace, Operand::Same(b)) => self.scalar(isa, y, b),
            (Operand::Row(a), Operand::InPlace) => self.row_before(isa, y, a),
            (Operand::Same(a), Operand::InPlace) => self.scalar_before(isa, y, a),
            (Operand::Same(a), Operand::Same(b)) => y.fill(self.of(a, b)),
            (Operand::InPlace, Operand::InPlace) => {
                y.iter_mut().for_each(|y| *y = self.of(*y, *y));
            }
        }
    }
}

impl<'a> Operand<'a> {
    /// The run of `data` that begins at `start`; without data, what is in place.
    fn new(data: Option<&'a [f32]>, start: usize, len: usize, advances: bool) -> Self {
        match data {
            None => Self::InPlace,
            Some(data) if advances => Self::Row(&data[start..][..len]),
            Some(data) => Self::Same(data[start]),
        }
    }

    /// The element at `index` of a run that holds `y` there.
    fn get(self, index: usize, y: f32) -> f32 {
        match self {
            Self::InPlace => y,
            Self::Row(row) => row[index],
            Self::Same(value) => value,
        }
    }
}

impl Kernel for BinaryKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        let wrong = || OpError::Shapes { what: "broadcasting", left: a.into(), right: b.into() };
        let shape = broadcast(a, b).ok_or_else(wrong)?;
        let runs = Runs::new(&shape, [a, b])?;
        Ok(Prepared::new(State { shape, runs }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, runs } = prepared.state()?;
        let in_place = io.outputs[0].in_place_of();
        let operand = |index| match in_place == Some(index) {
            true => Ok(None),
            false => io.inputs.tensor(index)?.as_slice::<f32>().map(Some),
        };
        let (a, b) = (operand(0)?, operand(1)?);
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        Rows::ELEMENTS.for_each(io.threads, y, |start, y| {
            self.op.piece(self.isa, runs, (start, y), [a, b]);
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
    fn every_way_to_broadcast_gives_what_the_formula_says() {
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
}
