//! CDist in f32 and f64: `|a − b|² = |a|² + |b|² − 2·a·b`, with a product of the matrices. Where that cancels, which is where
//! the distance is short beside the rows, or where it overflows, differences are squared instead:
//! ```text
//! y = A·Bᵀ
//! y[i][j] = |a[i]|² + |b[j]|² − 2·y[i][j]      if that is at least (|a[i]|² + |b[j]|²) / NEAR
//!           Σ (a[i][s] − b[j][s])²             else
//! ```
//! The relative error of a square is at most NEAR·(n + n/16 + 9) units of rounding for rows of n elements. Of short rows, all
//! differences are squared: that is as fast, and many of their distances are short. So are those of rows many of which cancel.

mod direct;

use std::ops::Sub;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Task;
use ort_kernels::gemm::Start;
use ort_ops::ops::microsoft::cdist::CDist;
use ort_tensor::{DType, Number, go_on};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, numbers};
use crate::pieces::Rows;
use crate::product::{Operands, Product, RightOperand};
use crate::summand::Summand;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// A square of a distance is sure unless it is this many times less than the squares of both lengths: a difference of
/// numbers so close loses three bits.
const NEAR: f64 = 8.0;
/// The elements of a short row, at most.
const SHORT: usize = 16;
/// Sums that are added up together.
const LANES: usize = 16;
/// Distances that are finished at once.
const PIECE: usize = 64;
/// Rows of distances of which one is tried.
const TRIED: usize = 8;
/// If more than one of this many cancel, all differences are squared: that is faster than one by one.
const MANY: usize = 4;

#[derive(Debug)]
struct CDistKernel {
    cpu: Cpu,
    op: CDist,
    dtype: DType,
}

