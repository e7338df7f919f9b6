//! NhwcMaxPool of bytes: the maximum of each channel over the taps of a window, pixel by pixel.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError};
use ort_kernels::conv_f32::Axis;
use ort_ops::channels_last::ChannelsLast;
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::max_pool::MaxPool;
use ort_tensor::{DType, Pace, Shape, TensorError};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct BytePool {
    window: WindowAttrs,
}

/// The sizes for one shape signature.
#[derive(Debug)]
struct Geometry {
    /// The shape of the result.
    shape: Shape,
    channels: usize,
    axes: [Axis; 3],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(ChannelsLast(op)) = compiler.op::<ChannelsLast<MaxPool>>() else { return Ok(None) };
    let x = compiler.fact(0);
    let is_byte = x.and_then(Fact::dtype).is_some_and(DType::is_byte);
    if !is_byte || !matches!(x.and_then(Fact::rank), Some(3..=5)) {
        return Ok(None);
    }
    Ok(Some(Box::new(BytePool { window: op.window.clone() })))
}

impl Geometry {
    fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// Computes `y`: `[images, outputs, channels]`; `least` is the minimum of the type.
    fn compute<T: Copy + Ord + Send + Sync>(
        &self,
        x: &[T],
        (least, y): (T, &mut [T]),
        threads: &dyn Threads,
    ) {
        let n_taps: usize = self.axes.iter().map(|axis| axis.kernel).product();
        let n_parts = n_parts(threads, y.len().saturating_mul(n_taps) / 16);
        let n_pixels = y.len() / self.channels.max(1);
        let per_part = n_pixels.div_ceil(n_parts).max(1);
        let parts = y.chunks_mut((per_part * self.channels).max(1)).enumerate();
        Team::new(threads, n_pixels.div_ceil(per_part)).run(parts, |(part, y), _| {
            let mut pace = Pace::new();
            for (pixel, y) in (part * per_part..).zip(y.chunks_mut(self.channels)) {
                if self.pixel(x, pixel, (least, y), &mut pace).is_err() {
                    // The run was cancelled.
                    return;
                }
            }
        });
    }

    /// Computes one pixel of all images, unless the run is cancelled.
    fn pixel<T: Copy + Ord>(
        &self,
        x: &[T],
        pixel: usize,
        (least, y): (T, &mut [T]),
        pace: &mut Pace,
    ) -> Result<(), TensorError> {
        let [a, b, c] = &self.axes;
        let (image, at) = (pixel / self.n_outputs(), pixel % self.n_outputs());
        let at = [at / c.output / b.output, at / c.output % b.output, at % c.output];
        let image = &x[image * self.n_inputs() * self.channels..];
        y.fill(least);
        let reads = |axis: &Axis, at: usize| {
            let axis = *axis;
            (0..axis.kernel).filter_map(move |tap| axis.at(at, tap))
        };
        for i in reads(a, at[0]) {
            for j in reads(b, at[1]) {
                pace.go(c.kernel.saturating_mul(self.channels))?;
                for k in reads(c, at[2]) {
                    let from = ((i * b.input + j) * c.input + k) * self.channels;
                    let x = &image[from..][..self.channels];
                    y.iter_mut().zip(x).for_each(|(y, &x)| *y = x.max(*y));
                }
            }
        }
        Ok(())
    }
}

impl Kernel for BytePool {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let wrong = |found| OpError::InputRank { index: 0, expected: "3 to 5", found };
        let &[&[n, ref input @ .., channels]] = shapes else { return Err(wrong(0).into()) };
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let window = self.window.window(input, kernel)?;
        let axes = axes(&window).ok_or_else(|| wrong(input.len() + 2))?;
        let output = window.output.iter().copied();
        let shape = std::iter::once(n).chain(output).chain([channels]).collect();
        Ok(Prepared::new(Geometry { shape, channels, axes }))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let x = io.inputs.tensor(0)?;
        let y = io.outputs[0].tensor(x.dtype(), &geometry.shape)?;
        match x.dtype() {
            DType::I8 => geometry.compute(x.as_slice()?, (i8::MIN, y.into_slice()?), io.threads),
            _ => geometry.compute(x.as_slice()?, (u8::MIN, y.into_slice()?), io.threads),
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        "byte_pool"
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, bytes, exact};

    #[test]
    fn results_equal_eval() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let case = || Case::new("NhwcMaxPool", 1).domain("com.microsoft");
        let plane = || case().attr("kernel_shape", ints(&[3, 2])).attr("pads", ints(&[1, 1, 0, 0]));
        let strided = || plane().attr("strides", ints(&[2, 1])).attr("dilations", ints(&[1, 2]));
        for shape in [&[2, 9, 7, 5][..], &[1, 60, 50, 33], &[0, 4, 4, 3], &[1, 4, 4, 0]] {
            strided().input(bytes(shape, |bits| bits)).check(exact);
            strided().input(bytes(shape, u8::cast_signed)).check(exact);
        }
        // Windows of padding alone give the minimum of the type.
        let line = case().attr("kernel_shape", ints(&[2])).attr("pads", ints(&[1, 3]));
        line.attr("strides", ints(&[2])).input(bytes(&[2, 3, 4], u8::cast_signed)).check(exact);
    }
}
