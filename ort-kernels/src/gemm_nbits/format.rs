//! How codes are stored, and how they are packed.

use super::WORD;

/// The sizes of weights `[k, n]`, stored as `[n, blocks, bytes of a block]`, the first code in the
/// lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The bits of a code: 2, 4 or 8.
    pub bits: usize,
    /// The codes of a block: a multiple of 16.
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

    /// The codes of a column, those that fill up its last block included.
    #[must_use]
    pub const fn padded_k(&self) -> usize {
        self.n_blocks() * self.block
    }

    /// The code that stands for the middle.
    #[must_use]
    pub const fn middle(&self) -> usize {
        1 << (self.bits - 1)
    }

    /// The codes of a word.
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

    /// Packs codes; columns that fill up the last panel are zeros.
    ///
    /// # Panics
    /// If `codes` or `packed` are too short.
    pub fn pack_codes(&self, codes: &[u8], packed: &mut [u8]) {
        let row_bytes = self.padded_k() * self.bits / 8;
        if row_bytes == 0 {
            return;
        }
        for (index, panel) in packed.chunks_exact_mut(self.panel_bytes()).enumerate() {
            panel.fill(0);
            let columns = codes[index * self.nr * row_bytes..].chunks_exact(row_bytes);
            for (j, column) in columns.take(self.nr).enumerate() {
                let words = panel.as_chunks_mut::<WORD>().0.iter_mut().skip(j).step_by(self.nr);
                for (word, stored) in words.zip(column.as_chunks::<WORD>().0) {
                    *word = self.interleaved(u32::from_le_bytes(*stored)).to_le_bytes();
                }
            }
        }
    }

    /// A word in which codes in order become those of four bytes: code `4·s + q` is moved to byte `q`.
    fn interleaved(&self, stored: u32) -> u32 {
        let mask = (1_u64 << self.bits) - 1;
        (0..self.step()).fold(0, |word, i| {
            let code = (u64::from(stored) >> (i * self.bits)) & mask;
            #[expect(clippy::cast_possible_truncation, reason = "a code has at most 8 bits")]
            let code = code as u32;
            word | code << (8 * (i % WORD) + self.bits * (i / WORD))
        })
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
