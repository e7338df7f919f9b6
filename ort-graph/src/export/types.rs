//! Types and tensors in the form of a file.

// collects are bounded: as long as the graph's lists

use std::borrow::Cow;

use ort_format::{DataType, DimensionValueType, record};
use ort_tensor::{DType, Tensor, TensorError};

use super::ExportError;
use crate::dim::Dim;
use crate::fact::Type;

/// A value's name and type.
pub(super) fn value_info<'a>(
    name: Cow<'a, str>,
    ty: &'a Type,
) -> Result<record::ValueInfo<'a>, ExportError> {
    let Some(info) = type_info(ty) else {
        return Err(ExportError::Type { value: name.into_owned(), ty: Box::new(ty.clone()) });
    };
    Ok(record::ValueInfo { name, doc_string: None, type_info: Some(info) })
}

/// The type; `None` for one that the format cannot represent.
fn type_info(ty: &Type) -> Option<record::TypeInfo<'_>> {
    let value = match ty {
        Type::Tensor(tensor) => record::TypeInfoValue::Tensor(record::TensorTypeAndShape {
            elem_type: data_type(tensor.dtype),
            shape: tensor.dims.as_deref().map(shape),
        }),
        Type::Sequence(item) => {
            let elem_type = Some(type_info(item)?);
            record::TypeInfoValue::Sequence(Box::new(record::SequenceType { elem_type }))
        }
        Type::Map { key, value } => record::TypeInfoValue::Map(Box::new(record::MapType {
            key_type: data_type(*key),
            value_type: Some(type_info(value)?),
        })),
        Type::Optional(_) | Type::Unknown => return None,
    };
    Some(record::TypeInfo { denotation: None, value: Some(value) })
}

fn shape(dims: &[Dim]) -> record::Shape<'_> {
    record::Shape { dim: dims.iter().map(dimension).collect() }
}

fn dimension(dim: &Dim) -> record::Dimension<'_> {
    use DimensionValueType as Kind;
    let (dim_type, dim_value, dim_param) = match dim {
        // No dimension that a run can have is out of range.
        Dim::Known(n) => (Kind::Value, i64::try_from(*n).unwrap_or(i64::MAX), None),
        Dim::Symbol(name) => (Kind::Param, 0, Some(Cow::Borrowed(&**name))),
        Dim::Unknown => (Kind::Unknown, 0, None),
    };
    let value = record::DimensionValue { dim_type, dim_value, dim_param };
    record::Dimension { value, denotation: None }
}

/// A tensor; its elements stay where they are, or are computed if that was deferred.
///
/// # Errors
/// If there is no memory for what was deferred.
pub(super) fn tensor<'a>(
    name: Cow<'a, str>,
    tensor: &'a Tensor,
) -> Result<record::Tensor<'a>, ExportError> {
    let view = tensor.unaligned_view();
    let (raw, strings) = (view.as_bytes(), view.as_strings().ok());
    if raw.is_none() && strings.is_none() && !tensor.is_released() {
        let error = view.as_words::<u8>().err().unwrap_or(TensorError::Ended);
        return Err(ExportError::Elements { constant: name.into_owned(), error });
    }
    let record = record::Tensor {
        name,
        doc_string: None,
        // An existing tensor has no more elements than memory has bytes, or one dimension is 0.
        dims: view.shape().iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect(),
        data_type: data_type(view.dtype()),
        raw_data: raw.map(Cow::Borrowed),
        string_data: strings.map(|all| all.iter().map(|text| text.as_str().into()).collect()),
    };
    Ok(if tensor.is_released() { record.released() } else { record })
}

fn data_type(dtype: DType) -> DataType {
    dtype.onnx().into()
}
