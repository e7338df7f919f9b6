//! QLinearConv of up to three dimensions with constant int8 weights: a product of the weights as
//! they stand and columns of the image made on the fly, for each image and group.

use std::ops::Range;

use ort_ep::{Io, Kernel, KernelError, Prepared};
use ort_graph::{Dim, Fact, OpError};
use ort_kernels::conv_f32::Axis;
use ort_kernels::gemm_i8::{Columns, Gemm, Signs, Start};
use ort_kernels::quantize::{Factors, requantize_i8, requantize_u8};
use ort_ops::ops::qlinear_conv::QLinearConv;
use ort_tensor::{DType, Inputs, Shape};

use super::conv::axes;
use super::{Compiled, Compiler, KernelDef};
use crate::bytes::{FLIP, split_floats, variant_name};
use crate::cpu::{Cpu, Team, n_parts};
use crate::cut::{Along, Cut, Part};

pub(super) const DEF: KernelDef = KernelDef::one(compile);

/// Columns whose sums a thread holds at a time: a few panels of any variant.
const COLUMNS: usize = 128;

/// One convolution.
#[derive(Debug)]
struct ByteConv {
    cpu: Cpu,
    op: QLinearConv,
    /// The sum of each filter's weights.
    filter_sums: Vec<i32>,
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

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<QLinearConv>().cloned() else { return Ok(None) };
    let is_one = |input: usize| {
        let dims = compiler.fact(input).and_then(Fact::dims);
        dims.is_some_and(|dims| dims.iter().all(|dim| *dim == Dim::Known(1)))
    };
    let is_zero = match (compiler.fact(5), compiler.constant(5)) {
        (None, _) => true,
        (_, Some(zero)) => zero.view().as_bytes().is_some_and(|bytes| bytes.iter().all(|&b| b == 0)),
        _ => false,
    };
    let is_x = compiler.fact(0).and_then(Fact::dtype).is_some_and(DType::is_byte);
    let are_single = [1, 2, 6, 7].into_iter().all(is_one);
    let (Some(w), true) = (compiler.constant(3), is_zero && is_x && are_single) else {
        return Ok(None);
    };
    let (Ok(values), true) = (w.as_slice::<i8>(), (3..=5).contains(&w.shape().len())) else {
        return Ok(None);
    };
    let filter = (values.len() / w.shape()[0].max(1)).max(1);
    let sum = |filter: &[i8]| filter.iter().map(|&w| i32::from(w)).sum();
    let filter_sums = values.chunks(filter).map(sum).collect();
    let is_result_signed = compiler.fact(7).and_then(Fact::dtype) == Some(DType::I8);
    Ok(Some(Box::new(ByteConv { cpu: compiler.cpu, op, filter_sums, is_result_signed })))
}

