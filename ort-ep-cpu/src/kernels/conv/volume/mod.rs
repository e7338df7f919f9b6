//! Convolutions in three dimensions, plane by plane of the result, in NCHWc.
//!
//! ```text
//! y[m, z] = f(b[m] + Σ_{(t, c)} w[m, (t, c)] ∗ x[c, z·s + t − pad])    for each plane z
//! ```
//! A plane of the result is a convolution in two dimensions, whose channels are those of as many planes of the image as
//! there are taps along the depth. With `x` in the order of planes, in blocks of channels and with planes of padding, these
//! are adjacent. They are computed by Winograd's algorithm if it pays.

mod filters;
mod planes;

use std::ops::Range;

use ort_ep::{Packed, Recipe, Threads};
use ort_kernels::Isa;
use ort_kernels::conv_nchwc::{self, Form, Start};
use ort_kernels::transpose::transpose;
use ort_kernels::winograd::{Filters, Tile, Winograd, variant};
use ort_ops::ops::conv::Conv;
use smallvec::SmallVec;

use self::filters::{Shape, fills};
use self::planes::{PLANES, Planes};
use super::{ConvKernel, Geometry, Operands, Residual, axes_in_order};
use crate::cpu::{Cpu, Team, n_parts};
use crate::kernels::Compiler;
use crate::kernels::nchwc_conv::parts::{MAX_SET, Part, parts};
use crate::kernels::nchwc_conv::winograd::{MAX_UNKNOWN, SIDE};
use crate::pieces::wanted;

/// The filters of each group, one after the other: `[M/B][taps of depth][C/B][taps][B in][B]`, or without blocks of
/// inputs; and those of all groups transformed.
#[derive(Debug)]
pub(super) struct Volume {
    block: usize,
    form: Form,
    tile: Option<Tile>,
    pub(super) weights: Packed,
}

/// Scratch of a thread.
struct Workspace<'s> {
    /// Planes of the image.
    window: &'s mut [f32],
    blocks: &'s mut [f32],
    rest: &'s mut [f32],
}

impl Volume {
    /// The packed weights, unless another algorithm is faster.
    pub(super) fn new(compiler: &Compiler<'_>, op: &Conv) -> Option<Self> {
        let cpu @ Cpu { isa, winograd, .. } = compiler.cpu;
        let weights = compiler.constant(1)?;
        let shape = Shape::new(cpu, weights.shape(), op.group)?;
        let dims = compiler.fact(0)?.dims()?;
        let sides = dims.get(2..)?.iter().map(|dim| dim.known().unwrap_or(SIDE));
        let sides: SmallVec<[usize; 3]> = sides.collect(); // bounded: by the rank
        let window = op.window.window(&sides, weights.shape().get(2..)?).ok()?;
        let [depth, height, width] = axes_in_order(&window)?;
        if depth.dilation > 1 && depth.kernel > 1 {
            return None;
        }
        let block = shape.block;
        let planes = Planes { depth, axes: [height, width], shape, tile: None };
        let is_known = dims.iter().skip(2).all(|dim| dim.known().is_some());
        let tile = planes.tile(isa).filter(|&tile| {
            let len = shape.lens(Some(tile))[1] * op.group;
            winograd && (is_known || len <= MAX_UNKNOWN)
        });
        let shape = match tile {
            Some(_) => shape,
            None if !fills(shape.m, shape.block) => return None,
            None if shape.stored() < PLANES * shape.c => shape,
            None => Shape { form: Form::Planes, ..shape },
        };
        let (lens, group) = (shape.lens(tile), op.group);
        let set = variant(isa, block).filters;
        let recipe = Recipe {
            name: "conv_f32/planes",
            parameters: [block, set, group, shape.stored(), tile.map_or(0, |tile| tile.products())]
                .map(|n| n as u64)
                .to_vec(),
            n_bytes: (lens[0] + lens[1]) * group * size_of::<f32>(),
        };
        let inputs = shape.stored() * shape.taps[0];
        let weights = compiler.pack_for_runs(1, &recipe, |data: &[f32], packed| {
            let groups = packed.chunks_exact_mut(lens[0] + lens[1]);
            for (w, packed) in data.chunks_exact(data.len() / group).zip(groups) {
                let (filters, transformed) = packed.split_at_mut(lens[0]);
                shape.pack(w, filters);
                if let Some(tile) = tile {
                    Filters { isa, block, set, inputs, tile, w: filters }.pack(transformed);
                }
            }
        })?;
        Some(Self { block, form: shape.form, tile, weights })
    }

