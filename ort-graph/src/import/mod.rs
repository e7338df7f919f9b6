//! From a file to a graph: names become ids, tensors slices of the file's bytes, nodes operators.
//!
//! Stored edges and the order of nodes are not trusted: edges follow from names alone.
//! All nodes that no operator can run (none of that name, version or type) are reported at once.

// collects are bounded: as long as the file's lists

mod error;
mod order;
mod scope;
mod tensor;

use std::collections::HashMap;

pub use self::error::{ImportError, ImportWarning, UnsupportedNode};
use self::scope::Importer;
use crate::graph::Graph;
use crate::parsed::{self, ModelInfo};
use crate::registry::Registry;

/// A model: its graph, and what the file says about it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The graph.
    pub graph: Graph,
    /// What the file says.
    pub info: ModelInfo,
    /// What was unusual, but not wrong.
    pub warnings: Vec<ImportWarning>,
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

/// Imports a model, whose texts and lists move into the graph. Tensors keep slices of the bytes that it was parsed from.
///
/// # Errors
/// If nodes have no operator, do not fit together, or form a cycle.
pub fn import(
    model: parsed::Model<'_>,
    registry: &Registry,
    limits: ImportLimits,
) -> Result<Model, ImportError> {
    let parsed::Model { info, graph } = model;
    let opsets: HashMap<&str, i64> = info.opsets.iter().map(|(d, v)| (d.as_str(), *v)).collect();
    let mut importer = Importer::new(registry, limits, &opsets, info.ir_version);
    let graph = importer.graph(graph)?;
    let (unsupported, warnings) = importer.finish();
    if !unsupported.is_empty() {
        return Err(ImportError::Unsupported { nodes: unsupported });
    }
    graph.topological_order()?;
    Ok(Model { graph, info, warnings })
}
