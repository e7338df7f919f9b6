//! `OrtShapeInferContext`: what a custom operator sees while the types of its outputs are inferred.

#![expect(non_snake_case, reason = "names of the C API")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_session::provider::{Attrs, Fact, Facts};
use ort_session::{TensorType, Type};

use crate::error::Error;
use crate::ffi::{Out, OutHandle, OutRef, export};
use crate::op_attr::OpAttr;
use crate::tensor_info::TensorInfo;

/// The types of a node's inputs and outputs, and its attributes.
#[derive(Debug)]
pub(crate) struct ShapeContext<'a> {
    inputs: &'a Facts<'a>,
    attrs: Vec<OpAttr>,
    outputs: Mutex<Vec<Fact>>,
}

impl<'a> ShapeContext<'a> {
    /// `outputs` is what follows from the operator's declaration.
    pub(crate) fn new(inputs: &'a Facts<'a>, attrs: &Attrs, outputs: Vec<Fact>) -> Self {
        let attrs = attrs.iter().map(|(name, attr)| OpAttr::new(name, attr.clone())).collect();
        Self { inputs, attrs, outputs: Mutex::new(outputs) }
    }

    fn outputs(&self) -> MutexGuard<'_, Vec<Fact>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_outputs(self) -> Vec<Fact> {
        self.outputs.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

export! {
    fn ShapeInferContext_GetInputCount(context: &ShapeContext<'_>, out: Out<'_, usize>) {
        out.set(context.inputs.len());
        Ok(())
    }

    /// Undefined and without a shape where it is not known.
    fn ShapeInferContext_GetInputTypeShape(
        context: &ShapeContext<'_>,
        index: usize,
        info: OutHandle<'_, TensorInfo>,
    ) {
        if index >= context.inputs.len() {
            return Err(Error::argument("index", format!("is {index}, and there are {}", context.inputs.len())));
        }
        let ty = context.inputs.get(index).and_then(Fact::as_tensor);
        info.set(ty.map(TensorInfo::of_type).unwrap_or_default());
        Ok(())
    }

    /// The attribute lives as long as the context.
    fn ShapeInferContext_GetAttribute(
        context: &ShapeContext<'_>,
        attr_name: &str,
        attr: OutRef<'_, OpAttr>,
    ) {
        let found = context.attrs.iter().find(|attr| attr.name() == attr_name);
        attr.set(found.ok_or_else(|| Error::fail(format!("there is no attribute `{attr_name}`")))?);
        Ok(())
    }

    fn ShapeInferContext_SetOutputTypeShape(
        context: &ShapeContext<'_>,
        index: usize,
        info: &TensorInfo,
    ) {
        let mut outputs = context.outputs();
        let n = outputs.len();
        let none = || Error::argument("index", format!("is {index}, and there are {n}"));
        let output = outputs.get_mut(index).ok_or_else(none)?;
        // Without an element type, the operator's declaration decides.
        let dtype = info.dtype.or_else(|| output.dtype());
        if let Some(TensorType { dtype, dims }) = (TensorInfo { dtype, ..info.clone() }).to_type() {
            *output = Type::Tensor(TensorType { dtype, dims }).into();
        }
        Ok(())
    }
}
