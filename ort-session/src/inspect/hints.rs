//! What only a `.ort` file has: its version, warnings, and optional hints.

// collects are bounded: as long as the file's lists

use std::collections::BTreeMap;

use ort_format::{AttributeValue, Graph, Limits};
use ort_loader::ModelBytes;

use super::Hints;
use crate::error::SessionError;

/// The parts of a file besides the model.
pub(super) struct OrtFile {
    pub(super) format: &'static str,
    pub(super) version: String,
    pub(super) warnings: Vec<String>,
    pub(super) hints: Hints,
}

impl OrtFile {
    /// Empty for a `.onnx` file.
    pub(super) fn of(bytes: &ModelBytes) -> Result<Self, SessionError> {
        if ort_onnx::is_onnx(bytes.as_slice()) {
            let (version, warnings) = (String::new(), Vec::new());
            return Ok(Self { format: "onnx", version, warnings, hints: Hints::default() });
        }
        let opened = ort_format::open_with_warnings(bytes.as_slice(), &Limits::default());
        let (file, warnings) = opened.map_err(Box::new)?;
        let mut counts = Counts::default();
        counts.add(file.model().graph());
        Ok(Self {
            format: "ort",
            version: file.ort_version().unwrap_or_default().to_owned(),
            warnings: warnings.iter().map(ToString::to_string).collect(),
            hints: counts.hints(),
        })
    }
}

/// Totals over graphs.
#[derive(Default)]
struct Counts<'a> {
    n_edges: usize,
    providers: BTreeMap<&'a str, usize>,
    runtime_optimizations: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Counts<'a> {
    /// Adds a graph and its subgraphs.
    fn add(&mut self, graph: Graph<'a>) {
        for node in graph.nodes() {
            if let Some(provider) = node.execution_provider_type().filter(|name| !name.is_empty()) {
                *self.providers.entry(provider).or_default() += 1;
            }
            for attribute in node.attributes() {
                match attribute.value() {
                    AttributeValue::Graph(graph) => self.add(graph),
                    AttributeValue::Graphs(graphs) => graphs.iter().for_each(|it| self.add(it)),
                    _ => {}
                }
            }
        }
        self.n_edges += graph.node_edges().iter().map(|it| it.output_edges().len()).sum::<usize>();
        for entry in graph.runtime_optimizations().iter().flat_map(|all| all.records().iter()) {
            for record in entry.runtime_optimization_records().iter() {
                let action = (entry.optimizer_name(), record.action_id());
                *self.runtime_optimizations.entry(action).or_default() += 1;
            }
        }
    }

    fn hints(&self) -> Hints {
        let providers = self.providers.iter().map(|(&name, &n)| (name.to_owned(), n));
        let optimizations = self.runtime_optimizations.iter();
        Hints {
            n_edges: self.n_edges,
            providers: providers.collect(),
            runtime_optimizations: optimizations
                .map(|(&(optimizer, action), &n)| (optimizer.to_owned(), action.to_owned(), n))
                .collect(),
        }
    }
}
