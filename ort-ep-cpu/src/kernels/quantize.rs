//! QuantizeLinear from and DequantizeLinear to f32, with one scale for the whole tensor, or one for each
//! index along an axis.

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Dim, Fact, OpError};
use ort_kernels::Isa;
use ort_kernels::quantize::{Factors, dequantize, quantize};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::quantization::{DequantizeLinear, QuantizeLinear};
use ort_tensor::{DType, Inputs, Number, Shape, n_elements, with_dtype};

use super::{Compiled, Compiler, KernelDef};
use crate::bytes::split_floats;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds.
const COST: usize = 8;

/// One of the two operators.
#[derive(Debug)]
struct Quantize {
    isa: Isa,
    /// The type of the quantized values.
    quantized: DType,
    direction: Direction,
    axis: i64,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    ToQuantized,
    ToFloats,
}

/// Prepared state for one shape signature: elements `[…, n, inner]`, with a scale for each of the `n`.
pub(super) struct State {
    pub(super) shape: Shape,
    pub(super) n: usize,
    pub(super) inner: usize,
}

/// The scales and zero points of a run.
#[derive(Clone, Copy)]
pub(super) struct Schemes<'a> {
    pub(super) scales: &'a [f32],
    pub(super) zeros: &'a [f32],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let is_f32 = |dtype: Option<DType>| dtype.is_none_or(|dtype| dtype == DType::F32);
    let dtype = |input| compiler.fact(input).and_then(Fact::dtype);
    let (direction, is_plain, granularity, quantized) = match (compiler.op(), compiler.op()) {
        (Some(QuantizeLinear { precision, output_dtype, granularity, .. }), None) => {
            let quantized = dtype(2).or(*output_dtype).or(Some(DType::U8));
            let is_plain = is_f32(*precision) && dtype(0) == Some(DType::F32);
            (Direction::ToQuantized, is_plain, *granularity, quantized)
        }
        (None, Some(DequantizeLinear { output_dtype, granularity })) => {
            (Direction::ToFloats, is_f32(*output_dtype), *granularity, dtype(0))
        }
        _ => return Ok(None),
    };
    // A scale of rank 0 or 1, or a single one for the whole tensor, whatever the axis.
    let is_line = compiler
        .fact(1)
        .and_then(Fact::dims)
        .is_some_and(|dims| dims.len() <= 1 || dims.iter().all(|dim| *dim == Dim::Known(1)));
    let has_blocks = granularity.block_size != 0;
    let is_supported = |quantized: &DType| match direction {
        Direction::ToQuantized => is_integer(*quantized) && *quantized != DType::I32,
        Direction::ToFloats => is_integer(*quantized),
    };
    let Some(quantized) = quantized.filter(is_supported) else { return Ok(None) };
    if !(is_plain && dtype(1) == Some(DType::F32) && is_line) || has_blocks {
        return Ok(None);
    }
    let (isa, axis) = (compiler.cpu.isa, granularity.axis);
    Ok(Some(Box::new(Quantize { isa, quantized, direction, axis })))
}

fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32)
}

impl Kernel for Quantize {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, scale, ..] = shapes else { return Err(KernelError::ForeignState) };
        let (n, inner) = match scale {
            _ if n_elements(scale) == Some(1) => (1, n_elements(x).ok_or(OpError::TooLarge)?),
            _ => {
                let axis = normalize_axis(self.axis, x.len())?;
                if scale != &x[axis..=axis] {
                    let what = "scales along the axis";
                    let (left, right) = (x.to_vec(), scale.to_vec());
                    return Err(OpError::Shapes { what, left, right }.into());
                }
                (x[axis], n_elements(&x[axis + 1..]).ok_or(OpError::TooLarge)?)
            }
        };
        let scratch = (n * size_of::<f32>()).next_multiple_of(64);
        Ok(Prepared::new(State { shape: x.into(), n, inner }).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, state, threads) = (self.isa, prepared.state::<State>()?, io.threads);
        let (zeros, _) = split_floats(io.scratch, state.n);
        let schemes = schemes(io.inputs, zeros)?;
        let x = io.inputs.tensor(0)?;
        match self.direction {
            Direction::ToQuantized => {
                let (x, y) =
                    (x.as_slice::<f32>()?, io.outputs[0].tensor(self.quantized, &state.shape)?);
                with_dtype!(self.quantized, [i8, u8, i16, u16], T => {
                    state.for_each_run(schemes, (x, y.into_slice::<T>()?), threads, |x, by, y| {
                        quantize(isa, x, by, y);
                    });
                    Ok(())
                }, else => Err(KernelError::ForeignState))
            }
            Direction::ToFloats => {
                let y = io.outputs[0].tensor(DType::F32, &state.shape)?.into_slice::<f32>()?;
                with_dtype!(self.quantized, [i8, u8, i16, u16, i32], T => {
                    state.for_each_run(schemes, (x.as_slice::<T>()?, y), threads, |x, by, y| {
                        dequantize(isa, x, by, y);
                    });
                    Ok(())
                }, else => Err(KernelError::ForeignState))
            }
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "quantize")
    }
}

