//! Columns of A in groups, `g_idx`, as quantizers write that order columns by their influence: they are read group by group,
//! so that each is a block.
//!
//! ```text
//! groups  1 0 1 0 2     order  1 3 | 0 2 | 4     (blocks of two)
//! ```

// collects are bounded: by the columns of A

use ort_tensor::{Number, Tensor};

use super::weights::Operand;

/// The order of the columns of A.
#[derive(Debug)]
pub(super) struct Groups {
    /// The column at each position.
    pub(super) order: Vec<u32>,
    /// The group of each block.
    pub(super) blocks: Vec<usize>,
}

impl Groups {
    /// `None` if the columns in order of their groups are not whole blocks of one group each, of which the last may be
    /// shorter, or a column has no group.
    pub(super) fn of(groups: &Tensor, operand: &Operand) -> Option<Self> {
        let (k, block) = (operand.k, operand.block);
        let groups = groups.as_slice::<i32>().ok()?.get(..k)?;
        let group = |&column: &u32| groups[column as usize];
        let mut order: Vec<u32> = (0..u32::try_from(k).ok()?).collect();
        order.sort_by_key(group);
        let of_block = |columns: &[u32]| {
            let first = group(columns.first()?);
            let index = usize::try_from(first).ok().filter(|&it| it < k.div_ceil(block))?;
            columns.iter().all(|column| group(column) == first).then_some(index)
        };
        let blocks: Option<Vec<usize>> = order.chunks(block).map(of_block).collect();
        Some(Self { order, blocks: blocks? })
    }

    /// A row of A in this order, followed by zeros.
    pub(super) fn gather<T: Number>(&self, row: &[T], to: &mut [f32]) {
        let (to, rest) = to.split_at_mut(self.order.len());
        for (to, &column) in to.iter_mut().zip(&self.order) {
            *to = f32::from_f64(row[column as usize].to_f64());
        }
        rest.fill(0.0);
    }

    /// What belongs to the groups of each column of B, of which each has `n_groups`, in the order of blocks.
    pub(super) fn by_block(&self, numbers: &[f32], n_groups: usize) -> Vec<f32> {
        let columns = numbers.chunks_exact(n_groups);
        columns.flat_map(|x| self.blocks.iter().map(|&group| x[group])).collect()
    }

    /// Rows of quantized values in this order, of the same length.
    pub(super) fn permuted(&self, quantized: &[u8], operand: &Operand) -> Vec<u8> {
        let bits = operand.bits;
        let row_bytes = operand.k.next_multiple_of(operand.block) * bits / 8;
        // bounded: by the constant
        let mut permuted = vec![0; quantized.len()];
        let rows = quantized.chunks_exact(row_bytes).zip(permuted.chunks_exact_mut(row_bytes));
        for (from, to) in rows {
            for (at, &column) in self.order.iter().enumerate() {
                let bit = column as usize * bits;
                let value = from[bit / 8] >> (bit % 8) & (0xff >> (8 - bits));
                to[at * bits / 8] |= value << (at * bits % 8);
            }
        }
        permuted
    }
}
