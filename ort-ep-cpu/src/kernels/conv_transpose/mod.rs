//! ConvTranspose in f32, of up to three dimensions, with a fused activation.
//!
//! Outputs that are a stride apart form an ordinary convolution (see [`phases`]); several
//! remainders that read the same inputs are computed together, so that no result is visited twice:
//!
//! ```text
//! for each set of remainders, for each strip of positions:
//!     strip[(m, r), q] = f(b[m] + Σ_{c, t} w[c, m, t]·x[c, q − …])    as a product of matrices
//!     y[m, stride·q + r − pad] = strip[(m, r), q]
//! ```
//!
//! With one input channel per group, planes are computed directly (see [`depthwise`]).

// collects are bounded: by the rank, and one per set

mod blocked;
mod depthwise;
mod geometry;
mod pack;
mod parts;
mod phases;
#[cfg(test)]
mod tests;
mod write;

use ort_ep::{Claim, Io, Kernel, KernelError, Packed, Prepared};
use ort_graph::{Graph, NodeId};
use ort_kernels::Activation;
use ort_kernels::conv_f32::{Axis, Columns, Direct};
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Region, Start, Strided};
use ort_ops::ops::conv_transpose::ConvTranspose;
use ort_tensor::{DType, Shape, go_on};
use smallvec::SmallVec;

use self::blocked::Blocked;
use self::geometry::{Geometry, shape_and_axes};
use self::pack::pack;
use self::parts::Part;
use self::phases::{Left, Set};
use super::unary::Function;
use super::{Compiled, Compiler, KernelDef, op};
use crate::cpu::{Cpu, MAX_OPERATIONS, Team, n_parts};

pub(super) const DEF: KernelDef = KernelDef { claim, compile };

/// One transposed convolution; the weights are packed if they are constant.
#[derive(Debug)]
struct ConvTransposeKernel {
    cpu: Cpu,
    op: ConvTranspose,
    activation: Activation,
    /// How many remainders of each axis are apart.
    late: [usize; 3],
    weights: Option<Packed>,
    /// Instead, if results are computed in NCHWc.
    blocked: Option<Blocked>,
}

/// The tensors of a run.
struct Operands<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: Option<&'a [f32]>,
}

/// A transposed convolution whose only reader is a function of one operand.
fn claim(graph: &Graph, root: NodeId) -> Option<Claim> {
    let node = graph.get_node(root)?;
    activation(graph, root)?;
    let value = node.inputs.first().copied().flatten()?;
    let (id, _) = graph.producer(value)?;
    op::<ConvTranspose>(graph, id)?;
    let is_private = graph.consumers(value).len() == 1 && !graph.outputs().contains(&value);
    let before = graph.node(id);
    let is_taken = is_private && has_kernel(graph, &before.inputs);
    is_taken.then(|| Claim {
        nodes: SmallVec::from_slice(&[id, root]),
        inputs: before.inputs.clone(),
        outputs: node.outputs.clone(),
        in_place: SmallVec::new(),
    })
}

/// The function of a node that products can fuse.
fn activation(graph: &Graph, id: NodeId) -> Option<Activation> {
    match Function::of(graph, id)? {
        Function::Activation(Activation::Clip { min, max }) if min.is_nan() || max.is_nan() => None,
        Function::Activation(activation) => {
            // A bias would be another operand.
            let n_inputs = graph.node(id).inputs.iter().flatten().count();
            (n_inputs == 1).then_some(activation)
        }
        _ => None,
    }
}

/// Whether all inputs are f32 and the number of dimensions is supported.
fn has_kernel(graph: &Graph, inputs: &[Option<ort_graph::ValueId>]) -> bool {
    let is_f32 = |&id: &ort_graph::ValueId| graph.fact(id).dtype() == Some(DType::F32);
    let rank = inputs.get(1).copied().flatten().and_then(|w| graph.fact(w).rank());
    inputs.iter().flatten().all(is_f32) && rank.is_some_and(|rank| (3..=5).contains(&rank))
}

