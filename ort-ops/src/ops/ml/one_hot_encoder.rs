//! OneHotEncoder: a row of zeros with a one at the index of the category.

// collects are bounded: by the rank

use std::sync::Arc;

use ort_graph::{Dim, Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Shape, by_pieces};

use crate::elementwise::unsupported;
use crate::features::is_feature;
use crate::infer::tensor_fact;
use crate::vocabulary::{Vocabulary, read_keys};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "OneHotEncoder",
    versions: (1, 1),
    types: is_encoded,
    build: OneHotEncoder::build,
}];

/// OneHotEncoder: `y[n…, c] = 1` (float) where `x[n…]` is category `c`, else 0. Floats are truncated to integers
/// first. Of repeated categories the last prevails.
///
/// Source: ONNX operator set ai.onnx.ml, OneHotEncoder-1. ONNX Runtime gives zeros for strings that are looked up
/// among integers, and vice versa; here they are errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneHotEncoder {
    categories: Vocabulary,
    /// How many elements a row has.
    pub n_categories: usize,
    /// Whether unknown categories give zeros instead of an error.
    pub is_unknown_zero: bool,
}

impl OneHotEncoder {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let categories = read_keys(spec, "cats_int64s", "cats_strings")?;
        Ok(Arc::new(Self {
            n_categories: categories.len(),
            categories: Vocabulary::new(categories.view())?,
            is_unknown_zero: spec.int("zeros")?.unwrap_or(1) != 0,
        }))
    }
}

const fn is_encoded(dtype: DType) -> bool {
    is_feature(dtype) || dtype.is_string()
}

impl Operator for OneHotEncoder {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let dtype = inputs.dtype(0, is_encoded)?;
        if (dtype == DType::String) != (self.categories.dtype() == DType::String) {
            return Err(unsupported(0, dtype));
        }
        let row = Dim::Known(self.n_categories);
        let dims = inputs.fact(0)?.dims();
        let dims = dims.map(|dims| dims.iter().cloned().chain([row]).collect());
        Ok(vec![tensor_fact(DType::F32, dims)])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.tensor(0)?;
        let shape: Shape = x.shape().iter().copied().chain([self.n_categories]).collect();
        let y = outputs[0].tensor(DType::F32, &shape)?.into_slice::<f32>()?;
        let (n, mut rest, mut is_unknown) = (self.n_categories, y, false);
        let write = |places: &[usize]| {
            let rows = rest.split_off_mut(..places.len() * n).unwrap_or_default();
            by_pieces(rows, |_, rows| rows.fill(0.0))?;
            for (row, &place) in rows.chunks_exact_mut(n.max(1)).zip(places) {
                match row.get_mut(place) {
                    Some(one) => *one = 1.0,
                    None => is_unknown = true,
                }
            }
            Ok(())
        };
        match x.dtype() {
            dtype if dtype.is_float() => self.categories.find_truncated(x, write)?,
            _ => self.categories.find_blocks(x, write)?,
        }
        if is_unknown && !self.is_unknown_zero {
            return Err(OpError::InputValue { index: 0, what: "unknown category" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use crate::case::{Case, tensor};
    use ort_tensor::Tensor;

    fn case(categories: &[i64]) -> Case {
        let categories = Attr::Ints(categories.to_vec());
        Case::new("OneHotEncoder", 1).domain("ai.onnx.ml").attr("cats_int64s", categories)
    }

    #[test]
    fn the_one_is_at_the_index_of_the_category() {
        let cases = [
            (tensor(&[2], &[4_i64, 1]), tensor(&[2, 3], &[0_f32, 0., 1., 1., 0., 0.])),
            (tensor(&[1, 1], &[3_i32]), tensor(&[1, 1, 3], &[0_f32; 3])),
            (tensor(&[], &[1.7_f32]), tensor(&[3], &[1_f32, 0., 0.])),
            (tensor(&[2], &[f64::NAN, 1e30]), tensor(&[2, 3], &[0_f32; 6])),
            (tensor(&[0], &[0_i64; 0]), tensor(&[0, 3], &[0_f32; 0])),
        ];
        for (x, y) in cases {
            assert_eq!(case(&[1, 0, 4]).tensor(std::slice::from_ref(&x)), Ok(y), "{x:?}");
        }
        assert_eq!(case(&[1, 1]).tensor(&[tensor(&[], &[1_i64])]), Ok(tensor(&[2], &[0_f32, 1.0])));
        assert_eq!(case(&[]).tensor(&[tensor(&[1], &[1_i64])]), Ok(tensor(&[1, 0], &[0_f32; 0])));
    }

    #[test]
    fn strings_can_be_categories_and_unknown_ones_an_error() {
        let x = |text: &str| Tensor::from_strings(&[1], vec![text.into()]).unwrap();
        let strings = Attr::Strings(vec!["a".into(), "b".into()]);
        let case = || {
            Case::new("OneHotEncoder", 1)
                .domain("ai.onnx.ml")
                .attr("cats_strings", strings.clone())
                .attr("zeros", Attr::Int(0))
        };
        assert_eq!(case().tensor(&[x("b")]), Ok(tensor(&[1, 2], &[0_f32, 1.0])));
        assert!(case().tensor(&[x("c")]).is_err());
        assert!(case().tensor(&[tensor(&[1], &[1_i64])]).is_err());
        assert!(case().attr("cats_int64s", Attr::Ints(vec![1])).tensor(&[x("b")]).is_err());
    }
}
