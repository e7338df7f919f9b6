//! `OrtShapeInferContext`: what a custom operator sees while the types of its outputs are inferred.

#![expect(non_snake_case, reason = "names of the C API")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use ort_session::provider::{Attrs, Fact, Facts};
use ort_session::{TensorType, Type};
use ort_sys::OrtTensorTypeAndShapeInfo;

use crate::error::Error;
use crate::ffi::{Out, OutRef, export, opaque};
use crate::op_attr::OpAttr;
use crate::tensor_info::TensorInfo;

/// The types of a node's inputs and outputs, and its attributes.
#[derive(Debug)]
pub(crate) struct ShapeContext {
    inputs: Vec<TensorInfo>,
    attrs: Vec<OpAttr>,
    outputs: Mutex<Vec<Fact>>,
}

impl ShapeContext {
    /// `outputs` is what follows from the operator's declaration.
    pub(crate) fn new(inputs: &Facts<'_>, attrs: &Attrs, outputs: Vec<Fact>) -> Self {
        let info = |fact: Option<&Fact>| fact.and_then(Fact::as_tensor).map(TensorInfo::of_type);
        let inputs = (0..inputs.len()).map(|i| info(inputs.get(i)).unwrap_or_default()).collect();
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
    fn ShapeInferContext_GetInputCount(context: &ShapeContext, out: Out<'_, usize>) {
        out.set(context.inputs.len());
        Ok(())
    }

    /// Undefined and without a shape where it is not known. The info lives as long as the context: neither the C++
    /// wrapper nor the crate `ort` release it.
    fn ShapeInferContext_GetInputTypeShape(
        context: &ShapeContext,
        index: usize,
        info: Out<'_, *mut OrtTensorTypeAndShapeInfo>,
    ) {
        let n = context.inputs.len();
        let none = || Error::argument("index", format!("is {index}, and there are {n}"));
        info.set(opaque(context.inputs.get(index).ok_or_else(none)?).cast_mut());
        Ok(())
    }

    /// The attribute lives as long as the context.
    fn ShapeInferContext_GetAttribute(
        context: &ShapeContext,
        attr_name: &str,
        attr: OutRef<'_, OpAttr>,
    ) {
        let found = context.attrs.iter().find(|attr| attr.name() == attr_name);
        attr.set(found.ok_or_else(|| Error::fail(format!("there is no attribute `{attr_name}`")))?);
        Ok(())
    }

    fn ShapeInferContext_SetOutputTypeShape(
        context: &ShapeContext,
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