fn compile(compiler: &Compiler<'_>) -> Compiled {
    let (id, activation) = match *compiler.claim.nodes {
        [id] => (id, Some(Activation::None)),
        [id, behind] => (id, activation(compiler.graph, behind)),
        _ => return Ok(None),
    };
    let op = op::<ConvTranspose>(compiler.graph, id).cloned();
    let (Some(op), Some(activation)) = (op, activation) else { return Ok(None) };
    if !has_kernel(compiler.graph, &compiler.claim.inputs) {
        return Ok(None);
    }
    let cpu = compiler.cpu;
    if let Some((blocked, late)) = Blocked::new(compiler, &op) {
        let (weights, blocked) = (None, Some(blocked));
        return Ok(Some(Box::new(ConvTransposeKernel {
            cpu,
            op,
            activation,
            late,
            weights,
            blocked,
        })));
    }
    let late = late(compiler, &op);
    let (weights, blocked) = (pack(compiler, &op, late), None);
    Ok(Some(Box::new(ConvTransposeKernel { cpu, op, activation, late, weights, blocked })))
}

/// The numbers of late remainders that are apart: none if the sizes of images are not known.
fn late(compiler: &Compiler<'_>, op: &ConvTranspose) -> [usize; 3] {
    let dims = |i: usize| {
        let id = compiler.claim.inputs.get(i).copied().flatten()?;
        compiler.graph.fact(id).dims()
    };
    let axes = dims(0).zip(dims(1)).and_then(|(x, w)| {
        // The number of images does not matter.
        let x = x.iter().enumerate().map(|(i, dim)| if i == 0 { Some(1) } else { dim.known() });
        let (x, w): (Option<Shape>, Option<Shape>) =
            (x.collect(), w.iter().map(|dim| dim.known()).collect());
        let (x, w) = x.zip(w)?;
        let (_, axes) = shape_and_axes(op, &x, &w).ok()?;
        Some((axes, w[1]))
    });
    axes.map_or([0; 3], |(axes, m)| pack::late(compiler.cpu.isa, &axes, m))
}

/// Scratch of a thread.
struct Workspace<'s> {
    /// The bias of each row.
    bias: &'s mut [f32],
    /// The left operand, unless it is constant and packed.
    left: &'s mut [f32],
    strip: &'s mut [f32],
    rest: &'s mut [f32],
}

impl ConvTransposeKernel {
    /// The weights, in any form but that of the file.
    fn packed(&self) -> Option<&Packed> {
        self.weights.as_ref().or(self.blocked.as_ref().map(|blocked| &blocked.weights))
    }

    fn gemm<'a>(
        &self,
        a: Lhs<'a>,
        b: Columns<'a>,
        (m, start): (usize, Start<'a>),
    ) -> Gemm<'a, Columns<'a>> {
        let (n, k, activation) = (b.n(), b.k(), self.activation);
        Gemm { isa: self.cpu.isa, m, n, k, a, b, start, activation }
    }

    /// Whether `rows` rows read the image directly.
    fn is_direct(&self, set: &Set, [rows, c]: [usize; 2]) -> bool {
        let [depth, height, width] = set.axes;
        depth == Axis::UNIT && Direct::is_suited(self.cpu.isa, [rows, c], &[height, width])
    }

    /// Elements of scratch per thread: rows, the left operand, a strip, and the total
    /// with the scratch of products.
    fn scratch_lens(&self, geometry: &Geometry) -> [usize; 4] {
        let n_channels = geometry.split.n_channels;
        let mut lens = [0; 4];
        for (set, taps) in geometry.sets.iter().zip(&geometry.taps) {
            let (rows, strip) = (n_channels * set.n_phases(), geometry.strip_len(set));
            let left =
                if self.weights.is_some() { 0 } else { n_channels * geometry.c * taps.len() };
            let a: Lhs<'_> = Lhs::Packed(&[]);
            let gemm = Gemm {
                isa: self.cpu.isa,
                m: rows,
                n: strip,
                k: geometry.c * set.n_taps(),
                a,
                b: Matrix::row_major(&[], 0, 0),
                start: Start::Zero,
                activation: Activation::None,
            };
            // Blocks of fewer channels may be direct even if others are not.
            let direct = Direct::scratch_len(geometry.c, &[set.axes[1], set.axes[2]]);
            let all = [rows, left, rows * strip, gemm.scratch_len(rows).max(direct)];
            lens.iter_mut().zip(all).for_each(|(len, of_set)| *len = (*len).max(of_set));
        }
        lens
    }

