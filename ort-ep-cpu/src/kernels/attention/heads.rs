//! What every attention does: for each head and some queries at a time, a product to scores, a softmax of
//! each of their rows, and a product to results.

// collects are bounded: by MAX_QUERIES

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::Activation;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start, Strided};
use smallvec::SmallVec;

use super::scores::{Bias, Rule, Seen};
use crate::cpu::{Cpu, Team};

/// The most queries that are answered together: keys and values are packed once for all.
const MAX_QUERIES: usize = 128;
/// The same where a block sees no more keys than its last query.
const MAX_CAUSAL: usize = 64;
/// What it costs to answer a query, but for its products, in multiply-adds: a softmax, and its share
/// of packing keys and values. Some 50 ns.
const ANSWER: usize = 4096;
/// Their scores should stay in the second-level cache.
const MAX_SCORES: usize = 1 << 17;

/// Which queries, keys and values there are, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) cpu: Cpu,
    pub(super) batch: usize,
    pub(super) heads: usize,
    /// How many heads of queries share one of keys and values.
    pub(super) shared: usize,
    pub(super) q_len: usize,
    pub(super) kv_len: usize,
    /// Elements of a head of a query or key, and of a value.
    pub(super) size: usize,
    pub(super) v_size: usize,
    pub(super) q: Strides,
    pub(super) k: Strides,
    pub(super) v: Strides,
    /// Whether results are `[B, S, N·E]`, not `[B, N, S, E]`.
    pub(super) is_joined: bool,
    pub(super) bias: Option<Bias>,
    pub(super) has_mask: bool,
    pub(super) rule: Rule,
}

/// From batch to batch, from head to head and from row to row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strides {
    batch: usize,
    head: usize,
    row: usize,
}

impl Strides {
    /// Of `[B, len, width]`, where heads of `size` elements lie beside each other.
    pub(super) const fn joined([len, width, size]: [usize; 3]) -> Self {
        Self { batch: len * width, head: size, row: width }
    }

    /// Of `[B, heads, len, size]`.
    pub(super) const fn split([heads, len, size]: [usize; 3]) -> Self {
        Self { batch: heads * len * size, head: len * size, row: size }
    }

    /// What begins at a row of a head.
    pub(super) fn at<T>(self, data: &[T], [batch, head, row]: [usize; 3]) -> &[T] {
        &data[batch * self.batch + head * self.head + row * self.row..]
    }
}

/// The tensors of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operands<'a> {
    /// From the first element of the first head on.
    pub(super) q: &'a [f32],
    pub(super) k: &'a [f32],
    pub(super) v: &'a [f32],
    pub(super) seen: Seen<'a>,
}

/// Some queries of one head, and where their results go.
struct Part<'y> {
    batch: usize,
    head: usize,
    first: usize,
    y: Rows<'y>,
}

/// A list of as many rows as are answered together, at most, which needs no memory of its own.
type Rows<'y> = SmallVec<[&'y mut [f32]; MAX_QUERIES]>;

/// The heads of some queries.
struct Queries<'y> {
    batch: usize,
    first: usize,
    heads: Range<usize>,
    v_size: usize,
    /// What the heads to come have of each row of `y`.
    rests: Rows<'y>,
}

impl<'y> Iterator for Queries<'y> {
    type Item = Part<'y>;

    fn next(&mut self) -> Option<Part<'y>> {
        let head = self.heads.next()?;
        let pieces = self.rests.iter_mut().map(|row| {
            let (piece, rest) = std::mem::take(row).split_at_mut(self.v_size);
            *row = rest;
            piece
        });
        let y = pieces.collect();
        Some(Part { batch: self.batch, head, first: self.first, y })
    }
}

impl Heads {
    /// The same attention of one query for each head, where heads share keys and values: those that do are
    /// queries of one head.
    pub(super) fn with_shared_as_queries(self) -> Self {
        if self.q_len != 1 || self.shared == 1 {
            return self;
        }
        let Strides { batch, head, .. } = self.q;
        Self {
            heads: self.heads / self.shared,
            shared: 1,
            q_len: self.shared,
            q: Strides { batch, head: head * self.shared, row: head },
            is_joined: false,
            bias: self.bias.map(|bias| bias.with_shared_as_queries(self.shared)),
            ..self
        }
    }

    /// The elements of scratch a thread needs.
    pub(super) fn scratch_len(&self) -> usize {
        let none = Matrix::row_major(&[], 0, 0);
        let (together, a) = (self.together(), Lhs::Strided { a: none, alpha: 1.0 });
        let products = [(self.kv_len, self.size), (self.v_size, self.kv_len)]
            .map(|(n, k)| self.gemm([together, n, k], (a, none)));
        let product = products.map(|gemm| gemm.scratch_len(together));
        together * self.kv_len + product[0].max(product[1])
    }

