//! What the operators make of votes: scores, and maybe a class.

use std::any::Any;

use ort_graph::Operator;
use ort_ops::forest::{Aggregate, Forest, Tally};
use ort_ops::ops::ml::tree_ensemble::TreeEnsemble;
use ort_ops::ops::ml::tree_ensemble_classifier::TreeEnsembleClassifier;
use ort_tensor::{DType, Number};

use super::votes::{Score, Scores};

/// What is made of the votes.
#[derive(Clone, Copy)]
pub(super) enum Model<'a> {
    Scores(&'a TreeEnsemble),
    Classes(&'a TreeEnsembleClassifier),
}

impl<'a> Model<'a> {
    pub(super) fn of(op: &'a dyn Operator) -> Option<Self> {
        let op: &dyn Any = op;
        let scores = op.downcast_ref().map(Self::Scores);
        scores.or_else(|| op.downcast_ref().map(Self::Classes))
    }

    pub(super) fn forest(self) -> &'a Forest {
        match self {
            Self::Scores(op) => &op.forest,
            Self::Classes(op) => &op.forest,
        }
    }

    pub(super) fn aggregate(self) -> Aggregate {
        match self {
            Self::Scores(op) => op.aggregate,
            Self::Classes(_) => Aggregate::Sum,
        }
    }

    /// The place and the type of the output that has the scores.
    pub(super) fn scores(self, dtype: DType) -> (usize, DType) {
        match self {
            Self::Scores(op) => (0, op.result_dtype(dtype)),
            Self::Classes(_) => (1, DType::F32),
        }
    }

    /// Makes scores of votes; the class, if there are classes.
    fn finish<R: Number>(self, tally: &mut Tally) -> usize {
        match self {
            Self::Scores(op) => {
                op.finish::<R>(tally);
                0
            }
            Self::Classes(op) => op.finish::<R>(tally),
        }
    }
}

/// Results from the votes for a block of samples.
pub(super) fn finish<R: Score, U: Number>(
    model: Model<'_>,
    scores: &Scores<'_, R>,
    tally: &mut Tally,
    (y, classes): (&mut [U], &mut [usize]),
) {
    let n_targets = model.forest().n_targets();
    let (mut y, mut classes) = (y.chunks_exact_mut(n_targets), classes.iter_mut());
    let votes = scores.sums.chunks_exact(n_targets).zip(scores.is_voted.chunks_exact(n_targets));
    for (sums, is_voted) in votes {
        tally.scores.iter_mut().zip(sums).for_each(|(score, sum)| *score = sum.to_f64());
        tally.is_voted.iter_mut().zip(is_voted).for_each(|(to, from)| *to = *from != 0);
        let class = model.finish::<R>(tally);
        if let Some(y) = y.next() {
            y.iter_mut().zip(&tally.scores).for_each(|(y, &score)| *y = U::from_f64(score));
        }
        if let Some(found) = classes.next() {
            *found = class;
        }
    }
}
