//! Conv and FusedConv in f32, of up to three dimensions.
//!
//! Dense and grouped convolutions are products of packed weights and columns of the image, computed on
//! the fly; depthwise ones compute their planes directly, those in three dimensions in blocks of channels if that pays.

// collects are bounded: by the rank

mod dense;
mod depthwise;
#[cfg(test)]
mod tests;
mod volume;

use ort_ep::{Claim, Io, Kernel, KernelError, Packed, Prepared};
use ort_graph::{Graph, NodeId, OpError};
use ort_kernels::conv_f32::Axis;
use ort_ops::infer::Window;
use ort_ops::ops::conv::Conv;
use ort_tensor::{DType, Inputs, Shape, TensorViewMut, n_elements};

use self::volume::Volume;
use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::Cpu;
use crate::epilogue::Epilogue;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// One convolution; `weights` are packed if they are constant and the convolution is dense.
#[derive(Debug)]
struct ConvKernel {
    cpu: Cpu,
    op: Conv,
    epilogue: Epilogue,
    weights: Option<Packed>,
    /// Instead, in three dimensions.
    volume: Option<Volume>,
}

/// The sizes for one shape signature.
#[derive(Debug)]
struct Geometry {
    /// The shape of the result.
    shape: Shape,
    group: usize,
    /// Input channels of a group.
    c: usize,
    /// Output channels of a group.
    m: usize,
    axes: [Axis; 3],
}

/// The tensors of a run.
struct Operands<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: Option<&'a [f32]>,
    z: Residual<'a>,
}

/// The summand of FusedConv.
#[derive(Clone, Copy)]
enum Residual<'a> {
    None,
    /// The contents of the output's memory.
    InPlace,
    Given(&'a [f32]),
}

/// A dense FusedConv can overwrite its summand: every element is read right before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let node = graph.get_node(id)?;
    op::<Conv>(graph, id)?;
    let w = node.inputs.get(1).copied().flatten()?;
    let has_z = node.inputs.get(3).copied().flatten().is_some();
    let is_taken =
        has_z && has_kernel(graph, &node.inputs) && graph.fact(w).dims()?[1].known()? > 1;
    is_taken.then(|| {
        let mut claim = Claim::one(id, node);
        claim.in_place.push((3, 0));
        claim
    })
}

/// Whether all inputs are f32 and the number of dimensions is supported.
fn has_kernel(graph: &Graph, inputs: &[Option<ort_graph::ValueId>]) -> bool {
    let is_f32 = |&id: &ort_graph::ValueId| graph.fact(id).dtype() == Some(DType::F32);
    let rank = inputs.get(1).copied().flatten().and_then(|w| graph.fact(w).rank());
    inputs.iter().flatten().all(is_f32) && rank.is_some_and(|rank| (3..=5).contains(&rank))
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let Some(op) = compiler.op::<Conv>().cloned() else { return Ok(None) };
    if !has_kernel(compiler.graph, &compiler.claim.inputs) {
        return Ok(None);
    }
    let volume = Volume::new(compiler, &op);
    let weights = match volume {
        Some(_) => None,
        None => dense::pack(compiler, op.group),
    };
    let (cpu, epilogue) = (compiler.cpu, op.activation.into());
    Ok(Some(Box::new(ConvKernel { cpu, op, epilogue, weights, volume })))
}

impl Geometry {
    /// With the axes of `to_axes`.
    fn new(
        op: &Conv,
        (x, w): (&[usize], &[usize]),
        to_axes: fn(&Window) -> Option<[Axis; 3]>,
    ) -> Result<Self, KernelError> {
        let wrong = || -> KernelError {
            let (left, right) = (x.to_vec(), w.to_vec());
            OpError::Shapes { what: "channels and groups", left, right }.into()
        };
        let (&[n, channels, ref input @ ..], &[filters, c, ref kernel @ ..]) = (x, w) else {
            return Err(wrong());
        };
        if c.checked_mul(op.group) != Some(channels) || !filters.is_multiple_of(op.group) {
            return Err(wrong());
        }
        let window = op.window.window(input, kernel).map_err(KernelError::Op)?;
        let shape = [n, filters].into_iter().chain(window.output.iter().copied()).collect();
        let axes = to_axes(&window).ok_or_else(wrong)?;
        Ok(Self { shape, group: op.group, c, m: filters / op.group, axes })
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// Elements of an input plane.
    fn n_inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    /// Elements of an output plane.
    fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }
}

/// Whether every output channel reads its own single input channel.
const fn is_depthwise(group: usize, c: usize) -> bool {
    group > 1 && c == 1
}

