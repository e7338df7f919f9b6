//! Columns of A in groups, `g_idx`: they are read in such an order that each group is a whole number of blocks.
//!
//! ```text
//! groups  1 0 1 1     order  1 – | 0 2 | 3 –     (blocks of two; – is padding, whose products are 0)
//! ```

// collects are bounded: by MOST times the columns of A

use ort_tensor::{Number, Tensor};

use super::weights::Operand;

/// How many positions there may be for each column of A, in whole blocks.
const MOST: usize = 2;

/// The order of the columns of A.
#[derive(Debug)]
pub(super) struct Groups {
    /// The column at each position of whole blocks; `None` for padding.
    order: Vec<Option<u32>>,
    /// The group of each block.
    pub(super) blocks: Vec<usize>,
    /// The columns of A.
    pub(super) k: usize,
}

impl Groups {
    /// `None` if a column has no group, the columns are none, or most positions would be padding.
    pub(super) fn of(groups: &Tensor, operand: &Operand) -> Option<Self> {
        let (k, block) = (operand.k, operand.block);
        let groups = groups.as_slice::<i32>().ok()?.get(..k).filter(|_| k > 0)?;
        // bounded: by the columns of A
        let mut columns: Vec<Vec<Option<u32>>> = vec![Vec::new(); k.div_ceil(block)];
        for (column, &group) in (0..).zip(groups) {
            columns.get_mut(usize::try_from(group).ok()?)?.push(Some(column));
        }
        let n_positions: usize = columns.iter().map(|it| it.len().next_multiple_of(block)).sum();
        if n_positions > MOST * k.next_multiple_of(block) {
            return None;
        }
        let n_blocks = |(group, columns): (usize, &Vec<_>)| {
            std::iter::repeat_n(group, columns.len().div_ceil(block))
        };
        let blocks = columns.iter().enumerate().flat_map(n_blocks).collect();
        let padded = |mut columns: Vec<_>| {
            // bounded: by MOST
            columns.resize(columns.len().next_multiple_of(block), None);
            columns
        };
        let order = columns.into_iter().flat_map(padded).collect();
        Some(Self { order, blocks, k })
    }

    /// The number of positions.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Numbers that tell orders apart, for the recipe of what is packed in this order: FNV-1a with two offsets.
    pub(super) fn fingerprint(&self) -> [u64; 2] {
        const PRIME: u64 = 0x0100_0000_01b3;
        [0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142].map(|offset| {
            let columns = self.order.iter().map(|column| column.map_or(u64::MAX, u64::from));
            let blocks = self.blocks.iter().map(|&block| block as u64);
            columns.chain(blocks).fold(offset, |hash, x| (hash ^ x).wrapping_mul(PRIME))
        })
    }

    /// A row of A in this order.
    pub(super) fn gather<T: Number>(&self, row: &[T], to: &mut [f32]) {
        for (to, column) in to.iter_mut().zip(&self.order) {
            *to = column.map_or(0.0, |column| f32::from_f64(row[column as usize].to_f64()));
        }
    }

    /// Rows of quantized values in this order; those of padding are 0.
    pub(super) fn permuted(&self, quantized: &[u8], operand: &Operand) -> Vec<u8> {
        let bits = operand.bits;
        let row_bytes = |n_values: usize| n_values * bits / 8;
        let (from, to) = (row_bytes(self.k.next_multiple_of(operand.block)), row_bytes(self.len()));
        // bounded: by MOST times the constant
        let mut permuted = vec![0; to * operand.n];
        let rows = quantized.chunks_exact(from).zip(permuted.chunks_exact_mut(to));
        for (from, to) in rows {
            for (at, column) in self.order.iter().enumerate() {
                let Some(column) = *column else { continue };
                let bit = column as usize * bits;
                let value = from[bit / 8] >> (bit % 8) & (0xff >> (8 - bits));
                to[at * bits / 8] |= value << (at * bits % 8);
            }
        }
        permuted
    }
}
