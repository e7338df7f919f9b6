//! Normalizer for features of every type: norms in f64.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::Fact;
use ort_kernels::Isa;
use ort_kernels::vec::FoldOf;
use ort_ops::features::n_samples_and_features;
use ort_ops::ops::ml::normalizer::{Norm, Normalizer};
use ort_tensor::{DType, Number, bf16, f16, with_dtype};

use super::lp_normalization::{SumOfMagnitudes, SumOfSquares, normalize_rows};
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds.
const COST: usize = 16;

#[derive(Debug)]
struct NormalizerKernel {
    isa: Isa,
    norm: Norm,
    dtype: DType,
}

/// Prepared state for one shape signature: the features of a sample.
struct State {
    len: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&Normalizer { norm }), Some(dtype)) =
        (compiler.op::<Normalizer>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    Ok(Some(Box::new(NormalizerKernel { isa: compiler.cpu.isa, norm, dtype })))
}

impl Kernel for NormalizerKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let [_, len] = n_samples_and_features(x)?;
        Ok(Prepared::new(State { len }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { len } = prepared.state()?;
        with_dtype!(self.dtype, [f32, f64, f16, bf16, i32, i64], T => match self.norm {
            Norm::L1 => self.compute::<T, _>(SumOfMagnitudes, len, io),
            Norm::L2 => self.compute::<T, _>(SumOfSquares, len, io),
            Norm::Max => self.compute::<T, _>(Greatest, len, io),
        }, else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "normalizer")
    }
}

/// The greatest element, −∞ if there is none. NaN is ignored.
#[derive(Clone, Copy, Default)]
struct Greatest;

impl<T: Number> FoldOf<T> for Greatest {
    type Sum = f64;

    const START: f64 = f64::NEG_INFINITY;

    #[inline(always)]
    fn step(sum: f64, x: T) -> f64 {
        <Self as FoldOf<T>>::join(sum, x.to_f64())
    }

    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        if b > a { b } else { a }
    }
}

impl NormalizerKernel {
    fn compute<T: Number, F: FoldOf<T, Sum = f64> + Sync>(
        &self,
        fold: F,
        len: usize,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        let x = x.as_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        Rows { len, cost: len.saturating_mul(COST) }.for_each(io.threads, y, |start, y| {
            let x = &x[start..][..y.len()];
            normalize_rows(self.isa, fold, (x, y, len), |folds| self.invert(folds));
        });
        Ok(())
    }

    /// Replaces folds by reciprocals of norms; for a norm of 0, 1.
    fn invert(&self, folds: &mut [f64]) {
        for fold in folds {
            let norm = if self.norm == Norm::L2 { fold.sqrt() } else { *fold };
            *fold = if norm == 0.0 { 1.0 } else { 1.0 / norm };
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, bf16, f16};

    use crate::case::{Case, relative};

    /// Includes rows of zeros, rows of negative numbers, and, of floats, NaN.
    fn numbers<T: Number>(n: usize, len: usize, nan: f64) -> Tensor {
        let number = |i: usize| match (i / len.max(1) % 5, i % 97) {
            (0, _) => 0.0,
            (_, 96) => nan,
            (1, at) => -1.0 - at as f64,
            (_, at) => at as f64 - 40.0,
        };
        let elements: Vec<T> = (0..n * len).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(&[n, len], &elements).unwrap()
    }

    #[test]
    fn samples_are_divided_by_their_norm() {
        for norm in ["MAX", "L1", "L2"] {
            for (n, len) in [(1, 1), (7, 20), (300, 3), (2, 1000), (0, 4)] {
                let case = Case::new("Normalizer", 1).domain("ai.onnx.ml");
                let case = || case.clone().attr("norm", Attr::String(norm.to_owned()));
                let close = || relative(1.2e-7);
                case().input(numbers::<f32>(n, len, f64::NAN)).check(close());
                case().input(numbers::<f64>(n, len, f64::NAN)).check(close());
                case().input(numbers::<f16>(n, len, f64::NAN)).check(close());
                case().input(numbers::<bf16>(n, len, f64::NAN)).check(close());
                case().input(numbers::<i32>(n, len, 7.0)).check(close());
                case().input(numbers::<i64>(n, len, 7.0)).check(close());
            }
        }
    }
}
