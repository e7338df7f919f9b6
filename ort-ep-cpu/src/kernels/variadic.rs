//! Max, Mean, Min and Sum in f32 of any number of operands, broadcast: each in turn is combined
//! with a piece of the result, while that is in the first-level cache.

// collects are bounded: by the rank and the operands

use std::ops::Range;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_kernels::{Isa, vec};
use ort_ops::broadcast::Runs;
use ort_ops::ops::variadic::Variadic;
use ort_tensor::{DType, Shape, TensorViewMut, broadcast};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::operation::{Combiner, Operand, Operation, long};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Elements of a result that are combined with all operands in turn.
const PIECE: usize = 2048;

/// The number of operands kept on the stack.
const FEW: usize = 32;

#[derive(Debug)]
struct VariadicKernel {
    isa: Isa,
    op: Operation,
    is_mean: bool,
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    /// The traversal of each operand.
    runs: Vec<Runs<1>>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (op, is_mean) = match compiler.op::<Variadic>() {
        Some(Variadic::Max) => (Operation::Max, false),
        Some(Variadic::Mean) => (Operation::Add, true),
        Some(Variadic::Min) => (Operation::Min, false),
        Some(Variadic::Sum) => (Operation::Add, false),
        None => return Ok(None),
    };
    if !compiler.are_f32(0..compiler.claim.inputs.len()) {
        return Ok(None);
    }
    Ok(Some(Box::new(VariadicKernel { isa: compiler.cpu.isa, op, is_mean })))
}

/// The operands of a run; the operand that the result overwrites in place is empty.
struct Operands<'a> {
    runs: &'a [Runs<1>],
    data: SmallVec<[Option<&'a [f32]>; FEW]>,
}

impl Operands<'_> {
    /// Calls `f` for operand `index` along `range` of the result, run by run, with the part of `y`,
    /// which starts where the range does.
    fn each(
        &self,
        index: usize,
        range: Range<usize>,
        y: &mut [f32],
        mut f: impl FnMut(&mut [f32], Operand<'_>),
    ) {
        let runs = &self.runs[index];
        let [walk] = runs.walks();
        let start = range.start;
        runs.for_each_within(range, |Range { start: at, end }, [from]| {
            let y = &mut y[at - start..end - start];
            let walk = (walk, runs.period());
            let operand = Operand::new(self.data[index], from, y.len(), walk);
            f(y, operand);
        });
    }
}

impl Kernel for VariadicKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let mut shape = Shape::new();
        for x in shapes {
            let wrong = || OpError::Shapes {
                what: "broadcasting",
                left: shape.to_vec(),
                right: x.to_vec(),
            };
            shape = broadcast(&shape, x).ok_or_else(wrong)?;
        }
        let runs = shapes.iter().map(|x| Ok(long(Runs::new(&shape, [*x])?)));
        let runs = runs.collect::<Result<_, KernelError>>()?;
        Ok(Prepared::new(State { shape, runs }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, runs } = prepared.state()?;
        let in_place = io.outputs[0].in_place_of();
        let data = (0..runs.len()).map(|i| match in_place == Some(i) {
            true => Ok(None),
            false => Ok(Some(io.inputs.tensor(i)?.as_slice::<f32>()?)),
        });
        let data = data.collect::<Result<_, KernelError>>()?;
        let (operands, first) = (Operands { runs, data }, in_place.unwrap_or(0));
        let y = TensorViewMut::into_slice(io.outputs[0].tensor(DType::F32, shape)?)?;
        Rows::ELEMENTS.for_each(io.threads, y, |start, y| {
            let mut combiner = Combiner::new(self.isa);
            for (i, y) in y.chunks_mut(PIECE).enumerate() {
                let at = start + i * PIECE;
                let range = at..at + y.len();
                operands.each(first, range.clone(), y, |y, x| x.write(y));
                for index in (0..runs.len()).filter(|&index| index != first) {
                    let held = Operand::InPlace;
                    let combine = |y: &mut [f32], x: Operand<'_>| match index < first {
                        true => combiner.run(self.op, y, x, held),
                        false => combiner.run(self.op, y, held, x),
                    };
                    operands.each(index, range.clone(), y, combine);
                }
                if self.is_mean {
                    vec::div_scalar(self.isa, y, runs.len() as f32);
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "variadic_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, floats, integers, ulps};

    const SHAPES: [&[&[usize]]; 9] = [
        &[&[2, 17]],
        &[&[0, 3]],
        &[&[5, 40], &[5, 40]],
        &[&[5, 40], &[40]],
        &[&[3, 1], &[1, 4], &[2, 1, 1]],
        &[&[2, 3, 7, 9, 16], &[1, 3, 1, 1, 16], &[2, 3, 7, 9, 16]],
        &[&[8], &[2, 30, 8], &[]],
        &[&[], &[]],
        &[&[1, 7, 13], &[3, 1, 1], &[1, 7, 13], &[13], &[1]],
    ];

    fn case(name: &'static str, shapes: &[&[usize]], values: fn(&[usize]) -> Tensor) -> Case {
        shapes.iter().fold(Case::new(name, 13), |case, shape| case.weight(values(shape)))
    }

    #[test]
    fn operands_are_combined_whatever_their_shapes() {
        for shapes in SHAPES {
            case("Max", shapes, floats).check(exact);
            case("Min", shapes, floats).check(exact);
            case("Sum", shapes, integers).check(exact);
            // The sum is exact, and rounded once when it is divided.
            case("Mean", shapes, integers).check(ulps(1));
        }
        // Large enough for several threads.
        let shapes: [&[usize]; 4] = [&[4, 200, 333], &[4, 1, 333], &[4, 200, 333], &[200, 1]];
        case("Sum", &shapes, integers).check(exact);
    }

    #[test]
    fn nan_wins_at_any_position() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let row = |elements: [f32; 4]| Tensor::from_slice(&[4], &elements).unwrap();
        for name in ["Max", "Min", "Sum"] {
            let case = Case::new(name, 13).input(row([nan, 1.0, inf, -0.0]));
            let case = case.input(row([2.0, nan, -inf, 0.0]));
            case.clone().check(exact);
            case.input(row([nan, 3.0, 5.0, 0.0])).check(exact);
        }
    }
}
