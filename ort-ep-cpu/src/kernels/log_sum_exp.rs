//! ReduceLogSumExp of every type but 16-bit floats over any axes, in f64. Distances of integers from their maximum are integers,
//! whose exponentials are looked up.

use std::sync::Arc;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::Isa;
use ort_kernels::vec::{
    Block, FunctionF64, MAX_COLUMNS, fold_block, fold_rows_of, log_sum_exp, log_sum_exp_of_columns,
    map_f64,
};
use ort_ops::ops::reduce::{Form, Reduce};
use ort_tensor::{DType, Number, can_end, with_dtype};

use super::folds::{Greatest, Plan, State, Sum, Summed};
use super::reduce::Axes;
use super::{Compiled, Compiler, KernelDef};
use crate::lanes::MAX_ELEMENTS;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, and the overhead per result, in multiply-adds.
const COST: usize = 64;
const RESULT: usize = 512;

/// The maximum length of short rows, and how many of their elements are computed together.
const SHORT: usize = 64;
const TILE: usize = 256;

/// The number of table entries: `e⁻ⁱ` is zero from 746 on.
const N_POWERS: usize = 747;

#[derive(Debug)]
struct LogSumExpKernel {
    isa: Isa,
    /// `e⁻ⁱ`.
    powers: Box<[f64; N_POWERS]>,
    dtype: DType,
    axes: Axes,
    keeps_dims: bool,
    /// Computes reductions with more axes than are supported here, and of empty operands.
    op: Arc<dyn Operator>,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let op = compiler.op::<Reduce>().filter(|op| op.form == Form::LogSumExp);
    let (Some(op), Some(dtype)) = (op, compiler.fact(0).and_then(Fact::dtype)) else {
        return Ok(None);
    };
    let is_half = matches!(dtype, DType::F16 | DType::Bf16);
    let Some(axes) = Axes::of_reduce(compiler, op).filter(|_| !is_half) else { return Ok(None) };
    let [id] = compiler.claim.nodes[..] else { return Ok(None) };
    let (isa, keeps_dims) = (compiler.cpu.isa, op.keeps_dims);
    let op = compiler.graph.node(id).op.clone();
    let mut powers = Box::new(std::array::from_fn(|i| -(i as f64)));
    map_f64(isa, FunctionF64::Exp, None, &mut powers[..]);
    Ok(Some(Box::new(LogSumExpKernel { isa, powers, dtype, axes, keeps_dims, op })))
}

impl Kernel for LogSumExpKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, ..] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(State::new(&self.axes, self.keeps_dims, x)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, plan }: &State = prepared.state()?;
        // A sum cannot be interrupted here: cancellable runs leave long ones to `eval`, which checks for cancellation.
        let plan = plan.as_ref().filter(|plan| plan.n <= MAX_ELEMENTS || !can_end());
        let Some(plan) = plan else { return Ok(self.op.eval(io.inputs, io.outputs)?) };
        with_dtype!(self.dtype, [f32, f64, i32, i64, u32, u64],
            T => self.compute::<T>((shape, plan), io), else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "log_sum_exp")
    }
}

