//! What becomes of scores: which keys a query sees, what is added for each, and their exponentials.

use std::ops::Range;

use ort_kernels::{Isa, vec};
use ort_tensor::{Bool, broadcast, broadcast_strides};

use super::floats::Floats;
use super::heads::Heads;

/// How scores are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// What they are multiplied with.
    pub(super) scale: f32,
    /// `cap · tanh(score / cap)`; 0 is none.
    pub(super) cap: f32,
    /// What is added for a key that is masked.
    pub(super) filter: f32,
    pub(super) window: Window,
}

/// Which keys a query may see.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    All,
    /// Query `i` sees none after key `past + i`; but the last query sees all.
    CausalButLast {
        past: usize,
    },
    Sliding(Sliding),
}

/// Keys before and after a query's position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliding {
    /// The position of the first query; by default, the last query is at the last key of its batch.
    pub(super) past: Option<usize>,
    pub(super) q_len: usize,
    /// How many are seen before and after the position, where that is limited.
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

/// What is added to the scores: `[B, N, S, len]`, by these strides of batch, head and query. Keys beyond
/// `len` are hidden.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bias {
    strides: [usize; 3],
    len: usize,
}

/// What hides keys in a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen<'a> {
    /// What is added to the scores; −∞ hides a key.
    pub(super) bias: Floats<'a>,
    /// In place of it, false for a key that is hidden.
    pub(super) flags: &'a [Bool],
    /// As [`KeyMask`] says.
    pub(super) mask: &'a [i32],
    /// How many keys there are in each batch, unless it is all.
    pub(super) lens: &'a [i64],
    pub(super) sinks: Sinks<'a>,
}

/// Scores that no value belongs to, one for each head of queries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Sinks<'a> {
    #[default]
    None,
    /// Zeros.
    Zero,
    Each(Floats<'a>),
}

impl Sinks<'_> {
    /// The greatest score and the sum of exponentials that a query of a head starts from.
    pub(super) fn start(&self, head: usize) -> [f32; 2] {
        let sink = match self {
            Self::None => f32::NEG_INFINITY,
            Self::Zero => 0.0,
            Self::Each(sinks) => sinks.get(head),
        };
        [sink, if sink == f32::NEG_INFINITY { 0.0 } else { 1.0 }]
    }
}

/// Which keys a mask of int32 hides, that is, lowers by a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyMask {
    None,
    /// Those without a number above 0; from `start` on, by the strides of batch and query.
    Flags {
        start: usize,
        strides: [usize; 2],
    },
    /// Those outside of a range: where it ends in each batch, and then where it starts, if it has that.
    Ranges {
        has_starts: bool,
    },
}

impl KeyMask {
    /// Of this shape, for `[B, S, T]` behind a past; `None` if it has another.
    pub(super) fn new(
        shape: &[usize],
        [batch, q_len, kv_len]: [usize; 3],
        past: usize,
    ) -> Option<Self> {
        Some(match *shape {
            [b, t] if [b, t] == [batch, kv_len] => Self::Flags { start: 0, strides: [t, 0] },
            // Flags that are the same for all keys hide none.
            [b, 1] if b == 1 || b == batch => Self::None,
            [b, s, t] if [b, s, t] == [batch, q_len, kv_len] => {
                Self::Flags { start: 0, strides: [s * t, t] }
            }
            [b, 1, m, n]
                if b == batch && m == n && m >= kv_len && past <= m && q_len <= m - past =>
            {
                Self::Flags { start: past * m, strides: [m * m, m] }
            }
            [n] if n == 2 * batch => Self::Ranges { has_starts: true },
            [n] if n == batch || n == 3 * batch + 2 => Self::Ranges { has_starts: false },
            _ => return None,
        })
    }