/// The scales, and the zero points as floats; 0 if they are absent.
fn schemes<'a>(inputs: Inputs<'a>, zeros: &'a mut [f32]) -> Result<Schemes<'a>, KernelError> {
    let scales = inputs.tensor(1)?.as_slice::<f32>()?;
    zeros.fill(0.0);
    if let Some(zero) = inputs.optional_tensor(2)? {
        if zero.len() != zeros.len() {
            let right = zero.shape().to_vec();
            let left = inputs.tensor(1)?.shape().to_vec();
            return Err(OpError::Shapes { what: "scale and zero point", left, right }.into());
        }
        with_dtype!(zero.dtype(), [i8, u8, i16, u16, i32], T => {
            for (to, zero) in zeros.iter_mut().zip(zero.as_slice::<T>()?) {
                *to = f32::from_f64(zero.to_f64());
            }
        }, else => return Err(KernelError::ForeignState));
    }
    Ok(Schemes { scales, zeros })
}

impl State {
    /// Calls `f(x, (scale, zero point), y)` for runs of elements, on any thread.
    pub(super) fn for_each_run<X: Sync, Y: Send>(
        &self,
        Schemes { scales, zeros }: Schemes<'_>,
        (x, y): (&[X], &mut [Y]),
        threads: &dyn Threads,
        f: impl Fn(&[X], (Factors<'_>, Factors<'_>), &mut [Y]) + Sync,
    ) {
        let by = |i: usize| (Factors::One(scales[i]), Factors::One(zeros[i]));
        match (self.n, self.inner) {
            (1, _) => Rows { len: 64, cost: 64 * COST }.for_each(threads, y, |start, y| {
                f(&x[start..][..y.len()], by(0), y);
            }),
            (n, 1) => Rows { len: n, cost: n * COST }.for_each(threads, y, |start, y| {
                let rows = x[start..].chunks(n.max(1)).zip(y.chunks_mut(n.max(1)));
                rows.for_each(|(x, y)| f(x, (Factors::Each(scales), Factors::Each(zeros)), y));
            }),
            (n, inner) => {
                let rows = Rows { len: inner, cost: inner * COST };
                rows.for_each(threads, y, |start, y| {
                    let pairs = x[start..].chunks(inner.max(1)).zip(y.chunks_mut(inner.max(1)));
                    for (row, (x, y)) in (start / inner.max(1)..).zip(pairs) {
                        f(x, by(row % n), y);
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact, floats};

    #[test]
    fn results_equal_eval() {
        for shape in [&[][..], &[0], &[3], &[2, 300, 77]] {
            let to = || Case::new("QuantizeLinear", 21).input(floats(shape));
            to().input(Tensor::scalar(0.01_f32)).check(exact);
            let one = || Tensor::from_slice(&[1], &[0.02_f32]).unwrap();
            if shape.len() > 1 {
                let zero = Tensor::from_slice(&[1], &[-3_i8]).unwrap();
                to().input(one()).input(zero).check(exact);
            }
            let scale = || Tensor::scalar(0.3_f32);
            let from = |x| Case::new("DequantizeLinear", 21).input(x).input(scale());
            from(bytes(shape, |bits| bits)).input(Tensor::scalar(7_u8)).check(exact);
            from(bytes(shape, u8::cast_signed)).check(exact);
        }
    }

    /// Scales and zero points along each axis, of every type of quantized values.
    #[test]
    fn along_an_axis_and_of_all_types() {
        let shape = [3, 40, 5, 17];
        for (axis, &n) in shape.iter().enumerate() {
            let scale = || bytes(&[n], |bits| f32::from(bits) / 2000.0 + 0.001);
            let axis = Attr::Int(i64::try_from(axis).unwrap() - 4);
            let to = |zero: Tensor| {
                let case = Case::new("QuantizeLinear", 21).attr("axis", axis.clone());
                case.input(floats(&shape)).input(scale()).input(zero).check(exact);
            };
            let from = |x: Tensor, zero: Option<Tensor>| {
                let case = Case::new("DequantizeLinear", 21).attr("axis", axis.clone());
                let case = case.input(x).input(scale());
                match zero {
                    Some(zero) => case.input(zero).check(exact),
                    None => case.check(exact),
                }
            };
            to(bytes(&[n], |bits| bits));
            to(bytes(&[n], u8::cast_signed));
            to(bytes(&[n], |bits| u16::from(bits) * 200));
            to(bytes(&[n], |bits| i16::from(bits) - 128));
            from(bytes(&shape, |bits| bits), Some(bytes(&[n], |bits| bits)));
            from(bytes(&shape, |bits| u16::from(bits) * 256), None);
            let zero = bytes(&[n], i16::from);
            from(bytes(&shape, |bits| i16::from(bits) * 100 - 9999), Some(zero));
            from(bytes(&shape, |bits| i32::from(bits) * 8_000_001), None);
        }
    }

    #[test]
    fn mismatched_scales_are_an_error() {
        let scale = Tensor::from_slice(&[1], &[0.5_f32]).unwrap();
        let zero = Tensor::from_slice(&[2], &[1_u8, 2]).unwrap();
        let case = Case::new("QuantizeLinear", 21).input(floats(&[2, 2]));
        let error = case.input(scale).input(zero).error();
        assert!(error.to_string().contains("zero point"), "{error}");
    }
}
