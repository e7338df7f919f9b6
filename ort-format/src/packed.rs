//! Two properties of tensors in our own files that the format has no field for: that its elements are left out, and that
//! it is a packed constant.
//!
//! Both are stored in the tensor's doc_string, so that such a file remains valid. A packed constant is stored among the
//! initializers of the constant's graph, as bytes that no node reads, under a name derived from constant and recipe.

use std::borrow::Cow;

use crate::enums::{DataType, DimensionValueType};
use crate::record::{self, TypeInfoValue};
use crate::view::Tensor;

/// The doc_string of a tensor without elements.
const RELEASED: &str = "elements withheld: packed forms only";
/// The prefix of the doc_string of a packed constant; the recipe's label follows.
const PACKED: &str = "packed: ";

impl<'a> Tensor<'a> {
    /// Whether the tensor's elements are left out, because all their readers use a packed constant.
    pub fn is_released(self) -> bool {
        self.doc_string() == Some(RELEASED) && self.raw_data().is_none()
    }

    /// For a packed constant: the name of the constant that was packed, and the label of the recipe.
    pub fn packed_form(self) -> Option<(&'a str, &'a str)> {
        let label = self.doc_string()?.strip_prefix(PACKED)?;
        let constant = self.name().strip_suffix(label)?.strip_suffix('#')?;
        Some((constant, label))
    }
}

impl record::Tensor<'_> {
    /// The tensor without its elements.
    #[must_use]
    pub fn released(self) -> Self {
        Self { doc_string: Some(RELEASED.into()), raw_data: None, ..self }
    }
}

/// The name of a packed constant.
fn name(constant: &str, label: &str) -> Cow<'static, str> {
    format!("{constant}#{label}").into()
}

fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

impl record::ValueInfo<'_> {
    /// The value info that ONNX Runtime (1.31) requires of every initializer, used or not.
    pub fn packed_form(constant: &str, label: &str, bytes: &[u8]) -> Self {
        let value = record::DimensionValue {
            dim_type: DimensionValueType::Value,
            dim_value: length(bytes),
            ..record::DimensionValue::default()
        };
        let dim = vec![record::Dimension { value, denotation: None }];
        let shape = Some(record::Shape { dim });
        let tensor = record::TensorTypeAndShape { elem_type: DataType::Uint8, shape };
        let value = Some(TypeInfoValue::Tensor(tensor));
        let type_info = Some(record::TypeInfo { denotation: None, value });
        Self { name: name(constant, label), type_info, ..Self::default() }
    }
}

impl<'a> record::Tensor<'a> {
    /// A packed constant.
    pub fn packed_form(constant: &str, label: &str, bytes: &'a [u8]) -> Self {
        Self {
            name: name(constant, label),
            doc_string: Some(format!("{PACKED}{label}").into()),
            dims: vec![length(bytes)],
            data_type: DataType::Uint8,
            raw_data: Some(bytes.into()),
            string_data: None,
        }
    }
}
