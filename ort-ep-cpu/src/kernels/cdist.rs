//! CDist in f32 and f64: threads share the rows of the distances. Rows of the second matrix are transposed to panels, and
//! two rows of the first are compared with a panel at a time. Sums are in f64.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Task;
use ort_ops::ops::microsoft::cdist::CDist;
use ort_tensor::{DType, Number, go_on, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, numbers};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Rows that are compared with a panel at a time.
const ROWS: usize = 2;
/// Rows of a panel.
const NR: usize = 16;

#[derive(Debug)]
struct CDistKernel {
    cpu: Cpu,
    op: CDist,
    dtype: DType,
}

/// Prepared state for one shape signature: the rows of both operands, and their length.
struct State {
    rows: [usize; 2],
    len: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let dtype = dtype.filter(|dtype| matches!(dtype, DType::F32 | DType::F64));
    let (Some(&op), Some(dtype)) = (compiler.op::<CDist>(), dtype) else { return Ok(None) };
    Ok(Some(Box::new(CDistKernel { cpu: compiler.cpu, op, dtype })))
}

impl Kernel for CDistKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        match (a, b) {
            (&[m, len], &[k, other]) if len == other => {
                let scratch_bytes = self.cpu.scratch_bytes(panel_len(len));
                Ok(Prepared::new(State { rows: [m, k], len }).with_scratch(scratch_bytes))
            }
            _ => {
                let (left, right) = (a.to_vec(), b.to_vec());
                Err(OpError::Shapes { what: "rows of two matrices", left, right }.into())
            }
        }
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        with_dtype!(self.dtype, [f32, f64],
            T => self.compute::<T>(state, io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "cdist")
    }
}

/// Scratch for a panel of f64, in f32.
const fn panel_len(len: usize) -> usize {
    len.saturating_mul(2 * NR)
}

impl CDistKernel {
    fn compute<T: Number>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { rows: [m, k], len } = state;
        let [a, b] = [io.inputs.tensor(0)?, io.inputs.tensor(1)?];
        let (a, b) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
        let y = io.outputs[0].tensor(T::DTYPE, &[m, k])?.into_slice::<T>()?;
        let (isa, is_squared) = (self.cpu.isa, self.op.is_squared);
        let rows = Rows { len: k, cost: k.saturating_mul(len.saturating_mul(4)) };
        let scratch = (&mut *io.scratch, panel_len(len));
        rows.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let panel = numbers::<f64>(bytemuck::cast_slice_mut(scratch));
            let a = &a[start / k * len..][..y.len() / k * len];
            isa.run(Distances { a, b, size: [k, len], is_squared, panel, y });
        });
        Ok(())
    }
}

/// The distances between all rows of `a` and of `b`.
struct Distances<'a, T> {
    a: &'a [T],
    b: &'a [T],
    /// The rows of `b`, and the length of a row.
    size: [usize; 2],
    is_squared: bool,
    /// `[len][NR]`
    panel: &'a mut [f64],
    y: &'a mut [T],
}

impl<T: Number> Task for Distances<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, b, size: [k, len], is_squared, panel, y } = self;
        let (panel, _) = panel.as_chunks_mut::<NR>();
        let panel = &mut panel[..len];
        let (m, mut sums) = (y.len() / k, [[0.0; NR]; ROWS]);
        for first in (0..k).step_by(NR) {
            if go_on().is_err() {
                return;
            }
            let n = NR.min(k - first);
            transpose(&b[first * len..][..n * len], panel);
            for i in (0..m).step_by(ROWS) {
                let last = (i + ROWS - 1).min(m - 1);
                let rows = [&a[i * len..][..len], &a[last * len..][..len]];
                if i == last {
                    squares::<T, FMA, 1>(rows, panel, &mut sums);
                } else {
                    squares::<T, FMA, ROWS>(rows, panel, &mut sums);
                }
                for row in i..=last {
                    let y = &mut y[row * k + first..][..n];
                    for (y, sum) in y.iter_mut().zip(&sums[row - i]) {
                        *y = T::from_f64(if is_squared { *sum } else { sum.sqrt() });
                    }
                }
            }
        }
    }
}

/// `panel[i][s] = b[s][i]`; rows beyond the last are the last.
#[inline(always)]
fn transpose<T: Number>(b: &[T], panel: &mut [[f64; NR]]) {
    let len = panel.len();
    for (i, to) in panel.iter_mut().enumerate() {
        let last = b.len() / len - 1;
        for (s, to) in to.iter_mut().enumerate() {
            *to = b[s.min(last) * len + i].to_f64();
        }
    }
}

/// `sums[r][s] = Σ (rows[r][i] − panel[i][s])²` for the first `R` rows, in ascending `i`.
#[inline(always)]
fn squares<T: Number, const FMA: bool, const R: usize>(
    [first, second]: [&[T]; ROWS],
    panel: &[[f64; NR]],
    sums: &mut [[f64; NR]; ROWS],
) {
    let (mut first_sums, mut second_sums) = ([0.0; NR], [0.0; NR]);
    for ((x, other), panel) in first.iter().zip(second).zip(panel) {
        let (x, other) = (x.to_f64(), other.to_f64());
        for s in 0..NR {
            first_sums[s] = step::<FMA>(first_sums[s], x - panel[s]);
            if R > 1 {
                second_sums[s] = step::<FMA>(second_sums[s], other - panel[s]);
            }
        }
    }
    *sums = [first_sums, second_sums];
}

/// `sum + difference²`
#[inline(always)]
fn step<const FMA: bool>(sum: f64, difference: f64) -> f64 {
    if FMA { difference.mul_add(difference, sum) } else { sum + difference * difference }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, n_elements};

    use crate::case::{Case, relative};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let number = |i: usize| match i {
            1501 => f64::NAN,
            1777 => f64::INFINITY,
            _ => (i * 7919 % 251) as f64 / 8.0,
        };
        let numbers: Vec<T> = (0..n).map(|i| T::from_f64(number(i + n))).collect();
        Tensor::from_slice(shape, &numbers).unwrap()
    }

    #[test]
    fn distances_are_those_of_eval() {
        let sizes =
            [[1, 1, 1], [3, 5, 17], [7, 130, 64], [100, 900, 33], [2, 3, 0], [0, 3, 2], [3, 0, 2]];
        for [m, k, n] in sizes {
            for metric in ["euclidean", "sqeuclidean"] {
                let case = Case::new("CDist", 1).domain("com.microsoft");
                let case = case.attr("metric", Attr::String(metric.into()));
                let check = |a, b, error| case.clone().input(a).input(b).check(relative(error));
                let (a, b) = ([m, n], [k, n]);
                check(numbers::<f32>(&a), numbers::<f32>(&b), 1.2e-7);
                check(numbers::<f64>(&a), numbers::<f64>(&b), 1e-14);
            }
        }
    }
}
