//! Cast and CastLike between numbers and booleans of at least 8 bits: element by element, through the
//! narrowest type that represents every value of the source. Out-of-range values convert as the operator defines.
//! Elements that keep their type are copied.

use bytemuck::{cast_slice, cast_slice_mut};
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_kernels::Isa;
use ort_kernels::vec::{
    any, bf16_to_f32, each, f16_to_f32, f32_to_bf16, f32_to_f16, f32_to_i32, f32_to_i64,
    f64_to_i32, f64_to_i64, round_to_odd,
};
use ort_ops::ops::cast::{Cast, CastLike};
use ort_tensor::{Bool, DType, Element, bf16, f16, with_dtype};

use super::halves::Half;
use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct CastKernel {
    isa: Isa,
    from: DType,
    to: DType,
    convert: Convert,
}

/// Converts the bytes of elements.
type Convert = fn(Isa, &[u8], &mut [u8]);

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let to = compiler.op::<Cast>().map(|op| op.to);
    let like = || compiler.op::<CastLike>().and_then(|_| compiler.fact(1)?.dtype());
    let from = compiler.fact(0).and_then(ort_graph::Fact::dtype);
    let (Some(from), Some(to)) = (from, to.or_else(like)) else { return Ok(None) };
    let convert = converting(from, to);
    let isa = compiler.cpu.isa;
    Ok(convert.map(|convert| Box::new(CastKernel { isa, from, to, convert }) as Box<dyn Kernel>))
}

/// The conversion loop between two types; `None` if there is none.
fn converting(from: DType, to: DType) -> Option<Convert> {
    match (from, to) {
        _ if from == to => {
            from.word_bytes()?;
            return Some(|_, x, y| y.copy_from_slice(x));
        }
        (DType::F16, DType::F32) => {
            return Some(|isa, x, y| f16::widen(isa, cast_slice(x), cast_slice_mut(y)));
        }
        (DType::F32, DType::F16) => {
            return Some(|isa, x, y| f16::narrow(isa, cast_slice(x), cast_slice_mut(y)));
        }
        (DType::F32, DType::U32) => {
            return Some(|isa, x, y| f32_to_u32(isa, cast_slice(x), cast_slice_mut(y)));
        }
        (DType::I32, DType::Bf16) => {
            return Some(|isa, x, y| each(isa, cast_slice(x), cast_slice_mut(y), i32_to_bf16));
        }
        (DType::F16 | DType::Bf16, DType::Bool) => {
            return Some(|isa, x, y| {
                let is_nonzero = |x: u16| u8::from(x & 0x7fff != 0);
                each(isa, cast_slice(x), cast_slice_mut::<u8, u8>(y), is_nonzero);
            });
        }
        _ => {}
    }
    let (mut from, mut to) = (from, to);
    if from.is_integer() && to.is_integer() {
        // The source's sign determines whether bits are sign-extended.
        to = to.unsigned();
        from = if from.bits() < to.bits() { from } else { from.unsigned() };
    }
    with_dtype!(from, [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Bool],
        X => with_dtype!(to, [f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, Bool],
            Y => Some(convert::<X, Y>), else => None), else => None)
}

/// Requires the bytes of whole elements, aligned.
fn convert<X: Source, Y: Target>(isa: Isa, x: &[u8], y: &mut [u8]) {
    each(isa, cast_slice(x), cast_slice_mut(y), |x: X| x.via().to::<Y>());
}

/// [`Target::of_f32`], by blocks: where all are within the range of i32, they are converted as those.
fn f32_to_u32(isa: Isa, x: &[f32], y: &mut [u32]) {
    const BLOCK: usize = 1024;
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        if any(isa, x, |x| x.is_nan() || x.abs() >= HALF_OF_U32) {
            each(isa, x, y, u32::of_f32);
        } else {
            each(isa, x, y, |x| f32_to_i32(x).cast_unsigned());
        }
    }
}

/// The nearest bfloat16, in lanes of 32 bits. Beyond 2²⁴, which f32 represents, neighbours are at least 2¹⁷ apart: the low
/// byte matters only by whether it is zero.
#[inline(always)]
fn i32_to_bf16(x: i32) -> u16 {
    const EXACT: u32 = 1 << 24;
    let near = (x & !0xff) | (i32::from(x & 0xff != 0) << 7);
    #[expect(clippy::cast_precision_loss, reason = "the number is exact")]
    let exact = (if x.unsigned_abs() <= EXACT { x } else { near }) as f32;
    f32_to_bf16(exact)
}

impl Kernel for CastKernel {
    fn prepare(&self, _shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Ok(Prepared::new(()))
    }

