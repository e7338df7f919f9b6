//! QLinearGlobalAveragePool, NCHW or channels-last: sums of quantized values are exact, and scaled once.

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError};
use ort_kernels::{Isa, Task};
use ort_ops::channels_last::ChannelsLast;
use ort_ops::ops::microsoft::qlinear_pool::QLinearGlobalAveragePool;
use ort_tensor::{DType, Number, Shape, go_on, n_elements};

use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::pieces::{LONG, Rows};
use crate::scheme::Scheme;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Channels summed together in registers, where they are the last dimension.
const CHANNELS: usize = 64;
/// Pixels whose quantized values are summed in 16 bits.
const PIXELS: usize = 256;

#[derive(Debug)]
struct ByteMean {
    cpu: Cpu,
    are_channels_last: bool,
}

/// The sizes for one shape signature.
struct State {
    /// The shape of the result.
    shape: Shape,
    channels: usize,
    /// Pixels per image.
    n_pixels: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let last = compiler.op::<ChannelsLast<QLinearGlobalAveragePool>>().is_some();
    let first = compiler.op::<QLinearGlobalAveragePool>().is_some();
    let x = compiler.fact(0);
    let is_byte = x.and_then(Fact::dtype).is_some_and(DType::is_byte);
    let is_image = x.and_then(Fact::rank).is_some_and(|rank| rank >= 2);
    let is_taken = (last || first)
        && is_byte
        && is_image
        && (1..=4).all(|input| compiler.is_one_or_none(input));
    let kernel = ByteMean { cpu: compiler.cpu, are_channels_last: last };
    Ok(is_taken.then(|| Box::new(kernel) as Box<dyn Kernel>))
}

/// Sums the quantized values of some results.
struct Sums<'a, T> {
    /// `[pixels, stride]` from the first channel on, or `[channels, pixels]`.
    x: &'a [T],
    n_pixels: usize,
    /// The distance between pixels, where channels are the last dimension.
    stride: Option<usize>,
    sums: &'a mut [i64],
}

/// A quantized value, and a 16-bit type that can hold the sum of 256 of them.
trait Summand: Number {
    type Wide: Copy + Default;
    fn add(sum: Self::Wide, value: Self) -> Self::Wide;
    fn total(sum: Self::Wide) -> i64;
}

macro_rules! summand {
    ($ty:ty, $wide:ty) => {
        impl Summand for $ty {
            type Wide = $wide;

            #[inline(always)]
            fn add(sum: $wide, value: Self) -> $wide {
                sum.wrapping_add(<$wide>::from(value))
            }

            #[inline(always)]
            fn total(sum: $wide) -> i64 {
                i64::from(sum)
            }
        }
    };
}
summand!(u8, u16);
summand!(i8, i16);

impl<T: Summand> Task for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, n_pixels, stride, sums } = self;
        sums.fill(0);
        match stride {
            Some(stride) => {
                for first in (0..n_pixels).step_by(PIXELS) {
                    let pixels = first..n_pixels.min(first + PIXELS);
                    for (i, sums) in sums.chunks_mut(CHANNELS).enumerate() {
                        let mut wide = [T::Wide::default(); CHANNELS];
                        for pixel in pixels.clone() {
                            let x = &x[pixel * stride + i * CHANNELS..][..sums.len()];
                            wide.iter_mut().zip(x).for_each(|(sum, &x)| *sum = T::add(*sum, x));
                        }
                        sums.iter_mut().zip(&wide).for_each(|(to, &sum)| *to += T::total(sum));
                    }
                }
            }
            None => {
                for (sum, x) in sums.iter_mut().zip(x.chunks_exact(n_pixels.max(1))) {
                    for x in x.chunks(CHANNELS * PIXELS) {
                        let mut wide = [T::Wide::default(); CHANNELS];
                        for x in x.chunks(CHANNELS) {
                            wide.iter_mut().zip(x).for_each(|(sum, &x)| *sum = T::add(*sum, x));
                        }
                        *sum += wide.iter().map(|&sum| T::total(sum)).sum::<i64>();
                    }
                }
            }
        }
    }
}

