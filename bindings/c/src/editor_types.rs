//! The types of values in a model that a program builds: `OrtValueInfo`, and type infos made by programs.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};

use ort_session::Type;

use crate::editor::Added;
use crate::element_type::defined;
use crate::error::{Error, text};
use crate::ffi::{Out, OutHandle, OutRef, export};
use crate::tensor_info::TensorInfo;
use crate::type_info::TypeInfo;

/// A value's name and type.
#[derive(Debug)]
pub(crate) struct ValueInfo {
    name: CString,
    ty: TypeInfo,
    pub(crate) added: Added,
}

impl ValueInfo {
    pub(crate) fn new(name: &str, ty: &Type) -> Self {
        Self { name: text(name), ty: TypeInfo::of(ty), added: Added::default() }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    pub(crate) fn ty(&self) -> Type {
        self.ty.to_type()
    }
}

export! {
    fn CreateTensorTypeInfo(tensor_info: &TensorInfo, type_info: OutHandle<'_, TypeInfo>) {
        if tensor_info.dtype.is_none() {
            return Err(Error::argument("tensor_info", "has no element type"));
        }
        type_info.set(TypeInfo::Tensor(tensor_info.clone()));
        Ok(())
    }

    /// Not implemented: sparse tensors are dense here.
    fn CreateSparseTensorTypeInfo(_tensor_info: &TensorInfo, _type_info: OutHandle<'_, TypeInfo>) {
        Err(Error::not_implemented("CreateSparseTensorTypeInfo is not implemented"))
    }

    fn CreateMapTypeInfo(
        map_key_type: i32,
        map_value_type: &TypeInfo,
        type_info: OutHandle<'_, TypeInfo>,
    ) {
        let value = Box::new(map_value_type.to_type());
        type_info.set(TypeInfo::of(&Type::Map { key: defined(map_key_type)?, value }));
        Ok(())
    }

    fn CreateSequenceTypeInfo(sequence_type: &TypeInfo, type_info: OutHandle<'_, TypeInfo>) {
        type_info.set(TypeInfo::of(&Type::Sequence(Box::new(sequence_type.to_type()))));
        Ok(())
    }

    fn CreateOptionalTypeInfo(contained_type: &TypeInfo, type_info: OutHandle<'_, TypeInfo>) {
        type_info.set(TypeInfo::of(&Type::Optional(Box::new(contained_type.to_type()))));
        Ok(())
    }

    /// The type is copied.
    fn CreateValueInfo(
        name: &str,
        type_info: &TypeInfo,
        value_info: OutHandle<'_, ValueInfo>,
    ) {
        if name.is_empty() {
            return Err(Error::argument("name", "is empty"));
        }
        value_info.set(ValueInfo::new(name, &type_info.to_type()));
        Ok(())
    }

    fn ReleaseValueInfo(value_info: Option<Box<ValueInfo>>) -> () = (); {
        drop(value_info);
        Ok(())
    }

    /// The pointer is valid as long as the value info.
    fn GetValueInfoName(value_info: &ValueInfo, name: Out<'_, *const c_char>) {
        name.set(value_info.name.as_ptr());
        Ok(())
    }

    /// The type lives as long as the value info.
    fn GetValueInfoTypeInfo(value_info: &ValueInfo, type_info: OutRef<'_, TypeInfo>) {
        type_info.set(&value_info.ty);
        Ok(())
    }
}
