//! Values that hold values: `SequenceProto`, `MapProto` and `OptionalProto`.

use bytes::Bytes;
use ort_onnx::schema::{MapProto, OptionalProto, SequenceProto, TensorProto, elem_type};
use ort_onnx::{ElementsError, strings};
use ort_tensor::{DType, Map, Tensor, Value, with_dtype};

use super::error::PbError;
use super::tensor::{from_tensor, to_bytes, to_tensor};

pub(super) fn to_sequence(proto: SequenceProto) -> Result<Vec<Value>, PbError> {
    match proto.elem_type {
        elem_type::TENSOR => {
            proto.tensor_values.into_iter().map(|p| Ok(Value::Tensor(to_tensor(p)?))).collect()
        }
        elem_type::SEQUENCE => proto
            .sequence_values
            .into_iter()
            .map(|p| Ok(Value::Sequence(to_sequence(p)?)))
            .collect(),
        elem_type::MAP => {
            proto.map_values.into_iter().map(|p| Ok(Value::Map(to_map(p)?))).collect()
        }
        elem_type::OPTIONAL => proto
            .optional_values
            .into_iter()
            .map(|p| Ok(Value::Optional(to_optional(p)?)))
            .collect(),
        number => Err(PbError::ElemType { kind: "sequence", number }),
    }
}

/// An empty sequence is written as one of tensors: its kind is unknown.
pub(super) fn from_sequence(name: &str, values: &[Value]) -> Result<SequenceProto, PbError> {
    let mut proto = SequenceProto {
        name: name.to_owned(),
        elem_type: values.first().map_or(Ok(elem_type::TENSOR), elem_type_of)?,
        ..SequenceProto::default()
    };
    for (index, value) in values.iter().enumerate() {
        if elem_type_of(value)? != proto.elem_type {
            let (expected, found) = (values[0].kind(), value.kind());
            return Err(PbError::MixedSequence { index, expected, found });
        }
        match value {
            Value::Tensor(tensor) => proto.tensor_values.push(from_tensor("", tensor)?),
            Value::Sequence(values) => proto.sequence_values.push(from_sequence("", values)?),
            Value::Map(map) => proto.map_values.push(from_map("", map)?),
            Value::Optional(value) => {
                proto.optional_values.push(from_optional("", value.as_deref())?);
            }
            other => return Err(PbError::NoFile { kind: other.kind() }),
        }
    }
    Ok(proto)
}

/// `None`, for any declared kind, if its field is absent.
pub(super) fn to_optional(proto: OptionalProto) -> Result<Option<Box<Value>>, PbError> {
    let value = match proto.elem_type {
        elem_type::UNDEFINED => None,
        elem_type::TENSOR => proto.tensor_value.map(to_tensor).transpose()?.map(Value::Tensor),
        elem_type::SEQUENCE => {
            proto.sequence_value.map(to_sequence).transpose()?.map(Value::Sequence)
        }
        elem_type::MAP => proto.map_value.map(to_map).transpose()?.map(Value::Map),
        elem_type::OPTIONAL => {
            proto.optional_value.map(|p| to_optional(*p)).transpose()?.map(Value::Optional)
        }
        number => return Err(PbError::ElemType { kind: "optional", number }),
    };
    Ok(value.map(Box::new))
}

pub(super) fn from_optional(name: &str, value: Option<&Value>) -> Result<OptionalProto, PbError> {
    let mut proto = OptionalProto {
        name: name.to_owned(),
        elem_type: value.map_or(Ok(elem_type::UNDEFINED), elem_type_of)?,
        ..OptionalProto::default()
    };
    match value {
        None => {}
        Some(Value::Tensor(tensor)) => proto.tensor_value = Some(from_tensor("", tensor)?),
        Some(Value::Sequence(values)) => proto.sequence_value = Some(from_sequence("", values)?),
        Some(Value::Map(map)) => proto.map_value = Some(from_map("", map)?),
        Some(Value::Optional(value)) => {
            proto.optional_value = Some(Box::new(from_optional("", value.as_deref())?));
        }
        Some(other) => return Err(PbError::NoFile { kind: other.kind() }),
    }
    Ok(proto)
}

/// The values of a map are a sequence of tensors of one element each, one for each key.
pub(super) fn to_map(proto: MapProto) -> Result<Map, PbError> {
    let number = proto.key_type;
    let dtype = DType::from_onnx(number).ok_or(ElementsError::DType { number })?;
    let keys = if dtype == DType::String {
        let keys = strings(&proto.string_keys)?;
        Tensor::from_strings(&[keys.len()], keys)?
    } else {
        integer_keys(dtype, proto.keys)?
    };
    let values = proto.values.map_or(Ok(Vec::new()), |values| tensors(values.tensor_values))?;
    check_length(&keys, values.len())?;
    Ok(Map { keys, values: joined(&values)? })
}

