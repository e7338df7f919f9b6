//! Element-wise functions without a kernel for their type: of integers, f64 and booleans, and
//! from floats to another type: signs, and tests for NaN and infinity.

mod shrink;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{each, each_in_place};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::{
    activation::Activation, clip::Clip, is_nan::FloatClass, pow::Pow, unary::Unary,
};
use ort_tensor::{Bool, DType, Element, Inputs, Number, bf16, f16, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::{Rows, first_and_output};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ElementKernel {
    isa: Isa,
    function: Function,
    dtype: DType,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Unary(Unary),
    Clip(Clip),
    Class(FloatClass),
    /// A square, or a cube.
    Power(Power),
    Shrink {
        bias: f64,
        lambd: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Power {
    is_cube: bool,
    /// Whether the exponent is an integer, so that integer powers are exact and wrap.
    is_integer: bool,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let unary = compiler.op::<Unary>().map(|op| Function::Unary(*op));
    let clip = || compiler.op::<Clip>().map(|op| Function::Clip(*op));
    let class = || compiler.op::<FloatClass>().map(|op| Function::Class(*op));
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let shrink = || shrink(compiler);
    let function = unary.or_else(clip).or_else(class).or_else(|| power(compiler)).or_else(shrink);
    let (Some(function), Some(dtype)) = (function, dtype) else {
        return Ok(None);
    };
    let takes = function.takes(dtype);
    let isa = compiler.cpu.isa;
    Ok(takes.then(|| Box::new(ElementKernel { isa, function, dtype }) as Box<dyn Kernel>))
}

fn shrink(compiler: &Compiler<'_>) -> Option<Function> {
    match *compiler.op::<Activation>()? {
        Activation::Shrink { bias, lambd } => {
            Some(Function::Shrink { bias: bias.into(), lambd: lambd.into() })
        }
        _ => None,
    }
}

/// Pow with a constant exponent of 2 or 3.
fn power(compiler: &Compiler<'_>) -> Option<Function> {
    compiler.op::<Pow>()?;
    // A shape of higher rank would broadcast the base.
    let e = compiler.constant(1).filter(|e| e.shape().is_empty())?;
    let is_integer = e.dtype().is_integer();
    let e = with_dtype!(e.dtype(), number,
        T => e.as_slice::<T>().ok()?.first().map(|&e| Number::to_f64(e)), else => None)?;
    let is_cube = e == 3.0;
    (is_cube || e == 2.0).then_some(Function::Power(Power { is_cube, is_integer }))
}

impl Function {
    /// Whether there is a loop for elements of this type.
    fn takes(self, dtype: DType) -> bool {
        let is_plain = dtype.is_integer() || dtype == DType::F64;
        match self {
            Self::Unary(Unary::Sign) => dtype.is_number(),
            Self::Unary(Unary::Abs | Unary::Neg | Unary::Relu) | Self::Clip(_) => is_plain,
            Self::Unary(Unary::BitwiseNot) => dtype.is_integer(),
            Self::Unary(Unary::Not) => dtype == DType::Bool,
            Self::Unary(
                Unary::Ceil | Unary::Floor | Unary::Reciprocal | Unary::Round | Unary::Sqrt,
            ) => dtype == DType::F64,
            Self::Unary(_) => false,
            Self::Class(_) => dtype.is_float(),
            Self::Shrink { .. } => is_plain,
            // An integer to a float power is rounded and saturates; in 64 bits a cube rounds differently from `powf`.
            Self::Power(Power { is_cube, is_integer }) => match dtype {
                DType::F64 | DType::I32 => true,
                DType::I64 => is_integer || !is_cube,
                _ => false,
            },
        }
    }
}

impl Kernel for ElementKernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.function {
            Function::Unary(op) => self.unary(op, io),
            Function::Clip(op) => with_dtype!(self.dtype,
                [f64, i8, i16, i32, i64, u8, u16, u32, u64],
                T => self.clip::<T>(op, io), else => Err(KernelError::ForeignState)),
            Function::Class(op) => self.class(op, io),
            Function::Power(power) => self.power(power, io),
            Function::Shrink { bias, lambd } => self.shrink(bias, lambd, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "elements")
    }
}

impl ElementKernel {
    fn unary(&self, op: Unary, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match op {
            Unary::Abs => with_dtype!(self.dtype, [f64, i8, i16, i32, i64],
                T => self.map(io, |x: T| Arithmetic::abs(x)),
                // Types without a sign.
                else => self.same(io)),
            Unary::Neg => with_dtype!(self.dtype, [f64, i8, i16, i32, i64],
                T => self.map(io, |x: T| Arithmetic::neg(x)),
                else => Err(KernelError::ForeignState)),
            Unary::Relu => with_dtype!(self.dtype, [f64, i8, i16, i32, i64],
                T => self.map(io, |x: T| if x < T::default() { T::default() } else { x }),
                else => Err(KernelError::ForeignState)),
            Unary::Sign => self.sign(io),
            Unary::BitwiseNot => with_dtype!(self.dtype, integer,
                T => self.map(io, |x: T| !x),
                else => Err(KernelError::ForeignState)),
            Unary::Not => self.map(io, |x: Bool| Bool::from(!x.get())),
            Unary::Ceil => self.map(io, |x: f64| x.ceil()),
            Unary::Floor => self.map(io, |x: f64| x.floor()),
            Unary::Reciprocal => self.map(io, |x: f64| 1.0 / x),
            Unary::Round => self.map(io, |x: f64| x.round_ties_even()),
            Unary::Sqrt => self.map(io, |x: f64| x.sqrt()),
            _ => Err(KernelError::ForeignState),
        }
    }

    fn sign(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.dtype {
            DType::F32 => self.map(io, f32::unit),
            DType::F64 => self.map(io, f64::unit),
            DType::F16 => self.map(io, f16::unit),
            DType::Bf16 => self.map(io, bf16::unit),
            dtype => with_dtype!(dtype, integer,
                T => self.map(io, |x: T| Arithmetic::sign(x)),
                else => Err(KernelError::ForeignState)),
        }
    }

    fn clip<T: Arithmetic>(&self, op: Clip, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (min, max) = match op {
            Clip::Attributes { min, max } => {
                let bound = |x: f32| Some(<T as Number>::from_f64(f64::from(x)));
                (bound(min), bound(max))
            }
            Clip::Inputs => (bound::<T>(io.inputs, 1)?, bound::<T>(io.inputs, 2)?),
        };
        match (min, max) {
            (Some(min), Some(max)) if min.equals_itself() && max.equals_itself() => {
                self.map(io, move |x: T| {
                    let x = if x < min { min } else { x };
                    if x > max { max } else { x }
                })
            }
            (Some(min), Some(max)) => self.map(io, move |x: T| x.larger(min).smaller(max)),
            (Some(min), None) => self.map(io, move |x: T| x.larger(min)),
            (None, Some(max)) => self.map(io, move |x: T| x.smaller(max)),
            (None, None) => self.map(io, |x: T| x),
        }
    }

    fn power(&self, power: Power, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let Power { is_cube, is_integer } = power;
        match (self.dtype, is_integer, is_cube) {
            (DType::F64, _, false) => self.map(io, |x: f64| x * x),
            (DType::F64, _, true) => self.map(io, |x: f64| x * x * x),
            (DType::I32, true, false) => self.map(io, |x: i32| x.wrapping_mul(x)),
            (DType::I32, true, true) => self.map(io, |x: i32| x.wrapping_mul(x).wrapping_mul(x)),
            (DType::I32, false, false) => self.map(io, |x: i32| x.saturating_mul(x)),
            (DType::I32, false, true) => {
                self.map(io, |x: i32| x.saturating_mul(x).saturating_mul(x))
            }
            (_, true, false) => self.map(io, |x: i64| x.wrapping_mul(x)),
            (_, true, true) => self.map(io, |x: i64| x.wrapping_mul(x).wrapping_mul(x)),
            (_, false, _) => self.map(io, |x: i64| {
                let x = Number::to_f64(x);
                <i64 as Number>::from_f64(x * x)
            }),
        }
    }

    fn class(&self, op: FloatClass, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.dtype {
            DType::F32 => self.class_of::<f32>(op, io),
            DType::F64 => self.class_of::<f64>(op, io),
            DType::F16 => self.class_of::<f16>(op, io),
            _ => self.class_of::<bf16>(op, io),
        }
    }

    fn class_of<T: Float>(&self, op: FloatClass, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match op {
            FloatClass::NaN => self.test(io, |x: T| x.magnitude() > T::INFINITY),
            FloatClass::Infinite { negative: false, positive: false } => {
                self.test(io, |_: T| false)
            }
            FloatClass::Infinite { negative, positive } => {
                let first = if positive { T::INFINITY } else { T::NEG_INFINITY };
                let second = if negative { T::NEG_INFINITY } else { T::INFINITY };
                self.test(io, move |x: T| (x.bits() == first) | (x.bits() == second))
            }
        }
    }

    /// `y[i] = f(x[i])`.
    fn map<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        f: impl Fn(T) -> T + Copy + Sync,
    ) -> Result<(), KernelError> {
        map_by::<T>(io, &|x, y| match x {
            Some(x) => each(self.isa, x, y, f),
            None => each_in_place(self.isa, y, f),
        })
    }

    fn same(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        with_dtype!(self.dtype, [u8, u16, u32, u64],
            T => self.map(io, |x: T| x), else => Err(KernelError::ForeignState))
    }

    /// `y[i] = f(x[i])`, a boolean.
    fn test<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        f: impl Fn(T) -> bool + Sync,
    ) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(DType::Bool, x.shape())?.into_slice::<Bool>()?;
        let x = x.as_slice::<T>()?;
        Rows::ELEMENTS.for_each(io.threads, y, |start, y| {
            each(self.isa, &x[start..][..y.len()], y, |x| Bool::from(f(x)));
        });
        Ok(())
    }
}

