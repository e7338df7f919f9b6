//! CategoryMapper, and LabelEncoder version 1: strings to integers and back.

// collects are bounded: as long as the file's lists

use std::sync::Arc;

use ort_graph::{Fact, Facts, NodeSpec, OpDef, OpError, Operator};
use ort_tensor::{DType, Inputs, Output, Tensor};

use super::label_encoder::LabelEncoder;
use crate::elementwise::unsupported;

/// The definitions of this file.
pub const DEFS: &[OpDef] = &[
    OpDef {
        domain: "ai.onnx.ml",
        name: "CategoryMapper",
        versions: (1, 1),
        types: is_category,
        build: CategoryMapper::build,
    },
    OpDef {
        domain: "ai.onnx.ml",
        name: "LabelEncoder",
        versions: (1, 1),
        types: is_category,
        build: CategoryMapper::build_labels,
    },
];

/// CategoryMapper: maps the string `cats_strings[j]` to the int64 `cats_int64s[j]`, and vice versa. LabelEncoder-1
/// does so for `classes_strings[j]` and `j`. Of repeated categories the last prevails; unknown ones become the
/// default.
///
/// Source: ONNX operator set ai.onnx.ml, CategoryMapper-1, LabelEncoder-1.
#[derive(Clone, Debug, PartialEq)]
pub struct CategoryMapper {
    /// From strings to integers.
    pub to_integers: LabelEncoder,
    /// From integers to strings.
    pub to_strings: LabelEncoder,
}

impl CategoryMapper {
    fn build(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let missing = |name| OpError::MissingAttribute { name };
        let integers = spec.ints("cats_int64s")?.ok_or_else(|| missing("cats_int64s"))?;
        let strings = spec.strings("cats_strings")?.ok_or_else(|| missing("cats_strings"))?;
        Ok(Arc::new(Self::new(spec, integers, strings)?))
    }

    fn build_labels(spec: &NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError> {
        let name = "classes_strings";
        let strings = spec.strings(name)?.ok_or(OpError::MissingAttribute { name })?;
        let integers: Vec<i64> = (0..).take(strings.len()).collect();
        Ok(Arc::new(Self::new(spec, &integers, strings)?))
    }

    fn new(spec: &NodeSpec<'_>, integers: &[i64], strings: &[String]) -> Result<Self, OpError> {
        let integers = Tensor::from_slice(&[integers.len()], integers)?;
        let strings = Tensor::from_strings(&[strings.len()], strings.to_vec())?;
        let integer = Tensor::scalar(spec.int("default_int64")?.unwrap_or(-1));
        let text = spec.string("default_string")?.unwrap_or("_Unused");
        let text = Tensor::from_strings(&[], vec![text.to_owned()])?;
        Ok(Self {
            to_integers: LabelEncoder::new(&strings, &integers, &integer)?,
            to_strings: LabelEncoder::new(&integers, &strings, &text)?,
        })
    }

    fn of(&self, dtype: DType) -> Result<&LabelEncoder, OpError> {
        match dtype {
            DType::String => Ok(&self.to_integers),
            DType::I64 => Ok(&self.to_strings),
            other => Err(unsupported(0, other)),
        }
    }
}

const fn is_category(dtype: DType) -> bool {
    matches!(dtype, DType::String | DType::I64)
}

impl Operator for CategoryMapper {
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError> {
        self.of(inputs.dtype(0, is_category)?)?.infer(inputs)
    }

    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError> {
        self.of(inputs.tensor(0)?.dtype())?.eval(inputs, outputs)
    }
}

#[cfg(test)]
mod tests {
    use ort_graph::Attr;

    use super::*;
    use crate::case::{Case, tensor};

    fn strings(words: &[&str]) -> Tensor {
        Tensor::from_strings(&[words.len()], words.iter().map(|&w| w.into()).collect()).unwrap()
    }

    fn words(words: &[&str]) -> Attr {
        Attr::Strings(words.iter().map(|&word| word.into()).collect())
    }

    #[test]
    fn categories_go_both_ways() {
        let case = || {
            Case::new("CategoryMapper", 1)
                .domain("ai.onnx.ml")
                .attr("cats_int64s", Attr::Ints(vec![1, 2, 1]))
                .attr("cats_strings", words(&["a", "b", "c"]))
        };
        let y = case().tensor(&[strings(&["b", "x", "c"])]);
        assert_eq!(y, Ok(tensor(&[3], &[2_i64, -1, 1])));
        let y = case().tensor(&[tensor(&[3], &[1_i64, 2, 3])]);
        assert_eq!(y, Ok(strings(&["c", "b", "_Unused"])));
        let defaults = case()
            .attr("default_int64", Attr::Int(9))
            .attr("default_string", Attr::String("d".into()));
        assert_eq!(defaults.tensor(&[strings(&["x"])]), Ok(tensor(&[1], &[9_i64])));
        assert_eq!(defaults.tensor(&[tensor(&[1], &[7_i64])]), Ok(strings(&["d"])));
        assert!(case().tensor(&[tensor(&[1], &[7_i32])]).is_err());
        let longer = case().attr("cats_strings", words(&["a"]));
        assert!(longer.tensor(&[strings(&["a"])]).is_err());
    }

    #[test]
    fn labels_were_counted_first() {
        let case = || {
            Case::new("LabelEncoder", 1)
                .domain("ai.onnx.ml")
                .attr("classes_strings", words(&["a", "b", "a"]))
        };
        assert_eq!(case().tensor(&[strings(&["a", "b", "z"])]), Ok(tensor(&[3], &[2_i64, 1, -1])));
        let y = case().tensor(&[tensor(&[3], &[0_i64, 3, -1])]);
        assert_eq!(y, Ok(strings(&["a", "_Unused", "_Unused"])));
    }
}