    /// Adds `filter` to the scores of the `keys` that are hidden from a query.
    fn add(
        self,
        (isa, mask): (Isa, &[i32]),
        [batch, query]: [usize; 2],
        (scores, keys): (&mut [f32], &Range<usize>),
        filter: f32,
    ) {
        match self {
            Self::None => {}
            Self::Flags { start, strides: [b, s] } => {
                let mask = &mask[start + batch * b + query * s..][keys.clone()];
                vec::add_bias_where(isa, scores, mask, filter);
            }
            Self::Ranges { has_starts } => {
                let [start, end] = range_of(mask, batch, has_starts);
                let hidden = scores.iter_mut().zip(keys.clone());
                let hidden = hidden.filter(|(_, key)| !(start..end).contains(key));
                hidden.for_each(|(score, _)| *score = biased(*score, filter));
            }
        }
    }

    /// Whether a key is hidden from a query.
    fn hides(self, mask: &[i32], [batch, query]: [usize; 2], key: usize) -> bool {
        match self {
            Self::None => false,
            Self::Flags { start, strides: [b, s] } => {
                mask[start + batch * b + query * s + key] <= 0
            }
            Self::Ranges { has_starts } => {
                let [start, end] = range_of(mask, batch, has_starts);
                !(start..end).contains(&key)
            }
        }
    }
}

/// Where the keys of a batch that are seen start and end.
fn range_of(mask: &[i32], batch: usize, has_starts: bool) -> [usize; 2] {
    let place = |i: usize| usize::try_from(mask[i].max(0)).unwrap_or(0);
    let start = if has_starts { place(mask.len() / 2 + batch) } else { 0 };
    [start, place(batch)]
}

impl Rule {
    /// That of com.microsoft's operators, for heads of `size` elements.
    pub(super) fn of_rows(scale: Option<f32>, size: usize) -> Self {
        let scale = scale.filter(|&scale| scale != 0.0).unwrap_or_else(|| usual_scale(size));
        Self { scale, cap: 0.0, filter: 0.0, window: Window::All }
    }

    /// What products of queries and keys are multiplied with.
    pub(super) fn factor(&self) -> f32 {
        if self.cap == 0.0 { self.scale } else { self.scale / self.cap }
    }
}

/// `1/√size`.
pub(super) fn usual_scale(size: usize) -> f32 {
    (size as f32).sqrt().recip()
}

impl Window {
    /// Whether every query may see all keys.
    pub(super) const fn is_all(self) -> bool {
        match self {
            Self::All => true,
            Self::CausalButLast { .. } => false,
            Self::Sliding(window) => window.before.is_none() && window.after.is_none(),
        }
    }
}

impl Sliding {
    /// The keys that a query sees, of `len`.
    fn range(&self, len: usize, query: usize) -> Range<usize> {
        // What saturates is out of every range.
        let int = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let past = self.past.map_or_else(|| int(len).saturating_sub(int(self.q_len)), int);
        let position = past.saturating_add(int(query));
        let start = self.before.map_or(0, |n| position.saturating_sub(int(n)));
        let after = |n| position.saturating_add(int(n)).saturating_add(1);
        let end = self.after.map_or(i64::MAX, after);
        let clamped = |n: i64| usize::try_from(n.max(0)).unwrap_or(len).min(len);
        clamped(start).min(clamped(end))..clamped(end)
    }
}

impl Bias {
    /// Of this shape, if it broadcasts to the scores of `heads`.
    pub(super) fn new(shape: &[usize], heads: &Heads) -> Option<Self> {
        let &len = shape.last()?;
        let target = [heads.batch, heads.heads, heads.q_len, len];
        let fits = len <= heads.kv_len && broadcast(shape, &target).as_deref() == Some(&target[..]);
        let strides = fits.then(|| broadcast_strides(shape, &target))?;
        Some(Self { strides: [strides[0], strides[1], strides[2]], len })
    }

    /// Where that of key 0 is.
    const fn at(&self, [batch, head, query]: [usize; 3]) -> usize {
        let [b, h, q] = self.strides;
        batch * b + head * h + query * q
    }
}

impl Heads {
    /// The keys that a query may see.
    pub(super) fn seen(&self, seen: &Seen<'_>, batch: usize, query: usize) -> Range<usize> {
        let len = seen
            .lens
            .get(batch)
            .map_or(self.kv_len, |&len| usize::try_from(len).unwrap_or(0).min(self.kv_len));
        let range = match self.rule.window {
            Window::CausalButLast { past } if query + 1 < self.q_len => {
                0..len.min(past + query + 1)
            }
            Window::All | Window::CausalButLast { .. } => 0..len,
            Window::Sliding(window) => window.range(len, query),
        };
        let len = self.bias.map_or(range.end, |bias| bias.len.min(range.end));
        range.start.min(len)..len
    }

