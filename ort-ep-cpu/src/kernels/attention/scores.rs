//! What becomes of scores: which keys a query sees, what is added for each, and the softmax of them.

use std::ops::Range;

use ort_kernels::vec;
use ort_tensor::{Bool, broadcast, broadcast_strides};

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
    /// Query `i` sees none after key `i`; but the last query sees all.
    CausalButLast,
    Sliding(Sliding),
}

/// Keys before and after a query's position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sliding {
    /// The position of the first query; if there is none, the last stands at the last key of its batch.
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
    pub(super) bias: &'a [f32],
    /// In place of it, false for a key that is hidden.
    pub(super) flags: &'a [Bool],
    /// A number above 0 for each key of each batch that is seen.
    pub(super) mask: &'a [i32],
    /// How many keys there are in each batch, unless it is all.
    pub(super) lens: &'a [i64],
}

impl Rule {
    /// That of com.microsoft's operators without a past, for heads of `size` elements.
    pub(super) fn of_rows(scale: Option<f32>, size: usize, is_causal: bool) -> Self {
        let window = if is_causal { Window::CausalButLast } else { Window::All };
        let scale = scale.filter(|&scale| scale != 0.0).unwrap_or_else(|| usual_scale(size));
        Self { scale, cap: 0.0, filter: 0.0, window }
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
    /// Whether a query sees no key after its own.
    pub(super) const fn is_causal(&self) -> bool {
        matches!(self, Self::Sliding(Sliding { after: Some(0), .. }))
    }
}

impl Sliding {
    /// The keys that a query sees, of `len`.
    fn range(&self, len: usize, query: usize) -> Range<usize> {
        // What saturates is out of every range.
        let int = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let past = self.past.map_or_else(|| int(len).saturating_sub(int(self.q_len)), int);
        // Heads that share keys are queries of one position.
        let query = if self.q_len == 1 { 0 } else { int(query) };
        let position = past.saturating_add(query);
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

    /// The same, if heads that share keys and values are queries of one head.
    pub(super) const fn with_shared_as_queries(self, shared: usize) -> Self {
        let [batch, head, _] = self.strides;
        Self { strides: [batch, head * shared, head], ..self }
    }

    /// Of the keys in a range that is not beyond `len`.
    fn row<'a, T>(
        &self,
        of: &'a [T],
        [batch, head, query]: [usize; 3],
        keys: &Range<usize>,
    ) -> &'a [T] {
        let [b, h, q] = self.strides;
        &of[batch * b + head * h + query * q..][keys.clone()]
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
            Window::CausalButLast if query + 1 < self.q_len => 0..len.min(query + 1),
            Window::All | Window::CausalButLast => 0..len,
            Window::Sliding(window) => window.range(len, query),
        };
        let len = self.bias.map_or(range.end, |bias| bias.len.min(range.end));
        range.start.min(len)..len
    }

    /// Scores of the `keys` to weights: those of keys that are not seen are 0.
    pub(super) fn weigh(
        &self,
        seen: &Seen<'_>,
        at: [usize; 3],
        (scores, keys): (&mut [f32], &Range<usize>),
    ) {
        let isa = self.cpu.isa;
        let own = self.seen(seen, at[0], at[2]);
        // A query that sees nothing has an empty range anywhere.
        let [start, end] = [own.start, own.end].map(|n| n.clamp(keys.start, keys.end) - keys.start);
        scores[..start].fill(0.0);
        scores[end..].fill(0.0);
        let scores = &mut scores[start..end];
        if scores.is_empty() {
            return;
        }
        if self.rule.cap != 0.0 {
            vec::tanh(isa, scores);
            vec::mul_scalar(isa, scores, self.rule.cap);
        }
        if self.hide(seen, at, (scores, &own)) {
            scores.fill(0.0);
        } else {
            vec::softmax(isa, scores);
        }
    }

    /// Adds what there is to add; whether it hides all.
    fn hide(
        &self,
        seen: &Seen<'_>,
        at: [usize; 3],
        (scores, keys): (&mut [f32], &Range<usize>),
    ) -> bool {
        let filter = self.rule.filter;
        let mask =
            if self.has_mask { &seen.mask[at[0] * self.kv_len..][keys.clone()] } else { &[] };
        let masked = scores.iter_mut().zip(mask).filter(|(_, flag)| **flag <= 0);
        masked.for_each(|(score, _)| *score = biased(*score, filter));
        let (bias, flags): (&[f32], &[Bool]) = match self.bias {
            None => (&[], &[]),
            Some(bias) if seen.flags.is_empty() => (bias.row(seen.bias, at, keys), &[]),
            Some(bias) => (&[], bias.row(seen.flags, at, keys)),
        };
        if !bias.is_empty() {
            vec::add_bias(self.cpu.isa, scores, bias);
        }
        let hidden = scores.iter_mut().zip(flags).filter(|(_, flag)| !flag.get());
        hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
        // Scores may be −∞ of their own.
        let is_hidden = |i: usize| {
            bias.get(i) == Some(&f32::NEG_INFINITY)
                || flags.get(i).is_some_and(|flag| !flag.get())
                || filter == f32::NEG_INFINITY && mask.get(i).is_some_and(|&flag| flag <= 0)
        };
        scores.iter().all(|&score| score == f32::NEG_INFINITY) && (0..scores.len()).all(is_hidden)
    }
}

/// `score + bias`, but −∞ where that is the bias: what is hidden may be NaN.
fn biased(score: f32, bias: f32) -> f32 {
    if bias == f32::NEG_INFINITY { bias } else { score + bias }
}
