//! QLinearConv of up to three dimensions with constant int8 weights, for either layout of images.

mod planes;
mod rows;

use ort_ep::{Io, Kernel, KernelError, Packed, Prepared, Recipe, Threads};
use ort_graph::{Dim, Fact, OpError};
use ort_kernels::conv_f32::Axis;
use ort_kernels::quantize::{Factors, requantize_i8, requantize_u8};
use ort_ops::channels_last::ChannelsLast;
use ort_ops::ops::qlinear_conv::QLinearConv;
use ort_tensor::{DType, Inputs, Shape};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::bytes::{FLIP, split_floats, variant_name};
use crate::cpu::Cpu;

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// One convolution.
#[derive(Debug)]
struct ByteConv {
    cpu: Cpu,
    op: QLinearConv,
    /// The weights where channels are the last dimension; else they serve as they stand.
    packed: Option<Packed>,
    /// The sum of each filter's weights, an i32.
    filter_sums: Packed,
    is_result_signed: bool,
}

/// The sizes of one signature of shapes.
#[derive(Debug)]
struct Geometry {
    shape: Shape,
    /// Input channels of a group, and output channels.
    channels: usize,
    filters: usize,
    /// Bytes of a filter.
    k: usize,
    axes: [Axis; 3],
}

/// The tensors and numbers of a run.
struct Operands<'a> {
    x: &'a [u8],
    w: &'a [u8],
    x_zero: u8,
    flip: u8,
    y_zero: f32,
    /// What the sums of each filter begin with, and what they are multiplied with.
    start: &'a [i32],
    factors: &'a [f32],
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (op, are_channels_last) = match compiler.op::<ChannelsLast<QLinearConv>>() {
        Some(ChannelsLast(op)) => (op.clone(), true),
        None => match compiler.op::<QLinearConv>() {
            Some(op) => (op.clone(), false),
            None => return Ok(None),
        },
    };
    let is_one = |input: usize| {
        let dims = compiler.fact(input).and_then(Fact::dims);
        dims.is_some_and(|dims| dims.iter().all(|dim| *dim == Dim::Known(1)))
    };
    let is_zero = match (compiler.fact(5), compiler.constant(5)) {
        (None, _) => true,
        (_, Some(zero)) => {
            zero.view().as_bytes().is_some_and(|bytes| bytes.iter().all(|&b| b == 0))
        }
        _ => false,
    };
    let is_x = compiler.fact(0).and_then(Fact::dtype).is_some_and(DType::is_byte);
    let are_single = [1, 2, 6, 7].into_iter().all(is_one);
    let (Some(w), true) = (compiler.constant(3), is_zero && is_x && are_single) else {
        return Ok(None);
    };
    if w.dtype() != DType::I8 || !(3..=5).contains(&w.shape().len()) {
        return Ok(None);
    }
    let Some(filter_sums) = filter_sums(compiler, w.shape()) else { return Ok(None) };
    let is_result_signed = compiler.fact(7).and_then(Fact::dtype) == Some(DType::I8);
    let packed = match are_channels_last {
        // A product has few columns where there are many groups: eval serves as well.
        true if op.group > 1 => return Ok(None),
        true => rows::pack(compiler),
        false => None,
    };
    let cpu = compiler.cpu;
    Ok(Some(Box::new(ByteConv { cpu, op, packed, filter_sums, is_result_signed })))
}

/// The sum of each filter's weights.
fn filter_sums(compiler: &Compiler<'_>, shape: &[usize]) -> Option<Packed> {
    let recipe = Recipe {
        name: "gemm_i8/filter_sums",
        parameters: Vec::new(),
        n_bytes: shape[0] * size_of::<i32>(),
    };
    let filter = shape[1..].iter().product::<usize>().max(1);
    compiler.pack(3, &recipe, |weights: &[u8], sums| {
        let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
        for (sum, filter) in sums.iter_mut().zip(weights.chunks(filter)) {
            *sum = filter.iter().map(|&w| i32::from(w.cast_signed())).sum();
        }
    })
}

impl Geometry {
    fn new(kernel: &ByteConv, x: &[usize], w: &[usize]) -> Result<Self, KernelError> {
        let (op, are_channels_last) = (&kernel.op, kernel.packed.is_some());
        let wrong = || -> KernelError {
            let (left, right) = (x.to_vec(), w.to_vec());
            OpError::Shapes { what: "channels and groups", left, right }.into()
        };
        let mut x: Shape = x.into();
        if are_channels_last && x.len() > 1 {
            x[1..].rotate_right(1);
        }
        let (&[n, all, ref input @ ..], &[filters, channels, ref kernel @ ..]) = (&x[..], w) else {
            return Err(wrong());
        };
        if channels.checked_mul(op.group) != Some(all) || !filters.is_multiple_of(op.group) {
            return Err(wrong());
        }
        let window = op.window.window(input, kernel).map_err(KernelError::Op)?;
        let mut shape: Shape =
            [n, filters].into_iter().chain(window.output.iter().copied()).collect();
        if are_channels_last {
            shape[1..].rotate_left(1);
        }
        let k = channels * kernel.iter().product::<usize>();
        let axes = axes(&window).ok_or_else(wrong)?;
        Ok(Self { shape, channels, filters: filters / op.group, k, axes })
    }

    fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }
}

impl ByteConv {
    fn filter_sums(&self) -> &[i32] {
        bytemuck::cast_slice(self.filter_sums.bytes())
    }

    /// Writes what each filter's sums begin with and what they are multiplied with.
    fn fill(
        &self,
        inputs: Inputs<'_>,
        x_zero: i32,
        (start, factors): (&mut [i32], &mut [f32]),
    ) -> Result<(), KernelError> {
        let bias = inputs.optional_tensor(8)?.map(|bias| bias.as_slice::<i32>()).transpose()?;
        for (i, (start, sum)) in start.iter_mut().zip(self.filter_sums()).enumerate() {
            let bias = match bias {
                Some(bias) => *bias.get(i).ok_or(OpError::InputValue {
                    index: 8,
                    what: "one value an output channel is needed",
                })?,
                None => 0,
            };
            *start = bias.wrapping_sub(x_zero.wrapping_mul(*sum));
        }
        let scale = |index: usize| -> Result<f32, KernelError> {
            let scale = inputs.tensor(index)?.as_slice::<f32>()?;
            let what = "a single value is needed";
            Ok(*scale.first().ok_or(OpError::InputValue { index, what })?)
        };
        let (x, y, w) = (scale(1)?, scale(6)?, inputs.tensor(4)?.as_slice::<f32>()?);
        if w.len() != 1 && w.len() != factors.len() {
            let what = "one value, or one a channel is needed";
            return Err(OpError::InputValue { index: 4, what }.into());
        }
        for (factor, w) in factors.iter_mut().zip(w.iter().cycle()) {
            *factor = x * w / y;
        }
        Ok(())
    }

    /// Computes `y`; `finish(sums, factors, y)` makes results.
    fn compute<T: Send>(
        &self,
        what: (&Geometry, &Operands<'_>),
        y: &mut [T],
        crew: (&dyn Threads, &mut [u8]),
        finish: impl Fn(&[i32], Factors<'_>, &mut [T]) + Sync,
    ) {
        match self.packed {
            Some(_) => rows::compute(self, what, y, crew, finish),
            None => planes::compute(self, what, y, crew, finish),
        }
    }
}

impl Kernel for ByteConv {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, _, _, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        let geometry = Geometry::new(self, x, w)?;
        let by_filter = (self.filter_sums().len() * size_of::<f32>()).next_multiple_of(64);
        let each = match self.packed {
            Some(_) => rows::scratch_len(&geometry),
            None => planes::scratch_len(&geometry),
        };
        let scratch = 2 * by_filter + self.cpu.scratch_bytes(each);
        Ok(Prepared::new(geometry).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let (inputs, isa) = (io.inputs, self.cpu.isa);
        let byte = |index: usize| -> Result<u8, KernelError> {
            let bytes = inputs.tensor(index)?.as_bytes().unwrap_or_default();
            Ok(bytes.first().copied().unwrap_or_default())
        };
        let flip = if inputs.tensor(0)?.dtype() == DType::I8 { FLIP } else { 0 };
        let (x_zero, y_zero) = (byte(2)?, byte(7)?);
        let (factors, scratch) = split_floats(io.scratch, self.filter_sums().len());
        let (start, scratch) = split_floats(scratch, self.filter_sums().len());
        let start: &mut [i32] = bytemuck::cast_slice_mut(start);
        self.fill(inputs, i32::from(x_zero ^ flip), (start, factors))?;
        let operands = Operands {
            x: inputs.tensor(0)?.as_bytes().unwrap_or_default(),
            w: match &self.packed {
                Some(packed) => packed.bytes(),
                None => inputs.tensor(3)?.as_bytes().unwrap_or_default(),
            },
            x_zero,
            flip,
            y_zero: match self.is_result_signed {
                true => f32::from(y_zero.cast_signed()),
                false => f32::from(y_zero),
            },
            start,
            factors,
        };
        let dtype = if self.is_result_signed { DType::I8 } else { DType::U8 };
        let y = io.outputs[0].tensor(dtype, &geometry.shape)?;
        if geometry.shape.contains(&0) {
            return Ok(());
        }
        let (what, rest) = ((geometry, &operands), (io.threads, scratch));
        let y_zero = operands.y_zero;
        match self.is_result_signed {
            true => self.compute(what, y.into_slice()?, rest, |sums, factors, y| {
                requantize_i8(isa, sums, factors, y_zero, y);
            }),
            false => self.compute(what, y.into_slice()?, rest, |sums, factors, y| {
                requantize_u8(isa, sums, factors, y_zero, y);
            }),
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 3 || self.packed.is_none()
    }

    fn variant(&self) -> &'static str {
        variant_name(self.cpu.isa)
    }
}

#[cfg(test)]
mod tests;
