//! What every attention does: some queries of a head, or of heads that share keys and values, are a part,
//! which goes through the keys and values once, as in [`pass`](super::pass). Where there are few parts,
//! each goes through so many pieces of the keys, and what comes of those is merged in their order: how
//! many follows from the shapes alone, so that results do not depend on the threads.

// collects are bounded: by MAX_ROWS

use std::ops::Range;

use ort_ep::Threads;
use ort_kernels::vec;
use smallvec::SmallVec;

use super::floats::{Float, Source};
use super::pass::State;
use super::scores::{Bias, KeyMask, Rule, Seen, factor};
use crate::cpu::{Cpu, READ, Team, floats};

/// The most rows of a part: keys and values are packed once for all. Half as many with a second-level cache below 1 MiB,
/// or where a block of keys is computed of which each row sees a part.
const MAX_ROWS: usize = 256;
/// The same of heads that share keys and values.
const MAX_SHARED: usize = 64;
/// What it costs to answer a query, but for its products, in multiply-adds: a softmax, and its share
/// of packing keys and values. Some 50 ns.
const ANSWER: usize = 4096;
/// Parts that keep the threads of most processors busy.
const ENOUGH: usize = 16;
/// The fewest keys of a piece: to read them takes some microseconds.
const PIECE: usize = 256;

/// Which queries, keys and values there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) cpu: Cpu,
    pub(super) batch: usize,
    pub(super) heads: usize,
    /// How many heads of queries share one of keys and values.
    pub(super) shared: usize,
    pub(super) q_len: usize,
    /// The most keys that a batch can have.
    pub(super) kv_len: usize,
    /// Elements of a head of a query or key, and of a value.
    pub(super) size: usize,
    pub(super) v_size: usize,
    /// Whether results are `[B, S, N·E]`, not `[B, N, S, E]`.
    pub(super) is_joined: bool,
    pub(super) bias: Option<Bias>,
    pub(super) mask: KeyMask,
    pub(super) rule: Rule,
}

/// The tensors of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands<'a> {
    pub(super) q: Source<'a>,
    pub(super) k: Source<'a>,
    pub(super) v: Source<'a>,
    pub(super) seen: Seen<'a>,
}

/// Some queries of some heads that share keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) batch: usize,
    /// The first head, and how many there are.
    head: usize,
    n_heads: usize,
    /// The first query, and how many there are.
    query: usize,
    n_queries: usize,
    is_joined: bool,
}

impl Place {
    pub(super) const fn n_rows(&self) -> usize {
        self.n_heads * self.n_queries
    }

    /// Batch, head and query of a row: those of a query follow each other if results are joined, and else
    /// those of a head.
    pub(super) const fn at(&self, row: usize) -> [usize; 3] {
        let (head, query) = match self.is_joined {
            true => (row % self.n_heads, row / self.n_heads),
            false => (row / self.n_queries, row % self.n_queries),
        };
        [self.batch, self.head + head, self.query + query]
    }
}

/// The results of a part, row by row, in a list that needs no memory of its own.
type Rows<'y, T> = SmallVec<[&'y mut [T]; MAX_ROWS]>;

/// The results of the parts of some queries.
struct Parts<'y, T> {
    /// How many are left, and how many heads each row of each has.
    n_parts: usize,
    n_heads: usize,
    v_size: usize,
    /// What the parts to come have of each row of `y`.
    rests: Rows<'y, T>,
}

impl<'y, T> Iterator for Parts<'y, T> {
    type Item = Rows<'y, T>;

    fn next(&mut self) -> Option<Rows<'y, T>> {
        self.n_parts = self.n_parts.checked_sub(1)?;
        let &mut Self { n_heads, v_size, ref mut rests, .. } = self;
        let pieces = rests.iter_mut().flat_map(|row| {
            let (piece, rest) = std::mem::take(row).split_at_mut(n_heads * v_size);
            *row = rest;
            piece.chunks_exact_mut(v_size)
        });
        Some(pieces.collect())
    }
}

impl Heads {
    /// How many heads are in a part.
    fn together(&self) -> usize {
        if self.shared * self.q_len <= MAX_SHARED { self.shared } else { 1 }
    }

