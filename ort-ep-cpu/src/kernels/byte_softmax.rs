//! QLinearSoftmax. The exponential of a quantized value depends only on its distance from the maximum of its lane,
//! exactly: products of a quantized value and a scale have 32 bits, and f64 represents them and their differences.
//!
//! ```text
//! e[d] = exp(−d·scale)      y = saturate(round(e[max − x] / Σ e · steps) + zero)
//! ```

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, Operator};
use ort_kernels::{Isa, Task};
use ort_ops::infer::normalize_axis;
use ort_ops::ops::microsoft::qlinear_softmax::QLinearSoftmax;
use ort_tensor::{DType, Number, Pace, Shape};

use super::{Compiled, Compiler, KernelDef};
use crate::lanes::Lanes;
use crate::pieces::Rows;
use crate::scheme::Scheme;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// The cost of an element, in multiply-adds: it is added to a sum, and divided.
const COST: usize = 256;

#[derive(Debug)]
struct ByteSoftmax {
    isa: Isa,
    op: QLinearSoftmax,
}

struct State {
    shape: Shape,
    lanes: Lanes,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(&op) = compiler.op::<QLinearSoftmax>() else { return Ok(None) };
    let is_byte = compiler.fact(0).and_then(Fact::dtype).is_some_and(DType::is_byte);
    let is_taken = is_byte && (1..=4).all(|input| compiler.is_one_or_none(input));
    let isa = compiler.cpu.isa;
    Ok(is_taken.then(|| Box::new(ByteSoftmax { isa, op }) as Box<dyn Kernel>))
}

/// The parameters of a run.
struct Softmax {
    scale: f64,
    /// The exponentials by distance, where they depend on nothing else.
    exponentials: Option<[f64; 256]>,
    n_steps: f64,
    zero: f64,
}

impl Softmax {
    fn new(from: Scheme, to: Scheme) -> Self {
        let scale = f64::from(from.scale);
        let by_distance = || {
            let mut distance = 0_u8;
            std::array::from_fn(|_| {
                let exponential = (-(f64::from(distance) * scale)).exp();
                distance = distance.wrapping_add(1);
                exponential
            })
        };
        let exponentials = (scale.is_finite() && scale >= 0.0).then(by_distance);
        let (n_steps, zero) = (f64::from((1.0 / to.scale).floor()), f64::from(to.zero));
        Self { scale, exponentials, n_steps, zero }
    }
}

/// Lanes of blocks `[len, inner]`.
struct Blocks<'a, T> {
    softmax: &'a Softmax,
    lanes: Lanes,
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Number + Ord> Task for Blocks<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { softmax, lanes: Lanes { len, inner }, x, y } = self;
        let block = len.saturating_mul(inner).max(1);
        let mut pace = Pace::new();
        for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
            for i in 0..inner {
                if pace.go(len).is_err() {
                    return;
                }
                let x = x[i..].iter().step_by(inner).copied();
                let y = y[i..].iter_mut().step_by(inner);
                match &softmax.exponentials {
                    Some(exponentials) => {
                        let largest = x.clone().max().map_or(0.0, T::to_f64);
                        lane(softmax, x, y, |x| {
                            exponentials[usize::from(u8::from_f64(largest - x.to_f64()))]
                        });
                    }
                    None => {
                        let value = |x: T| x.to_f64() * softmax.scale;
                        let largest = x.clone().map(value).fold(f64::NEG_INFINITY, f64::max);
                        lane(softmax, x, y, |x| (value(x) - largest).exp());
                    }
                }
            }
        }
    }
}

/// One lane.
#[inline(always)]
fn lane<'y, T: Number>(
    softmax: &Softmax,
    x: impl Iterator<Item = T> + Clone,
    y: impl Iterator<Item = &'y mut T>,
    exponential: impl Fn(T) -> f64,
) {
    let sum = x.clone().fold(0.0, |sum, x| sum + exponential(x));
    for (y, x) in y.zip(x) {
        let share = exponential(x) / sum;
        *y = T::from_f64((share * softmax.n_steps).round_ties_even() + softmax.zero);
    }
}

impl Kernel for ByteSoftmax {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&x) = shapes.first() else { return Err(KernelError::ForeignState) };
        let axis = normalize_axis(self.op.axis, x.len())?;
        let lanes = match self.op.is_flattened {
            true => Lanes::flattened(x, axis),
            false => Lanes::along(x, axis),
        };
        Ok(Prepared::new(State { shape: x.into(), lanes }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let State { shape, lanes } = prepared.state()?;
        if lanes.are_too_long() {
            return Ok(self.op.eval(io.inputs, io.outputs)?);
        }
        let (isa, lanes, x) = (self.isa, *lanes, io.inputs.tensor(0)?);
        let softmax = &Softmax::new(Scheme::read(io.inputs, 1)?, Scheme::read(io.inputs, 3)?);
        let len = lanes.len.saturating_mul(lanes.inner);
        let rows = Rows { len, cost: len.saturating_mul(COST) };
        let y = io.outputs[0].tensor(x.dtype(), shape)?;
        match x.dtype() {
            DType::I8 => {
                let x = x.as_slice::<i8>()?;
                rows.for_each(io.threads, y.into_slice()?, |start, y| {
                    isa.run(Blocks { softmax, lanes, x: &x[start..][..y.len()], y });
                });
            }
            _ => {
                let x = x.as_slice::<u8>()?;
                rows.for_each(io.threads, y.into_slice()?, |start, y| {
                    isa.run(Blocks { softmax, lanes, x: &x[start..][..y.len()], y });
                });
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "quantized softmax")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};

    #[test]
    fn results_equal_eval() {
        for (shape, axis) in
            [(&[7][..], 0), (&[12, 40, 130], -1), (&[2, 300, 7], 1), (&[3, 0], 1), (&[4, 1], 1)]
        {
            for (opset, scale) in [(13, 0.06), (12, 0.3), (13, -0.1), (13, f32::INFINITY)] {
                let case = |x: Tensor, zeros: [Tensor; 2]| {
                    let [x_zero, y_zero] = zeros;
                    let case = Case::new("QLinearSoftmax", 1).domain("com.microsoft");
                    let case = case.attr("axis", Attr::Int(axis)).attr("opset", Attr::Int(opset));
                    let case = case.input(x).input(Tensor::scalar(scale)).input(x_zero);
                    case.input(Tensor::scalar(1.0_f32 / 256.0)).input(y_zero).check(exact);
                };
                case(bytes(shape, |bits| bits), [3_u8, 0].map(Tensor::scalar));
                case(bytes(shape, u8::cast_signed), [3_i8, -128].map(Tensor::scalar));
            }
        }
    }
}
