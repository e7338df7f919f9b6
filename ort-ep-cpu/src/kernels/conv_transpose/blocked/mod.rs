//! Transposed convolutions of many channels, computed in NCHWc.
//!
//! ```text
//! for each set of remainders, for each chunk of rows of positions:
//!     blocks[(m, r), q] = f(b[m] + Σ_{c, t} w[c, m, t]·x[c, q − …])    by Winograd's algorithm if it pays
//!     strip[(m, r), q] = blocks[(m, r), q]
//!     y[m, stride·q + r − pad] = strip[(m, r), q]
//! ```
//! `x` is copied in blocks of channels before. Long rows of one dimension are taken as columns. Few positions, which do
//! not fill the columns of a product, are computed so without Winograd's algorithm, too.

// collects are bounded: by the sets and remainders of a kernel

mod pack;

use std::ops::Range;

use ort_ep::{Packed, Threads};
use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::conv_nchwc::{Conv, Form, Start, suited};
use ort_kernels::gemm;
use ort_kernels::nchwc::Reorder;
use ort_kernels::transpose::transpose;
use ort_kernels::winograd::{Tile, Winograd, variant};
use ort_ops::ops::conv_transpose::ConvTranspose;
use smallvec::SmallVec;

use self::pack::{Filters, Packing};
use super::geometry::{Geometry, shape_and_axes};
use super::parts::Part;
use super::phases::{Set, Transposed, sets};
use super::{ConvTransposeKernel, Operands, write};
use crate::bytes::split_floats;
use crate::cpu::{Cpu, Team, n_parts};
use crate::kernels::Compiler;
use crate::kernels::nchwc_conv::winograd::{MAX_UNKNOWN, PRODUCTS, SIDE, Sizes, rows_of_chunk};
use crate::pieces::{Rows, wanted};

/// The maximum output channels of a part, whose number is that of slices of the result.
const CHANNELS: usize = 128;
/// The maximum rows of a part, unless a set of blocks has more: each part transforms the pixels again.
const ROWS: usize = 512;

/// The part of the time of products that a direct convolution in blocks takes at most, in multiply-adds: few positions
/// do not fill the columns of a product.
const FEW: [usize; 2] = [3, 4];

/// Transformed filters of a set with more elements, 2 MiB, take much memory, and much longer to read than those of
/// products: they must be faster than a direct convolution.
const FAR: usize = 512 * 1024;

/// The filters of each group, one after the other, by set.
#[derive(Debug)]
pub(super) struct Blocked {
    block: usize,
    /// For each set, the tile that its filters are also transformed for.
    tiles: Vec<Option<Tile>>,
    pub(super) weights: Packed,
}

/// Scratch of a thread.
struct Workspace<'s> {
    /// The bias of each row.
    bias: &'s mut [f32],
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

impl Blocked {
    /// The packed weights, and the numbers of late remainders; `None` if it does not pay.
    pub(super) fn new(compiler: &Compiler<'_>, op: &ConvTranspose) -> Option<(Self, [usize; 3])> {
        let cpu @ Cpu { isa, .. } = compiler.cpu;
        let weights = compiler.constant(1)?;
        let &[channels, m, ..] = weights.shape() else { return None };
        let (block, c) = (cpu.block(), channels / op.group);
        let is_plane = weights.shape().len() <= 4;
        if weights.is_empty() || !is_plane || c < block || suited(isa, block) == Isa::Generic {
            return None;
        }
        let dims = compiler.fact(0)?.dims()?;
        let x: Vec<usize> = dims.iter().map(|dim| dim.known().unwrap_or(SIDE)).collect();
        let (_, axes) = shape_and_axes(op, &x, weights.shape()).ok()?;
        let late = axes.map(|axis| axis.pad % axis.stride);
        let choices = [[0; 3], late].map(|late| Choice::new(cpu, &axes, late, [c, m]));
        let Choice { late, sets, tiles, .. } =
            choices.into_iter().flatten().min_by_key(|choice| choice.work)?;
        let kernel = axes.map(|axis| axis.kernel);
        let taps = sets.iter().map(|set| set.taps(kernel)).collect::<Result<Vec<_>, _>>().ok()?;
        let shape = [c, m, kernel.iter().product()];
        let packing = Packing { isa, block, shape, sets: &sets, taps: &taps, tiles: &tiles };
        let is_known = dims.iter().skip(2).all(|dim| dim.known().is_some());
        if !is_known && packing.n_transformed() * op.group > MAX_UNKNOWN {
            return None;
        }
        let weights = packing.pack(compiler, (op.group, &axes, late))?;
        Some((Self { block, tiles, weights }, late))
    }