    /// How many queries are in a part, but maybe for the last: many, unless there would be few parts for the threads.
    fn n_queries(&self) -> usize {
        let of_parts = |n: usize| self.q_len.div_ceil(self.q_len.div_ceil(n).max(1));
        let is_near = self.cpu.isa.avx512().is_none() || !self.rule.window.is_all();
        let many = of_parts(MAX_ROWS);
        if is_near || self.n_parts_of(many) < ENOUGH { of_parts(MAX_ROWS / 2) } else { many }
    }

    /// The most rows of a part.
    pub(super) fn most_rows(&self) -> usize {
        self.together() * self.n_queries()
    }

    fn n_parts(&self) -> usize {
        self.n_parts_of(self.n_queries())
    }

    /// The number of parts of so many queries each.
    fn n_parts_of(&self, n_queries: usize) -> usize {
        self.batch * (self.heads / self.together()) * self.q_len.div_ceil(n_queries.max(1))
    }

    /// How many pieces of the keys a part goes through apart.
    fn n_pieces(&self) -> usize {
        let n_parts = self.n_parts();
        if n_parts >= ENOUGH || n_parts == 0 || self.most_rows() > MAX_SHARED {
            return 1;
        }
        (ENOUGH / n_parts).min(self.kv_len / PIECE).max(1)
    }

    /// The elements for what comes of the pieces.
    fn pieces_len(&self) -> usize {
        match self.n_pieces() {
            1 => 0,
            n => self.n_parts() * n * State::len(self, self.most_rows()),
        }
    }

    /// The bytes of scratch of a run.
    pub(super) fn scratch_bytes(&self) -> usize {
        // With a dimension of 0, another may be of any size.
        if [self.batch, self.heads, self.q_len, self.kv_len, self.v_size].contains(&0) {
            return 0;
        }
        let state = State::len(self, self.most_rows());
        let pieces = self.pieces_len().next_multiple_of(16).saturating_mul(size_of::<f32>());
        pieces.saturating_add(self.cpu.scratch_bytes(state.saturating_add(self.pass_len())))
    }

    /// Writes `y`: `[B, S, N·E]`, or `[B, N, S, E]`.
    pub(super) fn run<T: Float>(
        &self,
        operands: &Operands<'_>,
        y: &mut [T],
        (threads, scratch): (&dyn Threads, &mut [u8]),
    ) {
        if y.is_empty() || self.kv_len == 0 {
            return y.fill(T::default());
        }
        let (pieces, scratch) =
            floats(scratch).split_at_mut(self.pieces_len().next_multiple_of(16));
        let scratch = bytemuck::cast_slice_mut(scratch);
        let (n_pieces, state_len) = (self.n_pieces(), State::len(self, self.most_rows()));
        let team = Team::new(threads, self.n_parts() * n_pieces).if_worth(self.cost());
        let team = team.with_scratch(scratch, state_len + self.pass_len());
        if n_pieces == 1 {
            let parts = self.places().zip(self.parts(y));
            return team.run(parts, |(place, y), scratch| {
                let (state, scratch) = scratch.split_at_mut(state_len);
                let mut state = State::new(self, state, place.n_rows());
                self.pass(operands, &place, (0..self.kv_len, &mut state), scratch);
                self.finish(&mut state, y);
            });
        }
        let cut = |i: usize| i * self.kv_len / n_pieces;
        let keys = (0..n_pieces).map(|i| cut(i)..cut(i + 1));
        let each = self.places().flat_map(|place| keys.clone().map(move |keys| (place, keys)));
        let states = pieces.chunks_exact_mut(state_len);
        team.run(each.zip(states), |((place, keys), state), scratch| {
            let mut state = State::new(self, state, place.n_rows());
            self.pass(operands, &place, (keys, &mut state), scratch);
        });
        let pieces = pieces.chunks_exact_mut(state_len * n_pieces);
        for ((place, y), pieces) in self.places().zip(self.parts(y)).zip(pieces) {
            let mut pieces = pieces.chunks_exact_mut(state_len);
            let mut states = pieces.by_ref().map(|state| State::new(self, state, place.n_rows()));
            let Some(mut all) = states.next() else { continue };
            states.for_each(|state| self.merge(&mut all, &state));
            self.finish(&mut all, y);
        }
    }

