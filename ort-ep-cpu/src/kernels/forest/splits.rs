//! The tests of branches as comparisons of keys with thresholds, each with two ways to go on.
//!
//! `x ≥ t` is `x < t` with its ways exchanged; `x = t` is `x ≤ t`, then `x < t`; a member of a set is
//! searched by halves. NaN goes where the branch sends it by the column that is looked at: in one it comes
//! before all numbers, in another behind them.

// collects are bounded: by the attributes of the node

use std::collections::HashMap;

use ort_kernels::trees::Key;
use ort_ops::forest::{Branch, Child, Forest, Node, Test};
use ort_tensor::Number;

/// The next node of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Split(u32),
    Leaf(u32),
}

/// One comparison: up to the threshold on the first way, above it on the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split<K> {
    pub(super) threshold: K,
    pub(super) column: u32,
    pub(super) next: [Next; 2],
}

/// A feature, and where NaN is among its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Column {
    pub(super) feature: u32,
    pub(super) is_nan_first: bool,
}

impl Column {
    /// The key of the feature of a sample.
    #[inline(always)]
    pub(super) fn key<T: Number, K: Key>(self, x: &[T]) -> K {
        let nan = if self.is_nan_first { K::NAN_FIRST } else { K::NAN_LAST };
        K::of(x[self.feature as usize].to_f64(), nan)
    }
}

/// The comparisons of a forest: those of its branches, in their order, then the other data they need.
#[derive(Debug)]
pub(super) struct Splits<K> {
    pub(super) splits: Vec<Split<K>>,
    pub(super) columns: Vec<Column>,
    places: HashMap<Column, u32>,
}

/// The way to a node.
///
/// # Errors
/// `None` if there are more than can be counted.
pub(super) fn next(child: Child) -> Option<Next> {
    Some(match child.node() {
        Node::Branch(at) => Next::Split(u32::try_from(at).ok()?),
        Node::Leaf(at) => Next::Leaf(u32::try_from(at).ok()?),
    })
}

impl<K: Key> Splits<K> {
    /// The comparisons of `forest`; `None` if there are more than can be counted.
    pub(super) fn new(forest: &Forest) -> Option<Self> {
        let mut all = Self { splits: Vec::new(), columns: Vec::new(), places: HashMap::new() };
        let leaf = Split { threshold: K::NOTHING, column: 0, next: [Next::Leaf(0); 2] };
        // bounded: by the attributes of the node
        all.splits.resize(forest.branches().len(), leaf);
        for (i, branch) in forest.branches().iter().enumerate() {
            all.splits[i] = all.split(forest, branch)?;
        }
        Some(all)
    }

    fn split(&mut self, forest: &Forest, branch: &Branch) -> Option<Split<K>> {
        let &Branch { threshold: limit, feature, is_nan_true, .. } = branch;
        let (yes, no) = (next(branch.if_true)?, next(branch.if_false)?);
        let nan_passes = Column { feature, is_nan_first: is_nan_true };
        let nan_fails = Column { feature, is_nan_first: !is_nan_true };
        // To be neither above nor below NaN is no more than to be NaN.
        let up_to = |key: fn(f64) -> K| if limit.is_nan() { K::NAN_FIRST } else { key(limit) };
        let not_from = |key: fn(f64) -> K| if limit.is_nan() { K::NUMBERS } else { key(limit) };
        match branch.test {
            Test::Leq => self.compare(nan_passes, up_to(K::at_most), [yes, no]),
            Test::Lt => self.compare(nan_passes, up_to(K::below), [yes, no]),
            Test::Gte => self.compare(nan_fails, not_from(K::below), [no, yes]),
            Test::Gt => self.compare(nan_fails, not_from(K::at_most), [no, yes]),
            Test::Eq => self.equal(nan_passes, limit, [yes, no]),
            // NaN differs from everything.
            Test::Neq => self.equal(Column { feature, is_nan_first: false }, limit, [no, yes]),
            Test::Member(set) => self.member(nan_passes, forest.set(set), [yes, no]),
        }
    }

    fn compare(&mut self, column: Column, threshold: K, next: [Next; 2]) -> Option<Split<K>> {
        let n = u32::try_from(self.columns.len()).ok()?;
        let place = *self.places.entry(column).or_insert(n);
        if place == n {
            self.columns.push(column);
        }
        Some(Split { threshold, column: place, next })
    }

    /// `x = value`, or NaN if that comes first.
    fn equal(&mut self, column: Column, value: f64, [yes, no]: [Next; 2]) -> Option<Split<K>> {
        if value.is_nan() {
            return self.compare(column, K::NAN_FIRST, [yes, no]);
        }
        let nan_last = Column { is_nan_first: false, ..column };
        let below = self.compare(nan_last, K::below(value), [no, yes])?;
        let below = self.push(below)?;
        self.compare(column, K::at_most(value), [below, no])
    }

    /// Whether `x` is in the ascending `set`, or NaN if that comes first.
    fn member(&mut self, column: Column, set: &[f64], next: [Next; 2]) -> Option<Split<K>> {
        match set {
            [] => self.compare(column, K::NAN_FIRST, next),
            &[value] => self.equal(column, value, next),
            _ => {
                let (low, high) = set.split_at(set.len() / 2);
                let halves = [low, high].map(|half| {
                    let split = self.member(column, half, next)?;
                    self.push(split)
                });
                let [low_half, high_half] = halves;
                let limit = low.last().map_or(K::NOTHING, |&last| K::at_most(last));
                self.compare(column, limit, [low_half?, high_half?])
            }
        }
    }

    fn push(&mut self, split: Split<K>) -> Option<Next> {
        let at = u32::try_from(self.splits.len()).ok()?;
        self.splits.push(split);
        Some(Next::Split(at))
    }

    /// The fewest steps from each split to a leaf, and no fewer than the most, with one more for each way
    /// that splits or roots share. Depth first, without recursion.
    pub(super) fn depths(&self, roots: &[Next]) -> Vec<[u32; 2]> {
        // bounded: by the attributes of the node
        let mut n_ways = vec![0_u32; self.splits.len()];
        let ways = self.splits.iter().flat_map(|split| &split.next).chain(roots);
        for next in ways {
            if let &Next::Split(at) = next {
                n_ways[at as usize] += 1;
            }
        }
        // bounded: by the attributes of the node
        let mut depths: Vec<Option<[u32; 2]>> = vec![None; self.splits.len()];
        for start in 0..self.splits.len() {
            let mut path = vec![start];
            while let Some(&at) = path.last() {
                let depth = |next| match next {
                    Next::Leaf(_) => Ok([1, 1]),
                    Next::Split(next) => {
                        let next = next as usize;
                        let [least, most] = depths[next].ok_or(next)?;
                        Ok([least + 1, most + 1 + u32::from(n_ways[next] > 1)])
                    }
                };
                match self.splits[at].next.map(depth) {
                    [Ok(a), Ok(b)] => {
                        depths[at] = Some([a[0].min(b[0]), a[1].max(b[1])]);
                        path.pop();
                    }
                    [Err(open), _] | [_, Err(open)] => path.push(open),
                }
            }
        }
        depths.into_iter().map(Option::unwrap_or_default).collect()
    }
}
