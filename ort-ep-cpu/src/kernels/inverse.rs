//! Inverse of every float type: threads share the matrices, which are inverted in f64 one by one. The order of operations
//! is that of `eval`.

use std::sync::atomic::{AtomicBool, Ordering};

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Task;
use ort_ops::infer::square_matrices;
use ort_ops::ops::microsoft::inverse::Inverse;
use ort_tensor::{DType, Number, Shape, go_on, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, numbers};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of a matrix and of each of its elements, in multiply-adds.
const MATRIX: usize = 512;
const ELEMENT: usize = 64;

#[derive(Debug)]
struct InverseKernel {
    cpu: Cpu,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    shape: Shape,
    /// Rows and columns.
    n: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype).filter(|dtype| dtype.is_float());
    let (Some(_), Some(dtype)) = (compiler.op::<Inverse>(), dtype) else { return Ok(None) };
    Ok(Some(Box::new(InverseKernel { cpu: compiler.cpu, dtype })))
}

impl Kernel for InverseKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let (_, n) = square_matrices(x)?;
        let scratch_bytes = self.cpu.scratch_bytes(n.saturating_mul(n).saturating_mul(4));
        Ok(Prepared::new(State { shape: x.into(), n }).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        with_dtype!(self.dtype, float,
            T => self.compute::<T>(state, io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "inverse")
    }
}

impl InverseKernel {
    fn compute<T: Number>(
        &self,
        &State { ref shape, n }: &State,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        let isa = self.cpu.isa;
        let len = n * n;
        let cost = len.saturating_mul(2 * n).saturating_add(len.saturating_mul(ELEMENT));
        let matrices = Rows { len, cost: cost.saturating_add(MATRIX) };
        let is_singular = AtomicBool::new(false);
        // A matrix and its inverse, in f32.
        let scratch = (&mut *io.scratch, 4 * len);
        matrices.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let scratch = numbers::<f64>(bytemuck::cast_slice_mut(scratch));
            let (a, inverse) = scratch[..2 * len].split_at_mut(len);
            for (y, x) in y.chunks_exact_mut(len).zip(x[start..].chunks_exact(len)) {
                a.iter_mut().zip(x).for_each(|(a, x)| *a = x.to_f64());
                if !isa.run(Elimination { a, inverse, n }) {
                    is_singular.store(true, Ordering::Relaxed);
                }
                y.iter_mut().zip(&*inverse).for_each(|(y, x)| *y = T::from_f64(*x));
            }
        });
        if is_singular.into_inner() {
            let what = "a matrix has no inverse";
            return Err(OpError::InputValue { index: 0, what }.into());
        }
        Ok(())
    }
}

/// The elimination of `a`, with partial pivoting; whether every column has a pivot.
struct Elimination<'a> {
    a: &'a mut [f64],
    inverse: &'a mut [f64],
    n: usize,
}

impl Task for Elimination<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let Self { a, inverse, n } = self;
        inverse.fill(0.0);
        for i in 0..n {
            inverse[i * n + i] = 1.0;
        }
        for k in 0..n {
            if go_on().is_err() {
                return true;
            }
            let mut pivot = k;
            for i in k + 1..n {
                let magnitude = a[i * n + k].abs();
                if magnitude.total_cmp(&a[pivot * n + k].abs()).is_ge() {
                    pivot = i;
                }
            }
            let divisor = a[pivot * n + k];
            if divisor == 0.0 {
                return false;
            }
            swap_rows(a, n, [k, pivot]);
            swap_rows(inverse, n, [k, pivot]);
            let (a_above, a_rest) = a.split_at_mut(k * n);
            let (inverse_above, inverse_rest) = inverse.split_at_mut(k * n);
            let (a_row, a_below) = a_rest.split_at_mut(n);
            let (inverse_row, inverse_below) = inverse_rest.split_at_mut(n);
            // Columns of `a` up to this one are no longer read.
            for x in &mut a_row[k + 1..] {
                *x /= divisor;
            }
            for x in &mut *inverse_row {
                *x /= divisor;
            }
            eliminate([a_above, inverse_above], [a_row, inverse_row], [n, k]);
            eliminate([a_below, inverse_below], [a_row, inverse_row], [n, k]);
        }
        true
    }
}

/// Exchanges two rows, the first of which is not below the second.
#[inline(always)]
fn swap_rows(x: &mut [f64], n: usize, [first, second]: [usize; 2]) {
    if first < second {
        let (above, below) = x.split_at_mut(second * n);
        above[first * n..][..n].swap_with_slice(&mut below[..n]);
    }
}

/// Subtracts from each row the multiple of the pivot's row that makes column `k` of `a` zero.
#[inline(always)]
fn eliminate([a, inverse]: [&mut [f64]; 2], [a_row, inverse_row]: [&[f64]; 2], [n, k]: [usize; 2]) {
    for (a, inverse) in a.chunks_exact_mut(n).zip(inverse.chunks_exact_mut(n)) {
        let factor = a[k];
        for (x, pivot) in a[k + 1..].iter_mut().zip(&a_row[k + 1..]) {
            *x -= factor * pivot;
        }
        for (x, pivot) in inverse.iter_mut().zip(inverse_row) {
            *x -= factor * pivot;
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::OpError;
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, exact};

    fn case(x: Tensor) -> Case {
        Case::new("Inverse", 1).domain("com.microsoft").input(x)
    }

    /// Matrices that have an inverse, one of them with NaN.
    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let number = |i: usize| match i {
            1501 => f64::NAN,
            _ => (i * i * 7919 % 251) as f64 / 64.0 - 1.9,
        };
        let numbers = (0..n).map(|i| T::from_f64(number(i)));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn inverses_are_those_of_eval() {
        let shapes: [&[usize]; 8] = [
            &[1, 1],
            &[5, 2, 2],
            &[2, 3, 3, 3],
            &[3000, 4, 4],
            &[20, 17, 17],
            &[3, 70, 70],
            &[2, 0, 0],
            &[0, 3, 3],
        ];
        for shape in shapes {
            case(numbers::<f32>(shape)).check(exact);
            case(numbers::<f64>(shape)).check(exact);
            case(numbers::<f16>(shape)).check(exact);
            case(numbers::<bf16>(shape)).check(exact);
        }
    }

    #[test]
    fn a_matrix_without_inverse_is_an_error() {
        let x = Tensor::from_slice(&[2, 2, 2], &[1.0_f32, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]);
        let what = "a matrix has no inverse";
        assert_eq!(case(x.unwrap()).error(), OpError::InputValue { index: 0, what }.into());
    }
}
