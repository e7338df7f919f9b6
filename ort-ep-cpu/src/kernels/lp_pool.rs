//! LpPool and GlobalLpPool in f32 and f64, with an exponent of 1, 2 or 3: sums of powers in f64, plane by plane.

use std::marker::PhantomData;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError, Operator};
use ort_kernels::Isa;
use ort_kernels::vec::{FoldOf, fold_rows_of};
use ort_kernels::window_fold::WindowFold;
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::global_pool::GlobalPool;
use ort_ops::ops::lp_pool::LpPool;
use ort_tensor::{DType, Number, Shape, with_dtype};

use super::max_pool::Geometry;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::lanes::Lanes;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Planes whose sums are computed at a time.
const WIDTH: usize = 128;
/// The cost of an element of a plane, in multiply-adds.
const COST: usize = 16;

/// Windows of any size.
#[derive(Debug)]
struct LpPoolKernel {
    cpu: Cpu,
    window: WindowAttrs,
    p: u8,
    dtype: DType,
}

/// A window is a plane.
#[derive(Debug)]
struct GlobalLpPoolKernel {
    isa: Isa,
    op: GlobalPool,
    p: u8,
    dtype: DType,
}

/// Prepared state of whole planes for one shape signature.
struct Planes {
    /// The shape of the result.
    shape: Shape,
    lanes: Lanes,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let fact = compiler.fact(0);
    let dtype = fact.and_then(Fact::dtype).filter(|it| matches!(it, DType::F32 | DType::F64));
    let (Some(dtype), Some(rank)) = (dtype, fact.and_then(Fact::rank)) else { return Ok(None) };
    if let (Some(op), 3..=5) = (compiler.op::<LpPool>(), rank) {
        let (cpu, window) = (compiler.cpu, op.window.clone());
        let kernel = |p| Box::new(LpPoolKernel { cpu, window, p, dtype }) as Box<dyn Kernel>;
        return Ok(exponent(op.p).map(kernel));
    }
    if let (Some(&op @ GlobalPool::Lp { p }), 2..) = (compiler.op::<GlobalPool>(), rank) {
        let isa = compiler.cpu.isa;
        let kernel = |p| Box::new(GlobalLpPoolKernel { isa, op, p, dtype }) as Box<dyn Kernel>;
        return Ok(exponent(p).map(kernel));
    }
    Ok(None)
}

/// The exponent, if it is one of those that are computed here.
fn exponent(p: f64) -> Option<u8> {
    (1..=3).find(|&supported| f64::from(supported) == p)
}

/// `(Σ |x|ᴾ)^(1/P)`, of elements of type `T`.
#[derive(Clone, Copy, Default)]
struct Norm<T, const P: u8>(PhantomData<T>);

impl<T: Number, const P: u8> Norm<T, P> {
    #[inline(always)]
    fn power(x: T) -> f64 {
        let x = x.to_f64();
        match P {
            1 => x.abs(),
            2 => x * x,
            _ => x.abs() * x * x,
        }
    }

    #[inline(always)]
    fn root(sum: f64) -> T {
        T::from_f64(match P {
            1 => sum,
            2 => sum.sqrt(),
            _ => sum.cbrt(),
        })
    }
}

impl<T: Number, const P: u8> WindowFold for Norm<T, P> {
    type In = T;
    type Sum = f64;
    type Out = T;

    #[inline(always)]
    fn start(self) -> f64 {
        0.0
    }

    #[inline(always)]
    fn of(self, x: T) -> f64 {
        Self::power(x)
    }

    #[inline(always)]
    fn join(self, a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline(always)]
    fn finish(self, sum: f64) -> T {
        Self::root(sum)
    }
}

impl<T: Number + Default, const P: u8> FoldOf<T> for Norm<T, P> {
    type Sum = f64;

    const START: f64 = 0.0;

    #[inline(always)]
    fn step(sum: f64, x: T) -> f64 {
        sum + Self::power(x)
    }

    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

impl Kernel for LpPoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Geometry::prepare(self.cpu, &self.window, shapes, DType::F64)
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, geometry) = (self.cpu.isa, prepared.state::<Geometry>()?);
        with_dtype!(self.dtype, [f32, f64], T => match self.p {
            1 => geometry.fold(isa, Norm::<T, 1>::default(), io),
            2 => geometry.fold(isa, Norm::<T, 2>::default(), io),
            _ => geometry.fold(isa, Norm::<T, 3>::default(), io),
        }, else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "lp_pool")
    }
}

