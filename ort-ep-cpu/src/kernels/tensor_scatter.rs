//! TensorScatter into a cache that is updated in place: only the new elements are written. Otherwise it runs the
//! operator's own `eval`.

use ort_ep::{Extension, Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::tensor_scatter::TensorScatter;
use ort_tensor::{Output, Shape};
use smallvec::SmallVec;

use super::{Compiled, Compiler, KernelDef};
use crate::extended::eval_extended;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct TensorScatterKernel {
    op: TensorScatter,
    extension: Option<Extension>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<TensorScatter>() else { return Ok(None) };
    let fact = compiler.fact(0);
    let has_bytes = fact.and_then(Fact::dtype).is_some_and(|dtype| dtype.word_bytes().is_some());
    let rank = fact.and_then(Fact::rank).filter(|_| has_bytes);
    let axis = rank.and_then(|rank| normalize_axis(op.axis, rank).ok());
    // A circular cache writes over entries that count: a run that fails could not give them back.
    let extension =
        axis.filter(|_| !op.is_circular).map(|axis| Extension { input: 0, output: 0, axis });
    Ok(Some(Box::new(TensorScatterKernel { op, extension })))
}

impl Kernel for TensorScatterKernel {
    fn run(&self, _: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Some(cache) = io.outputs[0].to_extend() else {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        };
        if cache.shape() != cache.with_room().shape() {
            return eval_extended(&self.op, self.extension.as_slice(), &[], io);
        }
        let (dtype, shape) = (cache.dtype(), Shape::from_slice(cache.shape()));
        let (view, _) = io.outputs[0].extended(dtype, &shape)?;
        Ok(self.op.eval(io.inputs, &mut [Output::in_place(view, 0)])?)
    }

    fn extensions(&self) -> SmallVec<[Extension; 2]> {
        // bounded: one at most
        self.extension.into_iter().collect()
    }
}
