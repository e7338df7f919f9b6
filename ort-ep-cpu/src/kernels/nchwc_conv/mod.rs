//! Conv in NCHWc, with filters as stored in the file, or transformed if that is much faster.

// collects are bounded: by the rank

pub(super) mod filters;
mod geometry;
pub(super) mod parts;
mod scale;
#[cfg(test)]
mod tests;
pub(super) mod winograd;

use ort_ep::{Claim, Io, Kernel, KernelError, Packed, Prepared, Threads};
use ort_graph::{Graph, NodeId, OpError, ValueId};
use ort_kernels::conv_nchwc::{self, Form, Start, Tiling, is_block, suited};
use ort_kernels::winograd::{Tile, Winograd};
use ort_ops::ops::nchwc::conv::Conv;
use ort_tensor::{DType, TensorView, TensorViewMut};
use smallvec::SmallVec;

use self::geometry::{Geometry, form};
use self::parts::{Part, parts};
use self::scale::Scaled;
use self::winograd::Sizes;
use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, Team, most_parts, n_parts};
use crate::epilogue::Epilogue;

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// One convolution.
#[derive(Debug)]
struct ConvKernel {
    cpu: Cpu,
    op: Conv,
    block: usize,
    epilogue: Epilogue,
    /// Whether it uses [`Algorithm::Tiles`], as far as shapes are known.
    is_tiled: bool,
    /// For [`Algorithm::Winograd`].
    transformed: Option<(Tile, Packed)>,
}

/// Prepared state for one shape signature.
#[derive(Debug)]
struct Plan {
    geometry: Geometry,
    algorithm: Algorithm,
    /// Elements of scratch per thread.
    scratch_len: usize,
}

/// The algorithm of a convolution.
#[derive(Debug)]
enum Algorithm {
    Direct,
    /// On matrix tiles.
    Tiles(Tiling),
    /// Winograd's algorithm, with transformed filters.
    Winograd(Tile),
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
    transformed: Option<&'a [f32]>,
}

/// A convolution and its scale and shift. It can overwrite its summand: every element is read
/// right before it is written.
fn claim(graph: &Graph, id: NodeId) -> Option<Claim> {
    let root = graph.get_node(id)?;
    let Scaled { nodes, .. } = Scaled::at(graph, id)?;
    let &first = nodes.first()?;
    let conv = graph.node(first);
    let has_sum = conv.inputs.get(3).copied().flatten().is_some();
    block_of(graph, op::<Conv>(graph, first)?, &conv.inputs)?;
    // bounded: one
    let in_place = if has_sum { SmallVec::from_elem((3, 0), 1) } else { SmallVec::new() };
    let (inputs, outputs) = (conv.inputs.clone(), root.outputs.clone());
    Some(Claim { nodes, inputs, outputs, in_place })
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (graph, claim) = (compiler.graph, compiler.claim);
    let Some(Scaled { nodes, epilogue }) = claim.root().and_then(|root| Scaled::at(graph, root))
    else {
        return Ok(None);
    };
    let op = nodes.first().and_then(|&conv| op::<Conv>(graph, conv));
    let Some(op) = op.filter(|_| nodes == claim.nodes) else { return Ok(None) };
    let Some(block) = block_of(graph, op, &claim.inputs) else { return Ok(None) };
    let (cpu, op) = (compiler.cpu, op.clone());
    let on_tiles = on_tiles(compiler, &op, block);
    let transformed = winograd::pack(compiler, &op.plain, block, on_tiles);
    let is_tiled = on_tiles.is_some();
    Ok(Some(Box::new(ConvKernel { cpu, op, block, epilogue, is_tiled, transformed })))
}

/// The cycles that the convolution takes on matrix tiles if they are faster, for an image of this size, or
/// a large one if the size is unknown.
fn on_tiles(compiler: &Compiler<'_>, op: &Conv, block: usize) -> Option<usize> {
    let known = |input| -> Option<Vec<usize>> {
        let dims = compiler.fact(input)?.dims()?;
        Some(dims.iter().map(|dim| dim.known().unwrap_or(winograd::SIDE)).collect())
    };
    let (x, w) = (known(0)?, known(1)?);
    let geometry = Geometry::new(&op.plain, block, &x, &w).ok()?;
    geometry.tiling(compiler.cpu.isa).map(|(_, cycles)| cycles)
}

/// The block size of a supported convolution: all inputs f32, and filters of a known
/// shape with a form.
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