    fn run(&self, _prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(self.to, x.shape())?.into_bytes();
        let sizes = (self.from.word_bytes(), self.to.word_bytes());
        let (Some(x), Some(y), (Some(from), Some(to))) = (x.as_bytes(), y, sizes) else {
            return Err(KernelError::ForeignState);
        };
        let Rows { len, cost } = Rows::ELEMENTS;
        Rows { len: len * to, cost }.for_each(io.threads, y, |start, y| {
            (self.convert)(self.isa, &x[start / to * from..][..y.len() / to * from], y);
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "cast")
    }
}

/// An element type to convert from.
trait Source: Element {
    /// A type that represents every value.
    type Via: Via;

    fn via(self) -> Self::Via;
}

/// The intermediate type.
trait Via: Copy {
    fn to<Y: Target>(self) -> Y;
}

/// An element type to convert to.
trait Target: Element {
    fn of_i64(x: i64) -> Self;
    fn of_u64(x: u64) -> Self;
    fn of_f32(x: f32) -> Self;
    fn of_f64(x: f64) -> Self;
}

macro_rules! vias {
    ($($ty:ty: $of:ident),*) => { $(
        impl Via for $ty {
            #[inline(always)]
            fn to<Y: Target>(self) -> Y { Y::$of(self) }
        }
    )* };
}
vias!(i64: of_i64, u64: of_u64, f32: of_f32, f64: of_f64);

macro_rules! sources {
    ($($ty:ty => $via:ty: |$x:ident| $expr:expr;)*) => { $(
        impl Source for $ty {
            type Via = $via;

            #[inline(always)]
            fn via(self) -> $via { let $x = self; $expr }
        }
    )* };
}
sources! {
    i8 => i64: |x| i64::from(x);
    i16 => i64: |x| i64::from(x);
    i32 => i64: |x| i64::from(x);
    i64 => i64: |x| x;
    u8 => i64: |x| i64::from(x);
    u16 => i64: |x| i64::from(x);
    u32 => i64: |x| i64::from(x);
    u64 => u64: |x| x;
    Bool => i64: |x| i64::from(x.get());
    f16 => f32: |x| f16_to_f32(x.to_bits());
    bf16 => f32: |x| bf16_to_f32(x.to_bits());
    f32 => f32: |x| x;
    f64 => f64: |x| x;
}

/// 2³¹, the first float beyond `i32`.
const HALF_OF_U32: f32 = (1_u32 << 31) as f32;
/// 2⁶³, the first float beyond `i64`.
const BEYOND_I64: f64 = 9_223_372_036_854_775_808.0;

macro_rules! integers {
    ($($ty:ty: |$x:ident| $of_f32:expr, $of_f64:expr;)*) => { $(
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_lossless,
            clippy::cast_possible_wrap, clippy::unnecessary_cast,
            reason = "the low bits are the result")]
        impl Target for $ty {
            #[inline(always)]
            fn of_i64(x: i64) -> Self { x as $ty }
            #[inline(always)]
            fn of_u64(x: u64) -> Self { x as $ty }
            #[inline(always)]
            fn of_f32($x: f32) -> Self { $of_f32 }
            #[inline(always)]
            fn of_f64($x: f64) -> Self { $of_f64 }
        }
    )* };
}

// Out-of-range values become the least integer; narrower types take the low bits of 32.
integers! {
    i32: |x| f32_to_i32(x), f64_to_i32(x);
    i64: |x| f32_to_i64(x), f64_to_i64(x);
    i8: |x| i32::of_f32(x) as i8, i32::of_f64(x) as i8;
    i16: |x| i32::of_f32(x) as i16, i32::of_f64(x) as i16;
    u8: |x| i32::of_f32(x) as u8, i32::of_f64(x) as u8;
    u16: |x| i32::of_f32(x) as u16, i32::of_f64(x) as u16;
    u32: |x| low_bits(x), i64::of_f64(x) as u32;
    u64: |x| u64::of_f64(f64::from(x)), if x >= BEYOND_I64 {
        i64::of_f64(x - BEYOND_I64).cast_unsigned() ^ (1 << 63)
    } else {
        i64::of_f64(x).cast_unsigned()
    };
}

/// The low bits of the 64-bit integer toward zero; 0 if it is out of range, which vectors of 32 bits can compute.
#[inline(always)]
fn low_bits(x: f32) -> u32 {
    const HALF: f32 = HALF_OF_U32;
    // All steps are exact. Beyond 2⁵⁵, the low bits of a float are 0.
    let rest = x - (x / (2.0 * HALF)).trunc() * (2.0 * HALF);
    let is_upper = rest.abs() >= HALF;
    let rest = if is_upper { rest - HALF.copysign(rest) } else { rest };
    // Without the saturation of `as`, which AVX2 computes one by one.
    let rest = if rest.abs() < HALF { rest } else { 0.0 };
    f32_to_i32(rest).cast_unsigned() ^ (u32::from(is_upper) << 31)
}

