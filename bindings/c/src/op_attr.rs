//! `OrtOpAttr`: an attribute of a node, made or read by a program.

#![expect(non_snake_case, reason = "names of the C API")]

use std::ffi::{CString, c_char};

use ort_session::provider::Attr;
use ort_session::{Tensor, model};
use ort_sys::OrtOpAttrType;

use crate::error::{Error, text};
use crate::ffi::{Out, OutHandle, OutMemory, Untyped, export};
use crate::value::Value;

/// An attribute and its name.
#[derive(Clone, Debug)]
pub(crate) struct OpAttr {
    name: CString,
    pub(crate) attr: Attr,
}

impl OpAttr {
    pub(crate) fn new(name: &str, attr: Attr) -> Self {
        Self { name: text(name), attr }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    const fn ty(&self) -> OrtOpAttrType {
        match self.attr {
            Attr::Int(_) => OrtOpAttrType::ORT_OP_ATTR_INT,
            Attr::Ints(_) => OrtOpAttrType::ORT_OP_ATTR_INTS,
            Attr::Float(_) => OrtOpAttrType::ORT_OP_ATTR_FLOAT,
            Attr::Floats(_) => OrtOpAttrType::ORT_OP_ATTR_FLOATS,
            Attr::String(_) => OrtOpAttrType::ORT_OP_ATTR_STRING,
            Attr::Strings(_) => OrtOpAttrType::ORT_OP_ATTR_STRINGS,
            Attr::Graph(_) => OrtOpAttrType::ORT_OP_ATTR_GRAPH,
            Attr::Tensor(_) => OrtOpAttrType::ORT_OP_ATTR_TENSOR,
            _ => OrtOpAttrType::ORT_OP_ATTR_UNDEFINED,
        }
    }

    /// The bytes as C reads them: numbers, a string, or strings with a NUL after each.
    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let with_nul = |text: &String| [text.as_bytes(), &[0]].concat();
        Ok(match &self.attr {
            Attr::Int(value) => value.to_ne_bytes().to_vec(),
            Attr::Ints(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Attr::Float(value) => value.to_ne_bytes().to_vec(),
            Attr::Floats(values) => values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
            Attr::String(value) => value.clone().into_bytes(),
            Attr::Strings(values) => values.iter().flat_map(with_nul).collect(),
            _ => return Err(Error::argument("op_attr", "has a type that is not read as bytes")),
        })
    }
}

/// The same attribute in a model.
pub(crate) fn to_model(attr: &Attr) -> Result<model::Attr<'static>, Error> {
    Ok(match attr {
        Attr::Int(value) => model::Attr::Int(*value),
        Attr::Ints(values) => model::Attr::Ints(values.clone()),
        Attr::Float(value) => model::Attr::Float(*value),
        Attr::Floats(values) => model::Attr::Floats(values.clone()),
        Attr::String(value) => model::Attr::String(value.clone().into()),
        Attr::Strings(values) => {
            model::Attr::Strings(values.iter().cloned().map(Into::into).collect())
        }
        Attr::Tensor(value) => model::Attr::Tensor(tensor_of_model("", value.clone())),
        _ => return Err(Error::argument("op_attr", "has a type that models here do not have")),
    })
}

/// A tensor of a model.
pub(crate) fn tensor_of_model(name: &str, tensor: Tensor) -> model::Tensor<'static> {
    model::Tensor {
        name: name.to_owned().into(),
        dtype: tensor.dtype(),
        shape: tensor.shape().into(),
        contents: model::Contents::Given(Box::new(tensor)),
    }
}

#[expect(clippy::as_conversions, reason = "the discriminant is the number")]
fn is(type_: i32, ty: OrtOpAttrType) -> bool {
    type_ == ty as i32
}

/// The text in these bytes, which end with a NUL or not.
fn string(bytes: &[u8]) -> Result<String, Error> {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text);
    text.map(str::to_owned).map_err(|_| Error::argument("data", "is not UTF-8"))
}

/// The attribute that C describes.
fn made(data: Untyped, len: i32, type_: i32) -> Result<Attr, Error> {
    use OrtOpAttrType::*;

    let n = usize::try_from(len).map_err(|_| Error::argument("len", "is negative"))?;
    Ok(match type_ {
        it if is(it, ORT_OP_ATTR_INT) => Attr::Int(data.one()?),
        it if is(it, ORT_OP_ATTR_INTS) => Attr::Ints(data.many(n)?.to_vec()),
        it if is(it, ORT_OP_ATTR_FLOAT) => Attr::Float(data.one()?),
        it if is(it, ORT_OP_ATTR_FLOATS) => Attr::Floats(data.many(n)?.to_vec()),
        it if is(it, ORT_OP_ATTR_STRING) => Attr::String(string(data.many(n)?)?),
        it if is(it, ORT_OP_ATTR_STRINGS) => {
            Attr::Strings(data.texts(n)?.into_iter().map(str::to_owned).collect())
        }
        it if is(it, ORT_OP_ATTR_TENSOR) => {
            let value: &Value = data.handle()?;
            Attr::Tensor(value.to_owned_value()?.as_tensor()?.clone())
        }
        other => {
            let text = format!("is {other}, which is not a type of attributes that can be made");
            return Err(Error::argument("type", text));
        }
    })
}

export! {
    /// The data is copied.
    fn CreateOpAttr(
        name: &str,
        data: Untyped,
        len: i32,
        type_: i32,
        op_attr: OutHandle<'_, OpAttr>,
    ) {
        op_attr.set(OpAttr::new(name, made(data, len, type_)?));
        Ok(())
    }

    fn ReleaseOpAttr(op_attr: Option<Box<OpAttr>>) -> () = (); {
        drop(op_attr);
        Ok(())
    }

    /// `out` receives the size in bytes, also if there is no room for as many.
    fn ReadOpAttr(
        op_attr: &OpAttr,
        type_: i32,
        data: OutMemory<'_>[len],
        len: usize,
        out: Out<'_, usize>,
    ) {
        if !is(type_, op_attr.ty()) {
            return Err(Error::argument("type", format!("is {type_}, and `{}` has another", op_attr.name())));
        }
        let bytes = op_attr.to_bytes()?;
        out.set(bytes.len());
        if len < bytes.len() {
            return Err(Error::argument("len", format!("is {len}, and {} are needed", bytes.len())));
        }
        data.0.fill(bytes);
        Ok(())
    }

    fn OpAttr_GetType(attribute: &OpAttr, type_: Out<'_, OrtOpAttrType>) {
        type_.set(attribute.ty());
        Ok(())
    }

    /// The pointer is valid as long as the attribute.
    fn OpAttr_GetName(attribute: &OpAttr, name: Out<'_, *const c_char>) {
        name.set(attribute.name.as_ptr());
        Ok(())
    }

    /// A copy.
    fn OpAttr_GetTensorAttributeAsOrtValue(
        attribute: &OpAttr,
        attr_tensor: OutHandle<'_, Value>,
    ) {
        match &attribute.attr {
            Attr::Tensor(tensor) => attr_tensor.set(Value::of_owned(tensor.clone().into())),
            _ => return Err(Error::argument("attribute", "is not a tensor")),
        }
        Ok(())
    }
}
