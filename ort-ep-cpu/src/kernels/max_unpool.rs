//! MaxUnpool without an explicit output shape, in floats of any width, on all threads: each clears a piece of the
//! result, and then writes the elements whose indices are in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::ops::max_unpool::MaxUnpool;
use ort_tensor::{DType, Shape, Word};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};
use crate::pieces::{PIECE, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an index and of a result, in multiply-adds: 0.7 ns, and 0.2 ns.
const INDEX: usize = 64;
const RESULT: usize = 16;
/// Results cleared between two checks for cancellation.
const CLEARED: usize = 1 << 18;

#[derive(Debug)]
struct MaxUnpoolKernel {
    op: MaxUnpool,
    dtype: DType,
    /// Reports which index or shape is invalid.
    eval: Arc<dyn Operator>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    // With an explicit output shape, the indices refer to another shape.
    let op = compiler.op::<MaxUnpool>().filter(|_| compiler.fact(2).is_none());
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(op), Some(dtype)) = (op.cloned(), dtype) else { return Ok(None) };
    let eval = compiler.graph.node(id).op.clone();
    Ok(Some(Box::new(MaxUnpoolKernel { op, dtype, eval })))
}

impl Kernel for MaxUnpoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, indices, ..] = shapes else { return Err(KernelError::ForeignState) };
        // Empty or mismatched shapes are left to the operator.
        let fits = x == indices && !x.contains(&0);
        Ok(Prepared::new(if fits { Some(self.op.unpooled(x)?) } else { None }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let shape: &Option<Shape> = prepared.state()?;
        let is_valid = match (shape, self.dtype.word_bytes()) {
            (Some(shape), Some(2)) => self.unpool::<u16>(shape, io)?,
            (Some(shape), Some(4)) => self.unpool::<u32>(shape, io)?,
            (Some(shape), Some(8)) => self.unpool::<u64>(shape, io)?,
            _ => false,
        };
        if is_valid { Ok(()) } else { Ok(self.eval.eval(io.inputs, io.outputs)?) }
    }

    fn variant(&self) -> &'static str {
        "max_unpool"
    }
}

impl MaxUnpoolKernel {
    /// Returns whether every index is in range.
    fn unpool<W: Word>(&self, shape: &[usize], io: &mut Io<'_, '_>) -> Result<bool, KernelError> {
        let x = io.inputs.tensor(0)?.as_words::<W>()?;
        let indices = io.inputs.tensor(1)?.as_slice::<i64>()?;
        let y = io.outputs[0].tensor(self.dtype, shape)?.into_words::<W>()?;
        let n = y.len();
        let cost = x.len().saturating_mul(INDEX).saturating_add(n.saturating_mul(RESULT));
        // Each part reads all indices.
        let n_parts = n_parts(io.threads, cost).min(io.threads.count());
        let len = n.div_ceil(n_parts).max(1);
        let is_invalid = AtomicBool::new(false);
        Team::new(io.threads, n_parts).run(y.chunks_mut(len).enumerate(), |(i, y), _| {
            wanted(y.chunks_mut(CLEARED)).for_each(|y| y.fill(W::default()));
            for (x, indices) in wanted(x.chunks(PIECE).zip(indices.chunks(PIECE))) {
                let mut fits = true;
                for (x, &index) in x.iter().zip(indices) {
                    // A negative index becomes one beyond the end.
                    let index = usize::try_from(index.cast_unsigned()).unwrap_or(usize::MAX);
                    fits &= index < n;
                    if let Some(y) = y.get_mut(index.wrapping_sub(i * len)) {
                        *y = *x;
                    }
                }
                if !fits {
                    return is_invalid.store(true, Ordering::Relaxed);
                }
            }
        });
        Ok(!is_invalid.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, f16, n_elements};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn pooled_elements_return_to_their_places() {
        for shape in [&[1, 2, 3, 5][..], &[2, 3, 1, 1], &[1, 30, 70, 90], &[1, 0, 2, 2]] {
            let unpooled: usize = shape[..2].iter().chain(&[2 * shape[2], 2 * shape[3]]).product();
            let n = n_elements(shape).unwrap();
            let at = (0..n).map(|i| i64::try_from(i * 7919 % unpooled).unwrap());
            let indices = Tensor::from_slice(shape, &at.collect::<Vec<_>>()).unwrap();
            for x in [floats(shape), bytes(shape, f16::from), bytes(shape, f64::from)] {
                let case = Case::new("MaxUnpool", 22).attr("kernel_shape", Attr::Ints(vec![2, 2]));
                let case = case.attr("strides", Attr::Ints(vec![2, 2])).input(x);
                case.input(indices.clone()).check(exact);
            }
        }
    }

    #[test]
    fn an_index_out_of_range_is_reported() {
        let case = |index: i64| {
            let case = Case::new("MaxUnpool", 22).attr("kernel_shape", Attr::Ints(vec![2]));
            let index = Tensor::from_slice(&[1, 1, 1], &[index]).unwrap();
            case.input(floats(&[1, 1, 1])).input(index)
        };
        assert_eq!(case(1).variant(), "max_unpool");
        for index in [-1, 2, i64::MAX, i64::MIN] {
            let error = case(index).error().to_string();
            assert!(error.contains("indices of MaxUnpool"), "{error}");
        }
    }
}
