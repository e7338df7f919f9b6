//! Pow with an exponent of another type than the base, and of 16-bit floats: exponents are converted to f64 first, or for integers
//! with integer exponents to i128, which is exact.

use bytemuck::Pod;
use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::Fact;
use ort_kernels::Isa;
use ort_kernels::vec::{each, pow_by_f64};
use ort_ops::ops::pow::{Pow, power, power_of_integers};
use ort_tensor::{DType, Element, Number, bf16, f16, n_elements, with_dtype};

use super::halves::Half;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::numbers;
use crate::operation::{Broadcast, Operand};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Exponents that are broadcast at a time.
const TILE: usize = 256;
/// The cost of a line of powers, in multiply-adds: see [`Rows::ELEMENTS`].
const COST: usize = 4096;

#[derive(Debug)]
struct MixedPowKernel {
    isa: Isa,
    base: DType,
    exponent: DType,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let dtype = |input| compiler.fact(input).and_then(Fact::dtype);
    let (Some(_), Some(base), Some(exponent)) = (compiler.op::<Pow>(), dtype(0), dtype(1)) else {
        return Ok(None);
    };
    let is_base = base.is_float() || matches!(base, DType::I32 | DType::I64);
    let kernel = MixedPowKernel { isa: compiler.cpu.isa, base, exponent };
    Ok((is_base && exponent.is_number()).then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl Kernel for MixedPowKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let state = Broadcast::new(shapes)?;
        let width = if self.is_exact() { size_of::<i128>() } else { size_of::<f64>() };
        let n = n_elements(shapes[1]).unwrap_or(usize::MAX);
        Ok(Prepared::new(state).with_scratch(n.saturating_mul(width)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, state) = (self.isa, prepared.state::<Broadcast>()?);
        let exponents = io.inputs.tensor(1)?;
        let n = exponents.len();
        if self.is_exact() {
            let e = &mut numbers::<i128>(io.scratch)[..n];
            with_dtype!(self.exponent, integer,
                E => convert(isa, exponents.as_slice::<E>()?, (e, i128::from), io.threads),
                else => return Err(KernelError::ForeignState));
            return with_dtype!(self.base, [i32, i64],
                B => raise::<B, _>(state, io, n, |y, e| {
                    y.iter_mut().zip(e).for_each(|(y, e)| *y = power_of_integers(*y, *e));
                }),
                else => Err(KernelError::ForeignState));
        }
        let e = &mut numbers::<f64>(io.scratch)[..n];
        with_dtype!(self.exponent, number,
            E => convert(isa, exponents.as_slice::<E>()?, (e, Number::to_f64), io.threads),
            else => return Err(KernelError::ForeignState));
        match self.base {
            DType::F32 => raise(state, io, n, |y, e| pow_by_f64(isa, y, e)),
            DType::F16 => raise::<f16, _>(state, io, n, |y, e| raise_halves(isa, y, e)),
            DType::Bf16 => raise::<bf16, _>(state, io, n, |y, e| raise_halves(isa, y, e)),
            base => with_dtype!(base, [f64, i32, i64],
                B => raise::<B, f64>(state, io, n, |y, e| {
                    let powers = y.iter_mut().zip(e);
                    powers.for_each(|(y, e)| *y = Number::from_f64(power(Number::to_f64(*y), *e)));
                }),
                else => Err(KernelError::ForeignState)),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "mixed_pow")
    }
}

impl MixedPowKernel {
    /// Whether integers are raised to integers.
    const fn is_exact(&self) -> bool {
        self.base.is_integer() && self.exponent.is_integer()
    }
}

/// `y[i] = f(x[i])`, on all threads.
fn convert<X: Element, Y: Send>(
    isa: Isa,
    x: &[X],
    (y, f): (&mut [Y], impl Fn(X) -> Y + Sync),
    threads: &dyn Threads,
) {
    Rows::ELEMENTS.for_each(threads, y, |start, y| each(isa, &x[start..][..y.len()], y, &f));
}

/// `y = x`, then `f(y, e)` for pieces of `y` and exponents `e`, of which the first `n` of scratch are broadcast.
fn raise<B: Element, E: Pod + Default + Sync>(
    state: &Broadcast,
    io: &mut Io<'_, '_>,
    n: usize,
    f: impl Fn(&mut [B], &[E]) + Sync,
) -> Result<(), KernelError> {
    let x = match io.outputs[0].in_place_of() {
        Some(0) => None,
        _ => Some(io.inputs.tensor(0)?.as_slice::<B>()?),
    };
    let y = io.outputs[0].tensor(B::DTYPE, &state.shape)?.into_slice::<B>()?;
    let (e, runs) = (&numbers::<E>(io.scratch)[..n], &state.runs);
    let [x_walk, e_walk] = runs.walks().map(|walk| (walk, runs.period()));
    let lines = Rows { cost: COST, ..Rows::ELEMENTS };
    lines.for_each(io.threads, y, |start, y| {
        let mut tile = [E::default(); TILE];
        runs.for_each_within(start..start + y.len(), |range, [i, j]| {
            let len = range.len();
            let y = &mut y[range.start - start..range.end - start];
            Operand::new(x, i, len, x_walk).write(y);
            let e = Operand::new(Some(e), j, len, e_walk);
            for (k, y) in y.chunks_mut(TILE).enumerate() {
                let tile = &mut tile[..y.len()];
                match e.from(k * TILE) {
                    Operand::Row(row) => f(y, &row[..y.len()]),
                    e => {
                        e.write(tile);
                        f(y, tile);
                    }
                }
            }
        });
    });
    Ok(())
}

/// `y[i] = y[i]^e[i]`, computed in f32.
fn raise_halves<T: Half>(isa: Isa, y: &mut [T], e: &[f64]) {
    let mut wide = [0.0; TILE];
    let wide = &mut wide[..y.len()];
    T::widen(isa, y, wide);
    pow_by_f64(isa, wide, e);
    T::narrow(isa, wide, y);
}

#[cfg(test)]
mod tests {
    use ort_tensor::{DType, Number, Tensor, n_elements, with_dtype};

