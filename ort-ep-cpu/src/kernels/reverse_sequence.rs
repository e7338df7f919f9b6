//! ReverseSequence of elements of any width, on all threads: runs of the input in another order.

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::ops::reverse_sequence::ReverseSequence;
use ort_tensor::{DType, Shape, TensorViewMut, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::places::Runs;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ReverseSequenceKernel {
    time_axis: usize,
    dtype: DType,
    /// Bytes per element.
    width: usize,
    /// Reports which length or shape is invalid.
    eval: Arc<dyn Operator>,
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    /// Bytes per run: all axes but the first two.
    run: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let ([id], Some(op)) = (&compiler.claim.nodes[..], compiler.op::<ReverseSequence>()) else {
        return Ok(None);
    };
    let Some(dtype) = compiler.fact(0).and_then(Fact::dtype) else { return Ok(None) };
    let eval = compiler.graph.node(*id).op.clone();
    let time_axis = op.time_axis;
    let kernel = |width| ReverseSequenceKernel { time_axis, dtype, width, eval };
    Ok(dtype.word_bytes().map(|width| Box::new(kernel(width)) as Box<dyn Kernel>))
}

impl Kernel for ReverseSequenceKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, lens] = shapes else { return Err(KernelError::ForeignState) };
        let fits = x.len() >= 2 && lens == &x[1 - self.time_axis..][..1];
        let run = x.get(2..).filter(|_| fits).and_then(n_elements);
        let run = run.and_then(|n| n.checked_mul(self.width));
        Ok(Prepared::new(run.map(|run| State { shape: Shape::from_slice(x), run })))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Option<State> = prepared.state()?;
        let is_valid = state.as_ref().map_or(Ok(false), |state| self.reverse(state, io))?;
        if is_valid { Ok(()) } else { Ok(self.eval.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "reverse_sequence"
    }
}

impl ReverseSequenceKernel {
    /// Returns whether every length is in range.
    fn reverse(
        &self,
        State { shape, run }: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<bool, KernelError> {
        let x = io.inputs.tensor(0)?.as_bytes().ok_or(KernelError::ForeignState)?;
        let lens = io.inputs.tensor(1)?.as_slice::<i64>()?;
        let y = io.outputs[0].tensor(self.dtype, shape)?;
        let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
        let n_times = shape[self.time_axis];
        let fits = |len: &i64| usize::try_from(*len).is_ok_and(|len| len <= n_times);
        if y.is_empty() || !lens.iter().all(fits) {
            return Ok(false);
        }
        // Entry `time` of sequence `b`.
        let entry = |time: usize, b: usize| {
            // `fits` has checked the lengths.
            let len = usize::try_from(lens[b]).unwrap_or(0);
            if time < len { len - 1 - time } else { time }
        };
        let (columns, is_time_first) = (shape[1], self.time_axis == 0);
        let runs = Runs { threads: io.threads, len: *run };
        Ok(runs.gather(x, y, |first, places| {
            let (mut row, mut column) = (first / columns, first % columns);
            for place in places {
                let (from_row, from_column) = match is_time_first {
                    true => (entry(row, column), column),
                    false => (row, entry(column, row)),
                };
                *place = (from_row * columns + from_column) * run;
                column += 1;
                if column == columns {
                    (row, column) = (row + 1, 0);
                }
            }
            true
        }))
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16};

    use crate::case::{Case, bytes, exact, floats};

    fn lens(n: usize, n_times: usize) -> Tensor {
        let lens = (0..n).map(|i| i64::try_from(i * 7919 % (n_times + 1)).unwrap());
        Tensor::from_slice(&[n], &lens.collect::<Vec<_>>()).unwrap()
    }

    fn case(time_axis: i64) -> Case {
        let case = Case::new("ReverseSequence", 10).attr("time_axis", Attr::Int(time_axis));
        case.attr("batch_axis", Attr::Int(1 - time_axis))
    }

    #[test]
    fn the_beginning_of_each_sequence_is_reversed() {
        let shapes: [&[usize]; 6] =
            [&[5, 3], &[3, 4, 2], &[2, 0, 3], &[1, 1], &[300, 90, 3], &[64, 513, 16]];
        for shape in shapes {
            for (time_axis, n, n_times) in [(0, shape[1], shape[0]), (1, shape[0], shape[1])] {
                for x in [
                    bytes(shape, |byte| byte),
                    bytes(shape, f16::from),
                    floats(shape),
                    bytes(shape, i64::from),
                ] {
                    case(time_axis).input(x).input(lens(n, n_times)).check(exact);
                }
            }
        }
    }

    #[test]
    fn a_length_beyond_the_sequence_is_an_error() {
        for len in [4_i64, -1] {
            let lens = Tensor::from_slice(&[2], &[1, len]).unwrap();
            let error = case(0).input(floats(&[3, 2])).input(lens).error();
            assert!(error.to_string().contains("a length is not"), "{error}");
        }
        let error = case(0).input(floats(&[3, 2])).input(lens(3, 3)).error();
        assert!(error.to_string().contains("the batch"), "{error}");
    }
}
