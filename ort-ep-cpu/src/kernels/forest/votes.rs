//! The votes of leaves, counted tree by tree in the type in which scores are computed.

// collects are bounded: by the attributes of the node

use std::ops::AddAssign;

use ort_ops::forest::{Aggregate, Forest};
use ort_tensor::Number;

/// A type in which votes are counted: each sum is rounded to it.
pub(super) trait Score: Number + AddAssign {}

impl Score for f32 {}
impl Score for f64 {}

/// What leaves vote for.
#[derive(Debug)]
pub(super) enum Votes<R> {
    /// For one target, each leaf once. By place.
    One(Vec<R>),
    Many {
        /// The first vote of the leaf at each place, and how many there are.
        ranges: Vec<(usize, usize)>,
        votes: Vec<(usize, R)>,
    },
}

/// The scores of a block of samples, `[sample][target]`, and whether anybody voted for each.
#[derive(Debug)]
pub(super) struct Scores<'a, R> {
    pub(super) sums: &'a mut [R],
    pub(super) is_voted: &'a mut [u8],
}

impl<R: Score> Votes<R> {
    /// The votes of `forest`, whose leaf at each place is one of `leaves`.
    pub(super) fn new(forest: &Forest, leaves: &[u32]) -> Self {
        let weight = |weight| R::from_f64(weight);
        let by_leaf: Vec<_> = forest.leaves().collect();
        if forest.n_targets() == 1 && by_leaf.iter().all(|votes| votes.len() == 1) {
            let of = |&leaf: &u32| by_leaf.get(leaf as usize).map_or(0.0, |votes| votes[0].weight);
            return Self::One(leaves.iter().map(|leaf| weight(of(leaf))).collect());
        }
        // bounded: by the attributes of the node
        let mut firsts = Vec::with_capacity(by_leaf.len());
        let mut votes = Vec::new();
        for leaf in by_leaf {
            firsts.push((votes.len(), leaf.len()));
            votes.extend(leaf.iter().map(|vote| (vote.target as usize, weight(vote.weight))));
        }
        let range = |&leaf: &u32| firsts.get(leaf as usize).copied().unwrap_or_default();
        Self::Many { ranges: leaves.iter().map(range).collect(), votes }
    }

    /// Counts the votes of one tree: that of the leaf at `places[sample]`.
    pub(super) fn count(&self, by: Aggregate, places: &[u32], scores: &mut Scores<'_, R>) {
        match by {
            Aggregate::Average | Aggregate::Sum => {
                self.each(places, scores, |score, _, weight| *score += weight);
            }
            Aggregate::Min => self.each(places, scores, |score, is_first, weight| {
                *score = if is_first || weight < *score { weight } else { *score };
            }),
            Aggregate::Max => self.each(places, scores, |score, is_first, weight| {
                *score = if is_first || weight > *score { weight } else { *score };
            }),
        }
    }

    /// `add(score, whether it is the first, weight)` for each vote.
    fn each(&self, places: &[u32], scores: &mut Scores<'_, R>, add: impl Fn(&mut R, bool, R)) {
        let Scores { sums, is_voted } = scores;
        match self {
            Self::One(weights) => {
                let scores = sums.iter_mut().zip(is_voted.iter_mut());
                for (&place, (sum, is_voted)) in places.iter().zip(scores) {
                    add(sum, *is_voted == 0, weights[place as usize]);
                    *is_voted = 1;
                }
            }
            Self::Many { ranges, votes } => {
                let n_targets = sums.len() / places.len();
                for (i, &place) in places.iter().enumerate() {
                    let (first, n) = ranges[place as usize];
                    for &(target, weight) in &votes[first..][..n] {
                        let at = i * n_targets + target;
                        add(&mut sums[at], is_voted[at] == 0, weight);
                        is_voted[at] = 1;
                    }
                }
            }
        }
    }
}
