//! LRN in f32: the squares of the channels around each are added for a piece of the planes at a time, which stays in the
//! first-level cache.

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::{Isa, Task};
use ort_ops::ops::lrn::Lrn;
use ort_tensor::{DType, Pace, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Elements of a plane that are computed at a time, in all channels of a part.
const PIECE: usize = 1 << 10;
/// Channels whose squares are added between two checks for cancellation.
const CHANNELS: usize = 64;
/// The cost of an element, in multiply-adds, and of each of the squares.
const COST: usize = 32;
const SQUARE: usize = 4;

#[derive(Debug)]
struct LrnKernel {
    isa: Isa,
    op: Lrn,
}

/// Prepared state for one shape signature.
struct State {
    channels: usize,
    /// Elements per channel.
    plane: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let is_f32 = compiler.fact(0).and_then(Fact::dtype) == Some(DType::F32);
    let op = compiler.op::<Lrn>().filter(|_| is_f32);
    let kernel = |&op| Box::new(LrnKernel { isa: compiler.cpu.isa, op }) as Box<dyn Kernel>;
    Ok(op.map(kernel))
}

impl Kernel for LrnKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x] = shapes else { return Err(KernelError::ForeignState) };
        let &[_, channels, ref plane @ ..] = x else {
            let found = x.len();
            return Err(OpError::InputRank { index: 0, expected: "2 or more", found }.into());
        };
        let plane = n_elements(plane).ok_or(OpError::TooLarge)?;
        Ok(Prepared::new(State { channels, plane }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let &State { channels, plane } = prepared.state()?;
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(DType::F32, x.shape())?.into_slice::<f32>()?;
        let x = x.as_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let cost = self.op.size.min(channels).saturating_mul(SQUARE).saturating_add(COST);
        let rows = Rows { len: plane, cost: plane.saturating_mul(cost) };
        rows.for_each(io.threads, y, |start, y| {
            let (first, mut pace) = (start / plane, Pace::new());
            for at in (0..plane).step_by(PIECE) {
                let len = PIECE.min(plane - at);
                for (row, y) in (first..).zip(y.chunks_exact_mut(plane)) {
                    let (image, channel) = (row / channels * channels, row % channels);
                    let [from, to] = self.around(channel, channels);
                    let y = &mut y[at..at + len];
                    y.fill(0.0);
                    for from in (from..to).step_by(CHANNELS) {
                        let n = CHANNELS.min(to - from);
                        if pace.go(n * len).is_err() {
                            return;
                        }
                        let x = &x[(image + from) * plane + at..];
                        self.isa.run(AddSquares { x, pitch: plane, n, y });
                    }
                    let x = &x[row * plane + at..][..len];
                    self.isa.run(Divide { op: self.op, x, y });
                }
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.isa => "lrn_f32")
    }
}

impl LrnKernel {
    /// The channels around one, as far as they exist: the first, and the one after the last.
    fn around(&self, channel: usize, channels: usize) -> [usize; 2] {
        let (before, after) = ((self.op.size - 1) / 2, self.op.size / 2);
        [channel.saturating_sub(before), channel.saturating_add(after).min(channels - 1) + 1]
    }
}

/// Adds the squares of the first elements of `n` channels, which are `pitch` apart.
struct AddSquares<'a> {
    x: &'a [f32],
    pitch: usize,
    n: usize,
    y: &'a mut [f32],
}

impl Task for AddSquares<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, pitch, n, y } = self;
        for i in 0..n {
            for (sum, x) in y.iter_mut().zip(&x[i * pitch..]) {
                *sum = if FMA { x.mul_add(*x, *sum) } else { *sum + x * x };
            }
        }
    }
}

/// `y = x / (bias + alpha / size · y)^beta`, where `y` has the sums of squares.
struct Divide<'a> {
    op: Lrn,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Task for Divide<'_> {
    type Output = ();

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "results are f32")]
    fn run<const FMA: bool>(self) {
        let Self { op, x, y } = self;
        let is = |beta: f32| op.beta.to_bits() == beta.to_bits();
        if is(0.75) {
            return finish(op, x, y, |sum| sum.sqrt() * sum.sqrt().sqrt());
        }
        if is(0.5) {
            return finish(op, x, y, f32::sqrt);
        }
        if is(1.0) {
            return finish(op, x, y, |sum| sum);
        }
        finish(op, x, y, |sum| f64::from(sum).powf(f64::from(op.beta)) as f32);
    }
}

/// Replaces sums of squares by results.
#[inline(always)]
fn finish(op: Lrn, x: &[f32], y: &mut [f32], power: impl Fn(f32) -> f32) {
    let scale = op.alpha / op.size as f32;
    for (y, x) in y.iter_mut().zip(x) {
        *y = x / power(op.bias + scale * *y);
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, floats, within};

    #[test]
    fn every_exponent_size_and_shape_equals_the_operator() {
        let shapes: [&[usize]; 6] =
            [&[2, 7, 5, 9], &[1, 3, 2500], &[3, 64, 33, 40], &[2, 5], &[1, 1, 4], &[2, 3, 0]];
        for shape in shapes {
            for (size, beta) in
                [(1, 0.75), (2, 0.5), (5, 0.75), (5, 1.0), (9, 0.6), (1 << 40, 0.75)]
            {
                Case::new("LRN", 13)
                    .attr("size", Attr::Int(size))
                    .attr("alpha", Attr::Float(0.5))
                    .attr("beta", Attr::Float(beta))
                    .attr("bias", Attr::Float(2.0))
                    .input(floats(shape))
                    .check(within(1e-5));
            }
        }
    }
}
