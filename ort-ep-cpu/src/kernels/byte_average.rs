//! QLinearAveragePool, NCHW or channels-last: values are summed in f32, tap by tap, like `eval` does.
//! Lanes are the channels of a pixel, or the outputs of a line.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError};
use ort_kernels::conv_f32::Axis;
use ort_kernels::quantize::{Factors, QuantizedInt, quantize};
use ort_kernels::{Isa, Task};
use ort_ops::channels_last::ChannelsLast;
use ort_ops::ops::microsoft::qlinear_pool::QLinearAveragePool;
use ort_tensor::{DType, Pace, Shape};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, Team, n_parts, per_part};
use crate::scheme::Scheme;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct ByteAverage {
    cpu: Cpu,
    op: QLinearAveragePool,
    are_channels_last: bool,
}

/// The sizes for one shape signature.
struct Geometry {
    /// The shape of the result.
    shape: Shape,
    channels: usize,
    axes: [Axis; 3],
}

/// The operands of a run.
struct Means<'a, T> {
    kernel: &'a ByteAverage,
    geometry: &'a Geometry,
    x: &'a [T],
    from: Scheme,
    to: Scheme,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (op, are_channels_last) = match (compiler.op(), compiler.op()) {
        (Some(ChannelsLast::<QLinearAveragePool>(op)), _) => (op.clone(), true),
        (_, Some(op)) => (QLinearAveragePool::clone(op), false),
        _ => return Ok(None),
    };
    let x = compiler.fact(0);
    let is_byte = x.and_then(Fact::dtype).is_some_and(DType::is_byte);
    let is_image = matches!(x.and_then(Fact::rank), Some(3..=5));
    let kernel = ByteAverage { cpu: compiler.cpu, op, are_channels_last };
    let is_taken = is_byte && is_image && (1..=4).all(|input| compiler.is_one_or_none(input));
    Ok(is_taken.then(|| Box::new(kernel) as Box<dyn Kernel>))
}

impl Geometry {
    fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    /// The number of lanes computed together.
    fn lanes(&self, are_channels_last: bool) -> usize {
        if are_channels_last { self.channels } else { self.axes[2].output }
    }
}

/// `sums[i] += scale·(x[i·stride] − zero)`.
struct Tap<'a, T> {
    x: &'a [T],
    stride: usize,
    scheme: Scheme,
    sums: &'a mut [f32],
}

impl<T: QuantizedInt> Task for Tap<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, stride, scheme: Scheme { scale, zero }, sums } = self;
        let add = |sum: &mut f32, x: &T| *sum += scale * (x.float() - zero);
        match stride {
            1 => sums.iter_mut().zip(x).for_each(|(sum, x)| add(sum, x)),
            _ => sums.iter_mut().zip(x.iter().step_by(stride)).for_each(|(sum, x)| add(sum, x)),
        }
    }
}

/// The number of taps of an output that read an input.
fn n_read(axis: &Axis, output: usize) -> usize {
    (0..axis.kernel).filter(|&tap| axis.at(output, tap).is_some()).count()
}

impl<T: QuantizedInt> Means<'_, T> {
    fn isa(&self) -> Isa {
        self.kernel.cpu.isa
    }

    fn add(&self, (x, stride): (&[T], usize), sums: &mut [f32]) {
        self.isa().run(Tap { x, stride, scheme: self.from, sums });
    }

    /// The divisor of a sum of `n_read` values.
    fn divisor(&self, n_read: usize) -> f32 {
        let n_taps = self.geometry.axes.iter().map(|axis| axis.kernel).product();
        let n = if self.kernel.op.counts_padding { n_taps } else { n_read };
        n.max(1) as f32
    }

    /// The means of the channels of a pixel, for all images.
    fn pixel(&self, pixel: usize, sums: &mut [f32]) {
        let (channels, [a, b, c]) = (self.geometry.channels, &self.geometry.axes);
        let n_outputs = a.output * b.output * c.output;
        let (image, at) = (pixel / n_outputs, pixel % n_outputs);
        let at = [at / c.output / b.output, at / c.output % b.output, at % c.output];
        let image = &self.x[image * self.geometry.n_inputs() * channels..];
        sums.fill(0.0);
        let mut pace = Pace::new();
        for i in (0..a.kernel).filter_map(|tap| a.at(at[0], tap)) {
            for j in (0..b.kernel).filter_map(|tap| b.at(at[1], tap)) {
                if pace.go(c.kernel.saturating_mul(channels)).is_err() {
                    return;
                }
                for k in (0..c.kernel).filter_map(|tap| c.at(at[2], tap)) {
                    let from = ((i * b.input + j) * c.input + k) * channels;
                    self.add((&image[from..][..channels], 1), sums);
                }
            }
        }
        let n = self.divisor(n_read(a, at[0]) * n_read(b, at[1]) * n_read(c, at[2]));
        sums.iter_mut().for_each(|sum| *sum = *sum / n / self.to.scale + self.to.zero);
    }

    /// The means of a line, for all planes.
    fn line(&self, line: usize, sums: &mut [f32]) {
        let [a, b, c] = &self.geometry.axes;
        let (plane, at) = (line / (a.output * b.output), line % (a.output * b.output));
        let at = [at / b.output, at % b.output];
        let plane = &self.x[plane * self.geometry.n_inputs()..];
        sums.fill(0.0);
        let mut pace = Pace::new();
        for i in (0..a.kernel).filter_map(|tap| a.at(at[0], tap)) {
            for j in (0..b.kernel).filter_map(|tap| b.at(at[1], tap)) {
                let line = &plane[(i * b.input + j) * c.input..][..c.input];
                for tap in 0..c.kernel {
                    if pace.go(c.output).is_err() {
                        return;
                    }
                    let outputs = c.outputs(tap);
                    if let Some(first) = c.at(outputs.start, tap).filter(|_| !outputs.is_empty()) {
                        self.add((&line[first..], c.stride), &mut sums[outputs]);
                    }
                }
            }
        }
        let n_others = n_read(a, at[0]) * n_read(b, at[1]);
        for (output, sum) in sums.iter_mut().enumerate() {
            let n = self.divisor(n_others * n_read(c, output));
            *sum = *sum / n / self.to.scale + self.to.zero;
        }
    }

    fn compute(&self, y: &mut [T], (threads, scratch): (&dyn Threads, &mut [u8])) {
        let are_last = self.kernel.are_channels_last;
        let lanes = self.geometry.lanes(are_last);
        if y.is_empty() || lanes == 0 {
            return;
        }
        let n_taps: usize = self.geometry.axes.iter().map(|axis| axis.kernel).product();
        let n_pieces = y.len() / lanes;
        let n_parts = n_parts(threads, y.len().saturating_mul(n_taps)).min(n_pieces);
        let band = per_part(threads, n_pieces, n_parts);
        let team = Team::new(threads, n_pieces.div_ceil(band)).with_scratch(scratch, lanes);
        team.run(y.chunks_mut(band * lanes).enumerate(), |(i, y), sums| {
            let sums = &mut sums[..lanes];
            for (at, y) in (i * band..).zip(y.chunks_exact_mut(lanes)) {
                match are_last {
                    true => self.pixel(at, sums),
                    false => self.line(at, sums),
                }
                quantize(self.isa(), sums, (Factors::One(1.0), Factors::One(0.0)), y);
            }
        });
    }
}

