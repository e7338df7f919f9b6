//! The sizes of a convolution, and the operands of its sets of filters.

// collects are bounded: by the rank

use std::cmp::Reverse;
use std::ops::Range;

use ort_ep::KernelError;
use ort_graph::OpError;
use ort_kernels::Isa;
use ort_kernels::conv_f32::Axis;
use ort_kernels::conv_nchwc::{Form, Size, Tiling};
use ort_kernels::winograd::Tile;
use ort_ops::ops::conv::Conv;
use ort_tensor::Shape;

use super::parts::{Cut, MAX_SET};
use crate::cpu::{PER_THREAD, READ};
use crate::kernels::conv::axes;

/// The sizes for one shape signature.
#[derive(Debug)]
pub(super) struct Geometry {
    /// The shape of the result.
    pub(super) shape: Shape,
    pub(super) form: Form,
    pub(super) axes: [Axis; 2],
    /// Output channels.
    pub(super) filters: usize,
    /// Input channels per filter.
    pub(super) channels: usize,
    block: usize,
    group: usize,
}

/// The form of filters `[o, c, …]` in `group` groups; `None` if it is not supported.
pub(super) fn form([o, c]: [usize; 2], group: usize, block: usize) -> Option<Form> {
    let group_has_blocks = o.is_multiple_of(group) && (o / group).is_multiple_of(block);
    if c >= block {
        (group_has_blocks && c.is_multiple_of(block)).then_some(Form::Blocks)
    } else if c == 1 && group > 1 {
        (o == group && o.is_multiple_of(block)).then_some(Form::Depthwise)
    } else {
        group_has_blocks.then_some(Form::Planes)
    }
}

impl Geometry {
    pub(super) fn new(
        op: &Conv,
        block: usize,
        x: &[usize],
        w: &[usize],
    ) -> Result<Self, KernelError> {
        let wrong = || -> KernelError {
            let (left, right) = (x.to_vec(), w.to_vec());
            OpError::Shapes { what: "channels and groups", left, right }.into()
        };
        let (&[n, found, h, w_in], &[o, c, kh, kw]) = (x, w) else { return Err(wrong()) };
        if c.checked_mul(op.group) != Some(found) {
            return Err(wrong());
        }
        let form = form([o, c], op.group, block).ok_or_else(wrong)?;
        let window = op.window.window(&[h, w_in], &[kh, kw]).map_err(KernelError::Op)?;
        let shape = [n, o].into_iter().chain(window.output.iter().copied()).collect();
        let [_, height, width] = axes(&window).ok_or_else(wrong)?;
        let axes = [height, width];
        Ok(Self { shape, form, axes, filters: o, channels: c, block, group: op.group })
    }

    /// The tiling on matrix tiles, if they exist and are faster, and an estimate of the cycles it takes.
    pub(super) fn tiling(&self, isa: Isa) -> Option<(Tiling, usize)> {
        if self.form != Form::Blocks || self.block != 16 {
            return None;
        }
        let size = self.size();
        let tiling = Tiling::new(isa, &size).filter(|tiling| tiling.pays(&size))?;
        Some((tiling, tiling.cycles(&size)))
    }

    fn size(&self) -> Size {
        let (inputs, filters) = (self.channels / self.block, self.blocks_of_group());
        Size { axes: self.axes, inputs, filters }
    }

    /// The cost of a result of `len` elements, in multiply-adds.
    pub(super) fn cost(&self, len: usize) -> usize {
        /// The overhead per row of a block, as its ends are computed with padding:
        /// about 25 ns.
        const ROW: usize = 2048;
        let width = self.axes[1].output.max(1);
        // Reading and writing costs more than a few products, and so does reading filters.
        let (each, read) = match self.form {
            Form::Depthwise => (self.terms() / 2 + 12 + ROW / (width * self.block), 0),
            _ => (self.terms(), self.filters * self.terms() * READ),
        };
        len.saturating_mul(each).saturating_add(read)
    }

    /// The same on matrix tiles, in multiply-adds without tiles that take as long.
    pub(super) fn cost_on_tiles(&self, tiling: &Tiling, len: usize) -> usize {
        const IN_A_CYCLE: usize = 24;
        let each = self.n_outputs() * self.blocks_of_group() * self.block;
        let n = len.checked_div(each).unwrap_or(0);
        n.saturating_mul(tiling.cycles(&self.size())).saturating_mul(IN_A_CYCLE)
    }

    /// Products per result.
    pub(super) fn terms(&self) -> usize {
        self.channels * self.taps()
    }

    /// Elements per output plane.
    pub(super) fn n_outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// The elements of x and w that `n` output blocks starting at `first` read; blocks are counted
    /// through all images, and all `n` belong to one group.
    pub(super) fn reads(&self, first: usize, n: usize) -> [Range<usize>; 2] {
        let plane: usize = self.axes.iter().map(|axis| axis.input).product();
        let x = match self.form {
            Form::Depthwise => first * self.block * plane..(first + n) * self.block * plane,
            _ => {
                let len = self.channels * plane;
                let group = first / self.blocks_of_group();
                group * len..(group + 1) * len
            }
        };
        let first = first % (self.filters / self.block);
        let filter_len = self.terms() * self.block;
        [x, first * filter_len..(first + n) * filter_len]
    }

