//! One run: which rows of keys and values there are, and how they are filled.

use ort_ep::{KernelError, Threads};
use ort_ops::ops::microsoft::group_query_attention::GroupQueryAttention;
use ort_tensor::Inputs;

use super::super::floats::{Float, Floats, Source, Strides};
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
    /// The keys of the longest sequence.
    pub(super) longest: usize,
    /// Rows of the cache that is written.
    pub(super) kept: usize,
    pub(super) rotation: Option<Rotation<'a>>,
}

/// The new heads, and the past's.
pub(super) struct New<'a> {
    /// Queries, keys and values.
    pub(super) sources: [Source<'a>; 3],
    /// Keys and values `[batch, heads, capacity, size]`, or nothing; `None` where the cache holds them already.
    pasts: [Option<Floats<'a>>; 2],
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

    /// The new rows of a head of a batch, rotated if they are.
    fn rotated<T: Float>(
        &self,
        source: &Source<'_>,
        [batch, head]: [usize; 2],
        (y, scratch): (&mut [T], &mut [f32]),
    ) {
        let (isa, size) = (self.kernel.cpu.isa, self.sizes.size);
        for (s, y) in y.chunks_exact_mut(size).enumerate() {
            let Some(rotation) = &self.rotation else {
                let Some(x) = T::of(source.data) else { continue };
                y.copy_from_slice(&x[source.strides.at([batch, head, s])..][..size]);
                continue;
            };
            let (x, rest) = scratch.split_at_mut(size);
            let (rotated, buffer) = rest.split_at_mut(size);
            source.row(isa, [batch, head, s], x);
            let row = self.angle(rotation, batch, s).unwrap_or(0);
            rotation.rotate(isa, (x, row), (&mut *rotated, buffer));
            T::narrow(isa, rotated, y);
        }
    }

    /// Writes the caches of all batches, and their queries if they are rotated.
    pub(super) fn fill_all<T: Float>(
        &self,
        new: &New<'_>,
        [keys, values]: [&mut [T]; 2],
        queries: &mut [f32],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let n_groups = self.sizes.batch * self.kernel.op.kv_num_heads;
        let of_group = queries.len() / n_groups;
        let n_rows: usize = new.pasts.iter().map(|past| self.n_written(past.is_some())).sum();
        // They may have room behind their rows.
        let rooms = [keys.len() / n_groups, values.len() / n_groups];
        let caches = keys.chunks_exact_mut(rooms[0]).zip(values.chunks_exact_mut(rooms[1]));
        let mut queries = queries.chunks_exact_mut(of_group.max(1));
        let parts = caches.enumerate().map(move |(i, (keys, values))| {
            (i, [keys, values], queries.next().unwrap_or_default())
        });
        let team =
            Team::new(threads, n_groups).if_worth(n_groups * n_rows * self.sizes.size * READ);
        let team = team.with_scratch(scratch, self.sizes.fill_len());
        team.run(parts, |(i, caches, queries), scratch| {
            self.fill(new, i, (caches, queries), scratch);
        });
    }

    /// The rows that are written of a cache.
    fn n_written(&self, with_past: bool) -> usize {
        if with_past { self.kept } else { self.sizes.len }
    }

    /// Writes the cache of head `i` of all batches, and the queries that share it.
    fn fill<T: Float>(
        &self,
        new: &New<'_>,
        i: usize,
        ([keys, values], queries): ([&mut [T]; 2], &mut [f32]),
        scratch: &mut [f32],
    ) {
        let Sizes { len, size, capacity, .. } = self.sizes;
        let (batch, head) = (i / self.kernel.op.kv_num_heads, i % self.kernel.op.kv_num_heads);
        let old = self.past(batch) * size;
        let end = old + len * size;
        for (cache, past) in [&mut *keys, &mut *values].into_iter().zip(new.pasts) {
            let Some(past) = past else {
                // All of the past stays where it is; zeros are behind it.
                cache[end.max(capacity * size)..self.kept * size].fill(T::default());
                continue;
            };
            let past = T::of(past).unwrap_or_default();
            let past = past.get(i * capacity * size..).unwrap_or_default();
            cache[..old].copy_from_slice(&past[..old]);
            cache[end..].fill(T::default());
        }
        let [q, k, v] = &new.sources;
        self.rotated(k, [batch, head], (&mut keys[old..][..len * size], &mut *scratch));
        for (s, y) in values[old..][..len * size].chunks_exact_mut(size).enumerate() {
            let Some(x) = T::of(v.data) else { continue };
            y.copy_from_slice(&x[v.strides.at([batch, head, s])..][..size]);
        }
        for (g, queries) in queries.chunks_exact_mut(len * size).enumerate() {
            self.rotated(q, [batch, head * self.group() + g], (queries, &mut *scratch));
        }
    }
}

/// Queries, keys and values, each an input of its own or all in the first.
pub(super) fn new_of<'a>(
    op: &GroupQueryAttention,
    inputs: Inputs<'a>,
    [len, size]: [usize; 2],
    are_kept: [bool; 2],
) -> Result<New<'a>, KernelError> {
    let (n, k) = (op.num_heads * size, op.kv_num_heads * size);
    let q = Floats::of(inputs.tensor(0)?)?;
    let source = |data, width| Source::new(data, Strides::joined([len, width, size]));
    let past = |input, is_kept: bool| {
        let past = |view| Floats::of_optional(view).map(Some);
        if is_kept { Ok(None) } else { past(inputs.optional_tensor(input)?) }
    };
    let sources = match (inputs.optional_tensor(1)?, inputs.optional_tensor(2)?) {
        (Some(keys), Some(values)) => {
            [source(q, n), source(Floats::of(keys)?, k), source(Floats::of(values)?, k)]
        }
        _ => [0, n, n + k].map(|first| source(q.from(first), n + 2 * k)),
    };
    Ok(New { sources, pasts: [past(3, are_kept[0])?, past(4, are_kept[1])?] })
}