/// Checks the shape of an optional tensor.
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
    /// The fastest algorithm for a shape signature.
    fn plan(&self, geometry: Geometry) -> Prepared {
        let Cpu { isa, .. } = self.cpu;
        let Geometry { channels, axes, .. } = geometry;
        let filters = geometry.filters / self.op.plain.group;
        let sizes = Sizes { isa, block: self.block, channels, filters, axes };
        let tiling = geometry.tiling(isa);
        let on_tiles = tiling.as_ref().map(|(_, cycles)| *cycles);
        let tile = self.transformed.as_ref().map(|&(tile, _)| tile);
        let tile = tile.filter(|_| sizes.is_faster(on_tiles));
        let (algorithm, scratch_len) = if let Some(tile) = tile {
            (Algorithm::Winograd(tile), tile.scratch_len(isa, self.block, channels, &axes))
        } else if let Some((tiling, _)) = tiling {
            (Algorithm::Tiles(tiling), tiling.scratch_len())
        } else {
            (Algorithm::Direct, 0)
        };
        let scratch_bytes = self.cpu.scratch_bytes(scratch_len);
        Prepared::new(Plan { geometry, algorithm, scratch_len }).with_scratch(scratch_bytes)
    }

    fn compute(
        &self,
        plan: &Plan,
        operands: &Operands<'_>,
        y: &mut [f32],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let Plan { geometry, algorithm, scratch_len } = plan;
        let cost = geometry.cost(y.len());
        let n_parts = |cost| n_parts(threads, cost);
        let cut = match algorithm {
            // Every part splits its operands into bfloat16.
            Algorithm::Tiles(tiling) => {
                let n_parts = n_parts(geometry.cost_on_tiles(tiling, y.len()));
                geometry.cut(2, y.len(), n_parts.min(most_parts(threads, cost)), threads.count())
            }
            Algorithm::Winograd(tile) => {
                let set = ort_kernels::winograd::variant(self.cpu.isa, self.block).filters;
                geometry.cut_tiles((*tile, set), y.len(), (n_parts(cost), threads.count()))
            }
            Algorithm::Direct => {
                let direct = conv_nchwc::variant(self.cpu.isa, self.block).filters;
                let tile = if geometry.form == Form::Depthwise { 1 } else { direct };
                geometry.cut(tile, y.len(), n_parts(cost), threads.count())
            }
        };
        let team = Team::new(threads, cut.n_parts).with_scratch(scratch, *scratch_len);
        team.run(parts(&cut, y), |part, scratch| self.part(plan, operands, part, scratch));
    }

    /// Computes one set of filters at some of the positions.
    fn part(
        &self,
        Plan { geometry, algorithm, .. }: &Plan,
        operands: &Operands<'_>,
        mut part: Part<'_>,
        scratch: &mut [f32],
    ) {
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
            activation: self.epilogue.fused(),
        };
        match (algorithm, operands.transformed) {
            (Algorithm::Tiles(tiling), _) => {
                conv.run_on_tiles(tiling, &part.positions, pieces, scratch);
            }
            (&Algorithm::Winograd(tile), Some(packed)) => {
                let packed = &packed[geometry.reads_transformed(tile, part.block, part.n_blocks)];
                winograd::run(&Winograd { conv, packed }, tile, part.positions, pieces, scratch);
            }
            _ => conv.run(part.positions, pieces),
        }
        pieces.iter_mut().for_each(|piece| self.epilogue.finish(piece));
    }
}

impl Kernel for ConvKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        Ok(self.plan(Geometry::new(&self.op.plain, self.block, x, w)?))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let plan: &Plan = prepared.state()?;
        let geometry = &plan.geometry;
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
            transformed: self.transformed.as_ref().map(|(_, it)| bytemuck::cast_slice(it.bytes())),
        };
        if !y.is_empty() {
            self.compute(plan, &operands, y, (io.threads, io.scratch));
        }
        Ok(())
    }

    /// Winograd's algorithm reads its own filters, and is slower for small images only.
    fn seldom_reads(&self, input: usize) -> bool {
        input == 1 && self.transformed.is_some()
    }

    fn variant(&self) -> &'static str {
        let isa = suited(self.cpu.isa, self.block);
        match self.transformed.as_ref().map(|&(tile, _)| winograd::name(tile)) {
            Some("winograd_4x2") => {
                return named!(isa => "winograd_4x2": "avx512_28x1", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic");
            }
            Some("winograd_4x3") => {
                return named!(isa => "winograd_4x3": "avx512_28x1", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic");
            }
            Some(_) => {
                return named!(isa => "winograd_4x5": "avx512_28x1", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic");
            }
            None => {}
        }
        if self.is_tiled {
            return "conv_nchwc/amx_32x32";
        }
        named!(isa => "conv_nchwc": "avx512_6x4", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic")
    }
}
