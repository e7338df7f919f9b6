//! How quantized values are stored and packed.

use super::WORD;
use crate::{Isa, Task, words};

/// The sizes of weights `[k, n]`, stored as `[n, blocks, bytes per block]`, the first value in the
/// lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits per quantized value: 2, 4 or 8.
    pub bits: usize,
    /// Quantized values per block: a multiple of 16.
    pub block: usize,
    /// Rows of the weights.
    pub k: usize,
    /// Columns of the weights.
    pub n: usize,
    /// Columns per panel.
    pub nr: usize,
}

impl Format {
    /// Blocks per column.
    #[must_use]
    pub const fn n_blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }

    /// Quantized values per column, including the padding of its last block.
    #[must_use]
    pub const fn padded_k(&self) -> usize {
        self.n_blocks() * self.block
    }

    /// The quantized value that represents 0 by default.
    #[must_use]
    pub const fn middle(&self) -> usize {
        1 << (self.bits - 1)
    }

    /// The number of rows up to which [`Weights::times_floats`](super::Weights::times_floats) takes less time than
    /// [`Gemm`](crate::gemm::Gemm), which dequantizes each weight once, and not for every few rows; of weights with or
    /// without a table. Measured on Sapphire Rapids, with k and n of 1024.
    #[must_use]
    pub fn few_rows(&self, isa: Isa, has_table: bool) -> usize {
        match (isa.avx512().is_some(), isa.avx2().is_some(), self.bits) {
            (true, ..) if has_table => 64,
            (true, _, 2) => 10,
            (true, _, 4) => 40,
            (true, ..) => 20,
            (false, true, _) => 4,
            // Not measured, but for the plain code, where both take as long per row.
            _ => 64,
        }
    }

    /// Quantized values per word.
    pub(super) const fn step(&self) -> usize {
        8 * WORD / self.bits
    }

    /// Bytes per panel.
    pub(super) const fn panel_bytes(&self) -> usize {
        self.padded_k() * self.bits / 8 * self.nr
    }

    const fn n_panels(&self) -> usize {
        self.n.div_ceil(self.nr)
    }

    /// The number of bytes that [`Format::pack_quantized`] writes.
    #[must_use]
    pub const fn quantized_len(&self) -> usize {
        self.n_panels() * self.panel_bytes()
    }

    /// The number of elements that [`Format::pack_by_block`] writes.
    #[must_use]
    pub const fn scales_len(&self) -> usize {
        self.n_panels() * self.n_blocks() * self.nr
    }

    /// Packs quantized values; the padding columns of the last panel are zeros.
    ///
    /// # Panics
    /// If `quantized` or `packed` are too short.
    pub fn pack_quantized(&self, isa: Isa, quantized: &[u8], packed: &mut [u8]) {
        self.pack_while(isa, (quantized, false), packed, || true);
    }

    /// The same, unless `may_continue`, which is called every few milliseconds, returns false. Of two 4-bit values, the
    /// first is in the lower bits of a byte, or in the upper ones if they are swapped.
    ///
    /// # Panics
    /// If `quantized` or `packed` are too short.
    pub fn pack_while(
        &self,
        isa: Isa,
        (quantized, is_swapped): (&[u8], bool),
        packed: &mut [u8],
        may_continue: impl Fn() -> bool,
    ) {
        /// Bytes read at once, if that is a panel.
        const PIECE: usize = 1 << 22;
        let panel_bytes = self.padded_k() * self.bits / 8 * self.nr;
        if panel_bytes == 0 {
            return;
        }
        let n_panels = (PIECE / panel_bytes).max(1);
        let pieces = quantized.chunks(n_panels * panel_bytes);
        let packed = packed.chunks_mut(n_panels * panel_bytes);
        for (quantized, packed) in pieces.zip(packed).take_while(|_| may_continue()) {
            isa.run(Packing { format: self, quantized, is_swapped, packed });
        }
    }

    /// Packs values per block, `[n, blocks]`, into panels `[blocks][nr]`.
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
    quantized: &'a [u8],
    is_swapped: bool,
    packed: &'a mut [u8],
}

impl Task for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { format: &Format { bits, nr, .. }, quantized, is_swapped, packed } = self;
        let column_bytes = self.format.padded_k() * bits / 8;
        let panels = packed.chunks_exact_mut(column_bytes * nr);
        for (quantized, panel) in quantized.chunks(column_bytes * nr).zip(panels) {
            let (columns, panel) =
                (quantized.chunks_exact(column_bytes), (nr, panel.as_chunks_mut().0));
            match bits {
                2 => words::interleave(columns, 0, of_2_bits, panel),
                4 if is_swapped => {
                    words::interleave(columns, 0, |word| of_4_bits(swapped(word)), panel);
                }
                4 => words::interleave(columns, 0, of_4_bits, panel),
                _ => words::interleave(columns, 0, |word| word, panel),
            }
        }
    }
}

/// Converts a word of 4-bit values in order to one whose value `4·s + q` is part `s` of byte `q`.
#[inline(always)]
fn of_4_bits(stored: u32) -> u32 {
    let spread = |half: u32| {
        let bytes = (half | half << 8) & 0x00ff_00ff;
        (bytes | bytes << 4) & 0x0f0f_0f0f
    };
    spread(stored & 0xffff) | spread(stored >> 16) << 4
}

/// The same for 2-bit values: transposes a 4×4 square by swapping elements across its diagonal.
#[inline(always)]
fn of_2_bits(stored: u32) -> u32 {
    let exchange = |word: u32, mask: u32, distance: u32| {
        let exchanged = (word ^ word >> distance) & mask;
        word ^ exchanged ^ exchanged << distance
    };
    exchange(exchange(stored, 0x00cc_00cc, 6), 0xf0f0, 12)
}

/// Exchanges the 4-bit values of each byte.
#[inline(always)]
const fn swapped(word: u32) -> u32 {
    (word & 0x0f0f_0f0f) << 4 | (word >> 4) & 0x0f0f_0f0f
}
