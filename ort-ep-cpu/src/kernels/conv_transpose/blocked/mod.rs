//! Transposed convolutions of many channels, computed in NCHWc.
//!
//! ```text
//! for each set of remainders, for each chunk of rows of positions:
//!     blocks[m, q] = f(b[m] + Σ_{c, t} w[c, m, t]·x[c, q − …])    for each remainder, by Winograd's algorithm if it pays
//!     strip[(m, r), q] = blocks[m, q]
//!     y[m, stride·q + r − pad] = strip[(m, r), q]
//! ```
//! `x` is copied in blocks of channels before. Long rows of one dimension are taken as columns.

// collects are bounded: by the sets and remainders of a kernel

mod pack;

use std::ops::Range;

use ort_ep::{Packed, Threads};
use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::conv_nchwc::{Conv, Form, Start, suited};
use ort_kernels::nchwc::Reorder;
use ort_kernels::transpose::transpose;
use ort_kernels::winograd::{Tile, Winograd, variant};
use ort_ops::ops::conv_transpose::ConvTranspose;

use self::pack::Packing;
use super::geometry::{Geometry, shape_and_axes};
use super::parts::Part;
use super::phases::{Set, Transposed, sets};
use super::{ConvTransposeKernel, Operands, write};
use crate::bytes::split_floats;
use crate::cpu::{Cpu, Team, n_parts};
use crate::kernels::Compiler;
use crate::kernels::nchwc_conv::winograd::{SIDE, Sizes};
use crate::pieces::{Rows, wanted};

/// The maximum output channels of a part: each transforms the pixels again.
const CHANNELS: usize = 128;
/// Elements of the blocks of a chunk, as far as a row of tiles has no more: half of a second-level cache of 512 KiB.
const CHUNK: usize = 64 * 1024;

/// The filters of each group, one after the other, by set and remainder.
#[derive(Debug)]
pub(super) struct Blocked {
    block: usize,
    /// For each set, the tile that its filters are also transformed for.
    tiles: Vec<Option<Tile>>,
    pub(super) weights: Packed,
}

/// The filters of one remainder of a set.
#[derive(Clone, Copy)]
struct Phase<'a> {
    /// `[M/B][C/B][taps][B in][B]`.
    filters: &'a [f32],
    transformed: &'a [f32],
}

/// Scratch of a thread.
struct Workspace<'s> {
    blocks: &'s mut [f32],
    strip: &'s mut [f32],
    rest: &'s mut [f32],
}

/// The last two axes of a set's convolution; a single row is taken as a column.
fn plane_axes(set: &Set) -> [Axis; 2] {
    match set.axes {
        [_, Axis::UNIT, width] => [width, Axis::UNIT],
        [_, height, width] => [height, width],
    }
}

/// All late remainders.
pub(super) fn late(axes: &[Transposed; 3]) -> [usize; 3] {
    axes.map(|axis| axis.pad % axis.stride)
}

impl Blocked {
    /// The packed weights, and the numbers of late remainders; `None` if it does not pay.
    pub(super) fn new(compiler: &Compiler<'_>, op: &ConvTranspose) -> Option<(Self, [usize; 3])> {
        let Cpu { isa, .. } = compiler.cpu;
        let weights = compiler.constant(1).filter(|_| compiler.cpu.winograd)?;
        let &[channels, m, ..] = weights.shape() else { return None };
        let (block, c) = (if isa.avx512().is_some() { 16 } else { 8 }, channels / op.group);
        let fills_blocks = c.is_multiple_of(block) && m.is_multiple_of(block);
        let is_plane = weights.shape().len() <= 4;
        if weights.is_empty() || !is_plane || !fills_blocks || suited(isa, block) == Isa::Generic {
            return None;
        }
        let dims = compiler.fact(0)?.dims()?;
        let x: Vec<usize> = dims.iter().map(|dim| dim.known().unwrap_or(SIDE)).collect();
        let (_, axes) = shape_and_axes(op, &x, weights.shape()).ok()?;
        let late = late(&axes);
        let sets = sets(&axes, late).ok()?;
        let sizes = |axes| Sizes { isa, block, channels: c, filters: m, axes };
        let tile = |set: &Set| {
            let axes = plane_axes(set);
            Tile::of(block, &axes).filter(|_| sizes(axes).is_faster_than_products())
        };
        let tiles: Vec<Option<Tile>> = sets.iter().map(tile).collect();
        if tiles.iter().all(Option::is_none) {
            return None;
        }
        let kernel = axes.map(|axis| axis.kernel);
        let taps = sets.iter().map(|set| set.taps(kernel)).collect::<Result<Vec<_>, _>>().ok()?;
        let shape = [c, m, kernel.iter().product()];
        let packing = Packing { isa, block, shape, sets: &sets, taps: &taps, tiles: &tiles };
        let weights = packing.pack(compiler, (op.group, &axes, late))?;
        Some((Self { block, tiles, weights }, late))
    }

    /// Output channels per part.
    pub(super) fn channels(&self, isa: Isa, m: usize) -> usize {
        let set = variant(isa, self.block).filters * self.block;
        m.div_ceil(m.div_ceil(CHANNELS)).next_multiple_of(set)
    }

