//! CDist in f32 and f64: threads share the distances, and a row is compared with several others at a time. Sums are in f64.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::{Isa, Task};
use ort_ops::ops::microsoft::cdist::CDist;
use ort_tensor::{DType, Number, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Rows that are compared with one.
const ROWS: usize = 4;
/// Partial sums of a distance.
const LANES: usize = 8;

#[derive(Debug)]
struct CDistKernel {
    isa: Isa,
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
    Ok(Some(Box::new(CDistKernel { isa: compiler.cpu.isa, op, dtype })))
}

impl Kernel for CDistKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[a, b] = shapes else { return Err(KernelError::ForeignState) };
        match (a, b) {
            (&[m, len], &[k, other]) if len == other => {
                Ok(Prepared::new(State { rows: [m, k], len }))
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
        named!(self.isa => "cdist")
    }
}

impl CDistKernel {
    fn compute<T: Number>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { rows: [m, k], len } = state;
        let [a, b] = [io.inputs.tensor(0)?, io.inputs.tensor(1)?];
        let (a, b) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
        let y = io.outputs[0].tensor(T::DTYPE, &[m, k])?.into_slice::<T>()?;
        let distances = Rows { len: 1, cost: len.saturating_add(LANES) };
        distances.for_each(io.threads, y, |mut start, mut y| {
            while !y.is_empty() {
                let (row, column) = (start / k, start % k);
                let (now, rest) = y.split_at_mut(y.len().min(k - column));
                start += now.len();
                let (a, b) = (&a[row * len..][..len], &b[column * len..][..now.len() * len]);
                self.isa.run(Distances { a, b, is_squared: self.op.is_squared, y: now });
                y = rest;
            }
        });
        Ok(())
    }
}

/// `y[i]` is the distance between `a` and row `i` of `b`.
struct Distances<'a, T> {
    a: &'a [T],
    b: &'a [T],
    is_squared: bool,
    y: &'a mut [T],
}

impl<T: Number> Task for Distances<'_, T> {
    type Output = ();
    const IS_WIDE: bool = true;

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, b, is_squared, y } = self;
        let root = |sum: f64| T::from_f64(if is_squared { sum } else { sum.sqrt() });
        let row = |i: usize| &b[i * a.len()..][..a.len()];
        let (groups, rest) = y.as_chunks_mut::<ROWS>();
        let n = groups.len() * ROWS;
        for (i, group) in groups.iter_mut().enumerate() {
            let sums = squares::<T, ROWS, FMA>(a, std::array::from_fn(|j| row(i * ROWS + j)));
            for j in 0..ROWS {
                group[j] = root(sums[j]);
            }
        }
        for (i, y) in rest.iter_mut().enumerate() {
            let [sum] = squares::<T, 1, FMA>(a, [row(n + i)]);
            *y = root(sum);
        }
    }
}

/// `Σ (a[i] − b[j][i])²` for each row `j`.
#[inline(always)]
fn squares<T: Number, const N: usize, const FMA: bool>(a: &[T], b: [&[T]; N]) -> [f64; N] {
    let mut sums = [[0.0_f64; LANES]; N];
    let step = |sum: f64, a: T, b: T| {
        let difference = a.to_f64() - b.to_f64();
        if FMA { difference.mul_add(difference, sum) } else { sum + difference * difference }
    };
    let (chunks, rest) = a.as_chunks::<LANES>();
    let n = chunks.len();
    let b = b.map(|b| b.as_chunks::<LANES>());
    for (i, a) in chunks.iter().enumerate() {
        for j in 0..N {
            for lane in 0..LANES {
                sums[j][lane] = step(sums[j][lane], a[lane], b[j].0[..n][i][lane]);
            }
        }
    }
    for j in 0..N {
        for (lane, a) in rest.iter().enumerate() {
            sums[j][lane] = step(sums[j][lane], *a, b[j].1[lane]);
        }
    }
    sums.map(|sums| {
        let quarters: [f64; 4] = std::array::from_fn(|i| sums[i] + sums[i + 4]);
        (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
    })
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, relative};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let number = |i: usize| if i == 1501 { f64::NAN } else { (i * 7919 % 251) as f64 / 8.0 };
        let numbers: Vec<T> = (0..n).map(|i| T::from_f64(number(i + n))).collect();
        Tensor::from_slice(shape, &numbers).unwrap()
    }

    #[test]
    fn distances_are_those_of_eval() {
        for [m, k, n] in [[1, 1, 1], [3, 5, 17], [7, 130, 64], [1, 9000, 33], [2, 3, 0], [0, 3, 2]]
        {
            for metric in ["euclidean", "sqeuclidean"] {
                let case = Case::new("CDist", 1).domain("com.microsoft");
                let case = case.attr("metric", Attr::String(metric.into()));
                let check = |a, b, error| case.clone().input(a).input(b).check(relative(error));
                let (a, b) = ([m, n], [k, n]);
                check(numbers::<f32>(&a), numbers::<f32>(&b), 1.2e-7);
                check(numbers::<f64>(&a), numbers::<f64>(&b), 1e-14);
                check(numbers::<f16>(&a), numbers::<f16>(&b), 1e-3);
                check(numbers::<bf16>(&a), numbers::<bf16>(&b), 8e-3);
            }
        }
    }
}
