//! MaxpoolWithMask over one to three dimensions: plane by plane. Each row of a plane is folded along its windows first, from
//! the last element of a window to its first, so that no step depends on where the mask ends a window:
//! ```text
//! most[p] = least
//! for tap in reversed(kernel):
//!     most[p] = least if row[p + tap] is masked, else max(row[p + tap], most[p])
//! ```
//! Then the rows of a window are folded.

// collects are bounded: by the rank

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Task;
use ort_kernels::conv_f32::Axis;
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::microsoft::maxpool_with_mask::MaxpoolWithMask;
use ort_tensor::{DType, Shape, go_on};

use super::conv::axes_in_order;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::Cpu;
use crate::pieces::Rows;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Windows that are folded at once.
const LANES: usize = 32;

#[derive(Debug)]
struct MaxpoolWithMaskKernel {
    cpu: Cpu,
    window: WindowAttrs,
}

/// The sizes for one shape signature.
struct Geometry {
    /// The shape of the result.
    shape: Shape,
    axes: [Axis; 3],
    n_masks: usize,
    /// Whether the first element of a plane is never masked.
    is_spread: bool,
    /// Elements of a padded row.
    row_len: usize,
    /// Folds along a row, a multiple of [`LANES`].
    span: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<MaxpoolWithMask>() else { return Ok(None) };
    let rank = compiler.fact(0).and_then(Fact::rank);
    if !matches!(rank, Some(3..=5)) {
        return Ok(None);
    }
    let (cpu, window) = (compiler.cpu, op.window.clone());
    Ok(Some(Box::new(MaxpoolWithMaskKernel { cpu, window })))
}

impl Kernel for MaxpoolWithMaskKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let wrong = |found| OpError::InputRank { index: 0, expected: "3, 4 or 5", found };
        let &[x @ &[n, channels, ref input @ ..], mask] = shapes else {
            return Err(wrong(0).into());
        };
        let kernel = self.window.kernel.as_deref().unwrap_or_default();
        let window = self.window.window(input, kernel)?;
        let axes = axes_in_order(&window).ok_or_else(|| wrong(x.len()))?;
        let fits = mask.get(2..) == Some(input);
        if !fits || (mask.contains(&0) && !x.contains(&0)) {
            let (left, right) = (x.to_vec(), mask.to_vec());
            return Err(OpError::Shapes { what: "input and mask", left, right }.into());
        }
        let shape = [n, channels].into_iter().chain(window.output.iter().copied()).collect();
        let row = axes[2];
        let span = (row.output.saturating_sub(1).saturating_mul(row.stride)).saturating_add(1);
        // A whole number of blocks, or a size that cannot be allocated.
        let span = span.min(usize::MAX >> 8).next_multiple_of(LANES);
        let row_len = span.saturating_add(row.kernel).max(row.pad[0].saturating_add(row.input));
        let scratch_len = row_len.saturating_mul(2).saturating_add(span);
        let n_masks = mask[..2].iter().product::<usize>().max(1);
        let is_spread = input.len() > 1;
        let geometry = Geometry { shape, axes, n_masks, is_spread, row_len, span };
        Ok(Prepared::new(geometry).with_scratch(self.cpu.scratch_bytes(scratch_len)))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let Geometry { shape, axes, n_masks, is_spread, row_len, span } = geometry;
        let x = io.inputs.tensor(0)?.as_slice::<f32>()?;
        let mask = io.inputs.tensor(1)?.as_slice::<i32>()?;
        let y = io.outputs[0].tensor(DType::F32, shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let isa = self.cpu.isa;
        let n_inputs: usize = axes.iter().map(|axis| axis.input).product();
        let n_outputs: usize = axes.iter().map(|axis| axis.output).product();
        let n_steps: usize = axes.iter().map(|axis| axis.kernel).sum();
        let planes = Rows { len: n_outputs, cost: n_outputs.saturating_mul(n_steps) };
        let scratch = (&mut *io.scratch, 2 * row_len + span);
        planes.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let (row, most) = scratch[..2 * row_len + span].split_at_mut(2 * row_len);
            let (row, limits) = row.split_at_mut(*row_len);
            for (plane, y) in (start / n_outputs..).zip(y.chunks_exact_mut(n_outputs)) {
                let first = plane * n_inputs;
                let x = &x[first..][..n_inputs];
                // The operator's mask of a plane.
                let mask = &mask[first % n_masks..][..n_inputs];
                let (row, limits, most) = (&mut *row, &mut *limits, &mut *most);
                let is_spread = *is_spread;
                isa.run(Plane { axes: *axes, x, mask, is_spread, row, limits, most, y });
            }
        });
        Ok(())
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "maxpool_with_mask")
    }
}

/// The windows of a plane.
struct Plane<'a> {
    axes: [Axis; 3],
    x: &'a [f32],
    mask: &'a [i32],
    /// Whether the first element is never masked.
    is_spread: bool,
    /// A padded row of `x`, and the most that its elements let windows have.
    row: &'a mut [f32],
    limits: &'a mut [f32],
    /// The folds along the row.
    most: &'a mut [f32],
    y: &'a mut [f32],
}

