//! Rows of queries that go through keys and values once, a block of keys at a time.
//!
//! ```text
//! for each block of keys:  scores  = rows · keysᵀ
//!                          weights = e^(scores − greatest), with what hides keys; the greatest so far
//!                          results = results · e^(greatest before − greatest) + weights · values
//! ```
//! Scores are never more than those of a block, which the second-level cache holds with its keys and values.
//! Of 16 bits those are widened there.

use std::ops::Range;

use ort_kernels::Activation;
use ort_kernels::gemm::{Gemm, Lhs, Matrix, Start, Strided};
use ort_kernels::vec;

use super::heads::{Heads, Operands, Place};
use super::scores::Sinks;
use crate::pieces::wanted;

/// Keys of a block for many rows: half as many with a second-level cache below 1 MiB.
const MANY_KEYS: usize = 512;
/// The same for a few rows, whose products are as fast with keys and values of the first-level cache.
const FEW_KEYS: usize = 128;
/// The most rows that are few.
const FEW: usize = 4;

/// What has come of the keys so far.
pub(super) struct State<'s> {
    /// `[rows, E]`, the sums of values times exponentials.
    pub(super) results: &'s mut [f32],
    /// For each row the greatest score and the sum of the exponentials.
    pub(super) sums: &'s mut [[f32; 2]],
    /// Whether results have yet to be written.
    is_new: bool,
}

impl<'s> State<'s> {
    /// The elements for so many rows, in whole lines.
    pub(super) const fn len(heads: &Heads, n_rows: usize) -> usize {
        (n_rows * (heads.v_size + 2)).next_multiple_of(16)
    }

    pub(super) fn new(heads: &Heads, memory: &'s mut [f32], n_rows: usize) -> Self {
        let (results, sums) = memory.split_at_mut(n_rows * heads.v_size);
        Self { results, sums: &mut sums.as_chunks_mut::<2>().0[..n_rows], is_new: true }
    }

    /// What products of some rows, or of all, start from.
    fn begin(&mut self, are_all: bool) -> Start<'static> {
        match std::mem::take(&mut self.is_new) {
            true if are_all => return Start::Zero,
            true => self.results.fill(0.0),
            false => {}
        }
        Start::C
    }
}

/// The scratch of a pass.
struct Scratch<'s> {
    queries: &'s mut [f32],
    scores: &'s mut [f32],
    keys: &'s mut [f32],
    values: &'s mut [f32],
    bias: &'s mut [f32],
    product: &'s mut [f32],
}

impl Heads {
    fn block(&self) -> usize {
        let keys = match self.cpu.isa.avx512() {
            _ if self.most_rows() <= FEW => FEW_KEYS,
            Some(_) => MANY_KEYS,
            None => MANY_KEYS / 2,
        };
        keys.min(self.kv_len).max(1)
    }

    /// The elements of scratch that a pass needs.
    pub(super) fn pass_len(&self) -> usize {
        let (n_rows, block) = (self.most_rows(), self.block());
        let none = Matrix::row_major(&[], 0, 0);
        let products = [(block, self.size), (self.v_size, block)]
            .map(|(n, k)| self.gemm([n_rows, n, k], Start::C, (&[], none)).scratch_len(n_rows));
        self.lens().iter().sum::<usize>() + products[0].max(products[1])
    }

    /// The elements of each part of the scratch but the last.
    fn lens(&self) -> [usize; 5] {
        let (n_rows, block) = (self.most_rows(), self.block());
        [n_rows * self.size, n_rows * block, block * self.size, block * self.v_size, block]
            .map(|n| n.next_multiple_of(16))
    }

