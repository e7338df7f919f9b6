//! Det of every float type: threads share the matrices, which are copied to f64 one by one.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_ops::infer::square_matrices;
use ort_ops::ops::det::{Det, determinant};
use ort_tensor::{DType, Number, Pace, Shape, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, numbers};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of a matrix and of each of its elements, in multiply-adds.
const MATRIX: usize = 512;
const ELEMENT: usize = 64;

#[derive(Debug)]
struct DetKernel {
    cpu: Cpu,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    /// The shape of the result.
    shape: Shape,
    /// Rows and columns.
    n: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype).filter(|dtype| dtype.is_float());
    let (Some(_), Some(dtype)) = (compiler.op::<Det>(), dtype) else { return Ok(None) };
    Ok(Some(Box::new(DetKernel { cpu: compiler.cpu, dtype })))
}

impl Kernel for DetKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let (batch, n) = square_matrices(x)?;
        let scratch_bytes = self.cpu.scratch_bytes(scratch_len(n));
        let shape = Shape::from_slice(batch);
        Ok(Prepared::new(State { shape, n }).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        with_dtype!(self.dtype, float,
            T => compute::<T>(state, io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        "det"
    }
}

/// Scratch for a matrix of f64, in f32.
fn scratch_len(n: usize) -> usize {
    n.saturating_mul(n).saturating_mul(2)
}

fn compute<T: Number>(
    &State { ref shape, n }: &State,
    io: &mut Io<'_, '_>,
) -> Result<(), KernelError> {
    let x = io.inputs.tensor(0)?.as_slice::<T>()?;
    let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
    // Products of existing elements do not overflow.
    let len = if x.is_empty() { 0 } else { n * n };
    let cost = len.saturating_mul(n).saturating_add(len.saturating_mul(ELEMENT));
    let matrices = Rows { len: 1, cost: cost.saturating_add(MATRIX) };
    let scratch = (&mut *io.scratch, 2 * len);
    matrices.for_each_with(io.threads, scratch, y, |start, y, scratch| {
        let (a, mut pace) = (numbers::<f64>(bytemuck::cast_slice_mut(scratch)), Pace::new());
        for (i, y) in (start..).zip(y) {
            let matrix = &x[i * len..][..len];
            a.iter_mut().zip(matrix).for_each(|(a, x)| *a = x.to_f64());
            let Ok(det) = determinant(a, n, &mut pace) else { return };
            *y = T::from_f64(det);
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, exact};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let numbers = (0..n).map(|i| T::from_f64((i * i * 7919 % 251) as f64 / 64.0 - 2.0));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn determinants_are_those_of_eval() {
        let shapes: [&[usize]; 9] = [
            &[1, 1],
            &[5, 2, 2],
            &[2, 3, 3, 3],
            &[5000, 4, 4],
            &[40, 17, 17],
            &[3, 40, 40],
            &[2, 0, 0],
            &[0, 3, 3],
            &[0, 0],
        ];
        for shape in shapes {
            let case = |x| Case::new("Det", 22).input(x);
            case(numbers::<f32>(shape)).check(exact);
            case(numbers::<f64>(shape)).check(exact);
            case(numbers::<f16>(shape)).check(exact);
            case(numbers::<bf16>(shape)).check(exact);
        }
    }
}