    /// How to split a result of `len` elements into at most `n_parts` parts, unless there are more images and groups,
    /// for `n_threads` threads and a kernel that computes `tile` blocks at once. The larger of
    /// filters and image is split first: images along their rows, so that a thread finds the rows it
    /// wrote in its caches. A depthwise convolution is split like the 1×1 convolution
    /// that often precedes it.
    pub(super) fn cut(&self, tile: usize, len: usize, n_parts: usize, n_threads: usize) -> Cut {
        /// Every range reads its filters, each of which costs as much as an eighth of its products there.
        const ENOUGH_POSITIONS: usize = 8 * READ;
        let (blocks, plane) = (self.blocks_of_group(), self.n_outputs());
        let n_groups = len / (blocks * plane * self.block);
        let [x, w] = self.reads(0, blocks);
        let is_by_sets = match self.form {
            Form::Depthwise => {
                let inputs: usize = self.axes.iter().map(|axis| axis.input).product();
                inputs < self.filters || self.axes[0].output < 3 * n_parts
            }
            _ => x.len() < w.len(),
        };
        let per_group = n_parts.div_ceil(n_groups);
        let [height, width] = self.axes.map(|axis| axis.output);
        // The work of the busiest thread, then the number of parts.
        let cost = |(per_set, positions): &(usize, usize)| {
            let n_parts = n_groups * blocks.div_ceil(*per_set) * plane.div_ceil(*positions);
            (n_parts.div_ceil(n_threads) * per_set * positions, Reverse(n_parts))
        };
        let sets = 1..=if is_by_sets { per_group.min(blocks) } else { 1 };
        let most_ranges = (plane / ENOUGH_POSITIONS).max(PER_THREAD * n_threads);
        let cuts = sets.rev().flat_map(|n_sets| {
            let per_set = blocks.div_ceil(n_sets).next_multiple_of(tile).min(blocks).min(MAX_SET);
            let most = (per_group / blocks.div_ceil(per_set)).clamp(1, most_ranges);
            (1..=most).rev().map(move |n_ranges| match height.checked_div(n_ranges) {
                Some(1..) => (per_set, height.div_ceil(n_ranges) * width),
                _ => (per_set, plane.div_ceil(n_ranges)),
            })
        });
        let (per_set, positions) = cuts.min_by_key(cost).unwrap_or((blocks.min(MAX_SET), plane));
        self.cut_by(len, per_set, positions)
    }

    /// The same for Winograd tiles: by rows of tiles, as long as each thread has
    /// enough of them to justify reading all filters; otherwise by sets of blocks, each of which transforms the
    /// image again.
    pub(super) fn cut_tiles(
        &self,
        (tile, set): (Tile, usize),
        len: usize,
        (n_parts, n_threads): (usize, usize),
    ) -> Cut {
        /// Reading the transformed filters takes as long as multiplying them by this many tiles.
        const ENOUGH: usize = 28;
        let (blocks, plane) = (self.blocks_of_group(), self.n_outputs());
        let n_groups = len / (blocks * plane * self.block);
        let per_thread = n_parts / n_threads.max(1);
        let n_threads = n_threads.min(n_parts).div_ceil(n_groups);
        let ([rows, columns], [down, _]) = (tile.grid(&self.axes), tile.outputs());
        // Several ranges per thread if they are equal or many, because threads may have unequal speed.
        let is_good = |n: &usize| {
            rows >= *n
                && rows * columns >= n * ENOUGH
                && (*n == n_threads || *n >= 2 * PER_THREAD * n_threads || rows.is_multiple_of(*n))
        };
        let mut ranges = (1..=per_thread.max(1)).rev().map(|n| n * n_threads);
        let (ranges, sets) = match ranges.find(is_good) {
            _ if n_threads == 1 => (1, 1),
            Some(ranges) => (ranges, 1),
            None => (1, n_threads),
        };
        let per_set = blocks.div_ceil(sets).next_multiple_of(set).min(blocks).min(MAX_SET);
        self.cut_by(len, per_set, rows.div_ceil(ranges) * down * self.axes[1].output)
    }

    fn cut_by(&self, len: usize, per_set: usize, positions: usize) -> Cut {
        let (blocks, plane) = (self.blocks_of_group(), self.n_outputs());
        let n_sets = len / (blocks * plane * self.block) * blocks.div_ceil(per_set);
        let n_parts = n_sets * plane.div_ceil(positions);
        Cut { block: self.block, plane, blocks, per_set, positions, n_parts }
    }

    /// The transformed filters of the output blocks of [`Geometry::reads`].
    pub(super) fn reads_transformed(&self, tile: Tile, first: usize, n: usize) -> Range<usize> {
        let first = first % (self.filters / self.block) * self.block;
        let at = |filter| tile.packed_len(filter, self.channels);
        at(first)..at(first + n * self.block)
    }

    /// Output blocks that read the same inputs, or may be computed in any sets.
    fn blocks_of_group(&self) -> usize {
        let groups = if self.form == Form::Depthwise { 1 } else { self.group };
        self.filters / groups / self.block
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_have_equal_work() {
        for (channels, filters, side, is_depthwise) in [
            (96, 576, 14, false),
            (576, 96, 14, false),
            (32, 192, 28, false),
            (192, 32, 28, false),
            (64, 48, 56, false),
            (576, 576, 14, true),
            (192, 192, 28, true),
            (144, 144, 56, true),
        ] {
            let axis = Axis { input: side, output: side, ..Axis::UNIT };
            let (form, group, channels) = match is_depthwise {
                true => (Form::Depthwise, filters, 1),
                false => (Form::Blocks, 1, channels),
            };
            let shape = [1, filters, side, side].into_iter().collect();
            let geometry =
                Geometry { shape, form, axes: [axis; 2], filters, channels, block: 16, group };
            let len = filters * side * side;
            let cut = geometry.cut(if is_depthwise { 1 } else { 4 }, len, 8, 2);
            let most = cut.n_parts.div_ceil(2) * cut.per_set * cut.positions * cut.block;
            let what = format!("{channels} to {filters} of {side}: {cut:?}");
            assert!((2..=8).contains(&cut.n_parts), "{what}");
            assert_eq!(most, len / 2, "{what}");
        }
    }
}
