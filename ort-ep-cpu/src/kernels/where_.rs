//! Where of elements of any width: threads share the result, whose runs are copied, filled or selected.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::Isa;
use ort_kernels::vec::{Lane, select};
use ort_ops::broadcast::{Runs, common_shape};
use ort_ops::ops::where_::Where;
use ort_tensor::{DType, Shape, Word};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct WhereKernel {
    isa: Isa,
    /// Bytes per element.
    width: usize,
}

/// Prepared state for one shape signature: the runs of condition and operands.
struct State {
    shape: Shape,
    runs: Runs<3>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let width = compiler.fact(1).and_then(Fact::dtype).and_then(DType::word_bytes);
    let (Some(_), Some(width)) = (compiler.op::<Where>(), width) else { return Ok(None) };
    Ok(Some(Box::new(WhereKernel { isa: compiler.cpu.isa, width })))
}

impl State {
    fn new(shapes: &[&[usize]]) -> Result<Self, KernelError> {
        let &[condition, a, b] = shapes else { return Err(KernelError::ForeignState) };
        let shape = common_shape([condition, a, b])?;
        let runs = Runs::new(&shape, [condition, a, b])?;
        Ok(Self { shape, runs })
    }
}

/// The operands: a condition, and values; `None` if the result holds them.
type Operands<'a, W> = (&'a [u8], [Option<&'a [W]>; 2]);

impl WhereKernel {
    fn write<W: Word>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let held = io.outputs[0].in_place_of();
        let side = |index| match held == Some(index) {
            true => Ok(None),
            false => io.inputs.tensor(index)?.as_words::<W>().map(Some),
        };
        let condition = io.inputs.tensor(0)?.as_words::<u8>()?;
        let operands = (condition, [side(1)?, side(2)?]);
        // The operand that the result does not hold has its type.
        let dtype = io.inputs.tensor(if held == Some(1) { 2 } else { 1 })?.dtype();
        let y = io.outputs[0].tensor(dtype, &state.shape)?.into_words::<W>()?;
        Rows::ELEMENTS.for_each(io.threads, y, |start, y| {
            state.write(self.isa, operands, (start, y));
        });
        Ok(())
    }
}

impl State {
    /// Writes the piece of the result that begins at `start`.
    fn write<W: Word>(
        &self,
        isa: Isa,
        (condition, sides): Operands<'_, W>,
        (start, y): (usize, &mut [W]),
    ) {
        let [condition_advances, advances @ ..] = self.runs.advances();
        self.runs.for_each_within(start..start + y.len(), |range, [c, a, b]| {
            let n = range.len();
            let y = &mut y[range.start - start..range.end - start];
            let lane = |side: usize, at: usize| {
                sides[side].map(|x| match advances[side] {
                    true => Lane::Row(&x[at..at + n]),
                    false => Lane::Same(x[at]),
                })
            };
            if condition_advances {
                return select(isa, &condition[c..c + n], [lane(0, a), lane(1, b)], y);
            }
            match if condition[c] == 0 { lane(1, b) } else { lane(0, a) } {
                None => {}
                Some(Lane::Row(x)) => y.copy_from_slice(x),
                Some(Lane::Same(x)) => y.fill(x),
            }
        });
    }
}

impl Kernel for WhereKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(State::new(shapes)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &State = prepared.state()?;
        match self.width {
            1 => self.write::<u8>(state, io),
            2 => self.write::<u16>(state, io),
            4 => self.write::<u32>(state, io),
            8 => self.write::<u64>(state, io),
            _ => self.write::<u128>(state, io),
        }
    }

    fn variant(&self) -> &'static str {
        "where"
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Bool, Complex, f16};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn choices_equal_eval() {
        // Condition, and both sides.
        let cases: [[&[usize]; 3]; 10] = [
            [&[], &[], &[]],
            [&[7], &[7], &[7]],
            [&[3, 7], &[7], &[]],
            [&[3, 1], &[3, 7], &[7]],
            [&[3, 7], &[], &[3, 7]],
            [&[1], &[2, 5], &[2, 1]],
            [&[2, 1, 9, 9], &[1], &[2, 4, 9, 9]],
            [&[0, 3], &[3], &[1]],
            // Large enough for several threads.
            [&[1, 1, 170, 170], &[2, 8, 170, 170], &[1]],
            [&[16, 1, 170], &[16, 170, 170], &[170, 1]],
        ];
        for [condition, a, b] in cases {
            let condition = || bytes(condition, |byte| Bool::from(byte % 3 == 0));
            let wide = |byte: u8| Complex::new(f64::from(byte), 1.0);
            for [a, b] in [
                [bytes(a, |byte| byte), bytes(b, |byte| byte)],
                [bytes(a, f16::from), bytes(b, f16::from)],
                [floats(a), floats(b)],
                [bytes(a, i64::from), bytes(b, i64::from)],
                [bytes(a, wide), bytes(b, wide)],
            ] {
                Case::new("Where", 16).input(condition()).input(a).input(b).check(exact);
            }
        }
    }
}
