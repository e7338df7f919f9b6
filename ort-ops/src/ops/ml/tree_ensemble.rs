//! `TreeEnsemble` and `TreeEnsembleRegressor`: scores from the votes of decision trees.

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
/// `TreeEnsembleRegressor`. A target that nobody votes for has its base value.
///
/// Source: ONNX ML operator set, `TreeEnsemble-5` and `TreeEnsembleRegressor-5`.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeEnsemble {
    /// The trees.
    pub forest: Forest,
    /// How votes become scores.
    pub aggregate: Aggregate,
    /// What is added to the scores: nothing, or one value a target.
    pub base_values: Vec<f64>,
    /// What is done with the scores.
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

    fn result_dtype(&self, dtype: DType) -> DType {
        if self.is_regressor { DType::F32 } else { dtype }
    }

    fn scores<R: Number>(&self, rows: &Rows) -> Result<Vec<f64>, OpError> {
        let mut results = rows.results(self.forest.n_targets())?;
        let mut tally = Tally::new(&self.forest)?;
        for row in rows.iter() {
            tally.count::<R>(&self.forest, self.aggregate, row);
            tally.add::<R>(&self.base_values);
            self.post_transform.apply(&mut tally.scores);
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
