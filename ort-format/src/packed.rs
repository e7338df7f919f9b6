//! What our own files may say of a tensor that the format has no field for: that its elements are not there, or that
//! it is a form of a constant that some kernel reads instead of the constant.
//!
//! Both are said in the tensor's prose, so that such a file stays one of the format. A form stands among the
//! initializers of its constant's graph, as bytes that no node reads, under a name that follows from both.

use std::borrow::Cow;

use crate::enums::{DataType, DimensionValueType};
use crate::record::{self, TypeInfoValue};
use crate::view::Tensor;

/// The doc_string of a tensor without elements.
const RELEASED: &str = "elements withheld: packed forms only";
/// What the doc_string of a packed form begins with; its label follows.
const PACKED: &str = "packed: ";

impl<'a> Tensor<'a> {
    /// Whether the tensor says that its elements are not there. They were left out where everybody reads a packed form.
    pub fn is_released(self) -> bool {
        self.doc_string() == Some(RELEASED) && self.raw_data().is_none()
    }

    /// If the tensor is a packed form: the name of the constant that it is made of, and the label that tells how.
    pub fn packed_form(self) -> Option<(&'a str, &'a str)> {
        let label = self.doc_string()?.strip_prefix(PACKED)?;
        let constant = self.name().strip_suffix(label)?.strip_suffix('#')?;
        Some((constant, label))
    }
}

impl record::Tensor<'_> {
    /// The same without its elements.
    #[must_use]
    pub fn released(self) -> Self {
        Self { doc_string: Some(RELEASED.into()), raw_data: None, ..self }
    }
}

/// What a packed form is called.
fn name(constant: &str, label: &str) -> Cow<'static, str> {
    format!("{constant}#{label}").into()
}

fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

impl record::ValueInfo<'_> {
    /// What ONNX Runtime (1.31) wants of every initializer, be it one that no node reads.
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
    /// A packed form of `constant`.
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
