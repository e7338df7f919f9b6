//! ReduceSum, ReduceMean and ReduceMax in f32 over adjacent axes.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::vec;
use ort_ops::infer::normalize_axes;
use ort_ops::ops::reduce::{Form, Reduce};
use ort_tensor::{DType, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One reduction over the dimensions `first..end`.
#[derive(Clone, Copy, Debug)]
struct ReduceKernel {
    cpu: Cpu,
    form: Form,
    first: usize,
    end: usize,
    keeps_dims: bool,
}

/// `[…, len, inner]` of which `len` goes.
struct State {
    shape: Shape,
    len: usize,
    inner: usize,
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let kernel = compiler.op::<Reduce>().and_then(|op| kernel(compiler, op));
    Ok(kernel.map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
}

fn kernel(compiler: &Compiler<'_>, op: &Reduce) -> Option<ReduceKernel> {
    let (rank, cpu) = (compiler.fact(0)?.rank()?, compiler.cpu);
    let axes = match compiler.fact(1) {
        Some(axes) if op.has_axes_input => axes.ints()?,
        _ => op.axes.clone().unwrap_or_default(),
    };
    let axes = match axes.as_slice() {
        [] if op.no_axes_is_none => return None,
        [] => (0..rank).collect(),
        axes => normalize_axes(axes, rank).ok()?,
    };
    let (&first, &last) = (axes.first()?, axes.last()?);
    let is_adjacent = last - first + 1 == axes.len();
    let is_f32 = compiler.fact(0)?.dtype() == Some(DType::F32);
    let has_kernel = match op.form {
        Form::Sum | Form::Mean => true,
        Form::Max => last + 1 == rank,
        _ => false,
    };
    (is_adjacent && is_f32 && has_kernel).then_some(ReduceKernel {
        cpu,
        form: op.form,
        first,
        end: last + 1,
        keeps_dims: op.keeps_dims,
    })
}

impl ReduceKernel {
    /// A block of `len` rows to one row.
    fn block(&self, len: usize, x: &[f32], y: &mut [f32]) {
        let isa = self.cpu.isa;
        match (self.form, &mut *y) {
            (Form::Max, [y]) => *y = vec::max(isa, x),
            (_, [y]) => *y = vec::sum(isa, x),
            (_, y) => {
                y.fill(0.0);
                x.chunks_exact(y.len()).for_each(|x| vec::add(isa, y, x));
            }
        }
        // The mean of nothing is 0.
        if self.form == Form::Mean && len > 0 {
            vec::div_scalar(isa, y, len as f32);
        }
    }
}

impl Kernel for ReduceKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let x = shapes.first().copied().unwrap_or_default();
        let (Some(joined), Some(inner)) = (x.get(self.first..self.end), x.get(self.end..)) else {
            return Err(KernelError::ForeignState);
        };
        let ones = if self.keeps_dims { joined.len() } else { 0 };
        let shape = x[..self.first].iter().copied().chain(std::iter::repeat_n(1, ones));
        let shape = shape.chain(inner.iter().copied()).collect();
        let (len, inner) = (joined.iter().product(), inner.iter().product());
        Ok(Prepared::new(State { shape, len, inner }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { ref shape, len, inner } = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let n_blocks = y.len() / inner;
        let n_parts = n_parts(io.threads, x.len().saturating_mul(2)).min(n_blocks);
        let per_part = n_blocks.div_ceil(n_parts);
        let team = Team::new(io.threads, n_parts);
        team.run(y.chunks_mut(per_part * inner).enumerate(), |(i, y), _| {
            for (j, y) in y.chunks_exact_mut(inner).enumerate() {
                let at = (i * per_part + j) * len * inner;
                self.block(len, &x[at..at + len * inner], y);
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "reduce_f32")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, exact, integers};

    #[test]
    fn adjacent_axes_of_small_integers_reduce_exactly() {
        let shapes: [(&[usize], &[i64]); 10] = [
            (&[7], &[0]),
            (&[3, 65], &[-1]),
            (&[3, 65], &[0]),
            (&[2, 3, 4, 5], &[2, 3]),
            (&[2, 3, 4, 5], &[1, 2]),
            (&[2, 3, 4, 5], &[]),
            (&[300, 400], &[1]),
            (&[4, 60, 300], &[1]),
            (&[2, 0], &[0]),
            (&[0, 2], &[1]),
        ];
        for (shape, axes) in shapes {
            for keeps in [0, 1] {
                for name in ["ReduceSum", "ReduceMean", "ReduceMax"] {
                    let is_last = axes.iter().all(|&axis| axis != 0 || shape.len() == 1)
                        && axes.first() != Some(&1)
                        || shape.len() == 2 && axes == [1];
                    if name == "ReduceMax" && !is_last {
                        continue;
                    }
                    let case = Case::new(name, if name == "ReduceSum" { 13 } else { 18 });
                    let axes = Tensor::from_slice(&[axes.len()], axes).unwrap();
                    let case = case.attr("keepdims", Attr::Int(keeps)).input(integers(shape));
                    case.constant(axes).check(exact);
                }
            }
        }
    }
}