impl Task for Plane<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { axes: [a, b, c], x, mask, is_spread, row, limits, most, y } = self;
        row.fill(f32::MIN);
        limits.fill(f32::INFINITY);
        y.fill(f32::MIN);
        let rows = x.chunks_exact(c.input).zip(mask.chunks_exact(c.input)).enumerate();
        for (at, (x, mask)) in rows {
            if go_on().is_err() {
                return;
            }
            let row_of_x = &mut row[c.pad[0]..][..c.input];
            for (to, x) in row_of_x.iter_mut().zip(x) {
                *to = if *x > f32::MIN { *x } else { f32::MIN };
            }
            let limits_of_x = &mut limits[c.pad[0]..][..c.input];
            for (to, mask) in limits_of_x.iter_mut().zip(mask) {
                *to = if *mask == 0 { f32::MIN } else { f32::INFINITY };
            }
            if is_spread && at == 0 {
                limits_of_x[0] = f32::INFINITY;
            }
            fold(row, limits, c.kernel, most);
            for i in outputs(&a, at / b.input) {
                for j in outputs(&b, at % b.input) {
                    join(most, c.stride, &mut y[(i * b.output + j) * c.output..][..c.output]);
                }
            }
        }
    }
}

/// The outputs whose windows, without dilation, cover an input.
#[inline(always)]
fn outputs(axis: &Axis, input: usize) -> std::ops::Range<usize> {
    let at = input + axis.pad[0];
    let first = (at + 1).saturating_sub(axis.kernel).div_ceil(axis.stride);
    first..(at / axis.stride + 1).min(axis.output)
}

/// `most[p]` of each window of the row.
#[inline(always)]
fn fold(row: &[f32], limits: &[f32], kernel: usize, most: &mut [f32]) {
    let (blocks, _) = most.as_chunks_mut::<LANES>();
    for (block, most) in blocks.iter_mut().enumerate() {
        let mut lanes = [f32::MIN; LANES];
        let at = block * LANES;
        for tap in (at..at + kernel).rev() {
            let (Some(row), Some(limits)) =
                (row[tap..].first_chunk::<LANES>(), limits[tap..].first_chunk::<LANES>())
            else {
                continue;
            };
            for s in 0..LANES {
                let most = larger(lanes[s], row[s]);
                lanes[s] = if most < limits[s] { most } else { limits[s] };
            }
        }
        *most = lanes;
    }
}

/// `y[o] = max(y[o], most[o · stride])`
#[inline(always)]
fn join(most: &[f32], stride: usize, y: &mut [f32]) {
    match stride {
        1 => {
            for (y, most) in y.iter_mut().zip(most) {
                *y = larger(*y, *most);
            }
        }
        2 => {
            for (y, [most, _]) in y.iter_mut().zip(most.as_chunks().0) {
                *y = larger(*y, *most);
            }
        }
        _ => {
            for (y, most) in y.iter_mut().zip(most.iter().step_by(stride)) {
                *y = larger(*y, *most);
            }
        }
    }
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, n_elements};

    use crate::case::{Case, exact};

    fn ints(values: &[i64]) -> Attr {
        Attr::Ints(values.to_vec())
    }

    fn numbers(shape: &[usize]) -> Tensor {
        let number = |i: usize| match i % 97 {
            13 => f32::NAN,
            27 => f32::NEG_INFINITY,
            45 => f32::INFINITY,
            _ => (i * 7919 % 251) as f32 - 120.0,
        };
        let n = n_elements(shape).unwrap();
        Tensor::from_slice(shape, &(0..n).map(number).collect::<Vec<_>>()).unwrap()
    }

    fn mask(shape: &[usize]) -> Tensor {
        let n = n_elements(shape).unwrap();
        let mask = (0..n).map(|i| i32::from(i > 0 && i * 7919 % 11 > 2));
        Tensor::from_slice(shape, &mask.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn results_equal_eval() {
        type Setting =
            (&'static [usize], [usize; 2], &'static [i64], &'static [i64], &'static [i64]);
        let settings: [Setting; 8] = [
            (&[2, 3, 9, 70], [2, 3], &[3, 2], &[1, 1, 0, 0], &[2, 1]),
            (&[1, 5, 33, 50], [2, 2], &[3, 3], &[1, 1, 1, 1], &[1, 1]),
            (&[1, 2, 7, 1], [1, 2], &[3, 1], &[1, 0, 1, 0], &[1, 1]),
            (&[0, 3, 9, 9], [0, 3], &[2, 2], &[0; 4], &[1, 1]),
            (&[3, 2, 50], [1, 3], &[5], &[2, 1], &[3]),
            (&[3, 2, 3], [3, 1], &[3], &[2, 2], &[1]),
            (&[2, 3, 4, 6, 20], [1, 1], &[2, 3, 3], &[0, 1, 1, 1, 1, 0], &[1, 2, 2]),
            (&[1, 1, 8, 300], [1, 1], &[1, 40], &[0, 39, 0, 39], &[3, 50]),
        ];
        for (shape, n_masks, kernel, pads, strides) in settings {
            let case = Case::new("MaxpoolWithMask", 1).domain("com.microsoft");
            let case = case.attr("kernel_shape", ints(kernel)).attr("pads", ints(pads));
            let case = case.attr("strides", ints(strides));
            let mask = mask(&[&n_masks, &shape[2..]].concat());
            case.input(numbers(shape)).input(mask).check(exact);
        }
    }
}
