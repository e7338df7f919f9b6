//! CumSum and CumProd along any axis: adjacent lanes are accumulated together, row by row, in f64
//! for floats and in the type itself for integers, which wrap.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::{Isa, Task};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::infer::normalize_axis;
use ort_ops::ops::cumulative::{Cumulative, Fold};
use ort_tensor::{DType, Element, Number, Pace, Shape, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Team;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds.
const COST: usize = 24;

#[derive(Debug)]
struct CumulativeKernel {
    isa: Isa,
    op: Cumulative,
    dtype: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (Some(&op), Some(dtype)) =
        (compiler.op::<Cumulative>(), compiler.fact(0).and_then(Fact::dtype))
    else {
        return Ok(None);
    };
    let takes = matches!(
        dtype,
        DType::F32 | DType::F64 | DType::I32 | DType::I64 | DType::U32 | DType::U64
    );
    let isa = compiler.cpu.isa;
    Ok(takes.then(|| Box::new(CumulativeKernel { isa, op, dtype }) as Box<dyn Kernel>))
}

impl Kernel for CumulativeKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, _] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Shape::from_slice(x)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let shape: &Shape = prepared.state()?;
        let axis = io.inputs.tensor(1)?;
        let axis = match axis.dtype() {
            DType::I32 => axis.as_slice::<i32>()?.first().map(|axis| i64::from(*axis)),
            _ => axis.as_slice::<i64>()?.first().copied(),
        };
        let axis = axis.ok_or(OpError::InputValue { index: 1, what: "no axis" })?;
        let axis = normalize_axis(axis, shape.len())?;
        match self.dtype {
            DType::F32 => self.compute::<f32>((shape, axis), io),
            DType::F64 => self.compute::<f64>((shape, axis), io),
            DType::I32 => self.compute::<i32>((shape, axis), io),
            DType::I64 => self.compute::<i64>((shape, axis), io),
            DType::U32 => self.compute::<u32>((shape, axis), io),
            _ => self.compute::<u64>((shape, axis), io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "cumulative")
    }
}

impl CumulativeKernel {
    fn compute<T: Running>(
        &self,
        (shape, axis): (&[usize], usize),
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let inner = n_elements(&shape[axis + 1..]).ok_or(OpError::TooLarge)?;
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, shape)?.into_slice::<T>()?;
        let block = shape[axis] * inner;
        if block == 0 {
            return Ok(());
        }
        let parts = x.chunks_exact(block).zip(y.chunks_exact_mut(block));
        let cost = x.len().saturating_mul(COST);
        Team::new(io.threads, parts.len()).if_worth(cost).run(parts, |(x, y), _| {
            self.isa.run(Lanes { op: self.op, x, y, inner });
        });
        Ok(())
    }
}

/// An element and its accumulator type.
trait Running: Element {
    type Sum: Arithmetic;

    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
}

macro_rules! running {
    ($($ty:ty => $sum:ty),*) => { $(
        impl Running for $ty {
            type Sum = $sum;

            #[inline(always)]
            fn widen(self) -> $sum { <$sum>::from(self) }
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast,
                reason = "rounding is intended")]
            fn narrow(sum: $sum) -> Self { sum as $ty }
        }
    )* };
}
running!(f32 => f64, f64 => f64, i32 => i32, i64 => i64, u32 => u32, u64 => u64);

/// Adjacent lanes: `[n, inner]`.
struct Lanes<'a, T> {
    op: Cumulative,
    x: &'a [T],
    y: &'a mut [T],
    inner: usize,
}

impl<T: Running> Task for Lanes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // Lanes accumulated together: as many as registers hold with room to spare.
        match size_of::<T::Sum>() {
            4 => self.fold::<128>(),
            _ => self.fold::<64>(),
        }
    }
}

