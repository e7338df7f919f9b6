//! QLinearConv and ConvInteger of up to three dimensions with constant weights, NCHW or channels-last.
//! Sums are requantized, returned, or converted to floats by an epilogue.

// collects are bounded: by the rank

mod depthwise;
mod epilogue;
mod filters;
mod planes;
mod rows;

use ort_ep::{Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Fact, OpError};
use ort_kernels::conv_f32::Axis;
use ort_kernels::quantize::{Factors, Requantize, Scales, scale_and_shift};
use ort_kernels::{Activation, Isa};
use ort_ops::channels_last::ChannelsLast;
use ort_ops::infer::WindowAttrs;
use ort_ops::ops::conv_integer::ConvInteger;
use ort_ops::ops::qlinear_conv::QLinearConv;
use ort_tensor::{DType, Inputs, Shape};

use self::epilogue::{Epilogue, WithEpilogue};
use self::filters::{Filters, Form};
use super::conv::axes;
use super::{Compiled, Compiler, KernelDef, op};
use crate::bytes::{FLIP, split_floats, variant_name, zero_point};
use crate::cpu::Cpu;

pub(super) const DEF: KernelDef = KernelDef { claim: epilogue::claim, compile };

/// One convolution.
#[derive(Debug)]
struct ByteConv {
    cpu: Cpu,
    window: WindowAttrs,
    group: usize,
    roles: Roles,
    filters: Filters,
    /// The type of the result.
    dtype: DType,
    /// The epilogue that converts sums to floats.
    epilogue: Option<Epilogue>,
}

/// The indices of the inputs; the image is input 0, and its zero point input 2.
#[derive(Clone, Copy, Debug)]
struct Roles {
    w: usize,
    w_zero: usize,
    /// Whether sums are requantized: the scales are inputs 1, 4 and 6, the zero point of the
    /// result is input 7, and the bias input 8.
    is_requantized: bool,
}

const LINEAR: Roles = Roles { w: 3, w_zero: 5, is_requantized: true };
const INTEGER: Roles = Roles { w: 1, w_zero: 3, is_requantized: false };
const X_ZERO: usize = 2;
/// The values per filter in scratch: the initial sum, and up to three floats.
const N_NUMBERS: usize = 4;
const BIAS: usize = 8;

/// The sizes for one shape signature.
#[derive(Debug)]
struct Geometry {
    shape: Shape,
    group: usize,
    /// Input channels of a group, and output channels.
    channels: usize,
    filters: usize,
    /// Bytes of a filter.
    k: usize,
    axes: [Axis; 3],
}

/// The tensors and parameters of a run.
struct Operands<'a> {
    x: &'a [u8],
    w: &'a [u8],
    /// The masks of the weights of each group, if there are any.
    masks: &'a [u8],
    /// The number of bytes whose sum is a weight, for depthwise filters.
    parts: usize,
    x_zero: u8,
    flip: u8,
    /// The initial sum of each filter.
    start: &'a [i32],
}

/// The output channels of a slice of sums.
#[derive(Clone, Copy, Debug)]
enum Channels {
    /// All belong to this output channel.
    One(usize),
    /// One per channel, starting with this one.
    From(usize),
}

/// The conversion of sums to results.
trait Finish<T>: Sync {
    /// Writes the results of the sums of these channels.
    fn run(&self, channels: Channels, sums: &[i32], y: &mut [T]);

    /// The requantization, and `y` as bytes, if results are quantized: kernels then requantize while sums are in
    /// registers.
    fn requantize<'y>(&self, y: &'y mut [T]) -> Option<(Requantize<'_>, &'y mut [u8])> {
        let _ = y;
        None
    }
}

impl<T, F: Fn(Channels, &[i32], &mut [T]) + Sync> Finish<T> for F {
    fn run(&self, channels: Channels, sums: &[i32], y: &mut [T]) {
        self(channels, sums, y);
    }
}

/// Requantization with a factor per channel.
struct Requantized<'a> {
    isa: Isa,
    factors: &'a [f32],
    zero_point: i16,
    is_signed: bool,
}

impl Requantized<'_> {
    /// The requantization with these factors for the rows or the columns of a matrix.
    fn with<'f>(&self, factors: Scales<'f>) -> Requantize<'f> {
        Requantize { factors, zero_point: self.zero_point, is_signed: self.is_signed }
    }
}

impl Finish<u8> for Requantized<'_> {
    fn run(&self, channels: Channels, sums: &[i32], y: &mut [u8]) {
        let factors = match channels {
            Channels::One(channel) => Scales::ByRow(&self.factors[channel..]),
            Channels::From(first) => Scales::ByColumn(&self.factors[first..]),
        };
        self.with(factors).row(self.isa, 0, sums, y);
    }

    fn requantize<'y>(&self, y: &'y mut [u8]) -> Option<(Requantize<'_>, &'y mut [u8])> {
        Some((self.with(Scales::ByColumn(self.factors)), y))
    }
}