pub(super) fn from_map(name: &str, map: &Map) -> Result<MapProto, PbError> {
    check_length(&map.keys, map.values.len())?;
    let dtype = map.keys.dtype();
    let keys = with_dtype!(dtype, integer, T => {
        let keys = map.keys.as_slice::<T>()?.iter().enumerate();
        keys.map(|(index, &key)| key_to_i64(dtype, index, key.into())).collect::<Result<_, _>>()?
    }, else => Vec::new());
    let string_keys = map.keys.view().as_strings().map_or_else(|_| Ok(Vec::new()), to_bytes)?;
    if keys.is_empty() && string_keys.is_empty() && !map.keys.is_empty() {
        return Err(PbError::MapKeys { dtype });
    }
    let values = SequenceProto {
        elem_type: elem_type::TENSOR,
        tensor_values: split(&map.values)?,
        ..SequenceProto::default()
    };
    Ok(MapProto {
        name: name.to_owned(),
        key_type: dtype.onnx(),
        keys,
        string_keys,
        values: Some(values),
    })
}

fn elem_type_of(value: &Value) -> Result<i32, PbError> {
    match value {
        Value::Tensor(_) => Ok(elem_type::TENSOR),
        Value::Sequence(_) => Ok(elem_type::SEQUENCE),
        Value::Map(_) => Ok(elem_type::MAP),
        Value::Optional(_) => Ok(elem_type::OPTIONAL),
        other => Err(PbError::NoFile { kind: other.kind() }),
    }
}

fn check_length(keys: &Tensor, n_values: usize) -> Result<(), PbError> {
    if keys.len() == n_values {
        return Ok(());
    }
    Err(PbError::MapLength { n_keys: keys.len(), n_values })
}

fn integer_keys(dtype: DType, keys: Vec<i64>) -> Result<Tensor, PbError> {
    with_dtype!(dtype, integer, T => {
        let key = |(index, &key): (usize, &i64)| {
            T::try_from(key).map_err(|_| PbError::OutOfRange { dtype, index, value: key.into() })
        };
        let keys = keys.iter().enumerate().map(key).collect::<Result<Vec<T>, _>>()?;
        Ok(Tensor::from_slice(&[keys.len()], &keys)?)
    }, else => Err(PbError::MapKeys { dtype }))
}

fn key_to_i64(dtype: DType, index: usize, value: i128) -> Result<i64, PbError> {
    i64::try_from(value).map_err(|_| PbError::OutOfRange { dtype, index, value })
}

fn tensors(protos: Vec<TensorProto>) -> Result<Vec<Tensor>, PbError> {
    protos.into_iter().map(to_tensor).collect()
}

/// One tensor of rank 1 from tensors of one element each; float if there are none.
fn joined(values: &[Tensor]) -> Result<Tensor, PbError> {
    let dtype = values.first().map_or(DType::F32, Tensor::dtype);
    let (mut bytes, mut strings) = (Vec::new(), Vec::new());
    for (index, value) in values.iter().enumerate() {
        if value.dtype() != dtype || value.len() != 1 || dtype.is_packed() {
            return Err(PbError::MapValue { index });
        }
        bytes.extend_from_slice(value.view().as_bytes().unwrap_or_default());
        strings.extend_from_slice(value.view().as_strings().unwrap_or_default());
    }
    let shape = [values.len()];
    Ok(match dtype {
        DType::String => Tensor::from_strings(&shape, strings)?,
        _ => Tensor::from_bytes(dtype, &shape, Bytes::from(bytes))?,
    })
}

/// The elements of a tensor, each as a scalar.
fn split(values: &Tensor) -> Result<Vec<TensorProto>, PbError> {
    let view = values.view();
    if let Ok(strings) = view.as_strings() {
        let scalar = |string: &String| Tensor::from_strings(&[], vec![string.clone()]);
        return strings.iter().map(|s| from_tensor("", &scalar(s)?)).collect();
    }
    let Some(n_bytes) = values.dtype().word_bytes() else {
        return Err(PbError::MapValue { index: 0 });
    };
    let scalars = view.as_bytes().unwrap_or_default().chunks_exact(n_bytes);
    let scalar =
        |bytes: &[u8]| Tensor::from_bytes(values.dtype(), &[], Bytes::copy_from_slice(bytes));
    scalars.map(|bytes| from_tensor("", &scalar(bytes)?)).collect()
}
