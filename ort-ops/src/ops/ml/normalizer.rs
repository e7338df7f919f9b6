//! Normalizer: divides each sample by its norm.

// collects are bounded: into checked allocations

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output};

use crate::elementwise::shaped_like_first;
use crate::features::{Rows, is_feature, n_rows};
use crate::floats;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "Normalizer",
    versions: (1, 1),
    types: is_feature,
    build: Normalizer::build,
}];

/// `y[n, f] = x[n, f] / ‖x[n]‖`, as float; a sample whose norm is zero is unchanged.
///
/// `x`: `[N, F]` or `[F]`.
///
/// Source: ONNX ML operator set, `Normalizer-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalizer {
    /// The norm.
    pub norm: Norm,
}

/// The norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// The largest feature, with its sign; NaN is ignored.
    Max,
    /// `Σ |x|`.
    L1,
    /// `√Σ x²`.
    L2,
}

impl Normalizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let norm = match spec.string("norm")?.unwrap_or("MAX") {
            "MAX" => Norm::Max,
            "L1" => Norm::L1,
            "L2" => Norm::L2,
            other => {
                return Err(OpError::AttributeValue { name: "norm", found: other.to_owned() });
            }
        };
        Ok(Arc::new(Self { norm }))
    }
}

impl Operator for Normalizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        n_rows(inputs, is_feature)?;
        Ok(vec![shaped_like_first(inputs, DType::F32)?])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let rows = Rows::read(inputs)?;
        let mut y = rows.results(rows.n_features)?;
        // Samples without features are skipped: there may be any number of them.
        for row in rows.iter(rows.n_features) {
            let row = row?;
            if row.is_empty() {
                break;
            }
            let norm = match self.norm {
                Norm::Max => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                Norm::L1 => row.iter().map(|x| x.abs()).sum(),
                Norm::L2 => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
            };
            y.extend(row.iter().map(|x| if norm == 0.0 { *x } else { x / norm }));
        }
        floats::write(outputs, 0, DType::F32, inputs.tensor(0)?.shape(), &y)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn each_sample_is_divided_by_its_own_norm() {
        let x = [tensor(&[3, 2], &[3_i64, -4, 0, 0, -4, -2])];
        let cases = [
            ("MAX", [1.0_f32, -4.0 / 3.0, 0.0, 0.0, 2.0, 1.0]),
            ("L1", [3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0, -4.0 / 6.0, -2.0 / 6.0]),
            ("L2", [0.6, -0.8, 0.0, 0.0, -4.0 / 20_f32.sqrt(), -2.0 / 20_f32.sqrt()]),
        ];
        for (norm, y) in cases {
            let case = Case::new("Normalizer", 1).domain("ai.onnx.ml");
            let case = case.attr("norm", Attr::String(norm.to_owned()));
            assert_eq!(case.tensor(&x), Ok(tensor(&[3, 2], &y)), "{norm}");
        }
    }

    #[test]
    fn a_vector_is_one_sample_and_more_than_a_matrix_is_refused() {
        let case = Case::new("Normalizer", 1).domain("ai.onnx.ml");
        let y = tensor(&[2], &[0.5_f32, 1.0]);
        assert_eq!(case.tensor(&[tensor(&[2], &[1_f64, 2.0])]), Ok(y));
        let error = case.tensor(&[tensor(&[1, 1, 1], &[1_f32])]).unwrap_err();
        assert_eq!(error, "input 0 should have rank 1 or 2, but has rank 3");
    }
}
