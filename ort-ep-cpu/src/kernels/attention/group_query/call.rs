//! One run: which rows of keys and values there are, and how they are filled.

use ort_ep::{KernelError, Threads};
use ort_ops::ops::microsoft::group_query_attention::GroupQueryAttention;
use ort_tensor::Inputs;

use super::super::heads::Strides;
use super::rotation::{Place, Rotation};
use super::{GroupKernel, Sizes};
use crate::cpu::{READ, Team};

/// A run: what is where, once the lengths of the sequences are known.
pub(super) struct Call<'a> {
    pub(super) kernel: &'a GroupKernel,
    pub(super) sizes: Sizes,
    /// The last row of each sequence, the new ones included.
    pub(super) lasts: &'a [i32],
    /// Whether no batch has a past.
    pub(super) is_first: bool,
    /// Rows of the cache that is written.
    pub(super) kept: usize,
    pub(super) rotation: Option<Rotation<'a>>,
}

/// The new heads: rows, the elements from one to the next, and where the first head of each begins;
/// and the past's.
pub(super) struct New<'a> {
    rows: [&'a [f32]; 3],
    strides: [usize; 3],
    starts: [usize; 3],
    /// Keys and values `[batch, heads, capacity, size]`, or nothing.
    pasts: [&'a [f32]; 2],
}

impl<'a> New<'a> {
    /// The queries, and where they lie.
    pub(super) fn queries(&self, [len, size]: [usize; 2]) -> (&'a [f32], Strides) {
        (self.rows[0], Strides::joined([len, self.strides[0], size]))
    }
}

impl Call<'_> {
    const fn group(&self) -> usize {
        self.kernel.op.num_heads / self.kernel.op.kv_num_heads
    }

    fn total(&self, batch: usize) -> usize {
        usize::try_from(self.lasts[batch].saturating_add(1)).unwrap_or(0)
    }

    /// Rows of the past.
    fn past(&self, batch: usize) -> usize {
        if self.is_first { 0 } else { self.total(batch).saturating_sub(self.sizes.len) }
    }

    /// The keys of a batch. What is behind the end of a sequence is padding, which only a causal query
    /// may see.
    pub(super) fn end(&self, batch: usize) -> i64 {
        let is_causal = self.kernel.op.is_causal;
        let end = if is_causal { self.past(batch) + self.sizes.len } else { self.total(batch) };
        i64::try_from(end).unwrap_or(i64::MAX)
    }

    /// The row of the tables by which query `s` of a batch rotates.
    fn angle(&self, rotation: &Rotation<'_>, batch: usize, s: usize) -> Option<usize> {
        rotation.row(Place {
            index: batch * self.sizes.len + s,
            query: s,
            position: self.past(batch) + s,
            total: self.total(batch),
            is_first: self.is_first,
        })
    }

    /// Whether every query has such a row, if it needs one.
    pub(super) fn can_rotate(&self) -> bool {
        let Some(rotation) = &self.rotation else { return !self.kernel.op.do_rotary };
        let Sizes { batch, len, .. } = self.sizes;
        (0..batch).all(|b| (0..len).all(|s| self.angle(rotation, b, s).is_some()))
    }

    /// Copies the rows of a head of a batch, rotated.
    fn rotated<'r>(&self, batch: usize, rows: impl Iterator<Item = &'r [f32]>, to: &mut [f32]) {
        for (s, (to, from)) in to.chunks_exact_mut(self.sizes.size).zip(rows).enumerate() {
            match &self.rotation {
                Some(rotation) => {
                    let row = self.angle(rotation, batch, s).unwrap_or(0);
                    rotation.rotate(self.kernel.cpu.isa, (from, row), to);
                }
                None => to.copy_from_slice(from),
            }
        }
    }

    /// Writes the caches of all batches, and their queries if they are rotated.
    pub(super) fn fill_all(
        &self,
        new: &New<'_>,
        [keys, values]: [&mut [f32]; 2],
        queries: &mut [f32],
        threads: &dyn Threads,
    ) {
        let n_groups = self.sizes.batch * self.kernel.op.kv_num_heads;
        let (of_cache, of_group) = (self.kept * self.sizes.size, queries.len() / n_groups);
        let caches = keys.chunks_exact_mut(of_cache).zip(values.chunks_exact_mut(of_cache));
        let mut queries = queries.chunks_exact_mut(of_group.max(1));
        let parts = caches.enumerate().map(move |(i, (keys, values))| {
            (i, [keys, values], queries.next().unwrap_or_default())
        });
        let team = Team::new(threads, n_groups).if_worth(n_groups * of_cache * 2 * READ);
        team.run(parts, |(i, caches, queries), _| self.fill(new, i, (caches, queries)));
    }

    /// Writes the cache of head `i` of all batches, and the queries that share it.
    fn fill(
        &self,
        new: &New<'_>,
        i: usize,
        ([keys, values], queries): ([&mut [f32]; 2], &mut [f32]),
    ) {
        let Sizes { len, size, capacity, .. } = self.sizes;
        let (batch, head) = (i / self.kernel.op.kv_num_heads, i % self.kernel.op.kv_num_heads);
        let old = self.past(batch) * size;
        let new_rows = |which: usize, head: usize| {
            let (rows, stride) = (new.rows[which], new.strides[which]);
            let start = batch * len * stride + new.starts[which] + head * size;
            (0..len).map(move |s| &rows[start + s * stride..][..size])
        };
        for (cache, past) in [&mut *keys, &mut *values].into_iter().zip(new.pasts) {
            let past = past.get(i * capacity * size..).unwrap_or_default();
            cache[..old].copy_from_slice(&past[..old]);
            cache[old + len * size..].fill(0.0);
        }
        self.rotated(batch, new_rows(1, head), &mut keys[old..][..len * size]);
        let values = values[old..][..len * size].chunks_exact_mut(size);
        values.zip(new_rows(2, head)).for_each(|(to, from)| to.copy_from_slice(from));
        for (g, queries) in queries.chunks_exact_mut(len * size).enumerate() {
            self.rotated(batch, new_rows(0, head * self.group() + g), queries);
        }
    }
}

/// Queries, keys and values, each an input of its own or all in the first.
pub(super) fn new_of<'a>(
    op: &GroupQueryAttention,
    inputs: Inputs<'a>,
    size: usize,
) -> Result<New<'a>, KernelError> {
    let (n, k) = (op.num_heads * size, op.kv_num_heads * size);
    let q = inputs.tensor(0)?.as_slice::<f32>()?;
    let mut pasts = [&[][..]; 2];
    for (past, input) in pasts.iter_mut().zip([3, 4]) {
        let view = inputs.optional_tensor(input)?;
        *past = view.map(|view| view.as_slice::<f32>()).transpose()?.unwrap_or_default();
    }
    Ok(match (inputs.optional_tensor(1)?, inputs.optional_tensor(2)?) {
        (Some(keys), Some(values)) => New {
            rows: [q, keys.as_slice()?, values.as_slice()?],
            strides: [n, k, k],
            starts: [0; 3],
            pasts,
        },
        _ => New { rows: [q; 3], strides: [n + 2 * k; 3], starts: [0, n, n + k], pasts },
    })
}