impl Kernel for ByteAverage {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&x) = shapes.first() else { return Err(KernelError::ForeignState) };
        let wrong = || OpError::InputRank { index: 0, expected: "3 to 5", found: x.len() };
        let mut x: Shape = x.into();
        if self.are_channels_last && x.len() > 1 {
            x[1..].rotate_right(1);
        }
        let &[n, channels, ref input @ ..] = &x[..] else { return Err(wrong().into()) };
        let kernel = self.op.window.kernel.as_deref().unwrap_or_default();
        let window = self.op.window.window(input, kernel)?;
        let axes = axes(&window).ok_or_else(wrong)?;
        let mut shape: Shape = [n, channels].into_iter().chain(window.output).collect();
        if self.are_channels_last {
            shape[1..].rotate_left(1);
        }
        let geometry = Geometry { shape, channels, axes };
        let scratch = self.cpu.scratch_bytes(geometry.lanes(self.are_channels_last));
        Ok(Prepared::new(geometry).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (geometry, inputs): (&Geometry, _) = (prepared.state()?, io.inputs);
        let (from, to) = (Scheme::read(inputs, 1)?, Scheme::read(inputs, 3)?);
        let x = inputs.tensor(0)?;
        let y = io.outputs[0].tensor(x.dtype(), &geometry.shape)?;
        let (threads, scratch) = (io.threads, &mut *io.scratch);
        match x.dtype() {
            DType::I8 => {
                let x = x.as_slice::<i8>()?;
                Means { kernel: self, geometry, x, from, to }
                    .compute(y.into_slice()?, (threads, scratch));
            }
            _ => {
                let x = x.as_slice::<u8>()?;
                Means { kernel: self, geometry, x, from, to }
                    .compute(y.into_slice()?, (threads, scratch));
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "quantized mean")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};

    #[test]
    fn results_equal_eval() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        for (shape, kernel, strides, pads) in [
            (&[2, 70, 17, 19][..], &[3, 3][..], &[1, 1][..], &[1, 1, 1, 1][..]),
            (&[1, 3, 30, 33], &[2, 5], &[2, 3], &[0, 4, 1, 0]),
            (&[1, 5, 300], &[7], &[2], &[3, 3]),
            (&[1, 4, 6, 7, 8], &[2, 3, 2], &[1, 2, 2], &[0, 1, 0, 1, 1, 0]),
            (&[2, 3, 0, 4], &[1, 1], &[1, 1], &[0, 0, 0, 0]),
        ] {
            for flags in 0..8 {
                let flag = |i: i64| Attr::Int(flags >> i & 1);
                let case = |x: Tensor, zeros: [Tensor; 2]| {
                    let [x_zero, y_zero] = zeros;
                    let case = Case::new("QLinearAveragePool", 1).domain("com.microsoft");
                    let case = case.attr("channels_last", flag(0)).attr("ceil_mode", flag(2));
                    let case = case.attr("count_include_pad", flag(1));
                    let case = case.attr("kernel_shape", ints(kernel)).attr("pads", ints(pads));
                    let case = case.attr("strides", ints(strides));
                    let case = case.input(x).input(Tensor::scalar(0.06_f32)).input(x_zero);
                    case.input(Tensor::scalar(0.02_f32)).input(y_zero).check(exact);
                };
                let mut shape = shape.to_vec();
                if flags & 1 == 1 {
                    shape[1..].rotate_left(1);
                }
                case(bytes(&shape, |bits| bits), [100_u8, 7].map(Tensor::scalar));
                case(bytes(&shape, u8::cast_signed), [3_i8, -100].map(Tensor::scalar));
            }
        }
    }
}
