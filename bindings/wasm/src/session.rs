//! A session: describes its model's inputs and outputs, and runs it.

// collects are bounded: by the names that the caller passes, and by what the model declares

use js_sys::Array;
use ort_session::{Dim, RunOptions, Type, ValueDescription};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, JsValue};

use crate::dtypes::name_of;
use crate::error_of;
use crate::feeds::Feeds;
use crate::results::{object, object_of};

/// A model that is ready to run.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Session {
    session: ort_session::Session,
}

impl Session {
    pub(crate) fn new(session: ort_session::Session) -> Self {
        Self { session }
    }
}

#[wasm_bindgen]
impl Session {
    /// Runs the model for the outputs with these names; returns their values in that order.
    ///
    /// # Errors
    /// If an input or a name is invalid, or the run fails.
    pub fn run(&self, feeds: Feeds, outputs: Vec<String>, tag: &str) -> Result<Array, JsError> {
        let options = RunOptions::new().tag(tag).outputs(outputs);
        let values = self.session.run_with(feeds.into_inputs(), &options).map_err(error_of)?;
        let array = Array::new();
        for (_, value) in values.iter() {
            array.push(&object_of(value)?);
        }
        Ok(array)
    }

    /// The steps of a run, each `{ name, operator, kernel, milliseconds }`.
    ///
    /// # Errors
    /// If the run fails.
    pub fn profile(&self, feeds: Feeds) -> Result<Array, JsError> {
        let (_, steps) = self.session.run_profiled(feeds.into_inputs()).map_err(error_of)?;
        let rows = steps.iter().map(|step| {
            object([
                ("name", step.work.node.as_str().into()),
                ("operator", step.work.op_type.as_str().into()),
                ("kernel", step.work.variant.into()),
                ("milliseconds", (step.time.as_secs_f64() * 1e3).into()),
            ])
        });
        rows.collect()
    }

    /// The inputs of the model, each `{ name, isTensor, type, shape, hasDefault }`.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn inputs(&self) -> Result<Array, JsError> {
        self.session.inputs().iter().map(described).collect()
    }

    /// The outputs, in the same form.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn outputs(&self) -> Result<Array, JsError> {
        self.session.outputs().iter().map(described).collect()
    }

    /// The model's metadata.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub fn metadata(&self) -> Result<JsValue, JsError> {
        let model = &self.session.metadata().model;
        let pairs = model.metadata.iter();
        let pairs =
            pairs.map(|(key, value)| Array::of2(&key.as_str().into(), &value.as_str().into()));
        object([
            ("producerName", model.producer_name.as_str().into()),
            ("graphName", model.graph_name.as_str().into()),
            ("domain", model.domain.as_str().into()),
            ("description", model.doc_string.as_str().into()),
            ("version", model.model_version.map_or(JsValue::NULL, JsValue::from)),
            ("custom", pairs.collect::<Array>().into()),
        ])
    }
}

/// A value's description as in onnxruntime-web: dimensions are numbers, names, or empty names.
fn described(of: &ValueDescription) -> Result<JsValue, JsError> {
    let (dtype, dims) = match &of.ty {
        Type::Tensor(tensor) => (name_of(tensor.dtype), tensor.dims.as_deref()),
        _ => ("", None),
    };
    let dims = dims.unwrap_or_default().iter().map(|dim| match dim {
        Dim::Known(size) => JsValue::from(*size),
        Dim::Symbol(name) => JsValue::from_str(name),
        _ => JsValue::from_str(""),
    });
    object([
        ("name", of.name.as_str().into()),
        ("isTensor", matches!(of.ty, Type::Tensor(_)).into()),
        ("type", dtype.into()),
        ("shape", dims.collect::<Array>().into()),
        ("hasDefault", of.has_default.into()),
    ])
}