impl LogSumExpKernel {
    fn compute<T: Below>(
        &self,
        (shape, plan): (&[usize], &Plan),
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        let widen = |x: T| Number::to_f64(x);
        let &Plan { last, is_last_reduced, n, .. } = plan;
        if is_last_reduced {
            let rows = Rows { len: 1, cost: n.saturating_mul(COST).saturating_add(RESULT) };
            rows.for_each(io.threads, y, |start, y| {
                if plan.has_rows() && last <= SHORT {
                    return self.short_rows(&x[start * last..][..y.len() * last], y);
                }
                for (i, y) in (start..).zip(y) {
                    let block = plan.block(x, plan.start(i), last);
                    *y = <T as Number>::from_f64(match T::IS_INTEGER {
                        true => self.of_integers(block),
                        false => log_sum_exp(self.isa, block, widen),
                    });
                }
            });
            return Ok(());
        }
        let len = MAX_COLUMNS.min(last);
        let rows = Rows { len, cost: n.saturating_mul(COST * len).saturating_add(RESULT) };
        rows.for_each(io.threads, y, |start, y| {
            let mut sums = [0.0; MAX_COLUMNS];
            plan.for_each_piece(start, y, MAX_COLUMNS, |from, y| {
                let (block, sums) = (plan.block(x, from, y.len()), &mut sums[..y.len()]);
                log_sum_exp_of_columns(self.isa, block, widen, sums);
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = <T as Number>::from_f64(*sum));
            });
        });
        Ok(())
    }

    /// `ln Σ eˣ` of all elements of a block of integers.
    fn of_integers<T: Below>(&self, block: Block<'_, T>) -> f64 {
        const LANES: usize = 4;
        let Block { x, n, strides, len } = block;
        let greatest = T::narrow(fold_block(self.isa, Greatest, block));
        let power = |x: T| self.powers[x.below(greatest).min(N_POWERS - 1)];
        let mut sums = [0.0; LANES];
        let rows = (0..n[0]).flat_map(|i| (0..n[1]).map(move |j| i * strides[0] + j * strides[1]));
        for row in rows.map(|start| &x[start..start + len]) {
            let (chunks, rest) = row.as_chunks::<LANES>();
            for chunk in chunks {
                for i in 0..LANES {
                    sums[i] += power(chunk[i]);
                }
            }
            sums[0] += rest.iter().map(|x| power(*x)).sum::<f64>();
        }
        Number::to_f64(greatest) + sums.iter().sum::<f64>().ln()
    }

    /// Contiguous rows, one per element of `y`: their exponentials are computed together.
    fn short_rows<T: Below>(&self, x: &[T], y: &mut [T]) {
        let len = x.len() / y.len().max(1);
        let n_rows = (TILE / len.max(1)).max(1);
        for (x, y) in x.chunks(n_rows * len).zip(y.chunks_mut(n_rows)) {
            let (mut greatest, mut sums, mut tile) = ([T::LOWEST; TILE], [0.0; TILE], [0.0; TILE]);
            let (greatest, sums) = (&mut greatest[..y.len()], &mut sums[..y.len()]);
            let tile = &mut tile[..x.len()];
            fold_rows_of(self.isa, Greatest, x, greatest);
            for (i, greatest) in greatest.iter().enumerate() {
                let shift = finite(T::narrow(*greatest));
                let range = i * len..(i + 1) * len;
                for (power, x) in tile[range.clone()].iter_mut().zip(&x[range]) {
                    *power = Number::to_f64(*x) - shift;
                }
            }
            map_f64(self.isa, FunctionF64::Exp, None, tile);
            fold_rows_of(self.isa, Sum, tile, sums);
            map_f64(self.isa, FunctionF64::Ln, None, sums);
            for ((y, sum), greatest) in y.iter_mut().zip(&*sums).zip(greatest) {
                *y = <T as Number>::from_f64(finite(T::narrow(*greatest)) + sum);
            }
        }
    }
}

/// The subtrahend of exponents: infinity or NaN would make all of them NaN.
fn finite<T: Number>(greatest: T) -> f64 {
    let greatest = greatest.to_f64();
    if greatest.is_finite() { greatest } else { 0.0 }
}

/// An element, and its distance from the maximum.
trait Below: Summed + Number {
    const IS_INTEGER: bool;

    /// `greatest − self` of integers.
    fn below(self, greatest: Self) -> usize;
}

macro_rules! below {
    ($is_integer:literal: $($ty:ty),*; |$x:ident, $greatest:ident| $below:expr) => { $(
        impl Below for $ty {
            const IS_INTEGER: bool = $is_integer;

            #[inline(always)]
            fn below(self, $greatest: Self) -> usize {
                let $x = self;
                $below
            }
        }
    )* };
}
below!(true: i32, i64, u32, u64;
    |x, greatest| usize::try_from(greatest.abs_diff(x)).unwrap_or(usize::MAX));
below!(false: f32, f64; |_x, _greatest| 0);

#[cfg(test)]
mod tests {
    use ort_tensor::{DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, exact, relative};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let number = |i: usize| (i * 7919 % 13) as f64 - 6.0;
        Tensor::from_slice(shape, &(0..n).map(|i| T::from_f64(number(i))).collect::<Vec<_>>())
            .unwrap()
    }

    #[test]
    fn every_type_equals_the_operator() {
        let shapes: [&[usize]; 4] = [&[3, 4, 5, 6], &[2, 3, 70, 2], &[2, 0, 3, 1], &[3, 1, 2, 401]];
        let axes: [&[i64]; 7] = [&[0], &[3], &[-1, 1], &[0, 2], &[0, 1, 2, 3], &[2, 3], &[]];
        let integers = [DType::I32, DType::I64, DType::U32, DType::U64];
        let floats = [DType::F32, DType::F64, DType::F16, DType::Bf16];
        for dtype in floats.iter().chain(&integers) {
            for (shape, axes) in shapes.iter().flat_map(|shape| axes.map(|axes| (shape, axes))) {
                let x = with_dtype!(*dtype, number, T => numbers::<T>(shape), else => panic!());
                let axes = Tensor::from_slice(&[axes.len()], axes).unwrap();
                let case = Case::new("ReduceLogSumExp", 18).input(x).constant(axes);
                match dtype {
                    DType::F64 => case.check(relative(1e-14)),
                    DType::F32 => case.check(relative(1e-7)),
                    DType::F16 => case.check(relative(1e-3)),
                    DType::Bf16 => case.check(relative(8e-3)),
                    _ => case.check(exact),
                }
            }
        }
    }
}
