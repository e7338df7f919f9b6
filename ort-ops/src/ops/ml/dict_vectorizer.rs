//! DictVectorizer: the values of a map for each key of a vocabulary.

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor};

use crate::infer::map_types;
use crate::vocabulary::{Vocabulary, pick, read_keys};

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[OpDef {
    domain: "ai.onnx.ml",
    name: "DictVectorizer",
    versions: (1, 1),
    types: is_value,
    build: DictVectorizer::build,
}];

/// DictVectorizer: `y[0, i] = x[vocabulary[i]]`, and zero or an empty string where the map `x` has
/// no such key. Keys that are not in the vocabulary are ignored.
///
/// Source: ONNX operator set ai.onnx.ml, DictVectorizer-1; the shape `[1, V]` is ONNX Runtime's.
#[derive(Clone, Debug, PartialEq)]
pub struct DictVectorizer {
    /// The keys: integers or strings.
    pub vocabulary: Tensor,
}

impl DictVectorizer {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let vocabulary = read_keys(spec, "int64_vocabulary", "string_vocabulary")?;
        Ok(Arc::new(Self { vocabulary }))
    }
}

const fn is_value(dtype: DType) -> bool {
    matches!(dtype, DType::String | DType::I64) || dtype.is_float()
}

/// Keys and values have different types.
fn is_allowed(key: DType, value: DType) -> bool {
    matches!(key, DType::String | DType::I64) && is_value(value) && key != value
}

impl Operator for DictVectorizer {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        let (key, value) = map_types(inputs, 0, is_allowed)?;
        if key != self.vocabulary.dtype() {
            return Err(OpError::Unsupported {
                what: "a vocabulary of another type than the keys",
            });
        }
        Ok(vec![Fact::shaped(value, &[1, self.vocabulary.len()])])
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        let x = inputs.value(0)?.map()?;
        let places = Vocabulary::new(x.keys.view())?.find(self.vocabulary.view())?;
        let y = outputs[0].tensor(x.values.dtype(), &[1, places.len()])?;
        Ok(pick(x.values.view(), &places, y)?)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;
    use ort_tensor::{Map, Value};

    use super::*;
    use crate::case::{Case, tensor};

    fn strings(shape: &[usize], words: &[&str]) -> Tensor {
        Tensor::from_strings(shape, words.iter().map(|&w| w.into()).collect()).unwrap()
    }

    fn run(name: &'static str, vocabulary: Attr, keys: Tensor, values: Tensor) -> Option<Value> {
        let case = Case::new("DictVectorizer", 1).domain("ai.onnx.ml").attr(name, vocabulary);
        let map = Some(Value::Map(Map { keys, values }));
        case.run_values(&[map]).ok().map(|mut values| values.remove(0))
    }

    #[test]
    fn values_stand_where_the_vocabulary_has_their_keys() {
        let ints = |keys: &[i64], values| {
            run("int64_vocabulary", Attr::Ints(vec![3, 2, 3]), tensor(&[keys.len()], keys), values)
        };
        let y = tensor(&[1, 3], &[1.5, 0.0, 1.5]);
        assert_eq!(ints(&[3, 9], tensor(&[2], &[1.5, 2.5])), Some(y.into()));
        assert_eq!(
            ints(&[2], strings(&[1], &["b"])),
            Some(strings(&[1, 3], &["", "b", ""]).into())
        );
        assert_eq!(ints(&[], tensor(&[0], &[0_f32; 0])), Some(tensor(&[1, 3], &[0_f32; 3]).into()));
        assert_eq!(ints(&[2], tensor(&[1], &[1_i64])), None);
        let words = || Attr::Strings(vec!["a".into(), "b".into()]);
        let y = run("string_vocabulary", words(), strings(&[1], &["b"]), tensor(&[1], &[5_i64]));
        assert_eq!(y, Some(tensor(&[1, 2], &[0_i64, 5]).into()));
        let wrong =
            run("string_vocabulary", words(), tensor(&[1], &[1_i64]), tensor(&[1], &[5_f32]));
        assert_eq!(wrong, None);
    }

    #[test]
    fn only_maps_are_taken() {
        let case = Case::new("DictVectorizer", 1)
            .domain("ai.onnx.ml")
            .attr("int64_vocabulary", Attr::Ints(vec![1]));
        assert!(case.run(&[tensor(&[1], &[1_f32])]).is_err());
    }
}