impl Kernel for GlobalLpPoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let mut shape = Shape::from_slice(x);
        let Some(plane) = shape.get_mut(2..) else {
            let found = x.len();
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found }.into());
        };
        plane.fill(1);
        Ok(Prepared::new(Planes { shape, lanes: Lanes::flattened(x, 2) }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let planes: &Planes = prepared.state()?;
        if planes.lanes.are_too_long() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        with_dtype!(self.dtype, [f32, f64], T => match self.p {
            1 => planes.fold::<T, 1>(self.isa, io),
            2 => planes.fold::<T, 2>(self.isa, io),
            _ => planes.fold::<T, 3>(self.isa, io),
        }, else => Err(KernelError::ForeignState))
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "lp_pool")
    }
}

impl Planes {
    /// The norms of all planes.
    fn fold<T: Number + Default, const P: u8>(
        &self,
        isa: Isa,
        io: &mut Io<'_, '_>,
    ) -> Result<(), KernelError> {
        let len = self.lanes.len;
        let x = io.inputs.tensor(0)?.as_slice::<T>()?;
        let y = io.outputs[0].tensor(T::DTYPE, &self.shape)?.into_slice::<T>()?;
        let planes = Rows { len: 1, cost: len.saturating_mul(COST) };
        planes.for_each(io.threads, y, |start, y| {
            let mut sums = [0.0; WIDTH];
            for (i, y) in y.chunks_mut(WIDTH).enumerate() {
                let (first, sums) = ((start + i * WIDTH) * len, &mut sums[..y.len()]);
                let norm = Norm::<T, P>::default();
                fold_rows_of(isa, norm, &x[first..][..y.len() * len], sums);
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = Norm::<T, P>::root(*sum));
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor, bf16, f16, n_elements};

    use crate::case::{Case, relative};

    /// Numbers and, at intervals, those whose squares overflow or vanish in f32, and NaN.
    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let number = |i: usize| match i % 9973 {
            700..720 => 1e30,
            800..900 => 1e-30,
            5000 => f64::NAN,
            _ => (i * 7919 % 113) as f64 / 8.0 - 7.0,
        };
        let numbers: Vec<T> =
            (0..n_elements(shape).unwrap()).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(shape, &numbers).unwrap()
    }

    /// Checks all types. Powers and their sums are in f64, but 16-bit floats are rounded to f32 first.
    fn check(case: impl Fn() -> Case, shape: &[usize]) {
        for p in 1..=3 {
            let case = || case().attr("p", Attr::Int(p));
            case().input(numbers::<f32>(shape)).check(relative(1.2e-7));
            case().input(numbers::<f64>(shape)).check(relative(1e-14));
            case().input(numbers::<f16>(shape)).check(relative(1e-3));
            case().input(numbers::<bf16>(shape)).check(relative(8e-3));
        }
    }

    fn pool(attrs: &[(&'static str, &[i64])]) -> Case {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let case = Case::new("LpPool", 22);
        attrs.iter().fold(case, |case, (name, values)| case.attr(name, ints(values)))
    }

    #[test]
    fn windows_have_the_norms_of_eval() {
        let plane: [(_, &[i64]); 4] = [
            ("kernel_shape", &[3, 2]),
            ("pads", &[1, 1, 0, 0]),
            ("strides", &[2, 1]),
            ("dilations", &[1, 2]),
        ];
        let line: [(_, &[i64]); 3] = [("kernel_shape", &[5]), ("pads", &[2, 1]), ("strides", &[3])];
        let cube: [(_, &[i64]); 2] = [("kernel_shape", &[2, 3, 3]), ("pads", &[0, 1, 1, 1, 1, 0])];
        for (shape, attrs) in [
            (&[2, 3, 9, 70][..], &plane[..]),
            (&[1, 40, 33, 50], &plane),
            (&[0, 3, 9, 9], &plane),
            (&[3, 2, 50], &line),
            (&[2, 3, 4, 6, 20], &cube),
        ] {
            check(|| pool(attrs), shape);
            check(|| pool(attrs).attr("ceil_mode", Attr::Int(1)), shape);
        }
        for name in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
            let padded = || pool(&[plane[0], plane[2]]).attr("auto_pad", Attr::String(name.into()));
            check(padded, &[1, 2, 7, 8]);
        }
    }

    #[test]
    fn planes_have_the_norms_of_eval() {
        let shapes: [&[usize]; 6] =
            [&[2, 3], &[1, 130, 1], &[3, 70, 9, 11], &[1, 2, 5, 7, 600], &[2, 3, 0], &[0, 3, 4]];
        for shape in shapes {
            check(|| Case::new("GlobalLpPool", 22), shape);
        }
    }
}
