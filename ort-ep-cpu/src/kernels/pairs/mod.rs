//! Functions of two operands, broadcast, without a kernel for their type: arithmetic of integers, f64
//! and 16-bit floats, PRelu and comparisons of every type, bits and booleans. They share one scheme: a row
//! is combined with a row or with a scalar; repeated, stretched and in-place operands are
//! copied to a tile first.

mod bits;
mod powers;
mod runs;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Isa;
use ort_kernels::vec::{Lane, any, pairs};
use ort_ops::arithmetic::Arithmetic;
use ort_ops::ops::{
    binary::Binary, bit_shift::BitShift, comparison::Comparison, mod_::Mod, pow::Pow, prelu::PRelu,
    variadic::Variadic,
};
use ort_tensor::{Bool, DType, Element, bf16, f16, with_dtype};

pub(super) use self::runs::held_elements;
use super::{Compiled, Compiler, KernelDef};
use crate::operation::Broadcast;
use crate::pieces::{elements_as, elements_of};
use crate::wide::{Quotient, Wide};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct PairKernel {
    isa: Isa,
    function: Function,
    dtype: DType,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Binary(Binary),
    Comparison(Comparison),
    Max,
    Min,
    Mod(Mod),
    BitShift(BitShift),
    Pow,
    PRelu,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let binary = compiler.op::<Binary>().map(|op| Function::Binary(*op));
    let comparison = || compiler.op::<Comparison>().map(|op| Function::Comparison(*op));
    let extreme = || match (compiler.op::<Variadic>()?, compiler.claim.inputs.len()) {
        (Variadic::Max, 2) => Some(Function::Max),
        (Variadic::Min, 2) => Some(Function::Min),
        (Variadic::Sum, 2) => Some(Function::Binary(Binary::Add)),
        _ => None,
    };
    let rest = || compiler.op::<Mod>().map(|op| Function::Mod(*op));
    let shift = || compiler.op::<BitShift>().map(|op| Function::BitShift(*op));
    let leak = || compiler.op::<PRelu>().map(|_| Function::PRelu);
    let power = || compiler.op::<Pow>().map(|_| Function::Pow);
    let few = || rest().or_else(shift).or_else(leak).or_else(power);
    let function = binary.or_else(comparison).or_else(extreme).or_else(few);
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let (Some(function), Some(dtype)) = (function, dtype) else { return Ok(None) };
    let is_known = match function {
        Function::Pow => powers::is_known([0, 1].map(|i| compiler.fact(i).and_then(Fact::dtype))),
        _ => dtype.is_number() || dtype == DType::Bool,
    };
    let isa = compiler.cpu.isa;
    Ok(is_known.then(|| Box::new(PairKernel { isa, function, dtype }) as Box<dyn Kernel>))
}

impl Kernel for PairKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = Broadcast::new(shapes)?;
        match (self.function, shapes) {
            (Function::PRelu, [x, slope]) if state.shape[..] != **x => Err(OpError::Shapes {
                what: "the slope, broadcast to the input",
                left: x.to_vec(),
                right: slope.to_vec(),
            }
            .into()),
            _ => Ok(Prepared::new(state)),
        }
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let state: &Broadcast = prepared.state()?;
        let call = Call { isa: self.isa, dtype: self.dtype, state };
        match self.function {
            Function::Binary(op) => call.binary(op, io),
            Function::Comparison(op) => call.compare(op, io),
            Function::Max => call.extreme(true, io),
            Function::Min => call.extreme(false, io),
            Function::Mod(op) => call.rest(op, io),
            Function::BitShift(op) => call.shift(op, io),
            Function::Pow => call.power(io),
            Function::PRelu => call.leak(io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "pairs")
    }
}

/// The operands of a run.
pub(super) struct Call<'a> {
    pub(super) isa: Isa,
    /// The type of the operands.
    pub(super) dtype: DType,
    pub(super) state: &'a Broadcast,
}