impl<T: Running> Lanes<'_, T> {
    #[inline(always)]
    fn fold<const LANES: usize>(self) {
        match self.op.fold {
            Fold::Sum => self.by::<LANES>(T::Sum::default(), T::Sum::add),
            Fold::Product => self.by::<LANES>(T::Sum::from_f64(1.0), T::Sum::mul),
        }
    }

    #[inline(always)]
    fn by<const LANES: usize>(self, identity: T::Sum, join: impl Fn(T::Sum, T::Sum) -> T::Sum) {
        let Self { op, x, y, inner } = self;
        let n = x.len() / inner;
        let mut pace = Pace::new();
        if inner == 1 {
            let mut total = identity;
            for first in (0..n).step_by(Pace::STEP) {
                let piece = first..n.min(first + Pace::STEP);
                if pace.go(piece.len()).is_err() {
                    return;
                }
                for k in piece {
                    let at = if op.reverse { n - 1 - k } else { k };
                    let after = join(total, x[at].widen());
                    y[at] = T::narrow(if op.exclusive { total } else { after });
                    total = after;
                }
            }
            return;
        }
        let whole = inner / LANES * LANES;
        for j in (0..whole).step_by(LANES) {
            let mut totals = [identity; LANES];
            for k in 0..n {
                if pace.go(LANES).is_err() {
                    return;
                }
                let at = if op.reverse { n - 1 - k } else { k } * inner + j;
                if let (Some(x), Some(y)) = (x[at..].first_chunk(), y[at..].first_chunk_mut()) {
                    step::<T, LANES>(&mut totals, x, y, (op.exclusive, &join));
                }
            }
        }
        let mut totals = [identity; LANES];
        let totals = &mut totals[..inner - whole];
        for k in 0..n {
            if pace.go(totals.len()).is_err() {
                return;
            }
            let at = if op.reverse { n - 1 - k } else { k } * inner + whole;
            let (x, y) = (&x[at..][..totals.len()], &mut y[at..][..totals.len()]);
            for ((total, x), y) in totals.iter_mut().zip(x).zip(y) {
                let after = join(*total, x.widen());
                *y = T::narrow(if op.exclusive { *total } else { after });
                *total = after;
            }
        }
    }
}

/// Accumulates one more element of each lane. With slices in place of arrays, the compiler keeps totals in memory: twice the
/// time.
#[inline(always)]
fn step<T: Running, const N: usize>(
    totals: &mut [T::Sum; N],
    x: &[T; N],
    y: &mut [T; N],
    (is_exclusive, join): (bool, &impl Fn(T::Sum, T::Sum) -> T::Sum),
) {
    for i in 0..N {
        let after = join(totals[i], x[i].widen());
        y[i] = T::narrow(if is_exclusive { totals[i] } else { after });
        totals[i] = after;
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, relative};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let elements = (0..n).map(|i| T::from_f64((i * 7919 % 5) as f64 + 1.0));
        Tensor::from_slice(shape, &elements.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn lanes_are_accumulated_in_both_directions() {
        let types = [DType::F32, DType::F64, DType::I32, DType::I64, DType::U32, DType::U64];
        let shapes: [(&[usize], i64); 5] =
            [(&[7], 0), (&[3, 20, 150], 1), (&[20, 3], -2), (&[2, 0, 3], 1), (&[40, 30, 200], 1)];
        for (dtype, (shape, axis)) in types.iter().flat_map(|dtype| shapes.map(|s| (dtype, s))) {
            for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                for (name, version) in [("CumSum", 14), ("CumProd", 26)] {
                    let x = with_dtype!(*dtype, number, T => numbers::<T>(shape), else => panic!());
                    let case = Case::new(name, version)
                        .attr("exclusive", Attr::Int(exclusive))
                        .attr("reverse", Attr::Int(reverse));
                    let error = if *dtype == DType::F64 { 1e-13 } else { 1e-6 };
                    case.input(x).weight(Tensor::scalar(axis)).check(relative(error));
                }
            }
        }
    }
}
