//! One run: which rows of keys and values there are, and what each query sees of them.

use std::ops::Range;

use ort_ep::{KernelError, Threads};
use ort_kernels::gemm::{Lhs, Matrix, Strided};
use ort_kernels::vec;
use ort_ops::ops::microsoft::group_query_attention::GroupQueryAttention;
use ort_tensor::Inputs;

use super::turn::{Place, Turn};
use super::{GroupKernel, Sizes, gemm};
use crate::cpu::{READ, Team, n_parts};

/// What it costs to answer a query, but for its products, in multiply-adds: a softmax, and its share
/// of packing keys and values. Some 50 ns.
const ANSWER: usize = 4096;

/// A run: what is where, once the lengths of the sequences are known.
pub(super) struct Call<'a> {
    pub(super) kernel: &'a GroupKernel,
    pub(super) sizes: Sizes,
    /// The length of each sequence, the new rows included.
    pub(super) totals: &'a [i32],
    /// Whether no batch has any.
    pub(super) is_first: bool,
    /// Rows of the cache that is written.
    pub(super) kept: usize,
    pub(super) turn: Option<Turn<'a>>,
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

impl Call<'_> {
    const fn group(&self) -> usize {
        self.kernel.op.num_heads / self.kernel.op.kv_num_heads
    }

    fn total(&self, batch: usize) -> usize {
        usize::try_from(self.totals[batch]).unwrap_or(0)
    }

    /// Rows of the past.
    fn past(&self, batch: usize) -> usize {
        if self.is_first { 0 } else { self.total(batch).saturating_sub(self.sizes.len) }
    }

    /// The row of the tables by which query `s` of a batch turns.
    fn angle(&self, turn: &Turn<'_>, batch: usize, s: usize) -> Option<usize> {
        turn.row(Place {
            index: batch * self.sizes.len + s,
            query: s,
            position: self.past(batch) + s,
            total: self.total(batch),
            is_first: self.is_first,
        })
    }

    /// Whether every query has such a row, if it needs one.
    pub(super) fn can_turn(&self) -> bool {
        let Some(turn) = &self.turn else { return !self.kernel.op.do_rotary };
        let Sizes { batch, len, .. } = self.sizes;
        (0..batch).all(|b| (0..len).all(|s| self.angle(turn, b, s).is_some()))
    }

    /// Turns the rows of a head of a batch.
    fn turn(&self, batch: usize, rows: &mut [f32]) {
        let Some(turn) = &self.turn else { return };
        for (s, head) in rows.chunks_exact_mut(self.sizes.size).enumerate() {
            turn.turn(head, self.angle(turn, batch, s).unwrap_or(0));
        }
    }

    /// Writes the caches of all batches, and their queries by group.
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
        let parts = caches.zip(queries.chunks_exact_mut(of_group)).enumerate();
        let team = Team::new(threads, n_groups).if_worth(n_groups * of_cache * 2 * READ);
        team.run(parts, |(i, ((keys, values), queries)), _| {
            self.fill(new, i, ([keys, values], queries));
        });
    }

    /// Answers all queries, `[batch, heads, queries, size]` as results are.
    pub(super) fn answer_all(
        &self,
        (queries, caches): (&[f32], [&[f32]; 2]),
        y: &mut [f32],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        let (sizes, kernel) = (self.sizes, self.kernel);
        let n_groups = sizes.batch * kernel.op.kv_num_heads;
        let (of_group, together) = (y.len() / n_groups, kernel.together(sizes) * sizes.size);
        let groups = queries.chunks_exact(of_group).zip(y.chunks_exact_mut(of_group));
        let parts = groups.enumerate().flat_map(|(i, (q, y))| {
            let blocks = q.chunks(together).zip(y.chunks_mut(together)).enumerate();
            blocks.map(move |(b, (q, y))| (i, b * together / sizes.size, q, y))
        });
        let n_parts = n_groups * of_group.div_ceil(together);
        let each = self.kept.saturating_mul(2 * sizes.size).saturating_add(ANSWER);
        let cost = (queries.len() / sizes.size).saturating_mul(each);
        let team = Team::new(threads, n_parts).if_worth(cost);
        let team = team.with_scratch(scratch, kernel.scratch_len(sizes));
        team.run(parts, |(i, first, q, y), scratch| {
            self.answer((i, first), (q, caches), (y, scratch));
        });
    }

    /// Writes the cache of head `i` of all batches, and the queries that share it.
    fn fill(&self, new: &New<'_>, i: usize, (caches, queries): ([&mut [f32]; 2], &mut [f32])) {
        let Sizes { len, size, capacity, .. } = self.sizes;
        let (batch, head) = (i / self.kernel.op.kv_num_heads, i % self.kernel.op.kv_num_heads);
        let old = self.past(batch) * size;
        let new_rows = |which: usize, head: usize| {
            let (rows, stride) = (new.rows[which], new.strides[which]);
            let start = batch * len * stride + new.starts[which] + head * size;
            (0..len).map(move |s| &rows[start + s * stride..][..size])
        };
        let [keys, values] = caches;
        for (cache, past, which) in [(&mut *keys, new.pasts[0], 1), (values, new.pasts[1], 2)] {
            let past = past.get(i * capacity * size..).unwrap_or_default();
            cache[..old].copy_from_slice(&past[..old]);
            let (own, rest) = cache[old..].split_at_mut(len * size);
            own.chunks_exact_mut(size).zip(new_rows(which, head)).for_each(|(to, from)| {
                to.copy_from_slice(from);
            });
            rest.fill(0.0);
        }
        let group = queries.chunks_exact_mut(len * size).enumerate();
        for (g, queries) in group {
            let rows = new_rows(0, head * self.group() + g);
            queries
                .chunks_exact_mut(size)
                .zip(rows)
                .for_each(|(to, from)| to.copy_from_slice(from));
            self.turn(batch, queries);
        }
        self.turn(batch, &mut keys[old..old + len * size]);
    }

    /// The keys that query `s` of a batch sees.
    fn seen(&self, batch: usize, s: usize) -> Range<usize> {
        let (position, op) = (self.past(batch) + s, &self.kernel.op);
        // What is behind the end of a sequence is padding, which only a causal query may see.
        let end = if op.is_causal { position + 1 } else { self.total(batch) };
        op.local_window_size.map_or(0, |n| (position + 1).saturating_sub(n))..end
    }

    /// Answers the rows of a group from `first` on.
    fn answer(
        &self,
        (i, first): (usize, usize),
        (queries, caches): (&[f32], [&[f32]; 2]),
        (y, scratch): (&mut [f32], &mut [f32]),
    ) {
        let Sizes { len, size, .. } = self.sizes;
        let (batch, m, cpu) = (i / self.kernel.op.kv_num_heads, y.len() / size, self.kernel.cpu);
        let n = (first..first + m).map(|r| self.seen(batch, r % len).end).max().unwrap_or(0);
        let [k, v] = caches.map(|cache| &cache[i * self.kept * size..][..n * size]);
        let (scores, scratch) = scratch.split_at_mut(m * n);
        let given = self.kernel.op.scale.filter(|&scale| scale != 0.0);
        let alpha = given.unwrap_or_else(|| (size as f32).sqrt().recip());
        let q = Lhs::Strided { a: Matrix::row_major(queries, m, size), alpha };
        let k = Matrix::row_major(k, n, size).transposed();
        let product = gemm(cpu, [m, n, size], (q, k));
        product.run(&product.whole(), &mut Strided { data: scores, stride: n }, scratch);
        for (r, scores) in scores.chunks_exact_mut(n).enumerate() {
            let seen = self.seen(batch, (first + r) % len);
            scores[..seen.start].fill(0.0);
            scores[seen.end..].fill(0.0);
            vec::softmax(cpu.isa, &mut scores[seen]);
        }
        let weights = Lhs::Strided { a: Matrix::row_major(scores, m, n), alpha: 1.0 };
        let product = gemm(cpu, [m, size, n], (weights, Matrix::row_major(v, n, size)));
        product.run(&product.whole(), &mut Strided { data: y, stride: size }, scratch);
    }

    /// Results `[batch, heads, queries, size]` as rows of all heads.
    pub(super) fn reorder(&self, heads: &[f32], y: &mut [f32], threads: &dyn Threads) {
        let (Sizes { batch, len, size, .. }, n) = (self.sizes, self.kernel.op.num_heads);
        let per_part = (batch * len).div_ceil(n_parts(threads, heads.len() * READ));
        let parts = y.chunks_mut(per_part * n * size).enumerate();
        Team::new(threads, (batch * len).div_ceil(per_part)).run(parts, |(i, y), _| {
            for (row, y) in (i * per_part..).zip(y.chunks_exact_mut(n * size)) {
                let start = (row / len * n * len + row % len) * size;
                let heads = heads[start..].chunks(len * size);
                y.chunks_exact_mut(size).zip(heads).for_each(|(y, head)| {
                    y.copy_from_slice(&head[..size]);
                });
            }
        });
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
