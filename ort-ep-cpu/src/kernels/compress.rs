//! Compress of elements of any width, on all threads: copies the runs of the input whose condition is true.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::compress::Compress;
use ort_tensor::{Bool, DType, Shape, TensorViewMut, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};
use crate::places::{BYTE, PLACE, compress};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct CompressKernel {
    op: Compress,
    dtype: DType,
    /// Bytes per element.
    width: usize,
}

/// Prepared state for one shape signature: the input is `n_groups` times `n` runs, each with a condition.
struct State {
    /// The shape of the input, or of the flattened input.
    shape: Shape,
    axis: usize,
    n_groups: usize,
    n: usize,
    /// Bytes per run.
    run: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(&op), Some(dtype)) = (compiler.op::<Compress>(), dtype) else { return Ok(None) };
    let kernel = |width| Box::new(CompressKernel { op, dtype, width }) as Box<dyn Kernel>;
    Ok(dtype.word_bytes().map(kernel))
}

impl Kernel for CompressKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, _] = shapes else { return Err(KernelError::ForeignState) };
        let n_elements = |dims: &[usize]| n_elements(dims).ok_or(OpError::TooLarge);
        let (shape, axis) = match self.op.axis {
            Some(axis) => (Shape::from_slice(x), normalize_axis(axis, x.len())?),
            None => (Shape::from_slice(&[n_elements(x)?]), 0),
        };
        let (n_groups, n) = (n_elements(&shape[..axis])?, shape[axis]);
        let run = n_elements(&shape[axis + 1..])?.checked_mul(self.width);
        let run = run.ok_or(OpError::TooLarge)?;
        Ok(Prepared::new(State { shape, axis, n_groups, n, run }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { ref shape, axis, n_groups, n, run } = prepared.state()?;
        let x = io.inputs.tensor(0)?.as_bytes().ok_or(KernelError::ForeignState)?;
        let flags = io.inputs.tensor(1)?.as_slice::<Bool>()?;
        let flags = &flags[..flags.len().min(n)];
        let mut shape = shape.clone();
        shape[axis] = n_true(flags);
        let y = io.outputs[0].tensor(self.dtype, &shape)?;
        let y = TensorViewMut::into_bytes(y).ok_or(KernelError::ForeignState)?;
        if y.is_empty() {
            return Ok(());
        }
        let cost = (n_groups * flags.len()).saturating_mul(PLACE);
        let n_parts = n_parts(io.threads, cost.saturating_add(y.len().saturating_mul(BYTE)));
        // Parts of a single group are ranges of its flags.
        let (groups, per_part) = match n_groups {
            1 => (1, flags.len().div_ceil(n_parts)),
            _ => (n_groups.div_ceil(n_parts), flags.len()),
        };
        let firsts = (0..n_groups).step_by(groups);
        let firsts =
            firsts.flat_map(|group| (0..flags.len()).step_by(per_part).map(move |i| (group, i)));
        let mut rest = y;
        let parts = firsts.map(|(group, first)| {
            let flags = &flags[first..flags.len().min(first + per_part)];
            let n_bytes = groups.min(n_groups - group) * n_true(flags) * run;
            let y = rest.split_off_mut(..n_bytes).unwrap_or_default();
            (&x[(group * n + first) * run..], flags, y)
        });
        Team::new(io.threads, n_parts).run(parts, |(x, flags, y), _| {
            let n_bytes = n_true(flags) * run;
            for (x, y) in x.chunks(n * run).zip(y.chunks_exact_mut(n_bytes.max(1))) {
                compress(run, x, flags, y);
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "compress"
    }
}

fn n_true(flags: &[Bool]) -> usize {
    // Counts of bytes, which many lanes add up.
    let n_of = |flags: &[Bool]| flags.iter().map(|flag| u8::from(flag.get())).sum::<u8>();
    flags.chunks(128).map(|flags| usize::from(n_of(flags))).sum()
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, Tensor, f16};

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn true_conditions_select() {
        let cases: [(&[usize], Option<i64>, usize); 9] = [
            (&[20], Some(0), 20),
            (&[4, 5], None, 17),
            (&[4, 5], Some(-1), 7),
            (&[7, 3], Some(0), 3),
            (&[7, 3], Some(0), 0),
            (&[2, 0, 3], Some(1), 5),
            (&[3, 30, 2, 9], Some(1), 30),
            // Large enough for several threads.
            (&[500, 700], None, 350_000),
            (&[300, 90, 11], Some(1), 90),
        ];
        for (shape, axis, n) in cases {
            let flags = (0..n).map(|i| (i * i % 7 < 3).into()).collect::<Vec<Bool>>();
            let flags = Tensor::from_slice(&[n], &flags).unwrap();
            for x in [
                bytes(shape, |byte| byte),
                bytes(shape, f16::from),
                floats(shape),
                bytes(shape, i64::from),
            ] {
                let case = Case::new("Compress", 9).input(x).input(flags.clone());
                axis.iter()
                    .fold(case, |case, &axis| case.attr("axis", Attr::Int(axis)))
                    .check(exact);
            }
        }
    }
}
