//! The sizes of a convolution in three dimensions for one shape signature.

use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::conv_nchwc::Form;
use ort_kernels::transpose::transpose;
use ort_kernels::winograd::{Tile, variant};

use super::filters::{Shape, fills};
use crate::kernels::nchwc_conv::parts::{Cut, MAX_SET};
use crate::kernels::nchwc_conv::winograd::{PRODUCTS, Sizes, rows_of_chunk};

/// Elements of the planes that are stored at a time, unless a plane of the result reads more: 2 MiB.
const STORED: usize = 512 * 1024;

/// Inputs without blocks take this many times as long per channel.
pub(super) const PLANES: usize = 2;

/// The planes of a run.
#[derive(Clone, Copy)]
pub(super) struct Planes {
    pub(super) depth: Axis,
    pub(super) axes: [Axis; 2],
    pub(super) shape: Shape,
    pub(super) tile: Option<Tile>,
}

impl Planes {
    /// The tile that pays for planes of this size, compared with a direct convolution, or with
    /// products if the filters do not fill their blocks.
    pub(super) fn tile(&self, isa: Isa) -> Option<Tile> {
        let Shape { block, form, c, m, taps } = self.shape;
        let channels = self.shape.stored() * taps[0];
        let sizes =
            Sizes { isa, block, channels, filters: m.next_multiple_of(block), axes: self.axes };
        let tile = Tile::of(block, &self.axes).filter(|_| form == Form::Blocks);
        tile.filter(|_| match fills(m, block) {
            true => {
                let (stored, without_blocks) = (self.shape.stored(), PLANES * c);
                sizes.takes([4 * stored.min(without_blocks), 5 * stored])
            }
            false => m > 1 && sizes.takes(PRODUCTS),
        })
    }

    /// Elements of a plane of the image, as it is stored.
    pub(super) fn plane_len(&self) -> usize {
        let [height, width] = self.axes.map(|axis| axis.input);
        self.shape.stored().saturating_mul(height).saturating_mul(width)
    }

    /// Planes of the result whose planes of the image are stored at a time.
    pub(super) fn at_a_time(&self) -> usize {
        let most = STORED / self.plane_len().max(1);
        let further = most.saturating_sub(self.depth.kernel) / self.depth.stride;
        (1 + further).min(self.depth.output.max(1))
    }

    /// Planes of the image that `n` planes of the result read.
    pub(super) fn n_read(&self, n: usize) -> usize {
        (n - 1).saturating_mul(self.depth.stride).saturating_add(self.depth.kernel)
    }

    pub(super) fn down(&self) -> usize {
        self.tile.map_or(1, |tile| tile.outputs()[0])
    }

    /// Rows of tiles per chunk, or of positions: the same for all parts.
    pub(super) fn rows_of_chunk(&self) -> usize {
        let n_channels = self.shape.m.next_multiple_of(self.shape.block).min(MAX_SET);
        rows_of_chunk(n_channels, (self.down(), &self.axes))
    }

    /// Elements of a thread's scratch: planes of the image, blocks, and what Winograd's algorithm needs.
    pub(super) fn scratch_lens(&self, isa: Isa) -> [usize; 3] {
        let Shape { block, m, taps, .. } = self.shape;
        let n_channels = m.next_multiple_of(block).min(MAX_SET);
        let n_rows = self.rows_of_chunk() * self.down();
        let blocks = n_rows.saturating_mul(self.axes[1].output).saturating_mul(n_channels);
        let channels = self.shape.stored() * taps[0];
        let rest = self.tile.map_or(0, |tile| tile.scratch_len(isa, block, channels, &self.axes));
        [self.n_read(self.at_a_time()).saturating_mul(self.plane_len()), blocks, rest]
    }

    /// Stores plane `z` of the image, counted from its padding.
    pub(super) fn store(&self, isa: Isa, x: &[f32], z: usize, to: &mut [f32]) {
        let Shape { block, form, c, .. } = self.shape;
        let n_pixels = self.axes[0].input * self.axes[1].input;
        let Some(z) = z.checked_sub(self.depth.pad[0]).filter(|&z| z < self.depth.input) else {
            to.fill(0.0);
            return;
        };
        let stride = self.depth.input * n_pixels;
        let x = &x[z * n_pixels..];
        if form == Form::Planes {
            for (x, to) in x.chunks(stride).zip(to.chunks_exact_mut(n_pixels.max(1))) {
                to.copy_from_slice(&x[..n_pixels]);
            }
            return;
        }
        for (i, to) in to.chunks_exact_mut((n_pixels * block).max(1)).enumerate() {
            let lanes = (c - i * block).min(block);
            if lanes < block {
                to.fill(0.0);
            }
            transpose(isa, [lanes, n_pixels], (&x[i * block * stride..], stride), (to, block));
        }
    }

    /// How a result of `len` elements is partitioned: into sets of filters, then planes.
    pub(super) fn cut(&self, isa: Isa, len: usize, n_parts: usize) -> Cut {
        let Shape { block, m, .. } = self.shape;
        let (set, depth) = (variant(isa, block).filters * block, self.depth.output);
        let per_set = m.div_ceil(m.div_ceil(MAX_SET)).next_multiple_of(set).min(MAX_SET);
        let plane = depth * self.n_outputs();
        let n_sets = len / (m * plane) * m.div_ceil(per_set);
        let n_planes = depth.div_ceil(n_parts.div_ceil(n_sets).clamp(1, depth));
        let positions = n_planes * self.n_outputs();
        let n_parts = n_sets * depth.div_ceil(n_planes);
        Cut { block: 1, plane, blocks: m, per_set, positions, n_parts }
    }

    pub(super) fn n_outputs(&self) -> usize {
        self.axes[0].output * self.axes[1].output
    }
}
