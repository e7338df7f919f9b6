//! The filters of convolutions in three dimensions, in blocks of channels.

use ort_kernels::Isa;
use ort_kernels::conv_nchwc::{Form, suited};
use ort_kernels::winograd::Tile;

use super::super::is_depthwise;
use crate::cpu::Cpu;
use crate::kernels::nchwc_conv::filters::{self, Dims};

/// The numbers that the filters of a group depend on.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) block: usize,
    pub(super) form: Form,
    pub(super) c: usize,
    pub(super) m: usize,
    /// Taps of the depth, and of a plane.
    pub(super) taps: [usize; 2],
}

/// Whether blocks are at most half as many elements again.
pub(super) const fn fills(n: usize, block: usize) -> bool {
    2 * n.next_multiple_of(block) <= 3 * n
}

impl Shape {
    /// Inputs in blocks of channels; `None` if those of the result cannot pay.
    pub(super) fn new(cpu: Cpu, w: &[usize], group: usize) -> Option<Self> {
        let &[filters, c, kd, kh, kw] = w else { return None };
        let block = cpu.block();
        let is_taken = suited(cpu.isa, block) != Isa::Generic
            && [kd, kh, kw] != [1; 3]
            && w.iter().all(|&n| n > 0)
            && filters.is_multiple_of(group)
            && !is_depthwise(group, c);
        let (m, taps) = (filters / group, [kd, kh * kw]);
        is_taken.then_some(Self { block, form: Form::Blocks, c, m, taps })
    }

    /// Channels of a plane as they are stored.
    pub(super) fn stored(&self) -> usize {
        if self.form == Form::Blocks { self.c.next_multiple_of(self.block) } else { self.c }
    }

    /// Elements of the filters of a group, and of its transformed ones.
    pub(super) fn lens(&self, tile: Option<Tile>) -> [usize; 2] {
        let n = self.m.next_multiple_of(self.block) * self.stored() * self.taps[0];
        [n * self.taps[1], tile.map_or(0, |tile| n * tile.products())]
    }

    /// The filters of a group, of those in the order of the file.
    pub(super) fn pack(&self, w: &[f32], packed: &mut [f32]) {
        let Self { block, c, m, taps: [depth, plane], .. } = *self;
        let lanes = if self.form == Form::Blocks { block } else { 1 };
        let dims = Dims { outputs: m, parts: depth, inputs: c, taps: plane };
        let index = |output, z, input, tap| ((output * c + input) * depth + z) * plane + tap;
        filters::pack([block, lanes], dims, (w, index), packed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_groups_do_not_share_are_not_taken() {
        let isa = Isa::best();
        let cpu = Cpu { isa, max_threads: 1, winograd: true, int8_blocks: false };
        let takes = |w: [usize; 5], group| Shape::new(cpu, &w, group).is_some();
        assert_eq!(takes([16, 8, 3, 3, 3], 2), isa != Isa::Generic);
        for (w, group) in [
            ([2, 2, 3, 3, 3], 3),
            ([17, 8, 3, 3, 3], 2),
            ([16, 1, 3, 3, 3], 16),
            ([16, 0, 3, 3, 3], 1),
            ([16, 8, 1, 1, 1], 1),
        ] {
            assert!(!takes(w, group), "{w:?} {group}");
        }
    }
}
