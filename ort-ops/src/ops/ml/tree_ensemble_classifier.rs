//! `TreeEnsembleClassifier`: the class that decision trees vote for.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output, with_room};

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
/// Two classes follow ONNX Runtime, as the specification is silent: the second wins if its score,
/// or that of the first where it has no votes, is above 0, or above 0.5 if all trees vote for one
/// class and none against it (see [`Votes`]). Where only the first has votes, its score `s` is used for the second
/// class, and the first gets `-s`, or `1 - s` with the border at 0.5. A single base value belongs to the first class,
/// if that has votes.
///
/// ONNX Runtime uses wrong scores if the second class has votes and there are two base values,
/// and writes 0 or 1 instead of integer labels if both classes have votes; neither happens here.
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
    /// The transform of the scores.
    pub post_transform: PostTransform,
    /// The kind of votes of two classes.
    pub votes: Votes,
}

/// The kind of votes for two classes, over all trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Votes {
    /// For both, or the number of classes is not two.
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
        let n = labels.n_classes();
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

    /// The class of a sample from its counted votes, each rounded to `R`; they become its scores.
    pub fn finish<R: Number>(&self, tally: &mut Tally) -> usize {
        let n_classes = self.labels.n_classes();
        let has_base = !self.base_values.is_empty();
        if self.base_values.len() == n_classes || tally.is_voted[0] {
            tally.add::<R>(&self.base_values);
        }
        if n_classes == 1 {
            self.post_transform.apply(&mut tally.scores);
            return 0;
        }
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
        let is_lone = !has_second && self.base_values.len() < 2;
        match second.filter(|_| is_lone) {
            Some(second) => {
                tally.scores.copy_from_slice(&self.post_transform.both(score, second));
            }
            None => self.post_transform.apply(&mut tally.scores),
        }
        usize::from(score > border)
    }

    fn eval_rows<R: Number>(&self, rows: &Rows, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let mut scores = rows.results(self.labels.n_classes())?;
        let mut classes = with_room(rows.n)?;
        let mut tally = Tally::new(&self.forest)?;
        for row in rows.iter(self.forest.cost()) {
            tally.count::<R>(&self.forest, Aggregate::Sum, row?);
            classes.push(self.finish::<R>(&mut tally));
            scores.extend_from_slice(&tally.scores);
        }
        floats::write(outputs, 1, DType::F32, &[rows.n, self.labels.n_classes()], &scores)?;
        self.labels.write(outputs, &classes)
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
        let classes = Dim::Known(self.labels.n_classes());
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

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Value;

    use crate::case::{Case, tensor};

    /// One tree, `x < 0 ? left : right`, each with votes for classes.
    fn classifier(labels: &[i64], left: &[(i64, f32)], right: &[(i64, f32)]) -> Case {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let modes = ["BRANCH_LT", "LEAF", "LEAF"].map(str::to_owned).to_vec();
        let votes = || left.iter().map(|vote| (1, vote)).chain(right.iter().map(|vote| (2, vote)));
        Case::new("TreeEnsembleClassifier", 1)
            .domain("ai.onnx.ml")
            .outputs(2)
            .attr("nodes_treeids", ints(&[0; 3]))
            .attr("nodes_nodeids", ints(&[0, 1, 2]))
            .attr("nodes_modes", Attr::Strings(modes))
            .attr("nodes_featureids", ints(&[0; 3]))
            .attr("nodes_values", Attr::Floats(vec![0.0; 3]))
            .attr("nodes_truenodeids", ints(&[1, 0, 0]))
            .attr("nodes_falsenodeids", ints(&[2, 0, 0]))
            .attr("class_treeids", Attr::Ints(votes().map(|_| 0).collect()))
            .attr("class_nodeids", Attr::Ints(votes().map(|(node, _)| node).collect()))
            .attr("class_ids", Attr::Ints(votes().map(|(_, vote)| vote.0).collect()))
            .attr("class_weights", Attr::Floats(votes().map(|(_, vote)| vote.1).collect()))
            .attr("classlabels_int64s", ints(labels))
    }

    /// Checks labels and scores of both sides.
    fn check(case: &Case, labels: [i64; 2], scores: &[f32]) {
        let expected: Vec<Value> =
            vec![tensor(&[2], &labels).into(), tensor(&[2, scores.len() / 2], scores).into()];
        assert_eq!(case.run(&[tensor(&[2, 1], &[-1.0_f32, 1.0])]), Ok(expected));
    }

    #[test]
    fn the_class_with_most_votes_wins() {
        let case = classifier(&[7, 8, 9], &[(0, 0.25), (2, 0.5)], &[(1, -1.0)]);
        check(&case, [9, 8], &[0.25, 0.0, 0.5, 0.0, -1.0, 0.0]);
        let case = case.attr("base_values", Attr::Floats(vec![1.0, 0.0, 0.0]));
        check(&case, [7, 7], &[1.25, 0.0, 0.5, 1.0, -1.0, 0.0]);
    }

    #[test]
    fn votes_for_one_of_two_classes_are_those_of_the_second() {
        let positive = || classifier(&[7, 8], &[(0, 0.75)], &[(0, 0.5)]);
        check(&positive(), [8, 7], &[0.25, 0.75, 0.5, 0.5]);
        let signed = || classifier(&[7, 8], &[(0, 0.75)], &[(0, -0.5)]);
        check(&signed(), [8, 7], &[-0.75, 0.75, 0.5, -0.5]);
        let based = signed().attr("base_values", Attr::Floats(vec![1.0]));
        check(&based, [8, 8], &[-1.75, 1.75, -0.5, 0.5]);
        let logistic = classifier(&[7, 8], &[(0, 0.0)], &[(0, -200.0)]);
        let logistic = logistic.attr("post_transform", Attr::String("LOGISTIC".to_owned()));
        check(&logistic, [7, 7], &[0.5, 0.5, 1.0, 0.0]);
    }

    #[test]
    fn votes_for_both_classes_are_two_scores() {
        let case = classifier(&[7, 8], &[(0, 0.75), (1, 0.25)], &[(0, 0.5), (1, -0.25)]);
        check(&case, [8, 7], &[0.75, 0.25, 0.5, -0.25]);
        let case = case.attr("base_values", Attr::Floats(vec![1.0, 0.5]));
        check(&case, [8, 8], &[1.75, 0.75, 1.5, 0.25]);
        let even = classifier(&[7, 8], &[(0, 3.0), (1, 3.0)], &[(0, 1.0), (1, 1.0)]);
        let even = even.attr("post_transform", Attr::String("SOFTMAX".to_owned()));
        check(&even, [8, 8], &[0.5; 4]);
    }

    #[test]
    fn labels_may_be_strings_and_a_single_one_always_wins() {
        let names = Attr::Strings(["no", "yes"].map(str::to_owned).to_vec());
        let case = classifier(&[], &[(0, 0.75)], &[(0, 0.5)]).attr("classlabels_strings", names);
        let values = case.run(&[tensor(&[2, 1], &[-1.0_f32, 1.0])]).unwrap();
        let labels = values[0].as_tensor().unwrap();
        assert_eq!(labels.view().as_strings().unwrap(), ["yes", "no"]);
        check(&classifier(&[7], &[(0, 0.75)], &[(0, -0.5)]), [7, 7], &[0.75, -0.5]);
    }

    #[test]
    fn base_values_are_as_many_as_classes_or_one_of_two() {
        let x = [tensor(&[1, 1], &[0.0_f32])];
        for (labels, base) in [(&[7, 8, 9][..], 1), (&[7, 8, 9], 2), (&[7], 2), (&[7, 8], 3)] {
            let case = classifier(labels, &[(0, 0.75)], &[(0, 0.5)]);
            let case = case.attr("base_values", Attr::Floats(vec![1.0; base]));
            assert!(case.run(&x).is_err(), "{labels:?} {base}");
        }
    }
}