    /// Positions along the split axis that parts have a multiple of: the rows of a tile.
    pub(super) fn step(&self) -> usize {
        self.tiles.iter().flatten().map(|tile| tile.outputs()[0]).max().unwrap_or(1)
    }

    /// The tile of a set, if it pays for the sizes of a run.
    fn tile(&self, (isa, geometry): (Isa, &Geometry), set: usize) -> Option<Tile> {
        let axes = plane_axes(&geometry.sets[set]);
        let (block, channels, filters) = (self.block, geometry.c, geometry.m);
        let sizes = Sizes { isa, block, channels, filters, axes };
        let tile = self.tiles[set].filter(|tile| Tile::of(block, &axes) == Some(*tile));
        tile.filter(|_| sizes.is_faster_than_products())
    }

    /// Rows of tiles per chunk, or of positions: the same for all parts.
    fn rows_of_chunk(&self, geometry: &Geometry, (down, axes): (usize, &[Axis; 2])) -> usize {
        let n_channels = geometry.split.n_channels.min(geometry.m);
        let row = axes[1].output.saturating_mul(n_channels * down);
        let n_rows = axes[0].output.div_ceil(down).max(1);
        let most = (CHUNK / row.max(1)).clamp(1, n_rows);
        n_rows.div_ceil(n_rows.div_ceil(most))
    }

    /// Bytes of scratch for images of `len` elements: their blocks, and what each thread needs.
    pub(super) fn scratch_bytes(&self, cpu: Cpu, geometry: &Geometry, len: usize) -> usize {
        let images = Cpu { max_threads: 1, ..cpu }.scratch_bytes(len);
        let lens = self.scratch_lens(cpu.isa, geometry);
        images.saturating_add(cpu.scratch_bytes(lens.into_iter().fold(0, usize::saturating_add)))
    }

    /// Elements of a thread's scratch: blocks, a strip, and what Winograd's algorithm needs.
    fn scratch_lens(&self, isa: Isa, geometry: &Geometry) -> [usize; 3] {
        let n_channels = geometry.split.n_channels.min(geometry.m);
        let mut lens = [0; 3];
        for (i, set) in geometry.sets.iter().enumerate() {
            let axes = plane_axes(set);
            let tile = self.tile((isa, geometry), i);
            let down = tile.map_or(1, |tile| tile.outputs()[0]);
            let n_rows = self.rows_of_chunk(geometry, (down, &axes)) * down;
            let blocks = n_rows.saturating_mul(axes[1].output).saturating_mul(n_channels);
            let rest = tile.map_or(0, |tile| tile.scratch_len(isa, self.block, geometry.c, &axes));
            let of_set = [blocks, blocks.saturating_mul(set.n_phases()), rest];
            lens.iter_mut().zip(of_set).for_each(|(len, n)| *len = (*len).max(n));
        }
        lens
    }

    /// The filters of a remainder of a set.
    fn phase<'a>(
        &self,
        geometry: &Geometry,
        group_weights: &'a [f32],
        (set, phase): (usize, usize),
    ) -> Phase<'a> {
        let per_tap = geometry.c * geometry.m;
        let len = |i: usize| {
            let transformed = self.tiles[i].map_or(0, |tile| tile.products());
            per_tap * (geometry.sets[i].n_taps() + transformed)
        };
        let before: usize = (0..set).map(|i| len(i) * geometry.sets[i].n_phases()).sum();
        let own = &group_weights[before + phase * len(set)..][..len(set)];
        let (filters, transformed) = own.split_at(per_tap * geometry.sets[set].n_taps());
        Phase { filters, transformed }
    }
}

/// Computes `y`: `[images, channels, positions]`.
pub(super) fn run(
    kernel: &ConvTransposeKernel,
    (geometry, blocked): (&Geometry, &Blocked),
    operands: &Operands<'_>,
    y: &mut [f32],
    (threads, scratch): (&dyn Threads, &mut [u8]),
) {
    let (isa, block) = (kernel.cpu.isa, blocked.block);
    let (image, scratch) = split_floats(scratch, operands.x.len());
    let n_pixels = geometry.n_inputs();
    let n_blocks = geometry.c * geometry.group / block;
    let reorder = Reorder { isa, block, n_blocks, n_channels: n_blocks * block, n_pixels };
    let rows = Rows { len: block, cost: block * Rows::ELEMENTS.cost / Rows::ELEMENTS.len };
    rows.for_each(threads, image, |start, piece| {
        reorder.planes_to_blocks(operands.x, start / block, piece);
    });
    let operands = Operands { x: image, ..*operands };
    let cost = operands.x.len().saturating_mul(geometry.m).saturating_mul(geometry.n_taps());
    // Parts are equal, and cut tiles: as few as there are threads.
    let n_parts = n_parts(threads, cost).min(threads.count());
    let (m, plane) = (geometry.m, geometry.n_outputs());
    let lens = blocked.scratch_lens(isa, geometry);
    let team = Team::new(threads, geometry.split.n_parts(m, y.len() / (m * plane), n_parts));
    let team = team.if_worth(cost).with_scratch(scratch, lens.iter().sum());
    team.run(geometry.split.parts(y, (m, plane), n_parts), |part, scratch| {
        let (blocks, scratch) = scratch.split_at_mut(lens[0]);
        let (strip, rest) = scratch.split_at_mut(lens[1]);
        blocked.part((kernel, geometry), &operands, part, Workspace { blocks, strip, rest });
    });
}