    /// Computes one part of the result: all sets.
    fn part(
        &self,
        geometry: &Geometry,
        operands: &Operands<'_>,
        (mut part, workspace): (Part<'_>, Workspace<'_>),
    ) {
        if geometry.has_gaps {
            self.fill(geometry, operands, &mut part);
        }
        let group = part.product % geometry.group;
        let group_len = geometry.c * geometry.m * geometry.n_taps();
        let mut w = &operands.w[group * group_len..][..group_len];
        let Workspace { bias, left, strip, rest } = workspace;
        for (set, taps) in geometry.sets.iter().zip(&geometry.taps) {
            let per_channel = geometry.c * taps.len();
            let a = if self.weights.is_some() {
                let (of_set, behind) = w.split_at(geometry.m * per_channel);
                w = behind;
                &of_set[part.channels.start * per_channel..]
            } else {
                let shape = [geometry.c, geometry.m, geometry.n_taps()];
                let (channels, n_phases) = (part.channels.clone(), set.n_phases());
                Left { isa: self.cpu.isa, w, shape, channels, taps, n_phases }.pack(left);
                &*left
            };
            let a = &a[..part.channels.len() * per_channel];
            self.set(geometry, (set, a), operands, (&mut part, [bias, strip, rest]));
        }
    }

    /// Writes the outputs that no tap reaches.
    fn fill(&self, geometry: &Geometry, operands: &Operands<'_>, part: &mut Part<'_>) {
        let first = part.product % geometry.group * geometry.m + part.channels.start;
        for (channel, piece) in part.pieces.iter_mut().enumerate() {
            let mut number = [operands.bias.map_or(0.0, |bias| bias[first + channel])];
            self.activation.apply(self.cpu.isa, &mut number);
            piece.fill(number[0]);
        }
    }

    /// Computes the outputs of one set.
    fn set(
        &self,
        geometry: &Geometry,
        (set, a): (&Set, &[f32]),
        operands: &Operands<'_>,
        (part, [bias, strip, scratch]): (&mut Part<'_>, [&mut [f32]; 3]),
    ) {
        let (rows, n_strip) = (part.channels.len() * set.n_phases(), geometry.strip_len(set));
        let image = geometry.c * geometry.n_inputs();
        let x = &operands.x[part.product * image..][..image];
        let start = match operands.bias {
            None => Start::Zero,
            Some(of_all) => {
                let first = part.product % geometry.group * geometry.m + part.channels.start;
                let bias = &mut bias[..rows];
                for (bias, number) in bias.chunks_mut(set.n_phases()).zip(&of_all[first..]) {
                    bias.fill(*number);
                }
                Start::ByRow(bias)
            }
        };
        let columns = Columns::new(x, geometry.c, set.axes);
        let gemm = self.gemm(Lhs::Packed(a), columns, (rows, start));
        let direct = self.is_direct(set, [rows, geometry.c]).then(|| Direct {
            isa: self.cpu.isa,
            filters: rows,
            channels: geometry.c,
            axes: [set.axes[1], set.axes[2]],
            x,
            w: a,
            bias: if let Start::ByRow(bias) = start { Some(bias) } else { None },
            is_sum: false,
            activation: self.activation,
        });
        // A strip of huge filters takes long: check for cancellation.
        let n_operations = rows.saturating_mul(geometry.c).saturating_mul(set.n_taps()).max(1);
        let n_strip = n_strip.min((MAX_OPERATIONS / n_operations).next_multiple_of(64).max(64));
        let range = geometry.split.columns(set, &part.positions);
        for start in range.clone().step_by(n_strip) {
            if go_on().is_err() {
                // the result is not read.
                return;
            }
            let columns = start..range.end.min(start + n_strip);
            let n = columns.len();
            let strip = &mut strip[..rows * n];
            let region = Region { rows: 0..rows, columns };
            let mut to = Strided { data: strip, stride: n };
            match &direct {
                Some(direct) => direct.run(&region, &mut to, scratch),
                None => gemm.run(&region, &mut to, scratch),
            }
            write::strip((self.cpu.isa, &geometry.axes), set, part, (start, strip));
        }
    }
}

impl Kernel for ConvTransposeKernel {
    fn prepare(&self, shapes: &[&[usize]]) -> Result<Prepared, KernelError> {
        let &[x, w, ..] = shapes else { return Err(KernelError::ForeignState) };
        let blocked = self.blocked.as_ref().map(|blocked| (self.cpu.isa, blocked));
        let geometry = Geometry::new(&self.op, (x, w), (self.late, blocked))?;
        let n_bytes = match (&self.blocked, &geometry.planes) {
            (Some(blocked), _) => {
                let n_images = x[0].saturating_mul(geometry.group);
                blocked.scratch_bytes(self.cpu, &geometry, n_images)
            }
            (None, Some(planes)) => self.cpu.scratch_bytes(planes.scratch_len()),
            (None, None) => self.cpu.scratch_bytes(self.scratch_lens(&geometry).iter().sum()),
        };
        Ok(Prepared::new(geometry).with_scratch(n_bytes))
    }