impl Geometry {
    fn new(op: &QLinearConv, x: &[usize], w: &[usize]) -> Result<Self, KernelError> {
        let wrong = || -> KernelError {
            let (left, right) = (x.to_vec(), w.to_vec());
            OpError::Shapes { what: "channels and groups", left, right }.into()
        };
        let (&[n, all, ref input @ ..], &[filters, channels, ref kernel @ ..]) = (x, w) else {
            return Err(wrong());
        };
        if channels.checked_mul(op.group) != Some(all) || !filters.is_multiple_of(op.group) {
            return Err(wrong());
        }
        let window = op.window.window(input, kernel).map_err(KernelError::Op)?;
        let shape = [n, filters].into_iter().chain(window.output.iter().copied()).collect();
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

    /// The elements of scratch a thread needs: columns and sums.
    fn scratch_len(&self) -> usize {
        self.panels_len() + self.filters * COLUMNS
    }

    /// The columns, in units of four bytes.
    fn panels_len(&self) -> usize {
        self.k.div_ceil(4) * COLUMNS
    }
}

impl ByteConv {
    /// Writes what each filter's sums begin with and what they are multiplied with.
    fn fill(
        &self,
        inputs: Inputs<'_>,
        x_zero: i32,
        (start, factors): (&mut [i32], &mut [f32]),
    ) -> Result<(), KernelError> {
        let bias = inputs.optional_tensor(8)?.map(|bias| bias.as_slice::<i32>()).transpose()?;
        for (i, (start, sum)) in start.iter_mut().zip(&self.filter_sums).enumerate() {
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

    /// Computes `y`: `[images, group, filters, positions]`. `finish(sums, factor, y)` makes results.
    fn compute<T: Send>(
        &self,
        (geometry, operands): (&Geometry, &Operands<'_>),
        y: &mut [T],
        (threads, scratch): (&dyn ort_ep::Threads, &mut [u8]),
        finish: impl Fn(&[i32], f32, &mut [T]) + Sync,
    ) {
        let (m, n) = (geometry.filters, geometry.n_outputs());
        let n_products = y.len() / (m * n);
        let cost = y.len().saturating_mul(geometry.k) / 4;
        let n_parts = n_parts(threads, cost).div_ceil(n_products);
        let cut = Cut::new(self.cpu.isa, [m, n], n_parts, Along::Columns);
        let team = Team::new(threads, n_products * cut.n_parts());
        let team = team.with_scratch(scratch, geometry.scratch_len());
        let products = y.chunks_exact_mut(m * n).enumerate();
        let parts = products.flat_map(|(i, y)| cut.parts(y).map(move |part| (i, part)));
        team.run(parts, |(i, part), scratch| {
            self.part((geometry, operands), (i, part), scratch, &finish);
        });
    }

    /// A part of the product of image and group `i`, a few columns at a time.
    fn part<T>(
        &self,
        (geometry, operands): (&Geometry, &Operands<'_>),
        (i, mut part): (usize, Part<'_, T>),
        scratch: &mut [f32],
        finish: &impl Fn(&[i32], f32, &mut [T]),
    ) {
        let &Geometry { channels, filters, k, axes, .. } = geometry;
        let image_len = channels * geometry.n_inputs();
        let (padding, flip) = (operands.x_zero, operands.flip);
        let image = &operands.x[i * image_len..][..image_len];
        let columns = Columns { image, channels, axes, padding, flip };
        let first = i % self.op.group * filters;
        let (panels, sums) = scratch.split_at_mut(geometry.panels_len());
        let panels: &mut [u8] = bytemuck::cast_slice_mut(panels);
        let sums: &mut [i32] = bytemuck::cast_slice_mut(sums);
        let (rows, all) = (part.rows.clone(), part.columns.clone());
        for start in all.clone().step_by(COLUMNS) {
            let own = start..all.end.min(start + COLUMNS);
            columns.pack(self.cpu.isa, own.clone(), panels);
            let gemm = Gemm {
                isa: self.cpu.isa,
                n: own.len(),
                k,
                signs: Signs::SignedA,
                a: &operands.w[first * k..][..filters * k],
                a_stride: k,
                b: panels,
                start: Start::ByRow(&operands.start[first..]),
            };
            gemm.run(rows.clone(), 0..own.len(), &mut sums[..rows.len() * own.len()]);
            let within: Range<usize> = own.start - all.start..own.end - all.start;
            part.for_each_row(|row, y| {
                let sums = &sums[(row - rows.start) * own.len()..][..own.len()];
                finish(sums, operands.factors[first + row], &mut y[within.clone()]);
            });
        }
    }
}

impl Kernel for ByteConv {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, _, _, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        let geometry = Geometry::new(&self.op, x, w)?;
        let by_filter = (self.filter_sums.len() * size_of::<f32>()).next_multiple_of(64);
        let scratch = 2 * by_filter + self.cpu.scratch_bytes(geometry.scratch_len());
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
        let (factors, scratch) = split_floats(io.scratch, self.filter_sums.len());
        let (start, scratch) = split_floats(scratch, self.filter_sums.len());
        let start: &mut [i32] = bytemuck::cast_slice_mut(start);
        self.fill(inputs, i32::from(x_zero ^ flip), (start, factors))?;
        let operands = Operands {
            x: inputs.tensor(0)?.as_bytes().unwrap_or_default(),
            w: inputs.tensor(3)?.as_bytes().unwrap_or_default(),
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
            true => self.compute(what, y.into_slice()?, rest, |sums, factor, y| {
                requantize_i8(isa, sums, Factors::One(factor), y_zero, y);
            }),
            false => self.compute(what, y.into_slice()?, rest, |sums, factor, y| {
                requantize_u8(isa, sums, Factors::One(factor), y_zero, y);
            }),
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        variant_name(self.cpu.isa)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, bytes, exact, floats};

    fn case(x: Tensor, zero: Tensor, w: &[usize]) -> Case {
        let scale = |value: f32| Tensor::scalar(value);
        Case::new("QLinearConv", 10)
            .input(x)
            .input(scale(0.05))
            .input(zero)
            .constant(bytes(w, u8::cast_signed))
            .constant(floats(&w[..1]))
            .constant(Tensor::scalar(0_i8))
            .input(scale(20.0))
    }

    #[test]
    fn results_are_those_of_eval() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let x = |shape: &[usize]| bytes(shape, |bits| bits);
        let attrs = |case: Case| {
            case.attr("pads", ints(&[1, 1, 2, 0])).attr("strides", ints(&[1, 2]))
        };
        for filters in [1, 12] {
            let case = attrs(case(x(&[2, 5, 9, 20]), Tensor::scalar(3_u8), &[filters, 5, 3, 2]));
            case.clone().input(Tensor::scalar(100_u8)).check(exact);
            let bias = bytes(&[filters], |bits| i32::from(bits) * 50);
            case.input(Tensor::scalar(-7_i8)).constant(bias).check(exact);
        }
    }

    #[test]
    fn groups_signed_images_and_points() {
        let x = |shape: &[usize]| bytes(shape, u8::cast_signed);
        let grouped = case(x(&[1, 6, 40, 15]), Tensor::scalar(-3_i8), &[9, 2, 3, 3]);
        let grouped = grouped.attr("group", Attr::Int(3)).attr("dilations", Attr::Ints(vec![2, 1]));
        grouped.input(Tensor::scalar(5_i8)).check(exact);
        let point = case(x(&[1, 64, 30, 30]), Tensor::scalar(9_i8), &[40, 64, 1, 1]);
        point.input(Tensor::scalar(128_u8)).check(exact);
        let line = case(x(&[2, 3, 30]), Tensor::scalar(9_i8), &[4, 3, 5]);
        line.input(Tensor::scalar(0_i8)).check(exact);
    }
}