impl Channels {
    fn factors(self, factors: &[f32]) -> Factors<'_> {
        match self {
            Self::One(channel) => Factors::One(factors[channel]),
            Self::From(first) => Factors::Each(&factors[first..]),
        }
    }
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    let with_epilogue = match (claim.nodes.len(), claim.root()) {
        (2.., Some(root)) => WithEpilogue::at(graph, root),
        _ => None,
    };
    let with_epilogue =
        with_epilogue.filter(|with_epilogue| claim.nodes.first() == Some(&with_epilogue.conv));
    let integer = match &with_epilogue {
        Some(with_epilogue) => op::<ConvInteger>(graph, with_epilogue.conv),
        None => compiler.op::<ConvInteger>(),
    };
    let (op, last) = (compiler.op::<QLinearConv>(), compiler.op::<ChannelsLast<QLinearConv>>());
    let (window, group, roles, are_channels_last) = match (op, integer, last) {
        (Some(op), ..) | (.., Some(ChannelsLast(op))) => {
            (op.window.clone(), op.group, LINEAR, last.is_some())
        }
        (_, Some(op), _) => (op.window.clone(), op.group, INTEGER, false),
        _ => return Ok(None),
    };
    let is_byte = |input| compiler.fact(input).and_then(Fact::dtype).filter(|it| it.is_byte());
    let singles: &[usize] = if roles.is_requantized { &[1, X_ZERO, 6, 7] } else { &[X_ZERO] };
    let dtype = match (roles.is_requantized, &with_epilogue) {
        (true, _) => is_byte(7),
        (false, Some(_)) => Some(DType::F32),
        (false, None) => Some(DType::I32),
    };
    let (Some(dtype), Some(_)) = (dtype, is_byte(0)) else { return Ok(None) };
    if !singles.iter().copied().all(|input| compiler.is_one_or_none(input)) {
        return Ok(None);
    }
    let Some(filters) = Filters::compile(compiler, &roles, (group, are_channels_last)) else {
        return Ok(None);
    };
    let (cpu, epilogue) = (compiler.cpu, with_epilogue.map(|with_epilogue| with_epilogue.epilogue));
    Ok(Some(Box::new(ByteConv { cpu, window, group, roles, filters, dtype, epilogue })))
}

impl Geometry {
    fn new(kernel: &ByteConv, x: &[usize], w: &[usize]) -> Result<Self, KernelError> {
        let (group, are_channels_last) = (kernel.group, kernel.filters.are_channels_last());
        let wrong = || -> KernelError {
            let (left, right) = (x.to_vec(), w.to_vec());
            OpError::Shapes { what: "channels and groups", left, right }.into()
        };
        let mut x: Shape = x.into();
        if are_channels_last && x.len() > 1 {
            x[1..].rotate_right(1);
        }
        let (&[n, all, ref input @ ..], &[filters, channels, ref kernel_dims @ ..]) = (&x[..], w)
        else {
            return Err(wrong());
        };
        if channels.checked_mul(group) != Some(all) || !filters.is_multiple_of(group) {
            return Err(wrong());
        }
        let window = kernel.window.window(input, kernel_dims).map_err(KernelError::Op)?;
        let mut shape: Shape =
            [n, filters].into_iter().chain(window.output.iter().copied()).collect();
        if are_channels_last {
            shape[1..].rotate_left(1);
        }
        let k = channels * kernel_dims.iter().product::<usize>();
        let axes = axes(&window).ok_or_else(wrong)?;
        Ok(Self { shape, group, channels, filters: filters / group, k, axes })
    }

    fn all_filters(&self) -> usize {
        self.group * self.filters
    }

    fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }
}

impl ByteConv {
    /// Writes the initial sum of each filter.
    fn fill_start(
        &self,
        inputs: Inputs<'_>,
        x_zero: i32,
        start: &mut [i32],
    ) -> Result<(), KernelError> {
        let bias = match self.roles.is_requantized {
            true => inputs.optional_tensor(BIAS)?.map(|bias| bias.as_slice::<i32>()).transpose()?,
            false => None,
        };
        for (i, (start, own)) in start.iter_mut().zip(self.filters.starts(x_zero)).enumerate() {
            let bias = match bias {
                Some(bias) => *bias.get(i).ok_or(OpError::InputValue {
                    index: BIAS,
                    what: "one value per output channel is needed",
                })?,
                None => 0,
            };
            *start = own.wrapping_add(bias);
        }
        Ok(())
    }

    /// Writes the factors that requantize sums.
    fn fill_factors(&self, inputs: Inputs<'_>, factors: &mut [f32]) -> Result<(), KernelError> {
        let scale = |index: usize| -> Result<f32, KernelError> {
            let scale = inputs.tensor(index)?.as_slice::<f32>()?;
            let what = "a single value is needed";
            Ok(*scale.first().ok_or(OpError::InputValue { index, what })?)
        };
        let (x, y, w) = (scale(1)?, scale(6)?, inputs.tensor(4)?.as_slice::<f32>()?);
        if w.len() != 1 && w.len() != factors.len() {
            let what = "one value, or one per channel is needed";
            return Err(OpError::InputValue { index: 4, what }.into());
        }
        match w {
            &[w] => factors.fill(x * w / y),
            _ => factors.iter_mut().zip(w).for_each(|(factor, w)| *factor = x * w / y),
        }
        Ok(())
    }