    fn run(&self, prepared: &Prepared, io: &mut Io<'_, '_>) -> Result<(), KernelError> {
        let geometry: &Geometry = prepared.state()?;
        let inputs = io.inputs;
        let operands = Operands {
            x: inputs.tensor(0)?.as_slice()?,
            w: match self.packed() {
                Some(packed) => bytemuck::cast_slice(packed.bytes()),
                None => inputs.tensor(1)?.as_slice()?,
            },
            bias: inputs.optional_tensor(2)?.map(|bias| bias.as_slice()).transpose()?,
        };
        let y = io.outputs[0].tensor(DType::F32, &geometry.shape)?.into_slice::<f32>()?;
        if y.is_empty() {
            return Ok(());
        }
        let how = (io.threads, &mut *io.scratch);
        if let Some(blocked) = &self.blocked {
            blocked::run(self, (geometry, blocked), &operands, y, how);
            return Ok(());
        }
        if let Some(planes) = &geometry.planes {
            depthwise::run(self, (geometry, planes), &operands, y, how);
            return Ok(());
        }
        let lens = self.scratch_lens(geometry);
        let cost = operands.x.len().saturating_mul(geometry.m).saturating_mul(geometry.n_taps());
        let (n_parts, m, plane) = (n_parts(io.threads, cost), geometry.m, geometry.n_outputs());
        let n_products = y.len() / (m * plane);
        let team = Team::new(io.threads, geometry.split.n_parts(m, n_products, n_parts));
        let parts = geometry.split.parts(y, (m, plane), n_parts);
        let team = team.if_worth(cost).with_scratch(io.scratch, lens.iter().sum());
        team.run(parts, |part, scratch| {
            let (bias, scratch) = scratch.split_at_mut(lens[0]);
            let (left, scratch) = scratch.split_at_mut(lens[1]);
            let (strip, rest) = scratch.split_at_mut(lens[2]);
            self.part(geometry, &operands, (part, Workspace { bias, left, strip, rest }));
        });
        Ok(())
    }

    fn reads(&self, input: usize) -> bool {
        input != 1 || self.packed().is_none()
    }

    fn variant(&self) -> &'static str {
        match &self.blocked {
            Some(blocked) if blocked.has_tiles() => {
                named!(self.cpu.isa => "conv_transpose_winograd": "avx512_28x1", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic")
            }
            Some(_) => {
                named!(self.cpu.isa => "conv_transpose_nchwc": "avx512_6x4", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic")
            }
            None => named!(self.cpu.isa => "conv_transpose_f32": tile),
        }
    }
}
