//! `TreeEnsemble` and `TreeEnsembleRegressor`: scores from the votes of decision trees.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Number, Output};

use crate::features::{Rows, is_feature, n_rows};
use crate::floats;
use crate::forest::{
    Aggregate, Forest, Names, Tally, read_base, read_by_id, read_by_index, read_n_targets,
};
use crate::scores::PostTransform;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "ai.onnx.ml",
        name: "TreeEnsemble",
        versions: (5, 5),
        types: DType::is_float,
        build: TreeEnsemble::build,
    },
    OpDef {
        domain: "ai.onnx.ml",
        name: "TreeEnsembleRegressor",
        versions: (1, 5),
        types: is_feature,
        build: TreeEnsemble::build_regressor,
    },
];

/// `y[n, t]` = the votes of every tree for target `t`, aggregated, plus `base_values[t]`, and
/// transformed.
///
/// `x`: `[N, F]` or `[F]`; `y`: `[N, n_targets]`, of the type of `x` for `TreeEnsemble`, float for
/// `TreeEnsembleRegressor`. A target without votes has its base value. Votes are summed in
/// double for double features, else in float.
///
/// ONNX Runtime 1.31 differs where this follows the specification: for `TreeEnsemble` it swaps softmax and logistic,
/// and truncates features that it looks up in a set with negative members; it ignores the base value of one of
/// several targets without votes.
///
/// Source: ONNX ML operator set, `TreeEnsemble-5` and `TreeEnsembleRegressor-5`.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeEnsemble {
    /// The trees.
    pub forest: Forest,
    /// How votes become scores.
    pub aggregate: Aggregate,
    /// What is added to the scores: none, or one value per target.
    pub base_values: Vec<f64>,
    /// The transform of the scores.
    pub post_transform: PostTransform,
    /// Whether this is a `TreeEnsembleRegressor`: features may be integers, scores are floats.
    pub is_regressor: bool,
}

impl TreeEnsemble {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        Ok(Arc::new(Self {
            forest: read_by_index(spec)?,
            aggregate: Aggregate::read_number(spec)?,
            base_values: Vec::new(),
            post_transform: PostTransform::read_number(spec)?,
            is_regressor: false,
        }))
    }

    fn build_regressor(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        const NAMES: Names = Names {
            ids: "target_ids",
            node_ids: "target_nodeids",
            tree_ids: "target_treeids",
            weights: "target_weights",
            weights_as_tensor: "target_weights_as_tensor",
        };
        let n_targets = read_n_targets(spec)?;
        Ok(Arc::new(Self {
            forest: read_by_id(spec, &NAMES, n_targets)?,
            aggregate: Aggregate::read(spec)?,
            base_values: read_base(spec, |n| n == n_targets)?,
            post_transform: PostTransform::read(spec)?,
            is_regressor: true,
        }))
    }

    /// The type of the scores for features of this type.
    pub const fn result_dtype(&self, dtype: DType) -> DType {
        if self.is_regressor { DType::F32 } else { dtype }
    }

    /// Computes the scores from the counted votes of a sample, each rounded to `R`.
    pub fn finish<R: Number>(&self, tally: &mut Tally) {
        tally.close::<R>(self.aggregate, self.forest.n_trees());
        tally.add::<R>(&self.base_values);
        self.post_transform.apply(&mut tally.scores);
    }

    fn scores<R: Number>(&self, rows: &Rows) -> Result<Vec<f64>, OpError> {
        let mut results = rows.results(self.forest.n_targets())?;
        let mut tally = Tally::new(&self.forest)?;
        for row in rows.iter(self.forest.cost()) {
            tally.count::<R>(&self.forest, self.aggregate, row?);
            self.finish::<R>(&mut tally);
            results.extend_from_slice(&tally.scores);
        }
        Ok(results)
    }
}