    /// What all of it costs, in multiply-adds: a few rows take no longer than reading keys and values does.
    fn cost(&self) -> usize {
        let rows = self.n_parts().saturating_mul(self.most_rows().max(READ));
        let each = self.kv_len.saturating_mul(self.size + self.v_size).saturating_add(ANSWER);
        rows.saturating_mul(each)
    }

    /// Each part.
    fn places(&self) -> impl Iterator<Item = Place> + Send + use<> {
        let &Self { heads, q_len, is_joined, .. } = self;
        let (n_heads, most) = (self.together(), self.n_queries());
        let (groups, blocks) = (heads / n_heads, q_len.div_ceil(most));
        (0..self.batch * groups * blocks).map(move |i| {
            let (batch, i) = (i / (groups * blocks), i % (groups * blocks));
            let (group, block) =
                if is_joined { (i % groups, i / groups) } else { (i / blocks, i % blocks) };
            let (head, query) = (group * n_heads, block * most);
            Place { batch, head, n_heads, query, n_queries: most.min(q_len - query), is_joined }
        })
    }

    /// The results of each, in their order.
    fn parts<'y, T: Float>(
        &self,
        y: &'y mut [T],
    ) -> impl Iterator<Item = Rows<'y, T>> + Send + use<'y, T> {
        let &Self { heads, q_len, v_size, is_joined, .. } = self;
        let (n_heads, most) = (self.together(), self.n_queries());
        // Of a row, of what is contiguous, and of the rows of a part.
        let (row, whole, block) = match is_joined {
            true => (heads * v_size, q_len, most),
            false => (v_size, n_heads * q_len, n_heads * most),
        };
        y.chunks_mut(whole * row).flat_map(move |y| y.chunks_mut(block * row)).flat_map(move |y| {
            let rests = y.chunks_mut(row).collect();
            let (n_parts, n_heads) = if is_joined { (heads / n_heads, n_heads) } else { (1, 1) };
            Parts { n_parts, n_heads, v_size, rests }
        })
    }

    /// What comes of the keys of both.
    fn merge(&self, all: &mut State<'_>, other: &State<'_>) {
        let isa = self.cpu.isa;
        let rows = all.results.chunks_exact_mut(self.v_size);
        let others = other.results.chunks_exact(self.v_size).zip(&*other.sums);
        for ((y, sums), (x, &[greatest, total])) in rows.zip(&mut *all.sums).zip(others) {
            let most = if greatest > sums[0] || greatest.is_nan() { greatest } else { sums[0] };
            let factors = [factor(sums[0], most), factor(greatest, most)];
            vec::mul_scalar(isa, y, factors[0]);
            vec::add_scaled(isa, y, x, factors[1]);
            *sums = [most, sums[1] * factors[0] + total * factors[1]];
        }
    }

    /// Writes what was summed, over the sum of the exponentials.
    fn finish<T: Float>(&self, state: &mut State<'_>, y: Rows<'_, T>) {
        let rows = state.results.chunks_exact_mut(self.v_size).zip(&*state.sums);
        for (y, (x, &[greatest, total])) in y.into_iter().zip(rows) {
            let factor = match total {
                0.0 => 0.0,
                _ if greatest == f32::NEG_INFINITY => f32::NAN,
                total => 1.0 / total,
            };
            T::scaled(self.cpu.isa, x, factor, y);
        }
    }

    /// The keys that any row of a part sees among some, and those in between; and the first and the last
    /// row that do.
    pub(super) fn seen_by(
        &self,
        seen: &Seen<'_>,
        place: &Place,
        among: &Range<usize>,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let keys_of = |row| {
            let [batch, _, query] = place.at(row);
            let own = self.seen(seen, batch, query);
            let keys = own.start.max(among.start)..own.end.min(among.end);
            (!keys.is_empty()).then_some(keys)
        };
        if self.rule.window.is_all() {
            // Every row sees the same.
            return keys_of(0).map(|keys| (keys, 0..place.n_rows()));
        }
        let each = (0..place.n_rows()).filter_map(|row| Some((keys_of(row)?, row..row + 1)));
        let joined = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
        each.reduce(|a, b| (joined(a.0, b.0), joined(a.1, b.1)))
    }
}