    /// The planes of a run; its axes are in the order of the kernel.
    fn planes(&self, isa: Isa, geometry: &Geometry) -> Planes {
        let [depth, height, width] = geometry.axes;
        let (block, form, taps) =
            (self.block, self.form, [depth.kernel, height.kernel * width.kernel]);
        let shape = Shape { block, form, c: geometry.c, m: geometry.m, taps };
        let planes = Planes { depth, axes: [height, width], shape, tile: None };
        Planes { tile: planes.tile(isa).filter(|_| self.tile.is_some()), ..planes }
    }

    pub(super) fn variant(&self, isa: Isa) -> &'static str {
        match self.tile {
            Some(_) => {
                named!(isa => "conv_planes_winograd": "avx512_28x1", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic")
            }
            None => {
                named!(isa => "conv_planes_nchwc": "avx512_6x4", "avx2_6x2", "neon_6x2", "simd128_4x1", "generic")
            }
        }
    }

    /// Elements of a thread's scratch.
    pub(super) fn scratch_len(&self, isa: Isa, geometry: &Geometry) -> usize {
        let lens = self.planes(isa, geometry).scratch_lens(isa);
        lens.into_iter().fold(0, usize::saturating_add)
    }
}

/// Computes `y`: `[images, group, m, positions]`.
pub(super) fn run(
    kernel: &ConvKernel,
    (geometry, volume): (&Geometry, &Volume),
    operands: &Operands<'_>,
    y: &mut [f32],
    (threads, scratch): (&dyn Threads, &mut [u8]),
) {
    let isa = kernel.cpu.isa;
    let planes = volume.planes(isa, geometry);
    let terms = geometry.c.saturating_mul(geometry.taps());
    let n_parts = n_parts(threads, y.len().saturating_mul(terms));
    let cut = planes.cut(isa, y.len(), n_parts);
    let lens = planes.scratch_lens(isa);
    let team = Team::new(threads, cut.n_parts).with_scratch(scratch, lens.iter().sum());
    team.run(parts(&cut, y), |part, scratch| {
        let (window, scratch) = scratch.split_at_mut(lens[0]);
        let (blocks, rest) = scratch.split_at_mut(lens[1]);
        let job = Job { kernel, geometry, volume, operands, planes: &planes };
        job.part(part, Workspace { window, blocks, rest });
    });
}

/// What all parts of a run have in common.
struct Job<'a> {
    kernel: &'a ConvKernel,
    geometry: &'a Geometry,
    volume: &'a Volume,
    operands: &'a Operands<'a>,
    planes: &'a Planes,
}