impl Operator for TreeEnsemble {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let allowed = if self.is_regressor { is_feature } else { DType::is_float };
        let n = n_rows(inputs, allowed)?;
        let dtype = self.result_dtype(inputs.dtype(0, allowed)?);
        Ok(vec![Fact::tensor(dtype, [n, Dim::Known(self.forest.n_targets())])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let dtype = inputs.tensor(0)?.dtype();
        let rows = Rows::read(inputs)?;
        self.forest.expect_features(rows.n_features)?;
        let scores = match dtype {
            DType::F64 => self.scores::<f64>(&rows)?,
            _ => self.scores::<f32>(&rows)?,
        };
        let shape = [rows.n, self.forest.n_targets()];
        floats::write(outputs, 0, self.result_dtype(dtype), &shape, &scores)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::Tensor;

    use crate::case::{Case, tensor};

    fn strings(values: &[&str]) -> Attr {
        Attr::Strings(values.iter().map(|&value| value.to_owned()).collect())
    }

    /// Two trees: `x₁ < 2 ? 1 : -3` for target 0, and a leaf with 10 for target 1.
    fn regressor() -> Case {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        Case::new("TreeEnsembleRegressor", 3)
            .domain("ai.onnx.ml")
            .attr("nodes_treeids", ints(&[5, 5, 5, 9]))
            .attr("nodes_nodeids", ints(&[0, 1, 2, 0]))
            .attr("nodes_modes", strings(&["BRANCH_LT", "LEAF", "LEAF", "LEAF"]))
            .attr("nodes_featureids", ints(&[1, 0, 0, 0]))
            .attr("nodes_values", Attr::Floats(vec![2.0, 0.0, 0.0, 0.0]))
            .attr("nodes_truenodeids", ints(&[1, 0, 0, 0]))
            .attr("nodes_falsenodeids", ints(&[2, 0, 0, 0]))
            .attr("target_treeids", ints(&[5, 9, 5]))
            .attr("target_nodeids", ints(&[1, 0, 2]))
            .attr("target_ids", ints(&[0, 1, 0]))
            .attr("target_weights", Attr::Floats(vec![1.0, 10.0, -3.0]))
            .attr("n_targets", Attr::Int(2))
    }

    #[test]
    fn features_of_every_type_give_floats_with_base_values() {
        let case = regressor().attr("base_values", Attr::Floats(vec![0.5, 1.0]));
        let y = tensor(&[2, 2], &[1.5_f32, 11.0, -2.5, 11.0]);
        let cases = [
            tensor(&[2, 2], &[0_f32, 1.0, 0.0, 2.0]),
            tensor(&[2, 2], &[0_f64, 1.0, 0.0, 2.0]),
            tensor(&[2, 2], &[0_i32, 1, 0, 2]),
            tensor(&[2, 2], &[0_i64, 1, 0, 2]),
        ];
        for x in cases {
            assert_eq!(case.tensor(&[x]), Ok(y.clone()));
        }
        assert_eq!(case.tensor(&[tensor::<f32>(&[0, 2], &[])]), Ok(tensor::<f32>(&[0, 2], &[])));
        assert_eq!(
            case.tensor(&[tensor(&[2], &[0_f32, 1.0])]),
            Ok(tensor(&[1, 2], &[1.5_f32, 11.0]))
        );
    }

    #[test]
    fn doubles_stand_in_tensors() {
        let doubles = |values: &[f64]| Attr::Tensor(tensor(&[values.len()], values));
        let split = 2.0 + 1e-12;
        let case = regressor()
            .attr("nodes_values", Attr::Floats(vec![]))
            .attr("nodes_values_as_tensor", doubles(&[split, 0.0, 0.0, 0.0]))
            .attr("base_values_as_tensor", doubles(&[0.25, 0.0]));
        let x: Tensor = tensor(&[2, 2], &[0.0, 2.0, 0.0, split]);
        assert_eq!(case.tensor(&[x]), Ok(tensor(&[2, 2], &[1.25_f32, 10.0, -2.75, 10.0])));
        let both = case.attr("base_values", Attr::Floats(vec![1.0, 2.0]));
        let error = both.tensor(&[tensor(&[1, 2], &[0.0, 0.0])]).unwrap_err();
        assert_eq!(
            error,
            "attribute `base_values_as_tensor` has the unsupported value floats in addition to `base_values`"
        );
    }

    #[test]
    fn dangling_ids_are_rejected() {
        let ints = |values: &[i64]| Attr::Ints(values.to_vec());
        let x = [tensor(&[1, 2], &[0_f32, 1.0])];
        let cases = [
            ("nodes_nodeids", ints(&[0, 1, 1, 0]), "node 1 of tree 5 twice"),
            ("nodes_truenodeids", ints(&[3, 0, 0, 0]), "node 3, which tree 5 does not have"),
            ("target_nodeids", ints(&[1, 1, 2]), "node 1, which tree 9 does not have"),
            ("nodes_treeids", ints(&[5, 5, 5]), "3 values where there are 4"),
            ("target_weights", Attr::Floats(vec![1.0]), "1 values where there are 3"),
            ("base_values", Attr::Floats(vec![1.0]), "1 values"),
            ("nodes_modes", strings(&["BRANCH_MEMBER", "LEAF", "LEAF", "LEAF"]), "BRANCH_MEMBER"),
        ];
        for (name, attr, found) in cases {
            let error = regressor().attr(name, attr).tensor(&x).unwrap_err();
            assert_eq!(error, format!("attribute `{name}` has the unsupported value {found}"));
        }
        let error = regressor().attr("nodes_falsenodeids", ints(&[0, 0, 0, 0])).tensor(&x);
        assert_eq!(error, Err("a tree with a cycle is not supported".to_owned()));
        let error = regressor().attr("target_ids", ints(&[0, 2, 0])).tensor(&x);
        assert!(error.unwrap_err().starts_with("the targets of a tree"));
    }
}
