//! `TreeEnsembleClassifier`: the class that decision trees vote for.

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output};

use crate::features::{Rows, is_feature, n_rows};
use crate::floats;
use crate::forest::{Aggregate, Forest, Names, Tally, read_base, read_by_id};
use crate::labels::ClassLabels;
use crate::scores::{PostTransform, Second};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "TreeEnsembleClassifier",
    versions: (1, 5),
    types: is_feature,
    build: TreeEnsembleClassifier::build,
}];

/// `z[n, c]` = the sum of the votes of every tree for class `c`, plus `base_values[c]`, and
/// transformed; `y[n]` = the label of the class with the most votes.
///
/// `x`: `[N, F]` or `[F]`; `y`: `[N]`, integers or strings; `z`: `[N, C]` float.
///
/// Two classes follow ONNX Runtime, as the specification is silent: where only the first has
/// votes, its score `s` is that of the second class, the first gets `1 - s` or `-s` (see
/// [`Votes`]), and the border is 0.5 or 0; where the second has votes, it wins if it is above 0.
/// ONNX Runtime drops the votes of the second class if there are two base values, and writes 0 or
/// 1 instead of integer labels if both classes have votes; here neither happens.
///
/// Source: ONNX ML operator set, `TreeEnsembleClassifier-5`.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeEnsembleClassifier {
    /// The trees.
    pub forest: Forest,
    /// The labels of the classes.
    pub labels: ClassLabels,
    /// What is added to the scores.
    pub base_values: Vec<f64>,
    /// What is done with the scores.
    pub post_transform: PostTransform,
    /// What the votes of two classes are.
    pub votes: Votes,
}

/// What the votes for two classes are, all trees taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Votes {
    /// For both, or there are not two.
    Several,
    /// For one class, none negative: a probability.
    OnePositive,
    /// For one class, of either sign: a distance from the border.
    OneSigned,
}

impl TreeEnsembleClassifier {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        const NAMES: Names = Names {
            ids: "class_ids",
            node_ids: "class_nodeids",
            tree_ids: "class_treeids",
            weights: "class_weights",
            weights_as_tensor: "class_weights_as_tensor",
        };
        let labels = ClassLabels::read(spec, "classlabels_int64s", "classlabels_strings")?;
        let n = labels.len();
        let forest = read_by_id(spec, &NAMES, n)?;
        let votes = Votes::of(&forest);
        Ok(Arc::new(Self {
            forest,
            base_values: read_base(spec, |found| found == n || (n == 2 && found == 1))?,
            post_transform: PostTransform::read(spec)?,
            votes,
            labels,
        }))
    }

    /// The class of a sample; its votes become its scores.
    fn finish<R: Number>(&self, tally: &mut Tally) -> usize {
        let n_classes = self.labels.len();
        let has_base = !self.base_values.is_empty();
        tally.add::<R>(&self.base_values);
        if n_classes > 2 {
            let voted = (0..n_classes).filter(|&i| has_base || tally.is_voted[i]);
            let scores = &tally.scores;
            let class = voted.reduce(|best, i| if scores[i] > scores[best] { i } else { best });
            self.post_transform.apply(&mut tally.scores);
            return class.unwrap_or(0);
        }
        let has_second = tally.is_voted.get(1) == Some(&true);
        let score = tally.scores[usize::from(has_second)];
        let (border, second) = match self.votes {
            Votes::OnePositive => (0.5, Some(Second::Complement)),
            Votes::OneSigned => (0.0, Some(Second::Negated)),
            Votes::Several => (0.0, (!has_base).then_some(Second::Negated)),
        };
        let is_lone = n_classes == 2 && !has_second && self.base_values.len() < 2;
        match second.filter(|_| is_lone) {
            Some(second) => {
                tally.scores.copy_from_slice(&self.post_transform.both(score, second));
            }
            None => self.post_transform.apply(&mut tally.scores),
        }
        usize::from(score > border)
    }

    fn eval_rows<R: Number>(&self, rows: &Rows, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let mut scores = rows.results(self.labels.len())?;
        let mut classes = Vec::with_capacity(rows.n);
        let mut tally = Tally::new(&self.forest)?;
        for row in rows.iter() {
            tally.count::<R>(&self.forest, Aggregate::Sum, row);
            classes.push(self.finish::<R>(&mut tally));
            scores.extend_from_slice(&tally.scores);
        }
        floats::write(outputs, 1, DType::F32, &[rows.n, self.labels.len()], &scores)?;
        match self.labels.len() {
            1 => self.labels.of_two().write(outputs, &classes),
            _ => self.labels.write(outputs, &classes),
        }
    }
}

impl Votes {
    fn of(forest: &Forest) -> Self {
        let votes = forest.all_votes();
        let is_of_one = votes.windows(2).all(|pair| pair[0].target == pair[1].target);
        match votes.iter().all(|vote| vote.weight >= 0.0) {
            _ if !is_of_one || votes.is_empty() || forest.n_targets() != 2 => Self::Several,
            true => Self::OnePositive,
            false => Self::OneSigned,
        }
    }
}

impl Operator for TreeEnsembleClassifier {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let n = n_rows(inputs, is_feature)?;
        let classes = Dim::Known(self.labels.len());
        let labels = Fact::tensor(self.labels.dtype(), [n.clone()]);
        Ok(vec![labels, Fact::tensor(DType::F32, [n, classes])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let rows = Rows::read(inputs)?;
        self.forest.expect_features(rows.n_features)?;
        match inputs.tensor(0)?.dtype() {
            DType::F64 => self.eval_rows::<f64>(&rows, outputs),
            _ => self.eval_rows::<f32>(&rows, outputs),
        }
    }
}
