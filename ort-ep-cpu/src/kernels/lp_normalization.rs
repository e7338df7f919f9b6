//! LpNormalization in f32 and f64: norms in f64, of contiguous lanes one by one, of other lanes together.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_kernels::vec::{Block, FoldOf, fold_columns_of, fold_rows_of};
use ort_kernels::{Isa, Task};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::lp_normalization::LpNormalization;
use ort_tensor::{DType, Number, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::lanes::Lanes;
use crate::pieces::{Rows, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Norms computed at a time.
const WIDTH: usize = 128;
/// The cost of an element, in multiply-adds.
const COST: usize = 16;

#[derive(Debug)]
struct LpNormalizationKernel {
    isa: Isa,
    op: LpNormalization,
    dtype: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&op), Some(dtype)) =
        (compiler.op::<LpNormalization>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let isa = compiler.cpu.isa;
    let kernel = || Box::new(LpNormalizationKernel { isa, op, dtype }) as Box<dyn Kernel>;
    Ok(matches!(dtype, DType::F32 | DType::F64).then(kernel))
}

impl Kernel for LpNormalizationKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        Ok(Prepared::new(Lanes::along(x, axis)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &lanes: &Lanes = prepared.state()?;
        if lanes.are_too_long() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        with_dtype!(self.dtype, [f32, f64], T => match self.op.is_l1 {
            true => self.compute::<T, _>(SumOfMagnitudes, lanes, io),
            false => self.compute::<T, _>(SumOfSquares, lanes, io),
        }, else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "lp_normalization")
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct SumOfMagnitudes;
#[derive(Clone, Copy, Default)]
pub(super) struct SumOfSquares;

macro_rules! sums {
    ($($name:ident: |$x:ident| $term:expr;)*) => { $(
        impl<T: Number> FoldOf<T> for $name {
            type Sum = f64;

            const START: f64 = 0.0;

            #[inline(always)]
            fn step(sum: f64, x: T) -> f64 {
                let $x = x.to_f64();
                sum + $term
            }

            #[inline(always)]
            fn join(a: f64, b: f64) -> f64 {
                a + b
            }
        }
    )* };
}
sums! {
    SumOfMagnitudes: |x| x.abs();
    SumOfSquares: |x| x * x;
}

impl LpNormalizationKernel {
    fn compute<T: Number, F: FoldOf<T, Sum = f64> + Sync>(
        &self,
        fold: F,
        Lanes { len, inner }: Lanes,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(T::DTYPE, x.shape())?.into_slice::<T>()?;
        let x = x.as_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        let block = len.checked_mul(inner).ok_or(OpError::TooLarge)?;
        let rows = Rows { len: block, cost: block.saturating_mul(COST) };
        rows.for_each(io.threads, y, |start, y| {
            let x = &x[start..][..y.len()];
            if inner == 1 {
                return normalize_rows(self.isa, fold, (x, y, len), |sums| self.invert(sums));
            }
            let mut factors = [0.0; WIDTH];
            for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
                for first in wanted((0..inner).step_by(WIDTH)) {
                    let factors = &mut factors[..WIDTH.min(inner - first)];
                    let (x, y, width) = (&x[first..], &mut y[first..], factors.len());
                    let block = Block { x, n: [1, len], strides: [0, inner], len: width };
                    fold_columns_of(self.isa, fold, block, factors);
                    self.invert(factors);
                    self.isa.run(ScaledColumns { x, y, stride: inner, factors });
                }
            }
        });
        Ok(())
    }

    /// Replaces sums by reciprocals of norms; for a norm of 0, 0.
    fn invert(&self, sums: &mut [f64]) {
        for sum in sums {
            let norm = if self.op.is_l1 { *sum } else { sum.sqrt() };
            *sum = if norm == 0.0 { 0.0 } else { 1.0 / norm };
        }
    }
}

/// Scales rows of `len` elements by what `invert` makes of their folds.
pub(super) fn normalize_rows<X: Number, Y: Number, F: FoldOf<X, Sum = f64>>(
    isa: Isa,
    fold: F,
    (x, y, len): (&[X], &mut [Y], usize),
    invert: impl Fn(&mut [f64]),
) {
    let mut factors = [0.0; WIDTH];
    for (x, y) in x.chunks(len * WIDTH).zip(y.chunks_mut(len * WIDTH)) {
        let factors = &mut factors[..y.len() / len];
        fold_rows_of(isa, fold, x, factors);
        invert(factors);
        isa.run(ScaledRows { x, y, factors });
    }
}

/// `y[i, j] = x[i, j]·factors[i]`.
struct ScaledRows<'a, X, Y> {
    x: &'a [X],
    y: &'a mut [Y],
    factors: &'a [f64],
}

impl<X: Number, Y: Number> Task for ScaledRows<'_, X, Y> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let len = self.x.len() / self.factors.len().max(1);
        for (i, &factor) in self.factors.iter().enumerate() {
            let (x, y) = (&self.x[i * len..][..len], &mut self.y[i * len..][..len]);
            for (y, x) in y.iter_mut().zip(x) {
                *y = Y::from_f64(x.to_f64() * factor);
            }
        }
    }
}

/// `y[i, j] = x[i, j]·factors[j]`, rows being `stride` apart.
struct ScaledColumns<'a, T> {
    x: &'a [T],
    y: &'a mut [T],
    stride: usize,
    factors: &'a [f64],
}

impl<T: Number> Task for ScaledColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (x, y) in self.x.chunks(self.stride).zip(self.y.chunks_mut(self.stride)) {
            for ((y, x), factor) in y.iter_mut().zip(x).zip(self.factors) {
                *y = T::from_f64(x.to_f64() * factor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, relative};

    /// Includes lanes of zeros and lanes whose squares overflow f32.
    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let number = |i: usize| match i % 911 {
            0..40 => 0.0,
            40..60 => 1e30,
            60..80 => 1e-30,
            _ => (i * 7919 % 113) as f64 - 56.0,
        };
        let elements: Vec<T> =
            (0..n_elements(shape).unwrap()).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(shape, &elements).unwrap()
    }

    #[test]
    fn lanes_are_divided_by_their_norm() {
        let shapes: [&[usize]; 6] =
            [&[1], &[3, 10], &[700, 64], &[2, 5, 130], &[40, 0], &[2, 1001, 300]];
        for (p, shape) in [1, 2].into_iter().flat_map(|p| shapes.map(|shape| (p, shape))) {
            for axis in 0..shape.len() {
                let axis = Attr::Int(i64::try_from(axis).unwrap());
                let case = Case::new("LpNormalization", 22).attr("p", Attr::Int(p));
                let case = || case.clone().attr("axis", axis.clone());
                case().input(numbers::<f32>(shape)).check(relative(1.2e-7));
                case().input(numbers::<f64>(shape)).check(relative(1e-14));
                case().input(numbers::<f16>(shape)).check(relative(1e-3));
                case().input(numbers::<bf16>(shape)).check(relative(8e-3));
            }
        }
    }
}
