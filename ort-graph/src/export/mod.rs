//! From a graph to a file: the mirror of import. Ids become names, operators their domain, type and
//! version, and tensors borrow what the graph holds.
//!
//! Names are kept where possible. A subgraph's own value with the name of a value of an enclosing graph is renamed:
//! in a file, a name denotes one value. A constant that several graphs hold (import gives a captured one to the
//! subgraph) is written once.

// collects are bounded: as long as the graph's lists

mod error;
mod homes;
mod node;
mod onnx;
mod scope;
mod types;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ort_format::record;

pub use self::error::ExportError;
use self::node::Exporter;
pub use self::onnx::to_onnx;
use self::scope::Scope;
use crate::graph::Graph;
use crate::parsed::ModelInfo;

/// What a file contains in addition to its graph.
#[derive(Clone, Debug)]
pub struct Export<'a> {
    /// What the file says about the model.
    pub info: &'a ModelInfo,
    /// Which arguments of each operator share a type, from the file that the graph came from. It also gives the
    /// number of formal parameters of an operator. The writer leaves it out where it lacks one.
    pub resolver: Option<record::KernelTypeStrResolver<'a>>,
    /// Our own attributes, as (domain, attribute): left out, since no other runtime knows them.
    pub private: &'a [(&'a str, &'a str)],
    /// Whether only this runtime reads the file: then nodes may follow newer versions than the model imports.
    pub is_ours: bool,
}

impl<'a> Export<'a> {
    /// A file for any runtime, of whose operators nothing is known.
    pub const fn new(info: &'a ModelInfo) -> Self {
        Self { info, resolver: None, private: &[], is_ours: false }
    }
}

/// The file that holds `graph`. Tensors and most texts are borrowed from the graph.
///
/// Nodes come in topological order. A domain that nodes use and the model does not import is imported
/// in the version that they follow. Value and node documentation, which import drops, is missing.
///
/// Source: ONNX Runtime 1.31; what its loader requires beyond the schema: every value has a type, and
/// operators follow the version that the model imports.
///
/// # Errors
/// If nodes form a cycle, or the format cannot hold a type, an attribute or a version.
pub fn export<'a>(graph: &'a Graph, export: Export<'a>) -> Result<record::File<'a>, ExportError> {
    let Export { info, resolver, private, is_ours } = export;
    let mut opsets: Vec<(&str, i64)> = info.opsets.iter().map(|(d, v)| (d.as_str(), *v)).collect();
    import_domains(graph, &mut opsets);
    let exporter = Exporter::new(&opsets, resolver.as_ref(), private, is_ours);
    let graph = exporter.graph(&Scope::outermost(graph)?)?.graph;
    let domain = |domain: &str| Cow::Owned(domain.to_owned());
    let set =
        |&(name, version): &(&str, i64)| record::OperatorSetId { domain: domain(name), version };
    let model = record::Model {
        ir_version: info.ir_version,
        opset_import: opsets.iter().map(set).collect(),
        producer_name: text(&info.producer_name),
        producer_version: text(&info.producer_version),
        domain: text(&info.domain),
        model_version: info.model_version.unwrap_or(i64::MAX),
        doc_string: text(&info.doc_string),
        graph,
        graph_doc_string: text(&info.graph_doc_string),
        metadata_props: info.metadata.iter().map(entry).collect(),
    };
    Ok(record::File { model, kernel_type_str_resolver: resolver })
}

/// Adds the domains of nodes that the model does not import, each in the newest version a node has.
fn import_domains<'a>(graph: &'a Graph, opsets: &mut Vec<(&'a str, i64)>) {
    let mut used = BTreeMap::new();
    newest_versions(graph, &mut used);
    let known: BTreeSet<&str> = opsets.iter().map(|&(domain, _)| domain).collect();
    opsets.extend(used.into_iter().filter(|(domain, _)| !known.contains(domain)));
}

fn newest_versions<'a>(graph: &'a Graph, versions: &mut BTreeMap<&'a str, i64>) {
    for node in graph.node_ids().map(|id| graph.node(id)) {
        let version = versions.entry(&node.domain).or_insert(1);
        *version = i64::from(node.since_version).max(*version);
        node.attrs.subgraphs().for_each(|subgraph| newest_versions(subgraph, versions));
    }
}

/// `None` for an empty text.
fn text(text: &str) -> Option<Cow<'_, str>> {
    Some(text).filter(|text| !text.is_empty()).map(Cow::Borrowed)
}

fn entry((key, value): &(String, String)) -> record::StringStringEntry<'_> {
    record::StringStringEntry { key: key.into(), value: value.into() }
}

#[cfg(test)]
mod tests;