    /// Writes `y`: `[B, S, N·E]`.
    pub(super) fn run(
        &self,
        operands: &Operands<'_>,
        y: &mut [f32],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        if y.is_empty() || self.kv_len == 0 {
            return y.fill(0.0);
        }
        let n_parts = self.batch * self.heads * self.q_len.div_ceil(self.together());
        let answers = self.batch.saturating_mul(self.heads * self.q_len);
        let each = self.kv_len.saturating_mul(self.size + self.v_size).saturating_add(ANSWER);
        let team = Team::new(threads, n_parts).if_worth(answers.saturating_mul(each));
        let team = team.with_scratch(scratch, self.scratch_len());
        team.run(self.parts(y), |part, scratch| self.answer(operands, (part, scratch)));
    }

    /// How many queries are answered together.
    fn together(&self) -> usize {
        let most = if self.rule.window.is_causal() { MAX_CAUSAL } else { MAX_QUERIES };
        (MAX_SCORES / self.kv_len.max(1)).clamp(16, most).min(self.q_len)
    }

    /// Each head of some queries, in the order of `y`.
    fn parts<'y>(&self, y: &'y mut [f32]) -> impl Iterator<Item = Part<'y>> + Send {
        let &Self { heads, q_len, v_size, is_joined, .. } = self;
        // Rows of so many heads each, and so many blocks of them in a batch.
        let (joined, blocks) = if is_joined { (heads, 1) } else { (1, heads) };
        let (together, row) = (self.together(), joined * v_size);
        y.chunks_mut(q_len * row).enumerate().flat_map(move |(i, y)| {
            let (batch, head) = (i / blocks, i % blocks);
            y.chunks_mut(together * row).enumerate().flat_map(move |(i, y)| {
                let (first, rests) = (i * together, y.chunks_mut(row).collect());
                Queries { batch, first, heads: head..head + joined, v_size, rests }
            })
        })
    }

    fn answer(&self, operands: &Operands<'_>, (mut part, scratch): (Part<'_>, &mut [f32])) {
        let keys = self.keys(operands, &part);
        let (scores, scratch) = scratch.split_at_mut(self.together() * self.kv_len);
        let scores = &mut scores[..part.y.len() * keys.len()];
        if keys.is_empty() {
            return part.y.iter_mut().for_each(|row| row.fill(0.0));
        }
        let product = self.scores(operands, &part, &keys);
        let stride = keys.len();
        product.run(&product.whole(), &mut Strided { data: scores, stride }, scratch);
        for (i, scores) in scores.chunks_mut(keys.len()).enumerate() {
            let at = [part.batch, part.head, part.first + i];
            self.weigh(&operands.seen, at, (scores, &keys));
        }
        let product = self.results((scores, operands.v), &part, &keys);
        product.run(&product.whole(), &mut part.y[..], scratch);
    }

    /// The keys that any of the queries sees, and those in between.
    fn keys(&self, operands: &Operands<'_>, part: &Part<'_>) -> Range<usize> {
        let queries = part.first..part.first + part.y.len();
        let each = queries.map(|query| self.seen(&operands.seen, part.batch, query));
        let each = each.filter(|range| !range.is_empty());
        each.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// `scores = scale · q·kᵀ` of a part, over the cap if there is one.
    fn scores<'a>(
        &self,
        operands: &Operands<'a>,
        part: &Part<'_>,
        keys: &Range<usize>,
    ) -> Gemm<'a, Matrix<'a>> {
        let &Self { size, shared, q, k, .. } = self;
        let m = part.y.len();
        let q = Matrix {
            data: q.at(operands.q, [part.batch, part.head, part.first]),
            rows: m,
            columns: size,
            row_stride: q.row,
            column_stride: 1,
        };
        let k = Matrix {
            data: k.at(operands.k, [part.batch, part.head / shared, keys.start]),
            rows: size,
            columns: keys.len(),
            row_stride: 1,
            column_stride: k.row,
        };
        let alpha = self.rule.factor();
        self.gemm([m, keys.len(), size], (Lhs::Strided { a: q, alpha }, k))
    }

    /// `y = weights · v` of a part.
    fn results<'a>(
        &self,
        (weights, v): (&'a [f32], &'a [f32]),
        part: &Part<'_>,
        keys: &Range<usize>,
    ) -> Gemm<'a, Matrix<'a>> {
        let (m, n) = (part.y.len(), keys.len());
        let v = Matrix {
            data: self.v.at(v, [part.batch, part.head / self.shared, keys.start]),
            rows: n,
            columns: self.v_size,
            row_stride: self.v.row,
            column_stride: 1,
        };
        let a = Lhs::Strided { a: Matrix::row_major(weights, m, n), alpha: 1.0 };
        self.gemm([m, self.v_size, n], (a, v))
    }

    fn gemm<'a>(
        &self,
        [m, n, k]: [usize; 3],
        (a, b): (Lhs<'a>, Matrix<'a>),
    ) -> Gemm<'a, Matrix<'a>> {
        let (start, activation) = (Start::Zero, Activation::None);
        Gemm { isa: self.cpu.isa, m, n, k, a, b, start, activation }
    }
}