/// Prepared state for one shape signature.
struct State {
    shape: [usize; 2],
    /// The length of a row.
    len: usize,
    /// Unless rows are short, the product of the first matrix and the second, transposed.
    product: Option<Product>,
    /// Scratch for the squares of the lengths of the second matrix's rows.
    norm_bytes: usize,
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
        let (m, n, len) = match (a, b) {
            (&[m, len], &[n, other]) if len == other => (m, n, len),
            _ => {
                let (left, right) = (a.to_vec(), b.to_vec());
                return Err(OpError::Shapes { what: "rows of two matrices", left, right }.into());
            }
        };
        if len <= SHORT {
            let scratch_bytes = self.cpu.scratch_bytes(2 * direct::panel_len(len));
            let state = State { shape: [m, n], len, product: None, norm_bytes: 0 };
            return Ok(Prepared::new(state).with_scratch(scratch_bytes));
        }
        // bounded: a constant
        let batch = [(1, 0, 0)].into_iter().collect();
        let (a, b) = ([len, 1], [1, len]);
        let mut product = Product { cpu: self.cpu, m, n, k: len, a, b, batch, is_exchanged: false };
        product.exchange_column();
        let (scratch_len, size) = match self.dtype {
            DType::F32 => (product.scratch_len_of::<f32>(), size_of::<f32>()),
            _ => (product.scratch_len_of::<f64>(), size_of::<f64>()),
        };
        // A whole number of cache lines, or a size that cannot be allocated.
        let norm_bytes = n.saturating_mul(size).min(usize::MAX >> 6).next_multiple_of(64);
        let scratch_len = scratch_len.max(2 * direct::panel_len(len));
        let scratch_bytes = self.cpu.scratch_bytes(scratch_len).saturating_add(norm_bytes);
        let state = State { shape: [m, n], len, product: Some(product), norm_bytes };
        Ok(Prepared::new(state).with_scratch(scratch_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state = prepared.state()?;
        match self.dtype {
            DType::F32 => self.compute::<f32>(state, io),
            _ => self.compute::<f64>(state, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "cdist")
    }
}

/// A float with square roots.
trait Real: Number + Summand + Sub<Output = Self> {
    /// The range of sums of squares that neither overflow nor lose numbers that count.
    const SAFE: (Self, Self);
    const ZERO: Self;
    const NAN: Self;

    fn plus(self, other: Self) -> Self;

    fn root(self) -> Self;
}

macro_rules! real {
    ($($ty:ty: $least:literal),*) => { $(
        impl Real for $ty {
            const SAFE: (Self, Self) = ($least, <$ty>::MAX / 8.0);
            const ZERO: Self = 0.0;
            const NAN: Self = <$ty>::NAN;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
        }
    )* };
}
real!(f32: 1e-30, f64: 1e-290);

impl CDistKernel {
    fn compute<T: Real>(&self, state: &State, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { shape: [_, n], len, ref product, norm_bytes } = state;
        let [a, b] = [io.inputs.tensor(0)?, io.inputs.tensor(1)?];
        let (a, b) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
        let y = io.outputs[0].tensor(<T as ort_tensor::Element>::DTYPE, &state.shape)?;
        let y = y.into_slice::<T>()?;
        if y.is_empty() {
            return Ok(());
        }
        let (isa, is_squared) = (self.cpu.isa, self.op.is_squared);
        let by_differences = |a, y: &mut [T], scratch: &mut [f32]| {
            let panel = numbers::<f64>(bytemuck::cast_slice_mut(scratch));
            isa.run(direct::Distances { a, b, size: [n, len], is_squared, panel, y });
        };
        let panel_len = 2 * direct::panel_len(len);
        let rows_of_a = |start: usize, y: &[T]| &a[start / n * len..][..y.len() / n * len];
        let Some(product) = product else {
            let rows = Rows { len: n, cost: n.saturating_mul(len.saturating_mul(4)) };
            let scratch = (&mut *io.scratch, panel_len);
            rows.for_each_with(io.threads, scratch, y, |start, y, scratch| {
                by_differences(rows_of_a(start, y), y, scratch);
            });
            return Ok(());
        };
        let (norms, scratch) = io.scratch.split_at_mut(norm_bytes);
        let operands = Operands {
            a,
            alpha: T::ONE,
            b: RightOperand::Plain(b),
            start: Start::Zero,
            epilogue: T::no_epilogue(),
        };
        product.run(&operands, y, (io.threads, scratch), |_| ());
        let norms = &mut numbers::<T>(norms)[..n];
        Rows { len: 1, cost: len }.for_each(io.threads, norms, |start, norms| {
            isa.run(Norms { b: &b[start * len..], len, norms });
        });
        let norms = &*norms;
        let cost = n.saturating_mul(4).saturating_add(len);
        let scratch = (scratch, panel_len);
        Rows { len: n, cost }.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let a = rows_of_a(start, y);
            if isa.run(Cancels { a, len, norms, y }) {
                by_differences(a, y, scratch);
            } else {
                isa.run(Distances { a, b, len, norms, is_squared, y });
            }
        });
        Ok(())
    }
}

/// The squares of the lengths of rows.
struct Norms<'a, T> {
    b: &'a [T],
    len: usize,
    norms: &'a mut [T],
}

impl<T: Real> Task for Norms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { b, len, norms } = self;
        for (i, norm) in norms.iter_mut().enumerate() {
            let b = &b[i * len..][..len];
            *norm = sum_of_squares::<T, FMA, false>(b, b);
        }
    }
}

/// Whether many distances are not sure, from the products in `y`.
struct Cancels<'a, T> {
    a: &'a [T],
    len: usize,
    norms: &'a [T],
    y: &'a [T],
}

