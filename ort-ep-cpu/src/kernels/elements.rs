//! Functions of one element that have no kernel of their own type: of integers, f64 and booleans, and
//! those from floats to integers of theirs: signs, and what is NaN or infinite.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{bf16_to_f32, each, each_in_place, f16_to_f32, f32_to_bf16, f32_to_f16};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::{clip::Clip, is_nan::FloatClass, pow::Pow, unary::Unary};
use ort_tensor::{Bool, DType, Element, Inputs, Number, bf16, f16, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::{Rows, first_and_output};
use crate::wide::Wide;

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
    Power(i32),
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let unary = compiler.op::<Unary>().map(|op| Function::Unary(*op));
    let clip = || compiler.op::<Clip>().map(|op| Function::Clip(*op));
    let class = || compiler.op::<FloatClass>().map(|op| Function::Class(*op));
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let function = unary.or_else(clip).or_else(class).or_else(|| power(compiler));
    let (Some(function), Some(dtype)) = (function, dtype) else {
        return Ok(None);
    };
    let takes = function.takes(dtype);
    let isa = compiler.cpu.isa;
    Ok(takes.then(|| Box::new(ElementKernel { isa, function, dtype }) as Box<dyn Kernel>))
}

/// Pow by a constant that says how many factors there are.
fn power(compiler: &Compiler<'_>) -> Option<Function> {
    compiler.op::<Pow>()?;
    // A longer shape would stretch that of the base.
    let e = compiler.constant(1).filter(|e| e.shape().is_empty())?;
    let e = with_dtype!(e.dtype(), number,
        T => e.as_slice::<T>().ok()?.first().map(|&e| Number::to_f64(e)), else => None)?;
    [2, 3].into_iter().find(|&n| f64::from(n) == e).map(Function::Power)
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
            // Powers of integers do not wrap.
            Self::Power(_) => dtype == DType::F64,
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
            Function::Power(2) => self.map(io, |x: f64| x * x),
            Function::Power(_) => self.map(io, |x: f64| x * x * x),
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
                // What has no sign.
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
        let of_f32 = |x: f32| if x == 0.0 || x.is_nan() { x + 0.0 } else { 1_f32.copysign(x) };
        match self.dtype {
            DType::F32 => self.map(io, of_f32),
            DType::F16 => {
                self.map(io, |x: f16| f16::from_bits(f32_to_f16(of_f32(f16_to_f32(x.to_bits())))))
            }
            DType::Bf16 => self
                .map(io, |x: bf16| bf16::from_bits(f32_to_bf16(of_f32(bf16_to_f32(x.to_bits()))))),
            dtype => with_dtype!(dtype, [f64, i8, i16, i32, i64, u8, u16, u32, u64],
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

    fn class(&self, op: FloatClass, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        match self.dtype {
            DType::F32 => self.class_of::<f32>(op, io),
            DType::F64 => self.class_of::<f64>(op, io),
            DType::F16 => self.class_of::<f16>(op, io),
            _ => self.class_of::<bf16>(op, io),
        }
    }

    fn class_of<T: Wide>(&self, op: FloatClass, io: &mut Io<'_, '_>) -> Result<(), KernelError>
    where
        T::Of: Number,
    {
        let infinity = <T::Of as Number>::from_f64(f64::INFINITY);
        let negative_infinity = <T::Of as Number>::from_f64(f64::NEG_INFINITY);
        match op {
            FloatClass::NaN => self.test(io, |x: T| !x.widen().equals_itself()),
            FloatClass::Infinite { negative, positive } => self.test(io, |x: T| {
                let x = x.widen();
                (negative & (x == negative_infinity)) | (positive & (x == infinity))
            }),
        }
    }

    /// `y[i] = f(x[i])`.
    fn map<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        f: impl Fn(T) -> T + Copy + Sync,
    ) -> Result<(), KernelError> {
        let (x, y) = first_and_output::<T>(io.inputs, &mut io.outputs[0])?;
        Rows::ELEMENTS.for_each(io.threads, y, |start, y| match x {
            Some(x) => each(self.isa, &x[start..][..y.len()], y, f),
            None => each_in_place(self.isa, y, f),
        });
        Ok(())
    }

    fn same(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        with_dtype!(self.dtype, [u8, u16, u32, u64],
            T => self.map(io, |x: T| x), else => Err(KernelError::ForeignState))
    }

    /// `y[i]`: whether `f(x[i])`.
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

/// The bound in input `index`.
fn bound<T: Element>(inputs: Inputs<'_>, index: usize) -> Result<Option<T>, KernelError> {
    let Some(tensor) = inputs.optional_tensor(index)? else { return Ok(None) };
    match tensor.as_slice::<T>()? {
        [bound] => Ok(Some(*bound)),
        _ => Err(OpError::InputValue { index, what: "a bound is not one element" }.into()),
    }
}

#[cfg(test)]
mod tests {
    use ort_tensor::{Bool, DType, Number, Tensor, with_dtype};

    use crate::case::{Case, exact, relative};

    fn numbers<T: Number>(n: usize) -> Tensor {
        let special = [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 0.0, 0.5, -2.5, 1e300];
        let number = |i: usize| match i % 5 {
            0 => special[i / 5 % 8],
            _ => (i * 7919 % 511) as f64 / 2.0 - 128.0,
        };
        let elements: Vec<T> = (0..n).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(&[n], &elements).unwrap()
    }

    /// Every function of every type that it takes.
    #[test]
    fn elements_are_what_the_operator_gives() {
        let floats = [DType::F32, DType::F64, DType::F16, DType::Bf16];
        let doubles = [DType::F64];
        let integers = [DType::I8, DType::I16, DType::I32, DType::I64];
        let unsigned = [DType::U8, DType::U16, DType::U32, DType::U64];
        let cases: [(&str, i32, &[&[DType]]); 13] = [
            ("Abs", 13, &[&doubles, &integers, &unsigned]),
            ("Neg", 13, &[&doubles, &integers]),
            ("Relu", 14, &[&doubles, &integers]),
            ("Sign", 13, &[&floats, &integers, &unsigned]),
            ("BitwiseNot", 18, &[&integers, &unsigned]),
            ("Ceil", 13, &[&doubles]),
            ("Floor", 13, &[&doubles]),
            ("Reciprocal", 13, &[&doubles]),
            ("Round", 11, &[&doubles]),
            ("Sqrt", 13, &[&doubles]),
            ("IsNaN", 20, &[&floats]),
            ("IsInf", 20, &[&floats]),
            ("Clip", 13, &[&doubles, &integers, &unsigned]),
        ];
        for (name, version, types) in cases {
            for dtype in types.iter().copied().flatten() {
                for n in [0, 1, 1001, 200_001] {
                    let x = with_dtype!(*dtype, number, T => numbers::<T>(n), else => panic!());
                    Case::new(name, version).input(x).check(exact);
                }
            }
        }
    }

    #[test]
    fn bounds_and_flags() {
        let clip = || Case::new("Clip", 13).input(numbers::<i32>(1001));
        clip().weight(Tensor::scalar(-5_i32)).weight(Tensor::scalar(7_i32)).check(exact);
        clip().absent().weight(Tensor::scalar(7_i32)).check(exact);
        clip().weight(Tensor::scalar(9_i32)).check(exact);
        for e in [2.0_f32, 3.0] {
            let case = Case::new("Pow", 15).input(numbers::<f64>(1001));
            case.constant(Tensor::scalar(e)).check(relative(4e-16));
        }
        let flags: Vec<Bool> = (0..1001).map(|i| Bool::from(i % 3 == 0)).collect();
        Case::new("Not", 1).input(Tensor::from_slice(&[1001], &flags).unwrap()).check(exact);
    }
}