impl Call<'_> {
    fn binary(&self, op: Binary, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let unknown = Err(KernelError::ForeignState);
        // Wrapping results have the same bits for signed and unsigned types.
        let dtype = if op == Binary::Div { self.dtype } else { self.dtype.unsigned() };
        match op {
            Binary::Add => with_dtype!(dtype, [f32, f64, f16, bf16, u8, u16, u32, u64],
                T => self.arithmetic::<T>(io, <T as Wide>::Of::add), else => unknown),
            Binary::Sub => with_dtype!(dtype, [f32, f64, f16, bf16, u8, u16, u32, u64],
                T => self.arithmetic::<T>(io, <T as Wide>::Of::sub), else => unknown),
            Binary::Mul => with_dtype!(dtype, [f32, f64, f16, bf16, u8, u16, u32, u64],
                T => self.arithmetic::<T>(io, <T as Wide>::Of::mul), else => unknown),
            // Without instructions that convert 64 bits to floats, the processor's division is faster.
            Binary::Div if dtype == DType::I64 && self.isa.avx512().is_none() => {
                self.check_divisor::<i64>(io)?;
                self.arithmetic::<i64>(io, i64::div)
            }
            Binary::Div => with_dtype!(dtype, number, T => {
                self.check_divisor::<T>(io)?;
                self.arithmetic::<T>(io, <T as Wide>::Of::quotient)
            }, else => unknown),
            Binary::And => self.combine(io, |a: Bool, b: Bool| Bool::from(a.get() & b.get())),
            Binary::Or => self.combine(io, |a: Bool, b: Bool| Bool::from(a.get() | b.get())),
            Binary::Xor => self.combine(io, |a: Bool, b: Bool| Bool::from(a.get() ^ b.get())),
            Binary::BitwiseAnd => with_dtype!(dtype, [u8, u16, u32, u64],
                T => self.combine(io, |a: T, b: T| a & b), else => unknown),
            Binary::BitwiseOr => with_dtype!(dtype, [u8, u16, u32, u64],
                T => self.combine(io, |a: T, b: T| a | b), else => unknown),
            Binary::BitwiseXor => with_dtype!(dtype, [u8, u16, u32, u64],
                T => self.combine(io, |a: T, b: T| a ^ b), else => unknown),
        }
    }

    fn compare(&self, op: Comparison, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        if self.dtype == DType::Bool {
            return self.test(io, false, |a: Bool, b: Bool| a.get() == b.get());
        }
        let dtype = if op == Comparison::Equal { self.dtype.unsigned() } else { self.dtype };
        with_dtype!(dtype, number, T => match op {
            Comparison::Equal => self.test(io, false, |a: T, b: T| a.widen() == b.widen()),
            Comparison::Greater => self.test(io, true, |a: T, b: T| a.widen() < b.widen()),
            Comparison::GreaterOrEqual => self.test(io, true, |a: T, b: T| a.widen() <= b.widen()),
            Comparison::Less => self.test(io, false, |a: T, b: T| a.widen() < b.widen()),
            Comparison::LessOrEqual => self.test(io, false, |a: T, b: T| a.widen() <= b.widen()),
        }, else => Err(KernelError::ForeignState))
    }

    fn extreme(&self, is_max: bool, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        if matches!(self.dtype, DType::F16 | DType::Bf16) {
            return self.half_extreme(is_max, io);
        }
        with_dtype!(self.dtype, [f32, f64, i8, i16, i32, i64, u8, u16, u32, u64], T => match is_max {
            true => self.arithmetic::<T>(io, <T as Wide>::Of::larger),
            false => self.arithmetic::<T>(io, <T as Wide>::Of::smaller),
        }, else => Err(KernelError::ForeignState))
    }

    fn leak(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        with_dtype!(self.dtype, [f32, f64, f16, bf16, i32, i64, u32, u64],
            T => self.arithmetic::<T>(io, |x: <T as Wide>::Of, slope| {
                if x < Default::default() { x.mul(slope) } else { x }
            }),
            else => Err(KernelError::ForeignState))
    }

    fn rest(&self, op: Mod, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        // No instruction set has a floating-point remainder.
        let plain = Call { isa: Isa::Generic, ..*self };
        with_dtype!(self.dtype, number, T => {
            self.check_divisor::<T>(io)?;
            match (op.fmod, self.dtype.is_float()) {
                (true, true) => plain.arithmetic::<T>(io, |a: <T as Wide>::Of, b| a.truncated_rem(b)),
                (false, true) => plain.arithmetic::<T>(io, |a: <T as Wide>::Of, b| a.floored_rem(b)),
                (true, false) => self.arithmetic::<T>(io, <T as Wide>::Of::remainder),
                (false, false) => self.arithmetic::<T>(io, |a: <T as Wide>::Of, b| {
                    let (rem, zero) = (a.remainder(b), Default::default());
                    if rem != zero && (rem < zero) != (b < zero) { rem.add(b) } else { rem }
                }),
            }
        }, else => Err(KernelError::ForeignState))
    }

    /// Checks that no integer of input 1 is zero.
    fn check_divisor<T: Wide>(&self, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        if T::DTYPE.is_float() {
            return Ok(());
        }
        let has_zero = |x: &[T]| any(self.isa, x, |x: T| x == T::default());
        let has_zero = match io.outputs[0].in_place_tensor() {
            Some((1, y)) => has_zero(y.view().as_slice()?),
            _ => has_zero(io.inputs.tensor(1)?.as_slice()?),
        };
        match has_zero {
            true => Err(OpError::InputValue { index: 1, what: "division by zero" }.into()),
            false => Ok(()),
        }
    }

    fn arithmetic<T: Wide>(
        &self,
        io: &mut Io<'_, '_>,
        f: impl Fn(T::Of, T::Of) -> T::Of + Sync,
    ) -> Result<(), KernelError> {
        self.combine(io, |a: T, b: T| T::narrow(f(a.widen(), b.widen())))
    }

    /// `y = f(a, b)`, where `y` may hold either operand.
    fn combine<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        f: impl Fn(T, T) -> T + Sync,
    ) -> Result<(), KernelError> {
        self.combine_by::<T>(io, &|a, b, y| pairs(self.isa, a, b, y, &f))
    }

    /// [`Call::combine`], compiled once for all functions of a type.
    fn combine_by<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        f: &(dyn Fn(Lane<'_, T>, Lane<'_, T>, &mut [T]) + Sync),
    ) -> Result<(), KernelError> {
        let held = io.outputs[0].in_place_of();
        let operand = |index| match held == Some(index) {
            true => Ok(None),
            false => elements_as::<T>(io.inputs.tensor(index)?).map(Some),
        };
        let operands = [operand(0)?, operand(1)?];
        let y = elements_of(io.outputs[0].tensor(self.dtype, &self.state.shape)?)?;
        self.write(operands, (y, held_elements), io.threads, f);
        Ok(())
    }

    /// `y = f(a, b)`, a boolean, or `f(b, a)` if `swapped`.
    fn test<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        swapped: bool,
        f: impl Fn(T, T) -> bool + Sync,
    ) -> Result<(), KernelError> {
        self.test_by::<T>(io, &|a, b, y| {
            let (a, b) = if swapped { (b, a) } else { (a, b) };
            pairs(self.isa, a, b, y, |a, b| Bool::from(f(a, b)));
        })
    }

    /// [`Call::test`], compiled once for all functions of a type.
    fn test_by<T: Element>(
        &self,
        io: &mut Io<'_, '_>,
        f: &(dyn Fn(Lane<'_, T>, Lane<'_, T>, &mut [Bool]) + Sync),
    ) -> Result<(), KernelError> {
        let operand = |index| elements_as::<T>(io.inputs.tensor(index)?).map(Some);
        let operands = [operand(0)?, operand(1)?];
        let y = io.outputs[0].tensor(DType::Bool, &self.state.shape)?.into_slice::<Bool>()?;
        self.write(operands, (y, |_, _| {}), io.threads, f);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