macro_rules! others {
    ($($ty:ty: |$x:ident| $of_i64:expr, $of_u64:expr, $of_f32:expr, $of_f64:expr;)*) => { $(
        #[allow(clippy::cast_possible_truncation, reason = "rounding to nearest is intended")]
        impl Target for $ty {
            #[inline(always)]
            fn of_i64($x: i64) -> Self { $of_i64 }
            #[inline(always)]
            fn of_u64($x: u64) -> Self { $of_u64 }
            #[inline(always)]
            fn of_f32($x: f32) -> Self { $of_f32 }
            #[inline(always)]
            fn of_f64($x: f64) -> Self { $of_f64 }
        }
    )* };
}

// f16 is exact up to 2¹¹ and infinite beyond 2¹⁶, f32 exact up to 2²⁴: integers are not rounded twice.
others! {
    f32: |x| x as f32, x as f32, x, x as f32;
    f64: |x| x as f64, x as f64, f64::from(x), x;
    f16: |x| f16::of_f32(x as f32), f16::of_f32(x as f32), f16::from_bits(f32_to_f16(x)),
        f16::of_f32(round_to_odd(x));
    bf16: |x| bf16::of_f64(x as f64), bf16::of_f64(x as f64), bf16::from_bits(f32_to_bf16(x)),
        bf16::of_f32(round_to_odd(x));
    Bool: |x| Bool::from(x != 0), Bool::from(x != 0), Bool::from(x != 0.0), Bool::from(x != 0.0);
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Bool, DType, Number, Tensor, f16, with_dtype};

    use crate::case::{Case, exact};

    /// Numbers of all magnitudes that a type has, its limits, and non-finite values.
    fn numbers<T: Number>(n: usize) -> Tensor {
        let scrambled = |i: usize| (i.wrapping_mul(6_364_136_223_846_793_005) >> 20) as f64;
        let power = |i: usize| f64::from_bits(u64::try_from(1023 + i % 70).unwrap() << 52);
        let number = |i: usize| match i % 8 {
            0 => [f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 0.5, -1e-30][i / 8 % 6],
            1 => power(i) * [1.0, -1.0][i % 2],
            2 => power(i) - 1.0,
            3 => scrambled(i),
            4 => -scrambled(i) / 1e9,
            _ => scrambled(i) / 1e7 % 300.0 - 150.5,
        };
        let elements: Vec<T> = (0..n).map(|i| T::from_f64(number(i))).collect();
        Tensor::from_slice(&[n], &elements).unwrap()
    }

    fn case(x: Tensor, to: DType) -> Case {
        let to = i64::from(to.onnx());
        Case::new("Cast", 13).attr("to", Attr::Int(to)).input(x)
    }

    #[test]
    fn every_pair_of_types_equals_the_operator() {
        let known = |dtype: &&DType| dtype.is_number() || **dtype == DType::Bool;
        for &from in DType::ALL.iter().filter(known) {
            for &to in DType::ALL.iter().filter(known) {
                let x = with_dtype!(from, number,
                T => numbers::<T>(1001),
                else => {
                    let flags: Vec<Bool> = (0..1001).map(|i| (i % 3 == 0).into()).collect();
                    Tensor::from_slice(&[1001], &flags).unwrap()
                });
                case(x, to).check(exact);
            }
        }
        // Large enough for several threads.
        case(numbers::<f16>(300_001), DType::F64).check(exact);
        case(numbers::<i64>(300_001), DType::Bf16).check(exact);
    }

    #[test]
    fn integers_round_once_to_bfloat16() {
        let mut numbers = vec![i32::MIN, i32::MAX, 0];
        for power in 7..31 {
            for tail in [0x80, 0x81, 0x7f, 0x180, 0x17f, 0x181] {
                // Around halves of the last bit, which is 2⁷ below the first.
                let half = (i64::from(tail) << power) >> 8;
                numbers.extend([-1, 0, 1].into_iter().flat_map(|d| {
                    let x = i32::try_from((1 << power) + half + d).unwrap_or(i32::MAX);
                    [x, -x]
                }));
            }
        }
        let x = Tensor::from_slice(&[numbers.len()], &numbers).unwrap();
        case(x, DType::Bf16).check(exact);
    }
}
