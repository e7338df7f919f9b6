//! The attributes of the node that a kernel of a custom operator is created for.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::c_char;

use ort_session::provider::Attr;

use crate::error::Error;
use crate::ffi::{Allocator, Out, OutHandle, Room, export};
use crate::kernel_info::KernelInfo;
use crate::value::Value;

/// The attribute of this name.
fn attr<'a>(info: &'a KernelInfo, name: &str) -> Result<&'a Attr, Error> {
    let none = || Error::fail(format!("No attribute with name:'{name}' is defined."));
    info.attrs().get(name).ok_or_else(none)
}

fn wrong<T>(name: &str, expected: &str) -> Result<T, Error> {
    Err(Error::fail(format!("attribute `{name}` is not {expected}")))
}

export! {
    fn KernelInfoGetAttribute_float(info: &KernelInfo, name: &str, out: Out<'_, f32>) {
        match attr(info, name)? {
            Attr::Float(value) => out.set(*value),
            _ => return wrong(name, "a float"),
        }
        Ok(())
    }

    fn KernelInfoGetAttribute_int64(info: &KernelInfo, name: &str, out: Out<'_, i64>) {
        match attr(info, name)? {
            Attr::Int(value) => out.set(*value),
            _ => return wrong(name, "an integer"),
        }
        Ok(())
    }

    fn KernelInfoGetAttribute_string(
        info: &KernelInfo,
        name: &str,
        out: Room<'_, c_char>,
        size: Out<'_, usize>,
    ) {
        match attr(info, name)? {
            Attr::String(value) => out.text(value, size),
            _ => wrong(name, "a string"),
        }
    }

    /// A copy.
    fn KernelInfoGetAttribute_tensor(
        info: &KernelInfo,
        name: &str,
        _allocator: Allocator<'_>,
        out: OutHandle<'_, Value>,
    ) {
        match attr(info, name)? {
            Attr::Tensor(value) => out.set(Value::of_owned(value.clone().into())),
            _ => return wrong(name, "a tensor"),
        }
        Ok(())
    }

    fn KernelInfoGetAttributeArray_float(
        info: &KernelInfo,
        name: &str,
        out: Room<'_, f32>,
        size: Out<'_, usize>,
    ) {
        match attr(info, name)? {
            Attr::Floats(values) => out.items(values, size),
            _ => wrong(name, "floats"),
        }
    }

    fn KernelInfoGetAttributeArray_int64(
        info: &KernelInfo,
        name: &str,
        out: Room<'_, i64>,
        size: Out<'_, usize>,
    ) {
        match attr(info, name)? {
            Attr::Ints(values) => out.items(values, size),
            _ => wrong(name, "integers"),
        }
    }

    /// The array and its strings come from the allocator.
    fn KernelInfoGetAttributeArray_string(
        info: &KernelInfo,
        name: &str,
        allocator: Allocator<'_>,
        out: Out<'_, *mut *mut c_char>,
        size: Out<'_, usize>,
    ) {
        let Attr::Strings(values) = attr(info, name)? else { return wrong(name, "strings") };
        let texts = values.iter().map(|text| allocator.text(text));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        out.set(allocator.array(&texts)?);
        size.set(texts.len());
        Ok(())
    }
}
