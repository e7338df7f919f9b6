//! What every attention does: for each head and some queries at a time, a product to scores, a softmax of
//! each of their rows, and a product to results.

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start, Strided};
use ort_kernels::{Activation, vec};
use smallvec::SmallVec;

use crate::cpu::{Cpu, Team};

/// The most queries that are answered together: keys and values are packed once for all.
const MAX_QUERIES: usize = 128;
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
    pub(super) q_len: usize,
    pub(super) kv_len: usize,
    /// Elements of a head of a query or key, and of a value.
    pub(super) size: usize,
    pub(super) v_size: usize,
    /// From row to row of queries, keys and values.
    pub(super) strides: [usize; 3],
    /// From batch to batch and from head to head of what is added to the scores.
    pub(super) bias: Option<[usize; 2]>,
    pub(super) has_mask: bool,
    pub(super) rule: Rule,
}

/// What becomes of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// What they are multiplied with; `1/√size` if it is not given.
    pub(super) scale: Option<f32>,
    /// What is added for a key that is masked.
    pub(super) filter: f32,
    /// Whether a query sees no later key; but the last sees all.
    pub(super) is_causal: bool,
}

/// The tensors of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operands<'a> {
    /// From the first element of the first head on.
    pub(super) q: &'a [f32],
    pub(super) k: &'a [f32],
    pub(super) v: &'a [f32],
    pub(super) bias: &'a [f32],
    /// A number above 0 for each key of each batch that is seen.
    pub(super) mask: &'a [i32],
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
    /// The strides of what is added to the scores, of this shape: `[B or 1, N or 1, S, T]`.
    pub(super) fn bias_strides(&self, shape: &[usize]) -> Option<[usize; 2]> {
        let &[of_batch, of_heads, s, t] = shape else { return None };
        let stride = |n, full, stride| match n {
            1 => Some(0),
            n if n == full => Some(stride),
            _ => None,
        };
        let strides =
            [stride(of_batch, self.batch, of_heads * s * t)?, stride(of_heads, self.heads, s * t)?];
        ([s, t] == [self.q_len, self.kv_len]).then_some(strides)
    }

    /// The elements of scratch a thread needs.
    pub(super) fn scratch_len(&self) -> usize {
        let none = Matrix::row_major(&[], 0, 0);
        let (together, a) = (self.together(), Lhs::Strided { a: none, alpha: 1.0 });
        let products = [(self.kv_len, self.size), (self.v_size, self.kv_len)]
            .map(|(n, k)| self.gemm([together, n, k], (a, none), Start::Zero));
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
        (MAX_SCORES / self.kv_len.max(1)).clamp(16, MAX_QUERIES).min(self.q_len)
    }

    /// Each head of some queries, in the order of `y`.
    fn parts<'y>(&self, y: &'y mut [f32]) -> impl Iterator<Item = Part<'y>> + Send {
        let &Self { heads, q_len, v_size, .. } = self;
        let (together, row) = (self.together(), heads * v_size);
        y.chunks_mut(q_len * row).enumerate().flat_map(move |(batch, y)| {
            y.chunks_mut(together * row).enumerate().flat_map(move |(i, y)| {
                let (first, rests) = (i * together, y.chunks_mut(row).collect());
                Queries { batch, first, heads: 0..heads, v_size, rests }
            })
        })
    }

    fn answer(&self, operands: &Operands<'_>, (mut part, scratch): (Part<'_>, &mut [f32])) {
        let n = self.kv_len;
        let (scores, scratch) = scratch.split_at_mut(self.together() * n);
        let scores = &mut scores[..part.y.len() * n];
        let is_masked = self.bias.is_some() || self.has_mask;
        let hidden = if is_masked { self.mask(operands, &part, scores) } else { 0 };
        let start = if is_masked { Start::C } else { Start::Zero };
        let product = self.scores(operands, &part, start);
        product.run(&product.whole(), &mut Strided { data: scores, stride: n }, scratch);
        for (i, scores) in scores.chunks_mut(n).enumerate() {
            let (seen, unseen) = scores.split_at_mut(self.n_seen(part.first + i));
            unseen.fill(0.0);
            // A query that sees nothing gets nothing.
            match hidden >> i & 1 {
                0 => vec::softmax(self.cpu.isa, seen),
                _ => seen.fill(0.0),
            }
        }
        let product = self.results((scores, operands.v), &part);
        product.run(&product.whole(), &mut part.y[..], scratch);
    }

    /// How many keys a query sees.
    fn n_seen(&self, query: usize) -> usize {
        let is_cut = self.rule.is_causal && query + 1 < self.q_len;
        if is_cut { self.kv_len.min(query + 1) } else { self.kv_len }
    }

    /// Writes what the scores of a part start from; returns the rows from which all keys are hidden,
    /// a bit for each.
    fn mask(&self, operands: &Operands<'_>, part: &Part<'_>, scores: &mut [f32]) -> u128 {
        const { assert!(MAX_QUERIES <= 128) };
        let n = self.kv_len;
        match self.bias {
            Some([batch, head]) => {
                let start = part.batch * batch + part.head * head + part.first * n;
                scores.copy_from_slice(&operands.bias[start..][..scores.len()]);
            }
            None => scores.fill(0.0),
        }
        let mask = if self.has_mask { &operands.mask[part.batch * n..][..n] } else { &[] };
        let mut hidden = 0;
        for (i, scores) in scores.chunks_mut(n).enumerate() {
            let masked = scores.iter_mut().zip(mask).filter(|(_, flag)| **flag <= 0);
            masked.for_each(|(score, _)| *score += self.rule.filter);
            let seen = &scores[..self.n_seen(part.first + i)];
            hidden |= u128::from(seen.iter().all(|&score| score == f32::NEG_INFINITY)) << i;
        }
        hidden
    }

    /// `scores = start + scale · q·kᵀ` of a part.
    fn scores<'a>(
        &self,
        operands: &Operands<'a>,
        part: &Part<'_>,
        start: Start<'a>,
    ) -> Gemm<'a, Matrix<'a>> {
        let &Self { q_len, kv_len, size, strides: [q_row, k_row, _], .. } = self;
        let (m, column) = (part.y.len(), part.head * size);
        let q = Matrix {
            data: &operands.q[(part.batch * q_len + part.first) * q_row + column..],
            rows: m,
            columns: size,
            row_stride: q_row,
            column_stride: 1,
        };
        let k = Matrix {
            data: &operands.k[part.batch * kv_len * k_row + column..],
            rows: size,
            columns: kv_len,
            row_stride: 1,
            column_stride: k_row,
        };
        let given = self.rule.scale.filter(|&scale| scale != 0.0);
        let alpha = given.unwrap_or_else(|| (size as f32).sqrt().recip());
        self.gemm([m, kv_len, size], (Lhs::Strided { a: q, alpha }, k), start)
    }

    /// `y = weights · v` of a part.
    fn results<'a>(
        &self,
        (weights, v): (&'a [f32], &'a [f32]),
        part: &Part<'_>,
    ) -> Gemm<'a, Matrix<'a>> {
        let &Self { kv_len, v_size, strides: [.., v_row], .. } = self;
        let m = part.y.len();
        let v = Matrix {
            data: &v[part.batch * kv_len * v_row + part.head * v_size..],
            rows: kv_len,
            columns: v_size,
            row_stride: v_row,
            column_stride: 1,
        };
        let a = Lhs::Strided { a: Matrix::row_major(weights, m, kv_len), alpha: 1.0 };
        self.gemm([m, v_size, kv_len], (a, v), Start::Zero)
    }

    fn gemm<'a>(
        &self,
        [m, n, k]: [usize; 3],
        (a, b): (Lhs<'a>, Matrix<'a>),
        start: Start<'a>,
    ) -> Gemm<'a, Matrix<'a>> {
        Gemm { isa: self.cpu.isa, m, n, k, a, b, start, activation: Activation::None }
    }
}