    /// Whether some remainders are computed by Winograd's algorithm.
    pub(super) fn has_tiles(&self) -> bool {
        self.tiles.iter().any(Option::is_some)
    }

    /// Output channels per part: all, or a multiple that fills sets of blocks.
    pub(super) fn channels(&self, isa: Isa, (m, sets): (usize, &[Set])) -> usize {
        let set = variant(isa, self.block).filters * self.block;
        let n_phases = sets.iter().map(Set::n_phases).max().unwrap_or(1);
        let most = (ROWS / n_phases).clamp(1, CHANNELS);
        match m.div_ceil(most) {
            1 => m,
            n => m.div_ceil(n).next_multiple_of(set),
        }
    }

    /// Positions along the split axis that parts have a multiple of: the rows of a tile.
    pub(super) fn step(&self) -> usize {
        self.tiles.iter().flatten().map(|tile| tile.outputs()[0]).max().unwrap_or(1)
    }

    /// The tile of a set, if it pays for the sizes of a run.
    fn tile(&self, (isa, geometry): (Isa, &Geometry), set: usize) -> Option<Tile> {
        let tile = self.tiles[set]?;
        let sizes = sizes((isa, self.block), &geometry.sets[set], [geometry.c, geometry.m]);
        paying_tile(&sizes).filter(|found| *found == tile)
    }

    /// Rows of a part's product for a set, in whole blocks.
    fn n_rows(&self, geometry: &Geometry, set: &Set) -> usize {
        let n_channels = geometry.split.n_channels.min(geometry.m);
        (n_channels * set.n_phases()).next_multiple_of(self.block)
    }

    /// Bytes of scratch for `n` images of a group: their blocks, and what each thread needs.
    pub(super) fn scratch_bytes(&self, cpu: Cpu, geometry: &Geometry, n: usize) -> usize {
        let images =
            Cpu { max_threads: 1, ..cpu }.scratch_bytes(self.image_len(geometry).saturating_mul(n));
        let lens = self.scratch_lens(cpu.isa, geometry);
        images.saturating_add(cpu.scratch_bytes(lens.into_iter().fold(0, usize::saturating_add)))
    }

    /// Elements of an image of a group, in blocks.
    fn image_len(&self, geometry: &Geometry) -> usize {
        geometry.c.next_multiple_of(self.block).saturating_mul(geometry.n_inputs())
    }

    /// Elements of a thread's scratch: the bias of each row, blocks, a strip, and what Winograd's algorithm needs.
    fn scratch_lens(&self, isa: Isa, geometry: &Geometry) -> [usize; 4] {
        let mut lens = [0; 4];
        for (i, set) in geometry.sets.iter().enumerate() {
            let (axes, n_rows) = (plane_axes(set), self.n_rows(geometry, set));
            let tile = self.tile((isa, geometry), i);
            let down = tile.map_or(1, |tile| tile.outputs()[0]);
            let n_positions = rows_of_chunk(n_rows, (down, &axes)) * down;
            let blocks = n_positions.saturating_mul(axes[1].output).saturating_mul(n_rows);
            let channels = geometry.c.next_multiple_of(self.block);
            let rest = tile.map_or(0, |tile| tile.scratch_len(isa, self.block, channels, &axes));
            let of_set = [n_rows, blocks, blocks, rest];
            lens.iter_mut().zip(of_set).for_each(|(len, n)| *len = (*len).max(n));
        }
        lens
    }