impl<T: Real> Task for Cancels<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let Self { a, len, norms, y } = self;
        let (mut n_tried, mut n_unsure) = (0, 0);
        for (i, y) in y.chunks_exact(norms.len()).enumerate().step_by(TRIED) {
            let a = &a[i * len..][..len];
            let norm = sum_of_squares::<T, FMA, false>(a, a);
            for (y, norms) in y.chunks(PIECE).zip(norms.chunks(PIECE)) {
                let mut unsure = 0_u32;
                for (y, other) in y.iter().zip(norms) {
                    let total = norm.plus(*other);
                    unsure += u32::from(!is_sure(total - y.plus(*y), total));
                }
                n_unsure += unsure as usize;
            }
            n_tried += y.len();
        }
        n_unsure > n_tried / MANY
    }
}

/// The distances between all rows of `a` and of `b`, whose products `y` contains.
struct Distances<'a, T> {
    a: &'a [T],
    b: &'a [T],
    /// The length of a row.
    len: usize,
    /// The squares of the lengths of `b`.
    norms: &'a [T],
    is_squared: bool,
    y: &'a mut [T],
}

impl<T: Real> Task for Distances<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { a, b, len, norms, is_squared, y } = self;
        for (i, y) in y.chunks_exact_mut(norms.len()).enumerate() {
            let a = &a[i * len..][..len];
            let norm = sum_of_squares::<T, FMA, false>(a, a);
            let pieces = y.chunks_mut(PIECE).zip(norms.chunks(PIECE)).enumerate();
            for (piece, (y, norms)) in pieces {
                if go_on().is_err() {
                    return;
                }
                let mut n_unsure = 0_u32;
                for (y, other) in y.iter_mut().zip(norms) {
                    let total = norm.plus(*other);
                    let square = total - y.plus(*y);
                    let is_sure = is_sure(square, total);
                    n_unsure += u32::from(!is_sure);
                    *y = if is_sure { square } else { T::NAN };
                }
                if !is_squared {
                    for y in y.iter_mut() {
                        *y = y.root();
                    }
                }
                if n_unsure > 0 {
                    let b = &b[piece * PIECE * len..][..y.len() * len];
                    replace::<T, FMA>(a, b, is_squared, y);
                }
            }
        }
    }
}

/// Whether `square = total − 2·product` is far from cancelling, and from the limits of the type. False for NaN.
#[inline(always)]
fn is_sure<T: Real>(square: T, total: T) -> bool {
    (square.times(T::from_f64(NEAR)) >= total) & (total > T::SAFE.0) & (total < T::SAFE.1)
}

/// Computes the distances that are NaN from differences.
#[inline(always)]
fn replace<T: Real, const FMA: bool>(a: &[T], b: &[T], is_squared: bool, y: &mut [T]) {
    for (i, y) in y.iter_mut().enumerate() {
        if !y.to_f64().is_nan() {
            continue;
        }
        let b = &b[i * a.len()..][..a.len()];
        let square = sum_of_squares::<T, FMA, true>(a, b);
        if (square > T::SAFE.0) & (square < T::SAFE.1) {
            *y = if is_squared { square } else { square.root() };
            continue;
        }
        let mut square = 0.0;
        for (a, b) in a.iter().zip(b) {
            let difference = a.to_f64() - b.to_f64();
            square += difference * difference;
        }
        *y = T::from_f64(if is_squared { square } else { square.sqrt() });
    }
}

/// `Σ (a[i] − b[i])²` or, unless `IS_DIFFERENCE`, `Σ a[i]²`: in [`LANES`] sums, which are then added in pairs.
#[inline(always)]
fn sum_of_squares<T: Real, const FMA: bool, const IS_DIFFERENCE: bool>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for s in 0..LANES {
            let x = if IS_DIFFERENCE { a[s] - b[s] } else { a[s] };
            sums[s] = T::mul_add::<FMA>(x, x, sums[s]);
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        let x = if IS_DIFFERENCE { *a - *b } else { *a };
        *sum = T::mul_add::<FMA>(x, x, *sum);
    }
    for width in [8, 4, 2, 1] {
        for s in 0..width {
            sums[s] = sums[s].plus(sums[s + width]);
        }
    }
    sums[0]
}

#[cfg(test)]
mod tests;
