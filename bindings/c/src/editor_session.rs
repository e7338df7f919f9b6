//! Sessions of existing models that a program changes: it adds nodes and initializers, and replaces inputs and outputs,
//! before the session is built.

#![expect(non_snake_case, reason = "names of the C API")]

use std::path::Path;

use ort_session::model::{Graph, Model, Text};
use ort_session::{Dim, ModelInfo, SessionBuilder, TensorType, Type};

use crate::custom_ops::CustomOpDomain;
use crate::editor::EditedModel;
use crate::env::Env;
use crate::error::Error;
use crate::ffi::{Memory, Out, OutHandle, Shared, export};
use crate::model_source::Source;
use crate::session::{Described, PrepackedWeights, Session, with_listener};
use crate::session_options::SessionOptions;

/// A model, and the settings of its future session.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    model: Model<'static>,
    builder: SessionBuilder,
    options: SessionOptions,
}

impl Draft {
    fn session(
        source: Source<'_>,
        env: &Env,
        options: Option<&SessionOptions>,
    ) -> Result<Session, Error> {
        let mut options = options.cloned().unwrap_or_default();
        let listener = options.listener(env);
        let builder = options.builder(env)?;
        let model = with_listener(listener.as_ref(), || source.model(&builder, &options))?;
        // The model has them from here on.
        options.initializers.clear();
        let builder = options.builder(env)?;
        Ok(Session::of_draft(Self { model, builder, options }, listener))
    }

    pub(crate) const fn info(&self) -> &ModelInfo {
        &self.model.info
    }

    /// The inputs and outputs.
    pub(crate) fn described(&self) -> (Vec<Described>, Vec<Described>) {
        let graph = &self.model.graph;
        let of = |names: &[Text<'_>]| names.iter().map(|name| described(graph, name)).collect();
        (of(&graph.inputs), of(&graph.outputs))
    }
}

/// What the graph says about a value.
fn described(graph: &Graph<'_>, name: &str) -> Described {
    let declared = graph.values.iter().rev().find(|value| value.name == name);
    let constant = graph.constants().find(|constant| constant.name == name);
    let of_constant = constant.map(|it| {
        let dims = it.shape.iter().map(|&dim| Dim::Known(dim)).collect();
        Type::Tensor(TensorType { dtype: it.dtype, dims: Some(dims) })
    });
    let declared = declared.and_then(|value| value.ty.clone().ok());
    let ty = declared.or(of_constant).unwrap_or_default();
    Described { name: name.to_owned(), ty, has_default: constant.is_some() }
}

export! {
    fn CreateModelEditorSession(
        env: &Env,
        model_path: &Path,
        options: Option<&SessionOptions>,
        out: OutHandle<'_, Session>,
    ) {
        out.set(Draft::session(Source::File(model_path), env, options)?);
        Ok(())
    }

    fn CreateModelEditorSessionFromArray(
        env: &Env,
        model_data: Memory<'_>[model_data_length],
        model_data_length: usize,
        options: Option<&SessionOptions>,
        out: OutHandle<'_, Session>,
    ) {
        let _ = model_data_length;
        out.set(Draft::session(Source::Bytes(model_data.0), env, options)?);
        Ok(())
    }

    fn SessionGetOpsetForDomain(session: &Session, domain: &str, opset: Out<'_, i32>) {
        let none = || Error::fail(format!("the model does not use the domain `{domain}`"));
        let found = session.model().opset(crate::editor::domain(domain)).ok_or_else(none)?;
        opset.set(i32::try_from(found).unwrap_or(i32::MAX));
        Ok(())
    }

    /// An error leaves the session's model as it was.
    fn ApplyModelToModelEditorSession(session: &mut Session, model: Shared<'_, EditedModel>) {
        let mut draft = session.draft()?.clone();
        let custom: Vec<_> = draft.options.domains.iter().map(CustomOpDomain::name).collect();
        model.apply_to(&mut draft.model, &custom)?;
        *session = Session::of_draft(draft, session.listener.take());
        Ok(())
    }

    /// The session has the options that it was created with, as in onnxruntime, where those of this call only name
    /// providers.
    fn FinalizeModelEditorSession(
        session: &mut Session,
        _options: Option<&SessionOptions>,
        _prepacked_weights_container: Option<&PrepackedWeights>,
    ) {
        let Draft { model, builder, options } = session.draft()?.clone();
        let source = Source::Model(Box::new(model));
        *session = source.built(builder, session.listener.clone(), &options)?;
        Ok(())
    }
}