    /// The filters of a set, of those of a group.
    fn filters<'a>(&self, geometry: &Geometry, group: &'a [f32], set: usize) -> Filters<'a> {
        let of = |i: usize| {
            let set = (&geometry.sets[i], self.tiles[i]);
            pack::lens(self.block, [geometry.c, geometry.m], set)
        };
        let before: usize = (0..set).flat_map(of).sum();
        let [plain, transformed] = of(set);
        let (plain, rest) = group[before..].split_at(plain);
        Filters { plain, transformed: &rest[..transformed] }
    }
}

/// How the remainders of the axes are computed.
struct Choice {
    late: [usize; 3],
    sets: Vec<Set>,
    tiles: Vec<Option<Tile>>,
    /// An estimate, in vector multiply-adds.
    work: usize,
}

impl Choice {
    /// `None` if products that gather their right operands take less time.
    fn new(cpu: Cpu, axes: &[Transposed; 3], late: [usize; 3], [c, m]: [usize; 2]) -> Option<Self> {
        let (sets, isa, block) = (sets(axes, late).ok()?, cpu.isa, cpu.block());
        let (mut tiles, mut work, mut products) = (Vec::new(), 0_usize, 0_usize);
        for set in &sets {
            let sizes = sizes((isa, block), set, [c, m]);
            let tile = paying_tile(&sizes).filter(|_| cpu.winograd);
            let of_set = tile.and_then(|_| sizes.by_tiles()).unwrap_or(sizes.direct());
            work = work.saturating_add(of_set);
            // Products have no rows and terms that only fill blocks, but whole columns of tiles.
            let columns = set.n_positions().next_multiple_of(gemm::variant(isa).nr);
            let terms = c.saturating_mul(set.n_taps()).saturating_mul(columns);
            let of_set = (m * set.n_phases()).saturating_mul(terms) / block;
            products = products.saturating_add(of_set);
            tiles.push(tile); // bounded: by the sets
        }
        let [most, of] = if tiles.iter().any(Option::is_some) { PRODUCTS } else { FEW };
        let pays = work.saturating_mul(of) <= products.saturating_mul(most);
        pays.then_some(Self { late, sets, tiles, work })
    }
}

/// The tile for filters of these sizes, if it pays.
fn paying_tile(sizes: &Sizes) -> Option<Tile> {
    Tile::of(sizes.block, &sizes.axes).filter(|tile| {
        let is_far = tile.packed_len(sizes.filters, sizes.channels) > FAR;
        sizes.takes(if is_far { [1, 1] } else { PRODUCTS })
    })
}