    use crate::case::{Case, relative};

    const SHAPES: [[&[usize]; 2]; 10] = [
        [&[], &[1]],
        [&[3, 700], &[3, 700]],
        [&[3, 700], &[1]],
        [&[1], &[2, 33]],
        [&[5, 2, 40], &[40]],
        [&[70, 3], &[3]],
        [&[3], &[70, 3]],
        [&[2, 3, 5, 7], &[1, 3, 1, 1]],
        [&[0, 3], &[1, 3]],
        [&[3, 1, 17, 61], &[3, 2, 1, 1]],
    ];

    /// Small numbers, halves among the floats, and at intervals a special one.
    fn numbers(dtype: DType, shape: &[usize]) -> Tensor {
        let number = |i: usize| match i % 97 {
            11 => [f64::NAN, f64::INFINITY, -0.0, f64::NEG_INFINITY, 300.0][i / 97 % 5],
            _ => (i * 7919 % 15) as f64 / 2.0 - 3.0,
        };
        with_dtype!(dtype, number, T => {
            let n = n_elements(shape).unwrap();
            let numbers: Vec<T> = (0..n).map(|i| <T as Number>::from_f64(number(i + n))).collect();
            Tensor::from_slice(shape, &numbers).unwrap()
        }, else => unreachable!("a number type"))
    }

    fn check(base: DType, tolerance: f32) {
        for &exponent in DType::ALL.iter().filter(|dtype| dtype.is_number()) {
            for [x, e] in SHAPES {
                let case =
                    Case::new("Pow", 15).input(numbers(base, x)).weight(numbers(exponent, e));
                case.check(relative(tolerance));
            }
        }
    }

    #[test]
    fn floats_have_exponents_of_any_type() {
        check(DType::F32, 1.3e-7);
        check(DType::F64, 0.0);
    }

    #[test]
    fn halves_have_exponents_of_any_type() {
        check(DType::F16, 1e-3);
        check(DType::Bf16, 8e-3);
    }

    #[test]
    fn integers_have_exponents_of_any_type() {
        check(DType::I32, 0.0);
        check(DType::I64, 0.0);
    }
}
