//! Models that a program makes in memory, without a file: graphs, nodes and values by name.

use std::collections::BTreeSet;
use std::path::Path;

use ort_graph::parsed;
use ort_loader::ModelBytes;
use ort_onnx::opsets::since_version;
use web_time::Instant;

use crate::builder::SessionBuilder;
use crate::error::SessionError;
use crate::opened::{How, Opened};
use crate::optimized::Optimized;
use crate::owned::owned;
use crate::session::Session;
use crate::threads::within_share;

// What a model is read from.
pub use {ort_format, ort_onnx};

pub use ort_graph::ModelInfo;
pub use ort_graph::parsed::{
    Attr, Contents, Form, Graph, Model, Node, SparseTensor, Tensor, Text, Value,
};

impl SessionBuilder {
    /// Builds a session from a model that was made in memory. A cache folder is not used.
    ///
    /// A node without a version has the one that the model's operator set implies. Operators that the standard defines
    /// as functions of others, and for which there is no kernel, are not expanded: only files of `.onnx` models have
    /// that.
    ///
    /// ```
    /// use ort_session::model::{Graph, Model, ModelInfo, Node, Value};
    /// use ort_session::{DType, Session, Tensor, TensorType, Type};
    ///
    /// let ty = Type::Tensor(TensorType { dtype: DType::F32, dims: None });
    /// let x = Value { name: "x".into(), ty: Ok(ty), denotations: Vec::new() };
    /// let node = Node {
    ///     op_type: "Neg".into(),
    ///     inputs: vec!["x".into()],
    ///     outputs: vec!["y".into()],
    ///     ..Node::default()
    /// };
    /// let graph = Graph {
    ///     values: vec![x],
    ///     inputs: vec!["x".into()],
    ///     outputs: vec!["y".into()],
    ///     nodes: vec![node],
    ///     ..Graph::default()
    /// };
    /// let opsets = vec![(String::new(), 17)];
    /// let info = ModelInfo { ir_version: 8, opsets, ..ModelInfo::default() };
    /// let session = Session::builder().commit_model(Model { info, graph })?;
    /// let outputs = session.run([("x", &Tensor::scalar(2.0_f32))])?;
    /// assert_eq!(outputs[0].as_tensor()?.as_slice::<f32>()?, [-2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the model is invalid or unsupported.
    pub fn commit_model(self, model: Model<'_>) -> Result<Session, SessionError> {
        self.saving(|builder| builder.optimize_model(model))?.commit()
    }

    /// Reads the model of a file, to change it before [`SessionBuilder::commit_model`]. It has the builder's
    /// [initializers](SessionBuilder::initializer) and external data, and not what a file has packed.
    ///
    /// ```no_run
    /// use ort_session::Session;
    /// use ort_session::model::Node;
    ///
    /// let mut model = Session::builder().read_model_from_file("model.onnx")?;
    /// let output = model.graph.outputs[0].clone();
    /// model.graph.nodes.push(Node {
    ///     op_type: "Neg".into(),
    ///     inputs: vec![output],
    ///     outputs: vec!["negated".into()],
    ///     ..Node::default()
    /// });
    /// model.graph.outputs[0] = "negated".into();
    /// let session = Session::builder().commit_model(model)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub fn read_model_from_file(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Model<'static>, SessionError> {
        let read = || ModelBytes::from_path(path, self.load);
        self.read_model(within_share(self.load_limits.max_bytes, read)?)
    }

    /// The same for bytes.
    ///
    /// # Errors
    /// If the bytes are invalid.
    pub fn read_model(&self, bytes: ModelBytes) -> Result<Model<'static>, SessionError> {
        let Self { limits, external, load, initializers, .. } = self;
        let how = How { limits, external, load: *load, initializers };
        let opened = within_share(self.load_limits.max_bytes, || Opened::of(&bytes, how));
        Ok(owned(opened?.model))
    }

    /// Optimizes such a model, to save it, inspect it, or build a session from it.
    ///
    /// # Errors
    /// If the model is invalid or unsupported.
    pub fn optimize_model(self, mut model: Model<'_>) -> Result<Optimized, SessionError> {
        let start = Instant::now();
        let settings = self.resolved()?;
        settings.check_cancelled("model_loading_uri")?;
        with_versions(&mut model.graph, &model.info.opsets);
        settings.how().initializers.put(&mut model.graph, &BTreeSet::new())?;
        let opened = Opened { model, seal: None, external: Vec::new() };
        settings.built(opened, &ModelBytes::from_vec(Vec::new()), start)
    }
}

/// Sets the versions of nodes that have none, in subgraphs, too; as in a file, a domain that the model does not import has
/// version 1.
fn with_versions(graph: &mut parsed::Graph<'_>, opsets: &[(String, i64)]) {
    let plain = |domain: &str| if domain == "ai.onnx" { String::new() } else { domain.to_owned() };
    for node in &mut graph.nodes {
        if node.since_version <= 0 {
            let domain = plain(&node.domain);
            let opset = opsets.iter().find(|(other, _)| plain(other) == domain);
            let opset = opset.map_or(1, |(_, version)| *version);
            node.since_version = since_version(&domain, &node.op_type, opset);
        }
        for (_, attr) in &mut node.attributes {
            match attr {
                Attr::Graph(graph) => with_versions(graph, opsets),
                Attr::Graphs(graphs) => {
                    graphs.iter_mut().for_each(|graph| with_versions(graph, opsets));
                }
                _ => {}
            }
        }
    }
}
