//! Types as a `.onnx` file declares them.

// collects are bounded: as long as the file's lists

use ort_onnx::schema::{DimensionProto, TensorTypeProto, TypeProto, ValueInfoProto};
use ort_tensor::DType;

use super::{Text, Value};
use crate::dim::{Dim, Dims};
use crate::fact::{TensorType, Type};

pub(super) fn value(value: ValueInfoProto) -> Value<'static> {
    let mut ty = value.r#type;
    let shape = ty.as_mut().and_then(|ty| ty.tensor_type.as_mut()?.shape.as_mut());
    let dims = shape.into_iter().flat_map(|shape| &mut shape.dim);
    let denotations = dims.map(|dim| Text::from(std::mem::take(&mut dim.denotation))).collect();
    Value { name: value.name.into(), ty: declared(ty.as_ref()), denotations }
}

/// One without an element type, and one of a kind that no operator takes, is unknown.
pub(super) fn declared(ty: Option<&TypeProto>) -> Result<Type, i32> {
    let Some(ty) = ty else { return Ok(Type::Unknown) };
    if let Some(tensor) = &ty.tensor_type {
        return declared_tensor(tensor);
    }
    if let Some(sequence) = &ty.sequence_type {
        return Ok(Type::Sequence(Box::new(declared(sequence.elem_type.as_deref())?)));
    }
    if let Some(map) = &ty.map_type {
        let value = Box::new(declared(map.value_type.as_deref())?);
        return Ok(Type::Map { key: dtype(map.key_type)?, value });
    }
    if let Some(optional) = &ty.optional_type {
        return Ok(Type::Optional(Box::new(declared(optional.elem_type.as_deref())?)));
    }
    Ok(Type::Unknown)
}

fn declared_tensor(tensor: &TensorTypeProto) -> Result<Type, i32> {
    if tensor.elem_type == 0 {
        return Ok(Type::Unknown);
    }
    let dtype = dtype(tensor.elem_type)?;
    let dims = tensor.shape.as_ref().map(|shape| shape.dim.iter().map(dim).collect::<Dims>());
    Ok(Type::Tensor(TensorType { dtype, dims }))
}

fn dtype(number: i32) -> Result<DType, i32> {
    DType::from_onnx(number).ok_or(number)
}

/// A negative size means unknown.
fn dim(dim: &DimensionProto) -> Dim {
    match (&dim.dim_value, &dim.dim_param) {
        (Some(value), _) => usize::try_from(*value).map_or(Dim::Unknown, Dim::Known),
        (None, Some(name)) if !name.is_empty() => Dim::Symbol(name.as_str().into()),
        _ => Dim::Unknown,
    }
}
