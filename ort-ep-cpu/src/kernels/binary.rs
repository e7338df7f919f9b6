//! Add, Sub, Mul and Div in f32, broadcast: row by row along the output.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::{Isa, vec};
use ort_ops::broadcast::Runs;
use ort_ops::ops::binary::Binary;
use ort_tensor::{DType, Shape, broadcast};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One operation; it works in place of either operand.
#[derive(Clone, Copy, Debug)]
struct BinaryKernel {
    cpu: Cpu,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
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

/// An operand of a row: its elements, one for all, or what the row holds already.
#[derive(Clone, Copy, Debug)]
enum Operand<'a> {
    Row(&'a [f32]),
    One(f32),
    Held,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let form = match compiler.op::<Binary>() {
        Some(Binary::Add) => Form::Add,
        Some(Binary::Sub) => Form::Sub,
        Some(Binary::Mul) => Form::Mul,
        Some(Binary::Div) => Form::Div,
        _ => return Ok(None),
    };
    if !compiler.are_f32(0..2) {
        return Ok(None);
    }
    Ok(Some(Box::new(BinaryKernel { cpu: compiler.cpu, form })))
}

impl Form {
    /// `y = a ∘ b`.
    fn row(self, isa: Isa, a: Operand<'_>, b: Operand<'_>, y: &mut [f32]) {
        match (a, b) {
            (Operand::Held, Operand::Row(b)) => self.update(isa, y, b),
            (Operand::Held, Operand::One(b)) => self.update_by_one(isa, y, b),
            (Operand::Row(a), Operand::Held) => self.update_reversed(isa, y, a),
            (Operand::One(a), Operand::Held) => self.update_one(isa, y, a),
            (Operand::Row(a), Operand::Row(b)) => {
                vec::map(a, y, |at, y| self.update(isa, y, &b[at..at + y.len()]));
            }
            (Operand::Row(a), Operand::One(b)) => {
                vec::map(a, y, |_, y| self.update_by_one(isa, y, b));
            }
            (Operand::One(a), Operand::Row(b)) => {
                vec::map(b, y, |_, y| self.update_one(isa, y, a));
            }
            (Operand::One(a), Operand::One(b)) => {
                y.fill(a);
                self.update_by_one(isa, y, b);
            }
            (Operand::Held, Operand::Held) => {}
        }
    }

    /// `y = y ∘ b`.
    fn update(self, isa: Isa, y: &mut [f32], b: &[f32]) {
        match self {
            Self::Add => vec::add(isa, y, b),
            Self::Sub => vec::sub(isa, y, b),
            Self::Mul => vec::mul(isa, y, b),
            Self::Div => vec::div(isa, y, b),
        }
    }

    /// `y = y ∘ b`, `b` one number.
    fn update_by_one(self, isa: Isa, y: &mut [f32], b: f32) {
        match self {
            Self::Add => vec::add_scalar(isa, y, b),
            Self::Sub => vec::sub_scalar(isa, y, b),
            Self::Mul => vec::mul_scalar(isa, y, b),
            Self::Div => vec::div_scalar(isa, y, b),
        }
    }

    /// `y = a ∘ y`.
    fn update_reversed(self, isa: Isa, y: &mut [f32], a: &[f32]) {
        match self {
            Self::Add | Self::Mul => self.update(isa, y, a),
            Self::Sub => y.iter_mut().zip(a).for_each(|(y, a)| *y = a - *y),
            Self::Div => y.iter_mut().zip(a).for_each(|(y, a)| *y = a / *y),
        }
    }

    /// `y = a ∘ y`, `a` one number.
    fn update_one(self, isa: Isa, y: &mut [f32], a: f32) {
        match self {
            Self::Add | Self::Mul => self.update_by_one(isa, y, a),
            Self::Sub => vec::sub_from_scalar(isa, y, a),
            Self::Div => vec::div_scalar_by(isa, y, a),
        }
    }
}

/// The elements of a run, from `at` on within it.
fn operand(
    data: Option<&[f32]>,
    (start, advances): (usize, bool),
    at: usize,
    len: usize,
) -> Operand<'_> {
    match data {
        None => Operand::Held,
        Some(data) if advances => Operand::Row(&data[start + at..start + at + len]),
        Some(data) => Operand::One(data[start]),
    }
}

impl BinaryKernel {
    /// The elements of `y` from `at` on, which are whole runs, or a piece of the only one.
    fn piece(&self, runs: &Runs<2>, [a, b]: [Option<&[f32]>; 2], at: usize, y: &mut [f32]) {
        let (len, [a_advances, b_advances]) = (runs.len(), runs.advances());
        let first = at / len;
        let skipped = at % len;
        let n_runs = y.len().div_ceil(len);
        let mut rest = y;
        runs.for_each_of(first..first + n_runs, |_, [a_start, b_start]| {
            let n = rest.len().min(len);
            let (row, next) = std::mem::take(&mut rest).split_at_mut(n);
            let a = operand(a, (a_start, a_advances), skipped, n);
            let b = operand(b, (b_start, b_advances), skipped, n);
            self.form.row(self.cpu.isa, a, b, row);
            rest = next;
        });
    }
}

impl Kernel for BinaryKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        let mismatch =
            || OpError::Shapes { what: "broadcasting", left: a.to_vec(), right: b.to_vec() };
        let shape = broadcast(a, b).ok_or_else(mismatch)?;
        let runs = Runs::new(&shape, [a, b])?;
        Ok(Prepared::new(State { shape, runs }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, runs } = prepared.state()?;
        let held = io.outputs[0].in_place_of();
        let data = |i| -> Result<Option<&[f32]>, KernelError> {
            if held == Some(i) { Ok(None) } else { Ok(Some(io.inputs.tensor(i)?.as_slice()?)) }
        };
        let operands = [data(0)?, data(1)?];
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let n_parts = n_parts(io.threads, y.len().saturating_mul(4));
        let unit = if runs.count() == 1 { 1 } else { runs.len() };
        let len = y.len().div_ceil(n_parts).next_multiple_of(unit);
        let team = Team::new(io.threads, n_parts);
        team.run(y.chunks_mut(len).enumerate(), |(i, y), _| {
            self.piece(runs, operands, i * len, y);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "binary_f32")
    }
}

#[cfg(test)]
mod tests {
    use crate::case::{Case, exact, floats};

    #[test]
    fn operands_broadcast_and_either_may_be_overwritten() {
        let shapes: [(&[usize], &[usize]); 14] = [
            (&[], &[]),
            (&[5, 7], &[5, 7]),
            (&[5, 7], &[]),
            (&[], &[5, 7]),
            (&[2, 3, 4, 5], &[3, 1, 1]),
            (&[1, 3, 1, 1], &[2, 3, 4, 5]),
            (&[6, 33], &[33]),
            (&[4, 1, 3], &[1, 5, 1]),
            (&[2, 1], &[1, 2]),
            (&[0, 3], &[3]),
            (&[2, 0], &[1]),
            (&[200, 300], &[200, 300]),
            (&[200, 300], &[300]),
            (&[200, 300], &[1]),
        ];
        for (a, b) in shapes {
            for name in ["Add", "Sub", "Mul", "Div"] {
                // Each is one rounded operation.
                Case::new(name, 14).input(floats(a)).weight(floats(b)).check(exact);
            }
        }
    }
}
