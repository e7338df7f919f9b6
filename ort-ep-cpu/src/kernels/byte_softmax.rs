//! QLinearSoftmax. The exponential of a quantized value depends only on its distance from the maximum of its lane,
//! exactly: products of a quantized value and a scale have 32 bits, and f64 represents them and their differences.
//!
//! ```text
//! e[d] = exp(−d·scale)      y = saturate(round(e[max − x] / Σ e · steps) + zero)
//! ```
//! Sums of several lanes are independent, so they are computed together. A long lane has a table of results by
//! distance, which ends where they round to 0: larger distances have smaller exponentials.

use std::ops::Range;

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

/// Lanes computed together, if they are adjacent.
const WIDTH: usize = 64;
/// Rows computed together, which are lanes of adjacent elements.
const N_ROWS: usize = 8;
/// The length of rows that have a table of results.
const LONG_ROW: usize = 32;

/// Lanes of blocks `[len, inner]`.
struct Blocks<'a> {
    softmax: &'a Softmax,
    lanes: Lanes,
    is_signed: bool,
    x: &'a [u8],
    y: &'a mut [u8],
}

impl Task for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { softmax, lanes: Lanes { len, inner }, is_signed, x, y } = self;
        let flip = if is_signed { 0x80 } else { 0 };
        let block = len.saturating_mul(inner).max(1);
        let mut pace = Pace::new();
        let Some(exponentials) = &softmax.exponentials else {
            for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
                for i in 0..inner {
                    if pace.go(len).is_err() {
                        return;
                    }
                    let lane = x[i..].iter().step_by(inner).copied();
                    softmax.lane(lane, y[i..].iter_mut().step_by(inner), is_signed);
                }
            }
            return;
        };
        let group = Group { softmax, exponentials, flip };
        if inner == 1 {
            let rows = x.chunks(block * N_ROWS).zip(y.chunks_mut(block * N_ROWS));
            for (x, y) in rows {
                if pace.go(x.len()).is_err() {
                    return;
                }
                group.rows(len, x, y);
            }
            return;
        }
        for (x, y) in x.chunks_exact(block).zip(y.chunks_exact_mut(block)) {
            for first in (0..inner).step_by(WIDTH) {
                let lanes = first..inner.min(first + WIDTH);
                if pace.go(lanes.len().saturating_mul(len)).is_err() {
                    return;
                }
                group.columns(inner, lanes, x, y);
            }
        }
    }
}

/// Lanes whose exponentials depend on distances only.
struct Group<'a> {
    softmax: &'a Softmax,
    exponentials: &'a [f64; 256],
    /// XORed with quantized values, orders them.
    flip: u8,
}