/// `f(x, y)` of pieces, without `x` if `y` already holds it; compiled once for all functions of a type.
fn map_by<T: Element>(
    io: &mut Io<'_, '_>,
    f: &(dyn Fn(Option<&[T]>, &mut [T]) + Sync),
) -> Result<(), KernelError> {
    let (x, y) = first_and_output::<T>(io.inputs, &mut io.outputs[0])?;
    Rows::ELEMENTS.for_each(io.threads, y, |start, y| {
        f(x.map(|x| &x[start..][..y.len()]), y);
    });
    Ok(())
}

/// A float as its bits.
trait Float: Element {
    type Bits: Copy + Ord + Sync;
    const INFINITY: Self::Bits;
    const NEG_INFINITY: Self::Bits;

    fn bits(self) -> Self::Bits;
    /// The bits without the sign.
    fn magnitude(self) -> Self::Bits;
    /// ±1; zeros give 0, NaN gives NaN.
    fn unit(self) -> Self;
}

macro_rules! floats {
    ($($ty:ty: $bits:ty, $one:expr;)*) => { $(
        impl Float for $ty {
            type Bits = $bits;
            const INFINITY: $bits = <$ty>::INFINITY.to_bits();
            const NEG_INFINITY: $bits = <$ty>::NEG_INFINITY.to_bits();

            #[inline(always)]
            fn bits(self) -> $bits {
                self.to_bits()
            }

            #[inline(always)]
            fn magnitude(self) -> $bits {
                self.to_bits() & (<$bits>::MAX >> 1)
            }

            #[inline(always)]
            fn unit(self) -> Self {
                let (bits, magnitude) = (self.to_bits(), self.magnitude());
                let one = $one.to_bits() | (bits ^ magnitude);
                let sign = if magnitude > <Self as Float>::INFINITY { bits } else { one };
                Self::from_bits(if magnitude == 0 { 0 } else { sign })
            }
        }
    )* };
}
floats! {
    f32: u32, 1_f32;
    f64: u64, 1_f64;
    f16: u16, f16::ONE;
    bf16: u16, bf16::ONE;
}

/// The bound in input `index`.
fn bound<T: Element>(inputs: Inputs<'_>, index: usize) -> Result<Option<T>, KernelError> {
    let Some(tensor) = inputs.optional_tensor(index)? else { return Ok(None) };
    match tensor.as_slice::<T>()? {
        [bound] => Ok(Some(*bound)),
        _ => Err(OpError::InputValue { index, what: "a bound is not one element" }.into()),
    }
}

#[cfg(test)]
mod tests;
