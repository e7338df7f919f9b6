//! LinearClassifier: the class with the largest weighted sum of the features.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, with_room};

use crate::features::{Rows, is_feature, n_rows};
use crate::floats;
use crate::labels::ClassLabels;
use crate::linear::LinearModel;
use crate::scores::{PostTransform, Second, argmax};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "LinearClassifier",
    versions: (1, 1),
    types: is_feature,
    build: LinearClassifier::build,
}];

/// `z[n, c] = intercepts[c] + Σ coefficients[c, f] · x[n, f]`, transformed; `y[n]` = the label of
/// the largest before that.
///
/// `x`: `[N, F]` or `[F]`; `y`: `[N]`, integers or strings; `z`: `[N, C]` float. A single score is
/// that of the second of two classes, which wins above zero; as in ONNX Runtime `z` is then `[1 - s, s]`, under
/// LOGISTIC with its probability. There are as many scores as intercepts, or as classes without intercepts.
///
/// Source: ONNX ML operator set, `LinearClassifier-1`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearClassifier {
    /// The weights.
    pub model: LinearModel,
    /// The labels of the classes.
    pub labels: ClassLabels,
    /// The transform of the scores.
    pub post_transform: PostTransform,
}

impl LinearClassifier {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        // One-vs-rest training does not change the sums.
        spec.ignore("multi_class");
        let labels = ClassLabels::read(spec, "classlabels_ints", "classlabels_strings")?;
        let model = LinearModel::read(spec, labels.n_classes())?;
        let n = model.n_targets();
        let is_binary = n == 1 && labels.n_classes() == 2;
        if n != labels.n_classes() && !is_binary {
            let found = format!("{n} values for {} classes", labels.n_classes());
            return Err(OpError::AttributeValue { name: "intercepts", found });
        }
        Ok(Arc::new(Self { model, labels, post_transform: PostTransform::read(spec)? }))
    }
}

impl Operator for LinearClassifier {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let n = n_rows(inputs, is_feature)?;
        let labels = Fact::tensor(self.labels.dtype(), [n.clone()]);
        Ok(vec![labels, Fact::tensor(DType::F32, [n, Dim::Known(self.labels.n_classes())])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let rows = Rows::read(inputs)?;
        rows.expect_features(self.model.n_features())?;
        let mut results = rows.results(self.labels.n_classes())?;
        let mut classes = with_room(rows.n)?;
        let mut scores = with_room(self.model.n_targets())?;
        for row in rows.iter(self.model.cost()) {
            scores.clear();
            scores.extend(self.model.scores(row?));
            match scores[..] {
                [score] if self.labels.n_classes() == 2 => {
                    classes.push(usize::from(score > 0.0));
                    results.extend(self.post_transform.both(score, Second::Complement));
                }
                _ => {
                    classes.push(argmax(&scores));
                    self.post_transform.apply(&mut scores);
                    results.append(&mut scores);
                }
            }
        }
        floats::write(outputs, 1, DType::F32, &[rows.n, self.labels.n_classes()], &results)?;
        self.labels.write(outputs, &classes)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Tensor, Value};

    use crate::case::{Case, tensor};

    fn classifier(coefficients: &[f32], intercepts: &[f32]) -> Case {
        Case::new("LinearClassifier", 1)
            .domain("ai.onnx.ml")
            .outputs(2)
            .attr("coefficients", Attr::Floats(coefficients.to_vec()))
            .attr("intercepts", Attr::Floats(intercepts.to_vec()))
    }

    fn values(y: Tensor, z: Tensor) -> Result<Vec<Value>, String> {
        Ok(vec![y.into(), z.into()])
    }

    #[test]
    fn the_largest_score_wins_the_first_of_equals_too() {
        let case = classifier(&[1.0, -1.0, 1.0], &[0.0, 0.0, 0.0])
            .attr("classlabels_ints", Attr::Ints(vec![7, -8, 9]));
        let x = tensor(&[2, 1], &[2_i64, -2]);
        let z = tensor(&[2, 3], &[2.0_f32, -2.0, 2.0, -2.0, 2.0, -2.0]);
        assert_eq!(case.run(&[x]), values(tensor(&[2], &[7_i64, -8]), z));
    }

    #[test]
    fn a_single_score_is_that_of_the_second_class() {
        let labels = |labels: &[&str]| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            Attr::Strings(labels)
        };
        let strings = |a: &str, b: &str| {
            Tensor::from_strings(&[2], vec![a.to_owned(), b.to_owned()]).unwrap()
        };
        let x = tensor(&[2, 1], &[0.25_f32, -0.5]);
        for transform in ["NONE", "SOFTMAX", "SOFTMAX_ZERO"] {
            let case = classifier(&[1.0], &[0.0])
                .attr("classlabels_strings", labels(&["no", "yes"]))
                .attr("post_transform", Attr::String(transform.to_owned()));
            let z = tensor(&[2, 2], &[0.75_f32, 0.25, 1.5, -0.5]);
            assert_eq!(case.run(std::slice::from_ref(&x)), values(strings("yes", "no"), z));
        }
        let case = classifier(&[4.0], &[-1.0])
            .attr("classlabels_strings", labels(&["no", "yes"]))
            .attr("post_transform", Attr::String("LOGISTIC".to_owned()));
        let x = tensor(&[2, 1], &[0.25_f32, f32::INFINITY]);
        let z = tensor(&[2, 2], &[0.5_f32, 0.5, 0.0, 1.0]);
        assert_eq!(case.run(&[x]), values(strings("no", "yes"), z));
    }

    #[test]
    fn labels_must_be_there_and_as_many_as_intercepts() {
        let x = [tensor(&[1, 1], &[0.0_f32])];
        let case = classifier(&[1.0, 2.0], &[0.0, 0.0]);
        assert_eq!(case.run(&x), Err("attribute `classlabels_ints` is missing".to_owned()));
        let case = case.attr("classlabels_ints", Attr::Ints(vec![1, 2, 3]));
        let error = "attribute `intercepts` has the unsupported value 2 values for 3 classes";
        assert_eq!(case.run(&x), Err(error.to_owned()));
    }
}