impl Group<'_> {
    #[inline(always)]
    fn is_signed(&self) -> bool {
        self.flip != 0
    }

    /// Lanes of `len` adjacent elements, at most [`N_ROWS`].
    #[inline(always)]
    fn rows(&self, len: usize, x: &[u8], y: &mut [u8]) {
        let (mut sums, mut greatest) = ([0.0; N_ROWS], [0; N_ROWS]);
        let mut rows: [&[u8]; N_ROWS] = [&[]; N_ROWS];
        for ((row, x), greatest) in rows.iter_mut().zip(x.chunks_exact(len)).zip(&mut greatest) {
            *row = x;
            *greatest = x.iter().map(|x| x ^ self.flip).max().unwrap_or_default();
        }
        let n_rows = x.len() / len;
        for i in 0..len {
            for ((sum, greatest), row) in sums.iter_mut().zip(greatest).zip(&rows[..n_rows]) {
                *sum += self.exponentials[usize::from(greatest - (row[i] ^ self.flip))];
            }
        }
        let rows = rows.iter().zip(y.chunks_exact_mut(len)).zip(sums.iter().zip(greatest));
        for ((x, y), (&sum, greatest)) in rows {
            let distance = |x: u8| usize::from(greatest - (x ^ self.flip));
            let result = |exponential| {
                let rounded = self.softmax.rounded(exponential, sum);
                (rounded == 0.0, self.softmax.saturated(rounded, self.is_signed()))
            };
            if len < LONG_ROW {
                y.iter_mut().zip(*x).for_each(|(y, &x)| {
                    (_, *y) = result(self.exponentials[distance(x)]);
                });
                continue;
            }
            let mut table = [self.softmax.saturated(0.0, self.is_signed()); 256];
            for (to, &exponential) in table.iter_mut().zip(self.exponentials) {
                let is_last;
                (is_last, *to) = result(exponential);
                if is_last {
                    break;
                }
            }
            y.iter_mut().zip(*x).for_each(|(y, &x)| *y = table[distance(x)]);
        }
    }

    /// Adjacent lanes, whose elements have the distance `inner`.
    #[inline(always)]
    fn columns(&self, inner: usize, lanes: Range<usize>, x: &[u8], y: &mut [u8]) {
        let (mut sums, mut greatest) = ([0.0; WIDTH], [0; WIDTH]);
        for x in x.chunks_exact(inner) {
            let x = greatest.iter_mut().zip(&x[lanes.clone()]);
            x.for_each(|(greatest, x)| *greatest = (*greatest).max(x ^ self.flip));
        }
        let exponential =
            |x: u8, greatest: u8| self.exponentials[usize::from(greatest - (x ^ self.flip))];
        for x in x.chunks_exact(inner) {
            let x = sums.iter_mut().zip(greatest).zip(&x[lanes.clone()]);
            x.for_each(|((sum, greatest), &x)| *sum += exponential(x, greatest));
        }
        for (x, y) in x.chunks_exact(inner).zip(y.chunks_exact_mut(inner)) {
            let x = sums.iter().zip(greatest).zip(&x[lanes.clone()]);
            for (y, ((&sum, greatest), &x)) in y[lanes.clone()].iter_mut().zip(x) {
                let rounded = self.softmax.rounded(exponential(x, greatest), sum);
                *y = self.softmax.saturated(rounded, self.is_signed());
            }
        }
    }
}

impl Softmax {
    /// The steps of a share, a whole number.
    #[inline(always)]
    fn rounded(&self, exponential: f64, sum: f64) -> f64 {
        (exponential / sum * self.n_steps).round_ties_even()
    }

    /// The bits of a quantized value.
    #[inline(always)]
    fn saturated(&self, rounded: f64, is_signed: bool) -> u8 {
        let value = rounded + self.zero;
        if is_signed { i8::from_f64(value).cast_unsigned() } else { u8::from_f64(value) }
    }

    /// One lane, with any scale.
    #[inline(always)]
    fn lane<'y>(
        &self,
        x: impl Iterator<Item = u8> + Clone,
        y: impl Iterator<Item = &'y mut u8>,
        is_signed: bool,
    ) {
        let value = |x: u8| match is_signed {
            true => f64::from(x.cast_signed()) * self.scale,
            false => f64::from(x) * self.scale,
        };
        let greatest = x.clone().map(value).fold(f64::NEG_INFINITY, f64::max);
        let exponential = |x: u8| (value(x) - greatest).exp();
        let sum = x.clone().fold(0.0, |sum, x| sum + exponential(x));
        let y = y.zip(x);
        y.for_each(|(y, x)| *y = self.saturated(self.rounded(exponential(x), sum), is_signed));
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
        let (is_signed, x) = (x.dtype() == DType::I8, x.as_words::<u8>()?);
        rows.for_each(io.threads, y.into_words::<u8>()?, |start, y| {
            isa.run(Blocks { softmax, lanes, is_signed, x: &x[start..][..y.len()], y });
        });
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
        for (shape, axis) in [
            (&[7][..], 0),
            (&[12, 40, 130], -1),
            (&[29, 9], 1),
            (&[2, 300, 77], 1),
            (&[3, 0], 1),
            (&[4, 1], 1),
        ] {
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
