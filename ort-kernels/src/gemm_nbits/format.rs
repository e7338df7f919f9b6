//! How quantized values are stored, and how they are packed.

use super::WORD;
use crate::{Isa, Task, words};

/// The sizes of weights `[k, n]`, stored as `[n, blocks, bytes of a block]`, the first code in the
/// lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The bits of a code: 2, 4 or 8.
    pub bits: usize,
    /// The quantized values of a block: a multiple of 16.
    pub block: usize,
    /// Rows of the weights.
    pub k: usize,
    /// Columns of the weights.
    pub n: usize,
    /// The columns of a panel.
    pub nr: usize,
}

impl Format {
    /// How many blocks a column has.
    #[must_use]
    pub const fn n_blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// The quantized values of a column, those that fill up its last block included.
    #[must_use]
    pub const fn padded_k(&self) -> usize {
        self.n_blocks() * self.block
    }

    /// The code that stands for the middle.
    #[must_use]
    pub const fn middle(&self) -> usize {
        1 << (self.bits - 1)
    }

    /// The quantized values of a word.
    pub(super) const fn step(&self) -> usize {
        8 * WORD / self.bits
    }

    /// The bytes of a panel.
    pub(super) const fn panel_bytes(&self) -> usize {
        self.padded_k() * self.bits / 8 * self.nr
    }

    const fn n_panels(&self) -> usize {
        self.n.div_ceil(self.nr)
    }

    /// The bytes [`Format::pack_codes`] writes.
    #[must_use]
    pub const fn codes_len(&self) -> usize {
        self.n_panels() * self.panel_bytes()
    }

    /// The elements [`Format::pack_by_block`] writes.
    #[must_use]
    pub const fn scales_len(&self) -> usize {
        self.n_panels() * self.n_blocks() * self.nr
    }

    /// Packs quantized values; columns that fill up the last panel are zeros.
    ///
    /// # Panics
    /// If `codes` or `packed` are too short.
    pub fn pack_codes(&self, isa: Isa, codes: &[u8], packed: &mut [u8]) {
        isa.run(Packing { format: self, codes, packed });
    }

    /// Packs what there is one of a block, `[n, blocks]`, into panels `[blocks][nr]`.
    ///
    /// # Panics
    /// If `values` or `packed` are too short.
    pub fn pack_by_block(&self, values: &[f32], packed: &mut [f32]) {
        let n_blocks = self.n_blocks();
        if n_blocks == 0 {
            return;
        }
        for (index, panel) in packed.chunks_exact_mut(n_blocks * self.nr).enumerate() {
            panel.fill(0.0);
            let columns = values[index * self.nr * n_blocks..].chunks_exact(n_blocks);
            for (j, column) in columns.take(self.nr).enumerate() {
                let to = panel.iter_mut().skip(j).step_by(self.nr);
                to.zip(column).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

/// Quantized values to be packed.
struct Packing<'a> {
    format: &'a Format,
    codes: &'a [u8],
    packed: &'a mut [u8],
}

impl Task for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { format: &Format { bits, nr, .. }, codes, packed } = self;
        let column_bytes = self.format.padded_k() * bits / 8;
        if column_bytes == 0 {
            return;
        }
        let panels = packed.chunks_exact_mut(column_bytes * nr);
        for (codes, panel) in codes.chunks(column_bytes * nr).zip(panels) {
            let (columns, panel) =
                (codes.chunks_exact(column_bytes), (nr, panel.as_chunks_mut().0));
            match bits {
                2 => words::interleave(columns, 0, of_2_bits, panel),
                4 => words::interleave(columns, 0, of_4_bits, panel),
                _ => words::interleave(columns, 0, |word| word, panel),
            }
        }
    }
}

/// A word of 4-bit quantized values in order becomes one whose code `4·s + q` is part `s` of byte `q`.
#[inline(always)]
fn of_4_bits(stored: u32) -> u32 {
    let spread = |half: u32| {
        let bytes = (half | half << 8) & 0x00ff_00ff;
        (bytes | bytes << 4) & 0x0f0f_0f0f
    };
    spread(stored & 0xffff) | spread(stored >> 16) << 4
}

/// The same of 2-bit quantized values: a square of four times four, transposed by exchanging what is not on its diagonal.
#[inline(always)]
fn of_2_bits(stored: u32) -> u32 {
    let exchange = |word: u32, mask: u32, distance: u32| {
        let exchanged = (word ^ word >> distance) & mask;
        word ^ exchanged ^ exchanged << distance
    };
    exchange(exchange(stored, 0x00cc_00cc, 6), 0xf0f0, 12)
}