impl State {
    fn compute<T: Summand + Send + Sync>(
        &self,
        kernel: &ByteMean,
        (x, y): (&[T], &mut [T]),
        [from, to]: [Scheme; 2],
        threads: &dyn Threads,
    ) {
        let (channels, n_pixels) = (self.channels, self.n_pixels);
        let factor = from.scale / (to.scale * n_pixels.max(1) as f32);
        let rows = Rows { len: CHANNELS, cost: CHANNELS * n_pixels };
        // The results of an image, a few channels at a time.
        let each = |start: usize, y: &mut [T]| {
            let mut sums = [0; CHANNELS];
            for (i, y) in y.chunks_mut(CHANNELS).enumerate() {
                let mut at = start + i * CHANNELS;
                let mut rest = y;
                while !rest.is_empty() {
                    let (image, channel) = (at / channels, at % channels);
                    if go_on().is_err() {
                        return;
                    }
                    // Long planes one by one, so that the run can be cancelled in between.
                    let is_long = !kernel.are_channels_last && n_pixels > LONG;
                    let n = if is_long { 1 } else { rest.len().min(channels - channel) };
                    let (y, others) = rest.split_at_mut(n);
                    (rest, at) = (others, at + n);
                    let (first, stride) = match kernel.are_channels_last {
                        true => (image * n_pixels * channels + channel, Some(channels)),
                        false => ((image * channels + channel) * n_pixels, None),
                    };
                    // Images without pixels have nothing to sum.
                    let x = x.get(first..).unwrap_or_default();
                    let sums = &mut sums[..n];
                    kernel.cpu.isa.run(Sums { x, n_pixels, stride, sums });
                    for (y, &sum) in y.iter_mut().zip(&*sums) {
                        let sum = sum.to_f64() - f64::from(from.zero) * n_pixels as f64;
                        let value = f32::from_f64(sum) * factor;
                        *y = T::from_f64(f64::from(value.round_ties_even() + to.zero));
                    }
                }
            }
        };
        rows.for_each(threads, y, each);
    }
}

impl Kernel for ByteMean {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let Some(&x) = shapes.first() else { return Err(KernelError::ForeignState) };
        let mut shape: Shape = x.into();
        let pixels = match self.are_channels_last {
            true => 1..x.len() - 1,
            false => 2..x.len(),
        };
        let n_pixels = n_elements(&x[pixels.clone()]).ok_or(OpError::TooLarge)?;
        let channels = x[if self.are_channels_last { x.len() - 1 } else { 1 }];
        shape[pixels].fill(1);
        Ok(Prepared::new(State { shape, channels, n_pixels }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (state, inputs): (&State, _) = (prepared.state()?, io.inputs);
        let schemes = [Scheme::read(inputs, 1)?, Scheme::read(inputs, 3)?];
        let x = inputs.tensor(0)?;
        let y = io.outputs[0].tensor(x.dtype(), &state.shape)?;
        match x.dtype() {
            DType::I8 => {
                let operands = (x.as_slice::<i8>()?, y.into_slice()?);
                state.compute(self, operands, schemes, io.threads);
            }
            _ => {
                let operands = (x.as_slice::<u8>()?, y.into_slice()?);
                state.compute(self, operands, schemes, io.threads);
            }
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        let isa: Isa = self.cpu.isa;
        named!(isa => "quantized mean")
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact};

    #[test]
    fn results_equal_eval() {
        for shape in [&[2, 70, 7, 9][..], &[1, 3, 200, 301], &[3, 130, 5], &[2, 5], &[2, 3, 0, 4]] {
            for channels_last in [0, 1] {
                let case = |x: Tensor, zeros: [Tensor; 2]| {
                    let [x_zero, y_zero] = zeros;
                    let case = Case::new("QLinearGlobalAveragePool", 1).domain("com.microsoft");
                    let case = case.attr("channels_last", Attr::Int(channels_last));
                    let case = case.input(x).input(Tensor::scalar(0.06_f32)).input(x_zero);
                    case.input(Tensor::scalar(0.02_f32)).input(y_zero).check(exact);
                };
                case(bytes(shape, |bits| bits), [100_u8, 7].map(Tensor::scalar));
                case(bytes(shape, u8::cast_signed), [3_i8, -100].map(Tensor::scalar));
            }
        }
    }
}
