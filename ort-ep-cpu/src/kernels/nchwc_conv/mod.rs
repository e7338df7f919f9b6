//! Conv in blocks of channels, as files lay its filters out: nothing is packed.

mod geometry;
mod parts;
mod scale;
#[cfg(test)]
mod tests;

use ort_ep::{Claim, Io, Kernel, KernelError, Prepared, Threads};
use ort_graph::{Graph, NodeId, OpError, ValueId};
use ort_kernels::conv_nchwc::{self, Form, Start, is_block, suited};
use ort_ops::ops::nchwc::conv::Conv;
use ort_tensor::{DType, TensorView, TensorViewMut};
use smallvec::SmallVec;

use self::geometry::{Geometry, form};
use self::parts::{Part, parts};
use self::scale::Scaled;
use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, Team, n_parts};
use crate::tail::Tail;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// One convolution.
#[derive(Debug)]
struct ConvKernel {
    cpu: Cpu,
    op: Conv,
    block: usize,
    tail: Tail,
}

/// The tensors of a run.
struct Operands<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: Option<&'a [f32]>,
    /// The summand, unless the output's memory holds it.
    sum: Option<&'a [f32]>,
    /// Whether there is a summand.
    has_sum: bool,
}

/// A convolution and the numbers after it. It can write over its summand: every element is read
/// right before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let root = graph.get_node(id)?;
    let Scaled { nodes, .. } = Scaled::at(graph, id)?;
    let &first = nodes.first()?;
    let conv = graph.node(first);
    let has_sum = conv.inputs.get(3).copied().flatten().is_some();
    block_of(graph, op::<Conv>(graph, first)?, &conv.inputs)?;
    let in_place = if has_sum { SmallVec::from_elem((3, 0), 1) } else { SmallVec::new() };
    let (inputs, outputs) = (conv.inputs.clone(), root.outputs.clone());
    Some(Claim { nodes, inputs, outputs, in_place })
}

fn compile(compiler: &mut Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    let Some(Scaled { nodes, tail }) = claim.root().and_then(|root| Scaled::at(graph, root)) else {
        return Ok(None);
    };
    let op = nodes.first().and_then(|&conv| op::<Conv>(graph, conv));
    let Some(op) = op.filter(|_| nodes == claim.nodes) else { return Ok(None) };
    let Some(block) = block_of(graph, op, &claim.inputs) else { return Ok(None) };
    Ok(Some(Box::new(ConvKernel { cpu: compiler.cpu, op: op.clone(), block, tail })))
}

/// The block size of a convolution there is a kernel for: all inputs f32, and filters of a shape
/// that is known and has a form.
fn block_of(graph: &Graph, op: &Conv, inputs: &[Option<ValueId>]) -> Option<usize> {
    let block = op.block_size.filter(|&block| is_block(block))?;
    let is_f32 = |&id| graph.fact(id).dtype() == Some(DType::F32);
    let w = graph.fact(inputs.get(1).copied().flatten()?).dims()?;
    let &[o, c, _, _] = w.iter().map(|dim| dim.known()).collect::<Option<Vec<_>>>()?.as_slice()
    else {
        return None;
    };
    let is_taken = inputs.iter().flatten().all(is_f32);
    (is_taken && form([o, c], op.plain.group, block).is_some()).then_some(block)
}

/// That a tensor, if it is there, has this shape.
fn expect_shape(
    what: &'static str,
    found: Option<TensorView<'_>>,
    expected: &[usize],
) -> Result<(), OpError> {
    match found.filter(|found| found.shape() != expected) {
        None => Ok(()),
        Some(found) => {
            let (left, right) = (found.shape().to_vec(), expected.to_vec());
            Err(OpError::Shapes { what, left, right })
        }
    }
}

impl ConvKernel {
    fn compute(
        &self,
        geometry: &Geometry,
        operands: &Operands<'_>,
        y: &mut [f32],
        threads: &dyn Threads,
    ) {
        let cost = y.len().saturating_mul(geometry.terms());
        let tile = match geometry.form {
            Form::Depthwise => 1,
            _ => conv_nchwc::variant(self.cpu.isa, self.block).filters,
        };
        let cut = geometry.cut(tile, y.len(), n_parts(threads, cost));
        let team = Team::new(threads, cut.n_parts);
        team.run(parts(&cut, y), |part, _| self.part(geometry, operands, part));
    }

    /// One set of filters on some of the positions.
    fn part(&self, geometry: &Geometry, operands: &Operands<'_>, mut part: Part<'_>) {
        let block = self.block;
        let pieces = part.pieces.split_at_mut(part.n_blocks).0;
        if let Some(sum) = operands.sum {
            for (i, piece) in pieces.iter_mut().enumerate() {
                let first = (part.block + i) * geometry.n_outputs() + part.positions.start;
                piece.copy_from_slice(&sum[first * block..][..piece.len()]);
            }
        }
        let [x, filters] = geometry.reads(part.block, part.n_blocks);
        let first = part.block % (geometry.filters / block) * block;
        let bias = operands.bias.map(|bias| &bias[first..first + part.n_blocks * block]);
        let conv = conv_nchwc::Conv {
            isa: self.cpu.isa,
            block,
            form: geometry.form,
            axes: geometry.axes,
            x: &operands.x[x],
            w: &operands.w[filters],
            start: Start { bias, is_sum: operands.has_sum },
            activation: self.tail.fused(),
        };
        conv.run(part.positions, pieces);
        pieces.iter_mut().for_each(|piece| self.tail.finish(piece));
    }
}

impl Kernel for ConvKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        Ok(Prepared::new(Geometry::new(&self.op.plain, self.block, x, w)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let is_in_place = io.outputs[0].in_place_of().is_some();
        let y = io.outputs[0].tensor(DType::F32, &geometry.shape)?;
        let y = TensorViewMut::into_slice::<f32>(y)?;
        let (bias, sum) = (io.inputs.optional_tensor(2)?, io.inputs.optional_tensor(3)?);
        expect_shape("bias and filters", bias, &[geometry.filters])?;
        expect_shape("summand of Conv", sum, &geometry.shape)?;
        let operands = Operands {
            x: io.inputs.tensor(0)?.as_slice()?,
            w: io.inputs.tensor(1)?.as_slice()?,
            bias: bias.map(|bias| bias.as_slice()).transpose()?,
            sum: sum.map(|sum| sum.as_slice()).transpose()?,
            has_sum: is_in_place || sum.is_some(),
        };
        if !y.is_empty() {
            self.compute(geometry, &operands, y, io.threads);
        }
        Ok(())
    }

    fn variant(&self) -> &'static str {
        let isa = suited(self.cpu.isa, self.block);
        named!(isa => "conv_nchwc": "avx512_6x4", "avx2_6x2", "generic")
    }
}