    /// Scores of the `keys` to the exponentials that weigh them, 0 for those that are not seen. `sums` are
    /// the greatest score so far and the sum of the exponentials. Returns the factor for what was summed
    /// before.
    pub(super) fn weigh(
        &self,
        seen: &Seen<'_>,
        at: [usize; 3],
        (scores, keys): (&mut [f32], &Range<usize>),
        (sums, buffer): (&mut [f32; 2], &mut [f32]),
    ) -> f32 {
        let isa = self.cpu.isa;
        let own = self.seen(seen, at[0], at[2]);
        let own = own.start.clamp(keys.start, keys.end)..own.end.clamp(keys.start, keys.end);
        // A query that sees nothing has an empty range anywhere.
        let [start, end] = [own.start, own.end.max(own.start)].map(|n| n - keys.start);
        scores[..start].fill(0.0);
        scores[end..].fill(0.0);
        let scores = &mut scores[start..end];
        if scores.is_empty() {
            return 1.0;
        }
        if self.rule.cap != 0.0 {
            vec::tanh(isa, scores);
            vec::mul_scalar(isa, scores, self.rule.cap);
        }
        self.hide(seen, at, (scores, &own), buffer);
        let [before, total] = *sums;
        let [greatest, mut sum] = vec::softmax_step(isa, scores, before);
        if greatest == f32::NEG_INFINITY && !own.into_iter().all(|key| self.hides(seen, at, key)) {
            // A score that is −∞ of its own: nothing to weigh by, unless another key has more.
            sum = 1.0;
        }
        // Nothing has been summed before the first key that is seen.
        let factor = if total == 0.0 { 1.0 } else { factor(before, greatest) };
        *sums = [greatest, total * factor + sum];
        factor
    }

    /// Adds what there is to add.
    fn hide(
        &self,
        seen: &Seen<'_>,
        at: [usize; 3],
        (scores, keys): (&mut [f32], &Range<usize>),
        buffer: &mut [f32],
    ) {
        let (isa, filter) = (self.cpu.isa, self.rule.filter);
        self.mask.add((isa, seen.mask), [at[0], at[2]], (scores, keys), filter);
        let Some(bias) = self.bias else { return };
        let first = bias.at(at) + keys.start;
        if !seen.flags.is_empty() {
            let flags = &seen.flags[first..][..keys.len()];
            return vec::hide_where(isa, scores, bytemuck::cast_slice(flags));
        }
        if let Floats::F32(bias) = seen.bias {
            return vec::add_bias(isa, scores, &bias[first..][..keys.len()]);
        }
        let buffer = &mut buffer[..keys.len()];
        seen.bias.widen(isa, first, buffer);
        vec::add_bias(isa, scores, buffer);
    }

    /// Whether a key of those in the window of a query is hidden from it.
    fn hides(&self, seen: &Seen<'_>, at: [usize; 3], key: usize) -> bool {
        let is_masked = || self.mask.hides(seen.mask, [at[0], at[2]], key);
        let hides = |bias: Bias| {
            let i = bias.at(at) + key;
            seen.flags
                .get(i)
                .map_or_else(|| seen.bias.get(i) == f32::NEG_INFINITY, |flag| !flag.get())
        };
        self.bias.is_some_and(hides) || (self.rule.filter == f32::NEG_INFINITY && is_masked())
    }
}

/// By what exponentials less one greatest score become those less another, which is no less.
pub(super) fn factor(before: f32, greatest: f32) -> f32 {
    if before == greatest { 1.0 } else { (before - greatest).exp() }
}

/// `score + bias`, but −∞ where that is the bias: what is hidden may be NaN.
fn biased(score: f32, bias: f32) -> f32 {
    if bias == f32::NEG_INFINITY { bias } else { score + bias }
}
