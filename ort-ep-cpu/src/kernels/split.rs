//! Split of any element type of whole bytes, on all threads: the positions of the parts are computed once per
//! shape, and their rows are copied.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::OpError;
use ort_ops::infer::{int_values, normalize_axis};
use ort_ops::ops::split::Split;
use ort_tensor::{DType, Shape, TensorError, TensorViewMut, n_elements};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of copying a byte, in multiply-adds: 0.01 ns.
const BYTE: usize = 1;

#[derive(Debug)]
struct SplitKernel {
    op: Split,
    /// The lengths of the parts, if they are not equal.
    lengths: Option<Vec<i64>>,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    parts: SmallVec<[Part; 4]>,
    /// Bytes of the input for each index of the axes before the split one.
    row_bytes: usize,
}

/// An output: bytes `start..start + n_bytes` of each row.
struct Part {
    shape: Shape,
    start: usize,
    n_bytes: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Split>().cloned() else { return Ok(None) };
    let dtype =
        compiler.fact(0).and_then(|x| x.dtype()).filter(|dtype| dtype.word_bytes().is_some());
    let lengths = match (compiler.fact(1), compiler.constant(1)) {
        (Some(_), None) => return Ok(None),
        (_, Some(lengths)) => Some(int_values(lengths.view()).map_err(OpError::from)?),
        (None, None) => op.split.clone(),
    };
    Ok(dtype.map(|dtype| Box::new(SplitKernel { op, lengths, dtype }) as Box<dyn Kernel>))
}

impl Kernel for SplitKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(TensorError::MissingInput { index: 0 }.into()) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        let lengths = self.op.lengths(x[axis], self.lengths.as_deref())?;
        let n_bytes = |shape: &[usize]| {
            let n_bytes = n_elements(shape).and_then(|n| self.dtype.n_bytes(n));
            n_bytes.ok_or(OpError::TooLarge)
        };
        let row_bytes = n_bytes(&x[axis..])?;
        let (mut parts, mut start) = (SmallVec::new(), 0);
        for length in lengths {
            let mut shape = Shape::from_slice(x);
            shape[axis] = length;
            let n_bytes = n_bytes(&shape[axis..])?;
            parts.push(Part { shape, start, n_bytes });
            start += n_bytes;
        }
        Ok(Prepared::new(State { parts, row_bytes }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { parts, row_bytes } = prepared.state()?;
        let x = io.inputs.tensor(0)?;
        let x = x.as_bytes().ok_or(KernelError::ForeignState)?;
        for (part, output) in parts.iter().zip(io.outputs.iter_mut()) {
            let y = match output.is_wanted() {
                true => output.tensor(self.dtype, &part.shape)?,
                false => continue,
            };
            let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
            if y.is_empty() {
                continue;
            }
            let n_parts = n_parts(io.threads, y.len() * BYTE);
            let n_rows = (y.len() / part.n_bytes).div_ceil(n_parts);
            let team = Team::new(io.threads, n_parts);
            let pieces = y.chunks_mut(n_rows * part.n_bytes).zip(x.chunks(n_rows * row_bytes));
            team.run(pieces, |(y, x), _| {
                for (y, x) in y.chunks_exact_mut(part.n_bytes).zip(x.chunks_exact(*row_bytes)) {
                    y.copy_from_slice(&x[part.start..][..part.n_bytes]);
                }
            });
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "split"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn parts_are_rows_of_the_input() {
        let cases: [(&[usize], i64, &[i64]); 8] = [
            (&[1, 480], 1, &[160, 160, 160]),
            (&[7], 0, &[0, 3, 4]),
            (&[3, 5, 7], 1, &[1, 4]),
            (&[3, 5, 7], -1, &[2, 2, 3]),
            (&[0, 4], 1, &[1, 3]),
            (&[4, 0], 0, &[1, 3]),
            // Large enough for several threads.
            (&[300, 641], 1, &[640, 1]),
            (&[1500, 30, 10], 0, &[1, 1499]),
        ];
        for (shape, axis, lengths) in cases {
            for x in [floats(shape), bytes(shape, |bits| bits)] {
                let lengths = Tensor::from_slice(&[lengths.len()], lengths).unwrap();
                let case = Case::new("Split", 13).attr("axis", Attr::Int(axis)).input(x);
                case.outputs(lengths.shape()[0]).constant(lengths).check(exact);
            }
        }
        // Equal parts, one of them unused.
        let case = Case::new("Split", 18).input(floats(&[3, 10])).attr("axis", Attr::Int(1));
        case.attr("num_outputs", Attr::Int(3)).outputs(3).unwanted(&[1]).check(exact);
    }
}
