//! From a file to a graph: names become ids, tensors slices of the file's bytes, nodes operators.
//!
//! Stored edges and the order of nodes are not trusted: who reads what follows from names alone.
//! All nodes that no operator can run (none of that name, version or type) are reported at once.

mod error;
mod scope;
mod tensor;
mod types;

use std::collections::HashMap;

use bytes::Bytes;

pub use self::error::{ImportError, ImportWarning, UnsupportedNode};
use self::scope::Importer;
pub use self::types::declared_type;
use crate::graph::Graph;
use crate::registry::Registry;

/// A model: its graph, and what the file says about it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The graph.
    pub graph: Graph,
    /// What the file says.
    pub info: ModelInfo,
    /// What was odd, but not wrong.
    pub warnings: Vec<ImportWarning>,
}

/// What a file says about its model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// ONNX's IR version.
    pub ir_version: i64,
    /// The version of each operator set; the domain of ai.onnx is empty.
    pub opsets: Vec<(String, i64)>,
    /// The tool that made the model.
    pub producer_name: String,
    /// Its version.
    pub producer_version: String,
    /// The model's name space.
    pub domain: String,
    /// The model's own version; `None` where it was not set.
    pub model_version: Option<i64>,
    /// What the author says about the model.
    pub doc_string: String,
    /// What the author says about the graph.
    pub graph_doc_string: String,
    /// Named texts, sorted by name.
    pub metadata: Vec<(String, String)>,
}

impl ModelInfo {
    /// The version of an operator set, if the model imports it.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        self.opsets.iter().find(|(other, _)| other == domain).map(|(_, version)| *version)
    }
}

/// What an import may cost.
#[derive(Clone, Copy, Debug)]
pub struct ImportLimits {
    /// Bytes that sparse tensors may take once they are dense.
    pub dense_bytes: usize,
}

impl Default for ImportLimits {
    /// 1 GiB.
    fn default() -> Self {
        Self { dense_bytes: 1 << 30 }
    }
}

/// Imports a file. `bytes` are those that `file` was opened on: tensors keep slices of them.
///
/// # Errors
/// If nodes have no operator, do not fit together, or form a cycle.
pub fn import(
    file: ort_format::File<'_>,
    bytes: &Bytes,
    registry: &Registry,
    limits: ImportLimits,
) -> Result<Model, ImportError> {
    let info = ModelInfo::of(file.model());
    let opsets: HashMap<&str, i64> = info.opsets.iter().map(|(d, v)| (d.as_str(), *v)).collect();
    let mut importer = Importer::new(bytes, registry, limits, &opsets, info.ir_version);
    let graph = importer.graph(file.model().graph())?;
    let (unsupported, warnings) = importer.finish();
    if !unsupported.is_empty() {
        return Err(ImportError::Unsupported { nodes: unsupported });
    }
    graph.topological_order()?;
    Ok(Model { graph, info, warnings })
}

impl ModelInfo {
    /// What `model` says.
    pub fn of(model: ort_format::Model<'_>) -> Self {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let domain = |domain: &str| if domain == "ai.onnx" { "" } else { domain }.to_owned();
        let opsets = model.opset_import().iter().map(|set| (domain(set.domain()), set.version()));
        let mut metadata: Vec<_> = model
            .metadata_props()
            .iter()
            .map(|entry| (entry.key().to_owned(), entry.value().to_owned()))
            .collect();
        metadata.sort();
        Self {
            ir_version: model.ir_version(),
            opsets: opsets.collect(),
            producer_name: text(model.producer_name()),
            producer_version: text(model.producer_version()),
            domain: text(model.domain()),
            model_version: Some(model.model_version()).filter(|&version| version != i64::MAX),
            doc_string: text(model.doc_string()),
            graph_doc_string: text(model.graph_doc_string()),
            metadata,
        }
    }
}
