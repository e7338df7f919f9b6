//! `OrtTypeInfo`: the type of a value, and its parts.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;

use ort_session::{DType, Type};
use ort_sys::{ONNXTensorElementDataType, ONNXType};

use crate::element_type::number;
use crate::ffi::{Out, OutHandle, OutRef, export};
use crate::tensor_info::TensorInfo;

/// A type.
#[derive(Debug)]
pub(crate) enum TypeInfo {
    Unknown,
    Tensor(TensorInfo),
    Sequence(SequenceInfo),
    Map(MapInfo),
    Optional(OptionalInfo),
}

/// The item type of a sequence.
#[derive(Debug)]
pub(crate) struct SequenceInfo(Type);

/// The key and value types of a map.
#[derive(Debug)]
pub(crate) struct MapInfo(DType, Type);

/// The type in an optional.
#[derive(Debug)]
pub(crate) struct OptionalInfo(Type);

impl TypeInfo {
    pub(crate) fn of(ty: &Type) -> Self {
        match ty {
            Type::Tensor(tensor) => Self::Tensor(TensorInfo::of_type(tensor)),
            Type::Sequence(item) => Self::Sequence(SequenceInfo((**item).clone())),
            Type::Map { key, value } => Self::Map(MapInfo(*key, (**value).clone())),
            Type::Optional(item) => Self::Optional(OptionalInfo((**item).clone())),
            _ => Self::Unknown,
        }
    }

    pub(crate) fn to_type(&self) -> Type {
        match self {
            Self::Unknown => Type::Unknown,
            Self::Tensor(tensor) => tensor.to_type().map_or(Type::Unknown, Type::Tensor),
            Self::Sequence(SequenceInfo(item)) => Type::Sequence(Box::new(item.clone())),
            Self::Map(MapInfo(key, value)) => {
                Type::Map { key: *key, value: Box::new(value.clone()) }
            }
            Self::Optional(OptionalInfo(item)) => Type::Optional(Box::new(item.clone())),
        }
    }

    const fn onnx_type(&self) -> ONNXType {
        match self {
            Self::Unknown => ONNXType::ONNX_TYPE_UNKNOWN,
            Self::Tensor(_) => ONNXType::ONNX_TYPE_TENSOR,
            Self::Sequence(_) => ONNXType::ONNX_TYPE_SEQUENCE,
            Self::Map(_) => ONNXType::ONNX_TYPE_MAP,
            Self::Optional(_) => ONNXType::ONNX_TYPE_OPTIONAL,
        }
    }
}

export! {
    fn GetOnnxTypeFromTypeInfo(type_info: &TypeInfo, out: Out<'_, ONNXType>) {
        out.set(type_info.onnx_type());
        Ok(())
    }

    /// Null for other types.
    fn CastTypeInfoToTensorInfo(type_info: &TypeInfo, out: OutRef<'_, TensorInfo>) {
        match type_info {
            TypeInfo::Tensor(tensor) => out.set(tensor),
            _ => out.set_none(),
        }
        Ok(())
    }

    /// Null for other types.
    fn CastTypeInfoToMapTypeInfo(type_info: &TypeInfo, out: OutRef<'_, MapInfo>) {
        match type_info {
            TypeInfo::Map(map) => out.set(map),
            _ => out.set_none(),
        }
        Ok(())
    }

    /// Null for other types.
    fn CastTypeInfoToSequenceTypeInfo(type_info: &TypeInfo, out: OutRef<'_, SequenceInfo>) {
        match type_info {
            TypeInfo::Sequence(sequence) => out.set(sequence),
            _ => out.set_none(),
        }
        Ok(())
    }

    /// Null for other types.
    fn CastTypeInfoToOptionalTypeInfo(type_info: &TypeInfo, out: OutRef<'_, OptionalInfo>) {
        match type_info {
            TypeInfo::Optional(optional) => out.set(optional),
            _ => out.set_none(),
        }
        Ok(())
    }

    /// Empty: a graph does not keep denotations.
    fn GetDenotationFromTypeInfo(
        _type_info: &TypeInfo,
        denotation: Out<'_, *const c_char>,
        len: Out<'_, usize>,
    ) {
        denotation.set(c"".as_ptr());
        len.set(0);
        Ok(())
    }

    fn GetMapKeyType(map_type_info: &MapInfo, out: Out<'_, ONNXTensorElementDataType>) {
        out.set(number(Some(map_type_info.0)));
        Ok(())
    }

    fn GetMapValueType(map_type_info: &MapInfo, type_info: OutHandle<'_, TypeInfo>) {
        type_info.set(TypeInfo::of(&map_type_info.1));
        Ok(())
    }

    fn GetSequenceElementType(
        sequence_type_info: &SequenceInfo,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        type_info.set(TypeInfo::of(&sequence_type_info.0));
        Ok(())
    }

    fn GetOptionalContainedTypeInfo(
        optional_type_info: &OptionalInfo,
        out: OutHandle<'_, TypeInfo>,
    ) {
        out.set(TypeInfo::of(&optional_type_info.0));
        Ok(())
    }

    fn ReleaseTypeInfo(type_info: Option<Box<TypeInfo>>) -> () = (); {
        drop(type_info);
        Ok(())
    }

    /// Does nothing: it is owned by the type that it is part of.
    fn ReleaseMapTypeInfo(_map: *mut ort_sys::OrtMapTypeInfo) -> () = (); {
        Ok(())
    }

    /// Does nothing: it is owned by the type that it is part of.
    fn ReleaseSequenceTypeInfo(_sequence: *mut ort_sys::OrtSequenceTypeInfo) -> () = (); {
        Ok(())
    }
}
