//! The aggregation of the votes of trees.

use ort_graph::{NodeSpec, OpError};
use ort_tensor::{Number, filled};

use super::Forest;

/// How the votes for a target become its score.
///
/// Source: ONNX ML operator set, `aggregate_function` of `TreeEnsemble-5`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum, divided by the number of trees.
    Average,
    /// Their sum.
    Sum,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
}

impl Aggregate {
    /// The attribute `aggregate_function` as a string; the sum if it is absent.
    ///
    /// # Errors
    /// If there is no such function.
    pub(crate) fn read(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(match spec.string("aggregate_function")?.unwrap_or("SUM") {
            "AVERAGE" => Self::Average,
            "SUM" => Self::Sum,
            "MIN" => Self::Min,
            "MAX" => Self::Max,
            other => return Err(wrong(other)),
        })
    }

    /// The attribute `aggregate_function` as a number; the sum if it is absent.
    ///
    /// # Errors
    /// If there is no such function.
    pub(crate) fn read_number(spec: &NodeSpec<'_>) -> Result<Self, OpError> {
        Ok(match spec.int("aggregate_function")?.unwrap_or(1) {
            0 => Self::Average,
            1 => Self::Sum,
            2 => Self::Min,
            3 => Self::Max,
            other => return Err(wrong(other)),
        })
    }
}

fn wrong(found: impl ToString) -> OpError {
    OpError::AttributeValue { name: "aggregate_function", found: found.to_string() }
}

/// The scores of one sample.
#[derive(Debug)]
pub struct Tally {
    /// One score per target, zero without votes.
    pub scores: Vec<f64>,
    /// Whether a target has votes.
    pub is_voted: Vec<bool>,
}

impl Tally {
    /// An allocation for the scores of the targets of `forest`.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(forest: &Forest) -> Result<Self, OpError> {
        let n = forest.n_targets();
        Ok(Self { scores: filled(0.0, n)?, is_voted: filled(false, n)? })
    }

    /// Counts the votes for a sample, which has all features. Each step is rounded to `R`: the label of a sample
    /// close to the border depends on it, and ONNX Runtime computes in the type of the features.
    pub(crate) fn count<R: Number>(&mut self, forest: &Forest, by: Aggregate, sample: &[f64]) {
        self.scores.fill(0.0);
        self.is_voted.fill(false);
        for vote in forest.votes(sample).flatten() {
            let target = vote.target as usize;
            let (score, weight) = (&mut self.scores[target], round::<R>(vote.weight));
            let is_first = !std::mem::replace(&mut self.is_voted[target], true);
            match by {
                Aggregate::Average | Aggregate::Sum => *score = round::<R>(*score + weight),
                Aggregate::Min if is_first || weight < *score => *score = weight,
                Aggregate::Max if is_first || weight > *score => *score = weight,
                Aggregate::Min | Aggregate::Max => {}
            }
        }
    }

    /// Finishes after the votes of all trees are counted: an average is divided by their number.
    pub(crate) fn close<R: Number>(&mut self, by: Aggregate, n_trees: usize) {
        if by == Aggregate::Average {
            let n_trees = f64::from(u32::try_from(n_trees).unwrap_or(u32::MAX));
            self.scores.iter_mut().for_each(|score| *score = round::<R>(*score / n_trees));
        }
    }

    /// Adds to each score its base value, if there are any.
    pub(crate) fn add<R: Number>(&mut self, base: &[f64]) {
        for (score, base) in self.scores.iter_mut().zip(base) {
            *score = round::<R>(*score + round::<R>(*base));
        }
    }
}

/// The value nearest to `x` of type `R`: sums and quotients of such values, rounded again, equal arithmetic in `R`.
pub(crate) fn round<R: Number>(x: f64) -> f64 {
    R::from_f64(x).to_f64()
}