    fn divided<'s>(&self, scratch: &'s mut [f32]) -> Scratch<'s> {
        let [queries, scores, keys, values, bias] = self.lens();
        let (queries, rest) = scratch.split_at_mut(queries);
        let (scores, rest) = rest.split_at_mut(scores);
        let (keys, rest) = rest.split_at_mut(keys);
        let (values, rest) = rest.split_at_mut(values);
        let (bias, product) = rest.split_at_mut(bias);
        Scratch { queries, scores, keys, values, bias, product }
    }

    /// Writes what comes of some keys to the state.
    pub(super) fn pass(
        &self,
        operands: &Operands<'_>,
        place: &Place,
        (keys, state): (Range<usize>, &mut State<'_>),
        scratch: &mut [f32],
    ) {
        let mut scratch = self.divided(scratch);
        self.start(operands, place, (&keys, state), scratch.queries);
        if let Some((keys, _)) = self.seen_by(&operands.seen, place, &keys) {
            let block = self.block();
            for first in wanted(keys.clone().step_by(block)) {
                let among = first..keys.end.min(first + block);
                if let Some((keys, rows)) = self.seen_by(&operands.seen, place, &among) {
                    self.block_of(operands, place, (keys, rows, &mut *state), &mut scratch);
                }
            }
        }
        state.begin(false);
    }

    /// The state before the first key, and the queries, scaled.
    fn start(
        &self,
        operands: &Operands<'_>,
        place: &Place,
        (keys, state): (&Range<usize>, &mut State<'_>),
        queries: &mut [f32],
    ) {
        let n_rows = place.n_rows();
        // Each piece of the keys has a state of its own, but all have one sink.
        let sinks = if keys.start == 0 { operands.seen.sinks } else { Sinks::None };
        for (row, sums) in state.sums.iter_mut().enumerate() {
            *sums = sinks.start(place.at(row)[1]);
        }
        let isa = self.cpu.isa;
        let queries = &mut queries[..n_rows * self.size];
        for (row, query) in queries.chunks_exact_mut(self.size.max(1)).enumerate() {
            operands.q.scaled_row(isa, place.at(row), self.rule.factor(), query);
        }
    }

    /// Some rows and a block of keys.
    fn block_of(
        &self,
        operands: &Operands<'_>,
        place: &Place,
        (keys, rows, state): (Range<usize>, Range<usize>, &mut State<'_>),
        scratch: &mut Scratch<'_>,
    ) {
        let (isa, n, m) = (self.cpu.isa, keys.len(), rows.len());
        let [batch, head, _] = place.at(0);
        let at = [batch, head / self.shared, keys.start];
        let queries = &scratch.queries[rows.start * self.size..][..m * self.size];
        let (k, stride) = operands.k.rows(isa, at, [n, self.size], scratch.keys);
        let k =
            Matrix { data: k, rows: self.size, columns: n, row_stride: 1, column_stride: stride };
        let scores = &mut scratch.scores[..m * n];
        let product = self.gemm([m, n, self.size], Start::Zero, (queries, k));
        product.run(&product.whole(), &mut Strided { data: scores, stride: n }, scratch.product);
        let start = state.begin(m == place.n_rows());
        let results = &mut state.results[rows.start * self.v_size..][..m * self.v_size];
        for ((i, scores), row) in scores.chunks_exact_mut(n).enumerate().zip(rows) {
            let (sums, at) = (&mut state.sums[row], place.at(row));
            let factor =
                self.weigh(&operands.seen, at, (scores, &keys), (sums, &mut *scratch.bias));
            if factor != 1.0 {
                vec::mul_scalar(isa, &mut results[i * self.v_size..][..self.v_size], factor);
            }
        }
        let (v, stride) = operands.v.rows(isa, at, [n, self.v_size], scratch.values);
        let v =
            Matrix { data: v, rows: n, columns: self.v_size, row_stride: stride, column_stride: 1 };
        let product = self.gemm([m, self.v_size, n], start, (scores, v));
        let mut results = Strided { data: results, stride: self.v_size };
        product.run(&product.whole(), &mut results, scratch.product);
    }

    /// `A·B`, from a start.
    fn gemm<'a>(
        &self,
        [m, n, k]: [usize; 3],
        start: Start<'a>,
        (a, b): (&'a [f32], Matrix<'a>),
    ) -> Gemm<'a, Matrix<'a>> {
        let a = Lhs::Strided { a: Matrix::row_major(a, m, k), alpha: 1.0 };
        let activation = Activation::None;
        Gemm { isa: self.cpu.isa, m, n, k, a, b, start, activation }
    }
}