    /// Elements of scratch per thread.
    fn scratch_len(&self, geometry: &Geometry) -> usize {
        match self.filters.form {
            Form::Rows { .. } => planes::scratch_len(self.cpu.isa, geometry),
            Form::Right(_) => rows::scratch_len(self.cpu.isa, geometry),
            Form::Depthwise { are_channels_last: false, .. } => {
                depthwise::planes_scratch_len(geometry)
            }
            Form::Depthwise { .. } => depthwise::pixels_scratch_len(geometry),
        }
    }

    /// Computes `y`; `finish` converts sums to results.
    fn compute<T: Send>(
        &self,
        what: (&Geometry, &Operands<'_>),
        y: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
        finish: &impl Finish<T>,
    ) {
        match self.filters.form {
            Form::Rows { .. } => planes::compute(self, what, y, (threads, scratch), finish),
            Form::Right(_) => rows::compute(self, what, y, (threads, scratch), finish),
            Form::Depthwise { are_channels_last: false, .. } => {
                depthwise::planes(self, what, y, (threads, scratch), finish);
            }
            Form::Depthwise { .. } => depthwise::pixels(self, what, y, (threads, scratch), finish),
        }
    }
}

impl Kernel for ByteConv {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let (Some(x), Some(w)) = (shapes.first(), shapes.get(self.roles.w)) else {
            return Err(KernelError::ForeignState);
        };
        let geometry = Geometry::new(self, x, w)?;
        let by_filter = (self.filters.len() * size_of::<f32>()).next_multiple_of(64);
        let scratch = N_NUMBERS * by_filter + self.cpu.scratch_bytes(self.scratch_len(&geometry));
        Ok(Prepared::new(geometry).with_scratch(scratch))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let (inputs, isa, n_filters) = (io.inputs, self.cpu.isa, self.filters.len());
        let byte = |index: usize| -> Result<u8, KernelError> {
            let bytes = inputs.optional_tensor(index)?.and_then(|x| x.as_bytes());
            Ok(bytes.and_then(|bytes| bytes.first().copied()).unwrap_or_default())
        };
        let flip = if inputs.tensor(0)?.dtype() == DType::I8 { FLIP } else { 0 };
        let x_zero = byte(X_ZERO)?;
        let (factors, scratch) = split_floats(io.scratch, n_filters);
        let (seconds, scratch) = split_floats(scratch, n_filters);
        let (summands, scratch) = split_floats(scratch, n_filters);
        let (start, scratch) = split_floats(scratch, n_filters);
        let start: &mut [i32] = bytemuck::cast_slice_mut(start);
        self.fill_start(inputs, i32::from(x_zero ^ flip), start)?;
        match self.epilogue {
            Some(epilogue) => {
                epilogue.fill(inputs, [&mut *factors, &mut *seconds, &mut *summands])?
            }
            None if self.roles.is_requantized => self.fill_factors(inputs, factors)?,
            None => {}
        }
        let (seconds, summands) = (&*seconds, &*summands);
        let (factors, x) = (&*factors, inputs.tensor(0)?.as_bytes().unwrap_or_default());
        let (packed, masks, parts) = self.filters.packed();
        let w = match packed {
            Some(packed) => packed,
            None => inputs.tensor(self.roles.w)?.as_bytes().unwrap_or_default(),
        };
        let operands = Operands { x, w, masks, parts, x_zero, flip, start };
        let y = io.outputs[0].tensor(self.dtype, &geometry.shape)?;
        if geometry.shape.contains(&0) {
            return Ok(());
        }
        let (what, rest) = ((geometry, &operands), (io.threads, scratch));
        match self.dtype {
            DType::I8 | DType::U8 => {
                let (zero_point, is_signed) = (zero_point(inputs, 7)?, self.dtype == DType::I8);
                let finish = Requantized { isa, factors, zero_point, is_signed };
                self.compute(what, y.into_bytes().unwrap_or_default(), rest, &finish);
            }
            DType::F32 => {
                let activation = self.epilogue.map_or(Activation::None, |it| it.activation);
                self.compute(
                    what,
                    y.into_slice()?,
                    rest,
                    &|channels: Channels, sums: &[i32], y: &mut [f32]| {
                        let of = |numbers| channels.factors(numbers);
                        scale_and_shift(isa, sums, of(factors), (of(seconds), of(summands)), y);
                        activation.apply(isa, y);
                    },
                );
            }
            _ => self.compute(what, y.into_slice()?, rest, &|_, sums: &[i32], y: &mut [i32]| {
                y.copy_from_slice(sums);
            }),
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != self.roles.w || !self.filters.are_packed()
    }

    fn variant(&self) -> &'static str {
        match self.filters.form {
            Form::Depthwise { .. } => ort_kernels::depthwise_i8::variant(self.cpu.isa).name,
            _ => variant_name(self.cpu.isa, self.filters.terms),
        }
    }
}

#[cfg(test)]
mod tests;