/// The axes of a window, unit axes in front; `None` if there are more than three. Axes of one
/// element, which do not affect strides, are moved to the front as well: rows are as long as possible.
pub(super) fn axes(window: &Window) -> Option<[Axis; 3]> {
    let mut axes = axes_in_order(window)?;
    // A stable sort: the others keep their order.
    axes.sort_by_key(|axis| *axis != Axis::UNIT);
    Some(axes)
}

/// The axes of a window, unit axes in front; `None` if there are more than three.
pub(super) fn axes_in_order(window: &Window) -> Option<[Axis; 3]> {
    let mut axes = [Axis::UNIT; 3];
    let first = axes.len().checked_sub(window.kernel.len())?;
    for (i, axis) in axes[first..].iter_mut().enumerate() {
        *axis = Axis {
            input: window.input[i],
            output: window.output[i],
            kernel: window.kernel[i],
            stride: window.strides[i],
            dilation: window.dilations[i],
            pad: [window.pads_begin[i], window.pads_end[i]],
        };
        let is_unit = [axis.input, axis.output, axis.kernel] == [1; 3] && axis.pad == [0; 2];
        if is_unit {
            *axis = Axis::UNIT;
        }
    }
    Some(axes)
}

impl<'a> Operands<'a> {
    fn new(inputs: Inputs<'a>, weights: Option<&'a Packed>) -> Result<Self, KernelError> {
        let optional = |i| -> Result<Option<&'a [f32]>, KernelError> {
            Ok(inputs.optional_tensor(i)?.map(|x| x.as_slice()).transpose()?)
        };
        let w = match weights {
            Some(packed) => bytemuck::cast_slice(packed.bytes()),
            None => inputs.tensor(1)?.as_slice()?,
        };
        let z = optional(3)?.map_or(Residual::None, Residual::Given);
        Ok(Self { x: inputs.tensor(0)?.as_slice()?, w, bias: optional(2)?, z })
    }

    /// The bias of the channels from `first` on.
    fn bias_from(&self, first: usize) -> Option<&'a [f32]> {
        self.bias.map(|bias| &bias[first..])
    }
}

impl ConvKernel {
    /// The weights, in any form but that of the file.
    fn packed(&self) -> Option<&Packed> {
        self.weights.as_ref().or(self.volume.as_ref().map(|volume| &volume.weights))
    }

    /// The state of a run with scratch of this many elements per thread.
    fn prepared(&self, geometry: Geometry, scratch_len: usize) -> Prepared {
        let terms = geometry.c.saturating_mul(geometry.taps());
        let cost = n_elements(&geometry.shape).unwrap_or(0).saturating_mul(terms);
        let scratch_bytes = self.cpu.scratch_bytes_for(scratch_len, cost);
        Prepared::new(geometry).with_scratch(scratch_bytes)
    }

    /// Whether planes are computed directly: not if weights were packed for products.
    fn is_depthwise(&self, geometry: &Geometry) -> bool {
        self.packed().is_none() && is_depthwise(geometry.group, geometry.c)
    }
}

impl Kernel for ConvKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        if let Some(volume) = &self.volume {
            let geometry = Geometry::new(&self.op, (x, w), axes_in_order)?;
            let scratch_len = volume.scratch_len(self.cpu.isa, &geometry);
            return Ok(self.prepared(geometry, scratch_len));
        }
        let geometry = Geometry::new(&self.op, (x, w), axes)?;
        let scratch_len = match self.is_depthwise(&geometry) {
            true => depthwise::scratch_len(&geometry),
            false => dense::scratch_len(self, &geometry),
        };
        Ok(self.prepared(geometry, scratch_len))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let mut operands = Operands::new(io.inputs, self.packed())?;
        if io.outputs[0].in_place_of().is_some() {
            operands.z = Residual::InPlace;
        }
        let y = io.outputs[0].tensor(DType::F32, &geometry.shape)?;
        let y = TensorViewMut::into_slice::<f32>(y)?;
        if y.is_empty() {
            return Ok(());
        }
        let (threads, scratch) = (io.threads, &mut *io.scratch);
        if let Some(volume) = &self.volume {
            volume::run(self, (geometry, volume), &operands, y, (threads, scratch));
            return Ok(());
        }
        match self.is_depthwise(geometry) {
            true => depthwise::run(self, geometry, &operands, y, (threads, scratch)),
            false => dense::run(self, geometry, &operands, y, (threads, scratch)),
        }
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.packed().is_none()
    }

    fn variant(&self) -> &'static str {
        if let Some(volume) = &self.volume {
            return volume.variant(self.cpu.isa);
        }
        named!(self.cpu.isa => "conv_f32": tile)
    }
}