impl Blocked {
    /// Computes one part of the result: all sets.
    fn part(
        &self,
        (kernel, geometry): (&ConvTransposeKernel, &Geometry),
        operands: &Operands<'_>,
        mut part: Part<'_>,
        mut workspace: Workspace<'_>,
    ) {
        if geometry.has_gaps {
            kernel.fill(geometry, operands, &mut part);
        }
        for (i, set) in geometry.sets.iter().enumerate() {
            let axes = plane_axes(set);
            let range = geometry.split.columns(set, &part.positions);
            let tile = self.tile((kernel.cpu.isa, geometry), i);
            let down = tile.map_or(1, |tile| tile.outputs()[0]);
            let row = down * axes[1].output;
            let n_rows = self.rows_of_chunk(geometry, (down, &axes));
            if range.is_empty() {
                continue;
            }
            for first in wanted((range.start / row..range.end.div_ceil(row)).step_by(n_rows)) {
                let rows = first..(first + n_rows).min(range.end.div_ceil(row));
                let chunk = Chunk { set: (i, set), axes, tile, rows, range: range.clone() };
                self.chunk((kernel, geometry), operands, &chunk, (&mut part, &mut workspace));
            }
        }
    }

    /// Computes the outputs of some rows of a set.
    fn chunk(
        &self,
        (kernel, geometry): (&ConvTransposeKernel, &Geometry),
        operands: &Operands<'_>,
        chunk: &Chunk<'_>,
        (part, workspace): (&mut Part<'_>, &mut Workspace<'_>),
    ) {
        let (isa, block, (i, set)) = (kernel.cpu.isa, self.block, chunk.set);
        let (computed, wanted) = (chunk.computed(), chunk.wanted());
        let (n_phases, n_channels) = (set.n_phases(), part.channels.len());
        let group = part.product % geometry.group;
        let group_len = operands.w.len() / geometry.group;
        let weights = &operands.w[group * group_len..][..group_len];
        let image = geometry.c * geometry.n_inputs();
        let first = group * geometry.m + part.channels.start;
        let bias = operands.bias.map(|bias| &bias[first..first + n_channels]);
        let len = computed.len() * block;
        let strip = &mut workspace.strip[..n_channels * n_phases * wanted.len()];
        for phase in 0..n_phases {
            let blocks = &mut workspace.blocks[..n_channels / block * len];
            let Phase { filters, transformed } = self.phase(geometry, weights, (i, phase));
            // The elements of the part's channels.
            let own = |all: &'_ [f32]| {
                let per_channel = all.len() / geometry.m;
                part.channels.start * per_channel..part.channels.end * per_channel
            };
            let conv = Conv {
                isa,
                block,
                form: Form::Blocks,
                axes: chunk.axes,
                x: &operands.x[part.product * image..][..image],
                w: &filters[own(filters)],
                start: Start { bias, is_sum: false },
                activation: kernel.activation,
            };
            // bounded: by the channels of a part
            let mut pieces: smallvec::SmallVec<[&mut [f32]; 16]> =
                blocks.chunks_exact_mut(len).collect();
            match chunk.tile {
                Some(_) => {
                    let packed = &transformed[own(transformed)];
                    Winograd { conv, packed }.run(chunk.rows.clone(), &mut pieces, workspace.rest);
                }
                None => conv.run(computed.clone(), &mut pieces),
            }
            let skipped = (wanted.start - computed.start) * block;
            for (piece, rows) in
                pieces.iter().zip(strip.chunks_exact_mut(block * n_phases * wanted.len()))
            {
                let to = &mut rows[phase * wanted.len()..];
                transpose(
                    isa,
                    [wanted.len(), block],
                    (&piece[skipped..], block),
                    (to, n_phases * wanted.len()),
                );
            }
        }
        write::strip((isa, &geometry.axes), set, part, (wanted.start, strip));
    }
}

/// Some rows of tiles of a set's convolution, or of positions.
struct Chunk<'a> {
    set: (usize, &'a Set),
    axes: [Axis; 2],
    tile: Option<Tile>,
    rows: Range<usize>,
    /// The positions of the part.
    range: Range<usize>,
}

impl Chunk<'_> {
    /// The positions of all rows.
    fn computed(&self) -> Range<usize> {
        let down = self.tile.map_or(1, |tile| tile.outputs()[0]);
        let [height, width] = self.axes.map(|axis| axis.output);
        (self.rows.start * down).min(height) * width..(self.rows.end * down).min(height) * width
    }

    /// Those that belong to the part.
    fn wanted(&self) -> Range<usize> {
        let computed = self.computed();
        let start = computed.start.max(self.range.start);
        start..computed.end.min(self.range.end).max(start)
    }
}
