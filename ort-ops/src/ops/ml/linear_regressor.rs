//! LinearRegressor: a weighted sum of the features for each target.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::features::{Rows, is_feature, n_rows};
use crate::floats;
use crate::linear::LinearModel;
use crate::scores::PostTransform;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "LinearRegressor",
    versions: (1, 1),
    types: is_feature,
    build: LinearRegressor::build,
}];

/// `y[n, t] = intercepts[t] + Σ coefficients[t, f] · x[n, f]`, transformed.
///
/// `x`: `[N, F]` or `[F]`; `y`: `[N, targets]` float.
///
/// Source: ONNX ML operator set, `LinearRegressor-1`.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearRegressor {
    /// The weights.
    pub model: LinearModel,
    /// The transform of the scores.
    pub post_transform: PostTransform,
}

impl LinearRegressor {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let targets = spec.int("targets")?.unwrap_or(1);
        let wrong = || OpError::AttributeValue { name: "targets", found: targets.to_string() };
        let n_targets = usize::try_from(targets).ok().filter(|&n| n > 0).ok_or_else(wrong)?;
        let model = LinearModel::read(spec, n_targets)?;
        if model.n_targets() != n_targets {
            return Err(wrong());
        }
        Ok(Arc::new(Self { model, post_transform: PostTransform::read(spec)? }))
    }
}

impl Operator for LinearRegressor {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let n = n_rows(inputs, is_feature)?;
        Ok(vec![Fact::tensor(DType::F32, [n, Dim::Known(self.model.n_targets())])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let rows = Rows::read(inputs)?;
        rows.expect_features(self.model.n_features())?;
        let mut results = rows.results(self.model.n_targets())?;
        for row in rows.iter(self.model.cost()) {
            let start = results.len();
            results.extend(self.model.scores(row?));
            self.post_transform.apply(&mut results[start..]);
        }
        floats::write(outputs, 0, DType::F32, &[rows.n, self.model.n_targets()], &results)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    fn regressor() -> Case {
        Case::new("LinearRegressor", 1)
            .domain("ai.onnx.ml")
            .attr("coefficients", Attr::Floats(vec![1.0, 2.0, 0.5, -1.0]))
            .attr("intercepts", Attr::Floats(vec![10.0, 20.0]))
            .attr("targets", Attr::Int(2))
    }

    #[test]
    fn features_of_every_type_give_floats() {
        let y = tensor(&[2, 2], &[14.0_f32, 20.0, 9.0, 19.5]);
        let cases = [
            tensor(&[2, 2], &[2.0_f32, 1.0, -1.0, 0.0]),
            tensor(&[2, 2], &[2.0_f64, 1.0, -1.0, 0.0]),
            tensor(&[2, 2], &[2_i32, 1, -1, 0]),
            tensor(&[2, 2], &[2_i64, 1, -1, 0]),
        ];
        for x in cases {
            assert_eq!(regressor().tensor(&[x]), Ok(y.clone()));
        }
    }

    #[test]
    fn a_vector_is_one_sample_and_no_samples_give_no_rows() {
        let row = tensor(&[2], &[2.0_f32, 1.0]);
        assert_eq!(regressor().tensor(&[row]), Ok(tensor(&[1, 2], &[14.0_f32, 20.0])));
        let none = tensor::<f32>(&[0, 2], &[]);
        assert_eq!(regressor().tensor(&[none]), Ok(tensor::<f32>(&[0, 2], &[])));
    }

    #[test]
    fn another_number_of_features_or_targets_is_refused() {
        let wide = tensor(&[1, 3], &[0.0_f32; 3]);
        let error = regressor().tensor(&[wide]).unwrap_err();
        assert_eq!(error, "the features of a sample and those of the model: [3] does not fit [2]");
        for targets in [0, 1, 3, i64::MAX, -1] {
            let case = regressor().attr("targets", Attr::Int(targets));
            let error = case.tensor(&[tensor(&[1, 2], &[0.0_f32; 2])]).unwrap_err();
            assert_eq!(error, format!("attribute `targets` has the unsupported value {targets}"));
        }
    }
}
