//! ArgMax and ArgMin in f32 along lanes that are contiguous: the extreme of a lane in vectors, then where
//! it is. Other lanes are left to the operator.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Operator;
use ort_kernels::Isa;
use ort_kernels::vec::{self, Fold};
use ort_ops::ops::argmax::ArgMax;
use ort_tensor::{DType, Shape, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts, per_part};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// What an element costs, in multiply-adds, and a lane beside its elements.
const COST: usize = 8;
const LANE: usize = 128;

#[derive(Debug)]
struct ArgMaxKernel {
    isa: Isa,
    op: ArgMax,
}

/// What a shape signature makes of it.
struct State {
    /// The shape of the result.
    shape: Shape,
    /// The elements of a lane; `None` if only `eval` can do it.
    len: Option<usize>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<ArgMax>().filter(|_| compiler.are_f32(0..1)) else {
        return Ok(None);
    };
    Ok(Some(Box::new(ArgMaxKernel { isa: compiler.cpu.isa, op })))
}

impl ArgMaxKernel {
    /// The index of the extreme of a lane; of NaN, if there is one.
    fn index(&self, lane: &[f32]) -> i64 {
        let how = if self.op.is_max { Fold::Max } else { Fold::Min };
        let extreme = vec::fold_row(self.isa, how, lane);
        let is_it = |x: &f32| *x == extreme || (x.is_nan() && extreme.is_nan());
        let index = match self.op.selects_last {
            true => lane.iter().rposition(is_it),
            false => lane.iter().position(is_it),
        };
        index.and_then(|index| i64::try_from(index).ok()).unwrap_or(0)
    }
}

impl Kernel for ArgMaxKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let (axis, shape) = self.op.reduced(x)?;
        let is_contiguous = n_elements(&x[axis + 1..]) == Some(1) && !x.contains(&0);
        Ok(Prepared::new(State { shape, len: is_contiguous.then_some(x[axis]) }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, len } = prepared.state()?;
        let &Some(len) = len else { return Ok(self.op.eval(io.inputs, io.outputs)?) };
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y = io.outputs[0].tensor(DType::I64, shape)?.into_slice::<i64>()?;
        let cost = len.saturating_mul(COST).saturating_add(LANE);
        let n_parts = n_parts(io.threads, y.len().saturating_mul(cost));
        let per_part = per_part(io.threads, y.len(), n_parts);
        let parts = x.chunks(per_part * len).zip(y.chunks_mut(per_part));
        Team::new(io.threads, parts.len()).run(parts, |(x, y), _| {
            for (lane, y) in x.chunks_exact(len).zip(y) {
                *y = self.index(lane);
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "arg_max_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, integers};

    #[test]
    fn lanes_give_the_index_that_the_operator_gives() {
        for name in ["ArgMax", "ArgMin"] {
            for (keepdims, last) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let case = |axis| {
                    Case::new(name, 13)
                        .attr("axis", Attr::Int(axis))
                        .attr("keepdims", Attr::Int(keepdims))
                        .attr("select_last_index", Attr::Int(last))
                };
                for shape in [&[3, 70][..], &[7, 1], &[2, 5, 130], &[1, 4, 60, 1]] {
                    case(-1).input(integers(shape)).check(exact);
                    case(1).input(integers(shape)).check(exact);
                }
                // Shared by threads.
                case(1).input(integers(&[3000, 150])).check(exact);
                let x = [1.0, f32::NAN, 2.0, f32::NAN, 0.0, -0.0, f32::NEG_INFINITY, -0.0];
                case(1).input(Tensor::from_slice(&[2, 4], &x).unwrap()).check(exact);
            }
        }
    }
}
