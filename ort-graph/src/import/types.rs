//! Declared types of a file.

use ort_format::TypeInfoValue;
use ort_tensor::DType;

use super::error::ImportError;
use super::tensor::dtype;
use crate::dim::{Dim, Dims};
use crate::fact::{TensorType, Type};

/// The type that a file declares of the value `name`. One without an element type is unknown.
///
/// # Errors
/// If an element type is none that ONNX has.
pub fn declared_type(
    info: Option<ort_format::TypeInfo<'_>>,
    name: &str,
) -> Result<Type, ImportError> {
    match info.and_then(|info| info.value()) {
        Some(TypeInfoValue::Tensor(tensor)) => {
            if i32::from(tensor.elem_type()) == 0 {
                return Ok(Type::Unknown);
            }
            let dtype = dtype(tensor.elem_type(), name)?;
            let dims = tensor.shape().map(|shape| shape.dim().iter().map(dim).collect::<Dims>());
            Ok(Type::Tensor(TensorType { dtype, dims }))
        }
        Some(TypeInfoValue::Sequence(sequence)) => {
            Ok(Type::Sequence(Box::new(declared_type(sequence.elem_type(), name)?)))
        }
        Some(TypeInfoValue::Map(map)) => {
            let key: DType = dtype(map.key_type(), name)?;
            Ok(Type::Map { key, value: Box::new(declared_type(map.value_type(), name)?) })
        }
        _ => Ok(Type::Unknown),
    }
}

/// A negative size is as good as none.
fn dim(dim: ort_format::Dimension<'_>) -> Dim {
    use ort_format::DimensionValueType as Kind;
    let value = dim.value();
    match value.dim_type() {
        Kind::Value => usize::try_from(value.dim_value()).map_or(Dim::Unknown, Dim::Known),
        Kind::Param => match value.dim_param() {
            Some(name) if !name.is_empty() => Dim::Symbol(name.into()),
            _ => Dim::Unknown,
        },
        _ => Dim::Unknown,
    }
}