impl Job<'_> {
    /// Computes some planes of some channels.
    fn part(&self, mut part: Part<'_>, mut workspace: Workspace<'_>) {
        let (n_outputs, plane_len) = (self.planes.n_outputs(), self.planes.plane_len());
        let image = self.geometry.c * self.geometry.n_inputs();
        let x = &self.operands.x[part.block / self.geometry.m * image..][..image];
        let layers = part.positions.start / n_outputs..part.positions.end.div_ceil(n_outputs);
        let at_a_time = self.planes.at_a_time();
        let (down, width) = (self.planes.down(), self.planes.axes[1].output);
        let n_rows = self.planes.rows_of_chunk() * down;
        let height = self.planes.axes[0].output;
        for z in wanted(layers.clone()) {
            let i = (z - layers.start) % at_a_time;
            if i == 0 {
                let n = self.planes.n_read(at_a_time.min(layers.end - z));
                let window = workspace.window[..n * plane_len].chunks_exact_mut(plane_len.max(1));
                for (plane, to) in wanted(window.enumerate()) {
                    let z = z * self.planes.depth.stride + plane;
                    self.planes.store(self.kernel.cpu.isa, x, z, to);
                }
            }
            for first in wanted((0..height).step_by(n_rows)) {
                let rows = first..height.min(first + n_rows);
                let from = z * n_outputs + first * width - part.positions.start;
                let piece = from..from + rows.len() * width;
                self.rows((i, rows, piece), &mut part, &mut workspace);
            }
        }
        for piece in &mut part.pieces[..part.n_blocks] {
            self.kernel.epilogue.finish(piece);
        }
    }

    /// Computes some rows of a plane, the `i`th of those stored, which are `piece` of each channel's elements.
    fn rows(
        &self,
        (i, rows, piece): (usize, Range<usize>, Range<usize>),
        part: &mut Part<'_>,
        workspace: &mut Workspace<'_>,
    ) {
        let Planes { depth, axes, shape, tile } = *self.planes;
        let Shape { block, form, m, .. } = shape;
        let (isa, n) = (self.kernel.cpu.isa, piece.len());
        let (group_image, first) = (part.block / m, part.block % m);
        let group = group_image % self.geometry.group;
        let n_blocks = part.n_blocks.div_ceil(block);
        let blocks = &mut workspace.blocks[..n_blocks * n * block];
        let is_sum = !matches!(self.operands.z, Residual::None);
        if is_sum {
            let start = (part.block * self.planes.depth.output) * self.planes.n_outputs();
            let offset = start + part.positions.start + piece.start;
            self.load_summand((part, piece.clone()), offset, blocks);
        }
        let bias = self.operands.bias.map(|bias| {
            // Lanes without a channel are not written.
            let mut padded = [0.0; MAX_SET];
            let bias = &bias[group * m + first..][..part.n_blocks];
            padded[..bias.len()].copy_from_slice(bias);
            padded
        });
        let x = i * depth.stride * self.planes.plane_len();
        let [filters, transformed] = self.filters(group, (first / block, n_blocks));
        let conv = conv_nchwc::Conv {
            isa,
            block,
            form,
            axes,
            x: &workspace.window[x..][..depth.kernel * self.planes.plane_len()],
            w: filters,
            start: Start { bias: bias.as_ref().map(|bias| &bias[..n_blocks * block]), is_sum },
            activation: self.kernel.epilogue.fused(),
        };
        // bounded: by the blocks of a part
        let mut to: SmallVec<[&mut [f32]; 8]> = blocks.chunks_exact_mut(n * block).collect();
        match tile {
            Some(tile) => {
                let down = tile.outputs()[0];
                let rows = rows.start / down..rows.end.div_ceil(down);
                Winograd { conv, packed: transformed }.run(rows, &mut to, workspace.rest);
            }
            None => conv.run(rows.start * axes[1].output..rows.end * axes[1].output, &mut to),
        }
        let pieces = &mut part.pieces[..part.n_blocks];
        for (blocks, pieces) in to.iter().zip(pieces.chunks_mut(block)) {
            store_lanes((isa, block), blocks, (pieces, &piece));
        }
    }

    /// The filters of some blocks of a group, and the transformed ones.
    fn filters(&self, group: usize, (first, n_blocks): (usize, usize)) -> [&[f32]; 2] {
        let shape = &self.planes.shape;
        let lens = shape.lens(self.volume.tile);
        let all = &self.operands.w[group * (lens[0] + lens[1])..][..lens[0] + lens[1]];
        let (filters, transformed) = all.split_at(lens[0]);
        [filters, transformed].map(|all| {
            let per_block = all.len() / shape.m.div_ceil(shape.block);
            &all[first * per_block..(first + n_blocks) * per_block]
        })
    }

    /// Writes the summands of a piece of each channel, the first of which starts at `offset`, to blocks.
    fn load_summand(
        &self,
        (part, piece): (&Part<'_>, Range<usize>),
        offset: usize,
        blocks: &mut [f32],
    ) {
        let block = self.planes.shape.block;
        let plane = self.planes.depth.output * self.planes.n_outputs();
        for (channel, y) in part.pieces[..part.n_blocks].iter().enumerate() {
            let summand = match self.operands.z {
                Residual::Given(z) => &z[offset + channel * plane..][..piece.len()],
                _ => &y[piece.clone()],
            };
            let lane = channel % block;
            let to = &mut blocks[channel / block * piece.len() * block..];
            to[lane..].iter_mut().step_by(block).zip(summand).for_each(|(to, z)| *to = *z);
        }
    }
}

/// Writes the lanes of a block to the channels that have one.
fn store_lanes(
    (isa, block): (Isa, usize),
    blocks: &[f32],
    (pieces, piece): (&mut [&mut [f32]], &Range<usize>),
) {
    /// Positions that are transposed together.
    const TOGETHER: usize = 64;
    let mut lanes = [0.0; TOGETHER * 16];
    let lanes = &mut lanes[..TOGETHER * block];
    for (i, blocks) in blocks.chunks(TOGETHER * block).enumerate() {
        let n = blocks.len() / block;
        transpose(isa, [n, block], (blocks, block), (lanes, TOGETHER));
        for (y, lane) in pieces.iter_mut().zip(lanes.chunks_exact(TOGETHER)) {
            let from = piece.start + i * TOGETHER;
            y[from..from + n].copy_from_slice(&lane[..n]);
        }
    }
}
