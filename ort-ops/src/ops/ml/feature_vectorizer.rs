//! FeatureVectorizer: concatenates the features of several inputs.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, TensorView, filled};

use crate::features::{is_feature, numbers};
use crate::floats;
use crate::infer::dims_product;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "FeatureVectorizer",
    versions: (1, 1),
    types: is_feature,
    build: FeatureVectorizer::build,
}];

/// `y[n] = x₀[n] ‖ x₁[n] ‖ …`, as float, each truncated or padded with zeros to its length.
///
/// `xᵢ`: `[N, Cᵢ]` or `[Cᵢ]`; further dimensions count as features. `y`: `[N, Σ lengths]`.
///
/// Source: ONNX ML operator set, `FeatureVectorizer-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureVectorizer {
    /// The number of features of each input in the result; all if absent.
    pub lengths: Option<Vec<usize>>,
}

impl FeatureVectorizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "inputdimensions";
        let Some(given) = spec.ints(name)? else { return Ok(Arc::new(Self { lengths: None })) };
        let lengths = given.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<_>>>();
        match lengths.filter(|lengths| lengths.len() == spec.inputs.len()) {
            Some(lengths) => Ok(Arc::new(Self { lengths: Some(lengths) })),
            None => Err(OpError::AttributeValue { name, found: format!("{given:?}") }),
        }
    }

    /// The length of input `i`, which has `own` features.
    pub fn length(&self, i: usize, own: usize) -> usize {
        self.lengths.as_ref().and_then(|lengths| lengths.get(i).copied()).unwrap_or(own)
    }
}

fn rows_of(x: TensorView<'_>) -> Result<(usize, usize), OpError> {
    samples_and_features(x.shape())
}

/// Samples and features of an input of this shape.
///
/// # Errors
/// If it is a scalar, or there are too many features.
pub fn samples_and_features(shape: &[usize]) -> Result<(usize, usize), OpError> {
    match shape {
        [] => Err(OpError::InputRank { index: 0, expected: "at least 1", found: 0 }),
        [features] => Ok((1, *features)),
        [n, features @ ..] => {
            let features = features.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
            Ok((*n, features.ok_or(OpError::TooLarge)?))
        }
    }
}

impl Operator for FeatureVectorizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let (mut n, mut width) = (Dim::Unknown, Dim::Known(0));
        for i in 0..inputs.len() {
            inputs.dtype(i, is_feature)?;
            let (rows, own) = match inputs.get(i).and_then(Fact::dims) {
                None => (Dim::Unknown, Dim::Unknown),
                Some([]) => {
                    return Err(OpError::InputRank { index: i, expected: "at least 1", found: 0 });
                }
                Some([features]) => (Dim::Known(1), features.clone()),
                Some([rows, features @ ..]) => (rows.clone(), dims_product(features)),
            };
            n = n.unify(&rows).ok_or_else(|| differ(n.known(), rows.known()))?;
            let length = match &self.lengths {
                None => own,
                Some(_) => Dim::Known(self.length(i, 0)),
            };
            width = width.zip(&length, usize::checked_add);
        }
        Ok(vec![Fact::tensor(DType::F32, [n, width])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let (n, _) = rows_of(inputs.tensor(0)?)?;
        let mut width = 0_usize;
        for i in 0..inputs.len() {
            let (rows, own) = rows_of(inputs.tensor(i)?)?;
            expect_samples(rows, n)?;
            width = width.checked_add(self.length(i, own)).ok_or(OpError::TooLarge)?;
        }
        let mut y = filled(0.0, n.checked_mul(width).ok_or(OpError::TooLarge)?)?;
        let mut start = 0;
        for i in 0..inputs.len() {
            let x = inputs.tensor(i)?;
            let (_, own) = rows_of(x)?;
            let (values, length) = (numbers(i, x)?, self.length(i, own));
            // Samples without features are skipped: there may be any number of them.
            for row in 0..if width == 0 { 0 } else { n } {
                let from = &values[row * own..][..own.min(length)];
                y[row * width + start..][..from.len()].copy_from_slice(from);
            }
            start += length;
        }
        floats::write(outputs, 0, DType::F32, &[n, width], &y)
    }
}

/// That an input has as many samples as the first.
///
/// # Errors
/// If it has not.
pub fn expect_samples(found: usize, first: usize) -> Result<(), OpError> {
    if found == first { Ok(()) } else { Err(differ(Some(first), Some(found))) }
}

fn differ(left: Option<usize>, right: Option<usize>) -> OpError {
    let what = "the numbers of samples";
    OpError::Shapes { what, left: left.into_iter().collect(), right: right.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};

    #[test]
    fn inputs_are_cut_or_filled_to_their_lengths() {
        let vectorizer = || Case::new("FeatureVectorizer", 1).domain("ai.onnx.ml");
        let x = [tensor(&[2, 2], &[1_i64, 2, 3, 4]), tensor(&[2, 1], &[5_i64, 6])];
        let y = tensor(&[2, 3], &[1_f32, 2.0, 5.0, 3.0, 4.0, 6.0]);
        assert_eq!(vectorizer().tensor(&x), Ok(y));
        let case = vectorizer().attr("inputdimensions", Attr::Ints(vec![1, 2]));
        let y = tensor(&[2, 3], &[1_f32, 5.0, 0.0, 3.0, 6.0, 0.0]);
        assert_eq!(case.tensor(&x), Ok(y));
        let row = [tensor(&[2], &[1_f64, 2.0]), tensor(&[1], &[3_f64])];
        assert_eq!(case.tensor(&row), Ok(tensor(&[1, 3], &[1_f32, 3.0, 0.0])));
    }

    #[test]
    fn samples_and_lengths_must_be_as_many() {
        let case = Case::new("FeatureVectorizer", 1).domain("ai.onnx.ml");
        let x = [tensor(&[2, 1], &[1_i64, 2]), tensor(&[1, 1], &[5_i64])];
        let error = case.tensor(&x).unwrap_err();
        assert_eq!(error, "the numbers of samples: [2] does not fit [1]");
        for lengths in [vec![1], vec![1, -1], vec![i64::MAX, i64::MAX]] {
            let case = Case::new("FeatureVectorizer", 1).domain("ai.onnx.ml");
            let case = case.attr("inputdimensions", Attr::Ints(lengths));
            assert!(case.tensor(&x).is_err());
        }
    }
}