/// The sizes of a set's convolution in blocks.
fn sizes((isa, block): (Isa, usize), set: &Set, [c, m]: [usize; 2]) -> Sizes {
    let channels = c.next_multiple_of(block);
    let filters = (m * set.n_phases()).next_multiple_of(block);
    Sizes { isa, block, channels, filters, axes: plane_axes(set) }
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
    let n_images = operands.x.len() / (geometry.c * geometry.n_inputs()).max(1);
    let (image, scratch) = split_floats(scratch, blocked.image_len(geometry) * n_images);
    let (n_channels, n_pixels) = (geometry.c, geometry.n_inputs());
    let n_blocks = n_channels.div_ceil(block);
    let reorder = Reorder { isa, block, n_blocks, n_channels, n_pixels };
    let rows = Rows { len: block, cost: block * Rows::ELEMENTS.cost / Rows::ELEMENTS.len };
    rows.for_each(threads, image, |start, piece| {
        reorder.planes_to_blocks(operands.x, start / block, piece);
    });
    let cost = operands.x.len().saturating_mul(geometry.m).saturating_mul(geometry.n_taps());
    let operands = Operands { x: image, ..*operands };
    // Parts are equal, and cut tiles: as few as there are threads.
    let n_parts = n_parts(threads, cost).min(threads.count());
    let (m, plane) = (geometry.m, geometry.n_outputs());
    let lens = blocked.scratch_lens(isa, geometry);
    let team = Team::new(threads, geometry.split.n_parts(m, y.len() / (m * plane), n_parts));
    let team = team.if_worth(cost).with_scratch(scratch, lens.iter().sum());
    team.run(geometry.split.parts(y, (m, plane), n_parts), |part, scratch| {
        let (bias, scratch) = scratch.split_at_mut(lens[0]);
        let (blocks, scratch) = scratch.split_at_mut(lens[1]);
        let (strip, rest) = scratch.split_at_mut(lens[2]);
        let workspace = Workspace { bias, blocks, strip, rest };
        blocked.part((kernel, geometry), &operands, part, workspace);
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
            let n_rows = rows_of_chunk(self.n_rows(geometry, set), (down, &axes));
            if range.is_empty() {
                continue;
            }
            fill_bias(set, (geometry, operands, &part), workspace.bias);
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
        let n_phases = set.n_phases();
        let rows = part.channels.start * n_phases..part.channels.end * n_phases;
        let of_blocks = rows.start / block..rows.end.div_ceil(block);
        let group_len = operands.w.len() / geometry.group;
        let weights = &operands.w[part.product % geometry.group * group_len..][..group_len];
        let filters = self.filters(geometry, weights, i);
        // The elements of the part's blocks.
        let n_blocks = (geometry.m * n_phases).div_ceil(block);
        let own = |all: &'_ [f32]| {
            let per_block = all.len() / n_blocks;
            of_blocks.start * per_block..of_blocks.end * per_block
        };
        let image = self.image_len(geometry);
        let bias = operands.bias.map(|_| &workspace.bias[..of_blocks.len() * block]);
        let conv = Conv {
            isa,
            block,
            form: Form::Blocks,
            axes: chunk.axes,
            x: &operands.x[part.product * image..][..image],
            w: &filters.plain[own(filters.plain)],
            start: Start { bias, is_sum: false },
            activation: kernel.activation,
        };
        let len = computed.len() * block;
        let blocks = &mut workspace.blocks[..of_blocks.len() * len];
        // bounded: by the rows of a part
        let mut pieces: SmallVec<[&mut [f32]; 64]> = blocks.chunks_exact_mut(len).collect();
        match chunk.tile {
            Some(_) => {
                let packed = &filters.transformed[own(filters.transformed)];
                Winograd { conv, packed }.run(chunk.rows.clone(), &mut pieces, workspace.rest);
            }
            None => conv.run(computed.clone(), &mut pieces),
        }
        let skipped = (wanted.start - computed.start) * block;
        let strip = &mut workspace.strip[..pieces.len() * block * wanted.len()];
        for (piece, strip) in pieces.iter().zip(strip.chunks_exact_mut(block * wanted.len())) {
            let size = [wanted.len(), block];
            transpose(isa, size, (&piece[skipped..], block), (strip, wanted.len()));
        }
        let strip = &strip[..rows.len() * wanted.len()];
        write::strip((isa, &geometry.axes), set, part, (wanted.start, strip));
    }
}

/// The bias of each row of a set in a part; rows that only fill a block have none.
fn fill_bias(
    set: &Set,
    (geometry, operands, part): (&Geometry, &Operands<'_>, &Part<'_>),
    bias: &mut [f32],
) {
    let Some(of_all) = operands.bias else { return };
    let first = part.product % geometry.group * geometry.m;
    let numbers = &of_all[first + part.channels.start..first + part.channels.end];
    bias.fill(0.0);
    for (bias, number) in bias.chunks_mut(set.n_phases()).zip(numbers) {
        bias.fill(*number);
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
