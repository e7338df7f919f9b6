//! MaxPool of bytes and of f64 over one to three dimensions: plane by plane.

// collects are bounded: by the rank

use bytemuck::Pod;
use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Fact, OpError};
use ort_kernels::Isa;
use ort_kernels::conv_f32::plane_parts;
use ort_kernels::window_fold::{Largest, WindowFold, Windows};
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::max_pool::MaxPool;
use ort_tensor::{DType, Element, Shape};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::cpu::{Cpu, MAX_OPERATIONS};
use crate::pieces::{Rows, wanted};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

#[derive(Debug)]
struct MaxPoolKernel {
    cpu: Cpu,
    window: WindowAttrs,
    dtype: DType,
}

/// The sizes for one shape signature.
#[derive(Debug)]
pub(super) struct Geometry {
    /// The shape of the result.
    shape: Shape,
    windows: Windows,
    /// Scratch of a thread, in f32.
    scratch_len: usize,
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<MaxPool>() else { return Ok(None) };
    let has_indices = compiler.claim.outputs.get(1).copied().flatten().is_some();
    let dtype = compiler.fact(0).and_then(Fact::dtype);
    let dtype = dtype.filter(|dtype| matches!(dtype, DType::I8 | DType::U8 | DType::F64));
    let rank = compiler.fact(0).and_then(Fact::rank);
    let (Some(dtype), Some(3..=5), false) = (dtype, rank, has_indices) else { return Ok(None) };
    Ok(Some(Box::new(MaxPoolKernel { cpu: compiler.cpu, window: op.window.clone(), dtype })))
}

impl Kernel for MaxPoolKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        Geometry::prepare(self.cpu, &self.window, shapes, self.dtype)
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let (isa, geometry) = (self.cpu.isa, prepared.state::<Geometry>()?);
        match self.dtype {
            DType::I8 => geometry.fold(isa, Largest { least: i8::MIN }, io),
            DType::U8 => geometry.fold(isa, Largest { least: u8::MIN }, io),
            _ => geometry.fold(isa, Largest { least: f64::NEG_INFINITY }, io),
        }
    }

    fn variant(&self) -> &'static str {
        named!(self.cpu.isa => "max_pool")
    }
}

impl Geometry {
    /// The geometry, with scratch, for folds of type `sum`.
    pub(super) fn prepare(
        cpu: Cpu,
        window: &WindowAttrs,
        shapes: &[&[usize]],
        sum: DType,
    ) -> Result<Prepared, KernelError> {
        let wrong = |found| OpError::InputRank { index: 0, expected: "3, 4 or 5", found };
        let &[&[n, channels, ref input @ ..]] = shapes else { return Err(wrong(0).into()) };
        let kernel = window.kernel.as_deref().unwrap_or_default();
        let window = window.window(input, kernel)?;
        let axes = axes(&window).ok_or_else(|| wrong(input.len() + 2))?;
        let shape = [n, channels].into_iter().chain(window.output.iter().copied()).collect();
        let windows = Windows { axes };
        let n_bytes = sum.n_bytes(windows.scratch_len()).unwrap_or(usize::MAX);
        let scratch_len = n_bytes.div_ceil(size_of::<f32>());
        let prepared = Prepared::new(Self { shape, windows, scratch_len });
        Ok(prepared.with_scratch(cpu.scratch_bytes(scratch_len)))
    }

    /// Folds all windows, plane by plane.
    pub(super) fn fold<F>(&self, isa: Isa, fold: F, io: &mut Io<'_, '_>) -> Result<(), KernelError>
    where
        F: WindowFold<In: Element, Sum: Pod, Out: Element> + Sync,
    {
        let Self { shape, windows, scratch_len } = self;
        let x = io.inputs.tensor(0)?.as_slice::<F::In>()?;
        let y = io.outputs[0].tensor(F::Out::DTYPE, shape)?.into_slice::<F::Out>()?;
        if y.is_empty() {
            return Ok(());
        }
        let n_inputs: usize = windows.axes.iter().map(|axis| axis.input).product();
        let n_outputs: usize = windows.axes.iter().map(|axis| axis.output).product();
        let n_steps: usize = windows.axes.iter().map(|axis| axis.kernel).sum();
        let planes = Rows { len: n_outputs, cost: n_outputs.saturating_mul(n_steps) };
        let scratch = (&mut *io.scratch, *scratch_len);
        planes.for_each_with(io.threads, scratch, y, |start, y, scratch| {
            let scratch = &mut bytemuck::cast_slice_mut(scratch)[..windows.scratch_len()];
            for (plane, y) in (start / n_outputs..).zip(y.chunks_exact_mut(n_outputs)) {
                let x = &x[plane * n_inputs..][..n_inputs];
                for part in wanted(plane_parts(windows.axes, MAX_OPERATIONS / n_steps)) {
                    let (windows, y) = (Windows { axes: part.axes }, &mut y[part.outputs]);
                    windows.run(isa, &x[part.inputs], (fold, y), scratch);
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Number, Tensor};

    use crate::case::{Case, exact};

    fn numbers<T: Number>(shape: &[usize]) -> Tensor {
        let n: usize = shape.iter().product();
        let numbers = (0..n).map(|i| T::from_f64((i * 7919 % 251) as f64 - 120.0));
        Tensor::from_slice(shape, &numbers.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn results_equal_eval() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let case = |kernel: &[i64], pads: &[i64], strides: &[i64], dilations: &[i64]| {
            let case = Case::new("MaxPool", 12).attr("kernel_shape", ints(kernel));
            let case = case.attr("pads", ints(pads)).attr("strides", ints(strides));
            case.attr("dilations", ints(dilations))
        };
        let plane = || case(&[3, 2], &[1, 1, 0, 0], &[2, 1], &[1, 2]);
        let line = || case(&[5], &[2, 1], &[3], &[1]);
        let cube = || case(&[2, 3, 3], &[0, 1, 1, 1, 1, 0], &[1, 2, 2], &[1, 1, 1]);
        for (shape, case) in [
            (&[2, 3, 9, 70][..], &plane as &dyn Fn() -> Case),
            (&[1, 40, 33, 50], &plane),
            (&[0, 3, 9, 9], &plane),
            (&[3, 2, 50], &line),
            (&[2, 3, 4, 6, 20], &cube),
        ] {
            for x in [numbers::<i8>(shape), numbers::<u8>(shape), numbers::<f64>(shape)] {
                case().input(x.clone()).check(exact);
                case().attr("ceil_mode", Attr::Int(1)).input(x).check(exact);
            }
        }
    }

    #[test]
    fn windows_of_padding_have_the_least_value() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        for x in [numbers::<i8>(&[1, 2, 4]), numbers::<f64>(&[1, 2, 4])] {
            let case = Case::new("MaxPool", 12).attr("kernel_shape", ints(&[2]));
            let case = case.attr("pads", ints(&[1, 3])).attr("strides", ints(&[2]));
            case.input(x).check(exact);
        }
    }
}
