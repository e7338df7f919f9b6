//! The contents of a file, without running it.

// collects are bounded: as long as the file's lists

mod hints;
mod weights;

use std::collections::{BTreeMap, HashMap, HashSet};

use ort_format::Limits;
use ort_graph::parsed::{Graph, Value};
use ort_graph::{ImportError, ImportLimits, ModelInfo, Registry, UnsupportedNode, import};
use ort_loader::{Load, ModelBytes};
use ort_tensor::DType;

use crate::error::SessionError;
use crate::external::External;
use crate::initializers::Initializers;
use crate::opened::{How, Opened};
use crate::session::ValueDescription;
use crate::threads::within_share;

pub use self::weights::{DenormalWeights, denormal_weights};

/// The contents of a file: of the main graph and all its subgraphs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The format: `ort` or `onnx`.
    pub format: &'static str,
    /// The version of the format, as stored in the file: a decimal number. A `.onnx` file only has its IR version.
    pub version: String,
    /// The metadata of the model.
    pub model: ModelInfo,
    /// The inputs of the main graph, in its order.
    pub inputs: Vec<ValueDescription>,
    /// Its outputs.
    pub outputs: Vec<ValueDescription>,
    /// The names of the values that nodes of the main graph compute, in file order.
    pub computed: Vec<String>,
    /// The number of subgraphs.
    pub n_subgraphs: usize,
    /// The operators of the nodes, the most frequent first.
    pub operators: Vec<OperatorCount>,
    /// The initializers by element type, the largest total size first.
    pub weights: Vec<WeightCount>,
    /// Hints of the file.
    pub hints: Hints,
    /// Harmless anomalies of the file.
    pub warnings: Vec<String>,
}

/// An operator and the number of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorCount {
    /// Its domain; empty for ai.onnx.
    pub domain: String,
    /// Its name.
    pub op_type: String,
    /// The version that introduced this version of the operator.
    pub version: i32,
    /// The number of nodes.
    pub n_nodes: usize,
    /// Why it is not supported, if it is not, or not with the types and attributes of each node.
    pub unsupported: Option<String>,
}

/// Initializers of one element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightCount {
    /// The element type; `None` for one that this version does not know.
    pub dtype: Option<DType>,
    /// The number of initializers.
    pub n_tensors: usize,
    /// Their size in the file in bytes; for strings the sum of their lengths.
    pub n_bytes: usize,
}

/// Optional hints of a file. A session ignores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// Stored edges between nodes.
    pub n_edges: usize,
    /// The providers that nodes were assigned to, with the number of nodes, sorted by name.
    pub providers: Vec<(String, usize)>,
    /// Fusions that were found and not applied: optimizer, action, and count, sorted.
    pub runtime_optimizations: Vec<(String, String, usize)>,
}

/// Inspects a file. The elements of weights are not read, so their pages are not loaded
/// ([`denormal_weights`] reads them). Whatever would prevent a session from running the model is reported: with the operator,
/// or as a warning. Model-local functions are inlined.
///
/// # Errors
/// If the bytes are not a valid `.ort` or `.onnx` file, or external data cannot be loaded.
pub fn inspect(bytes: &ModelBytes) -> Result<Inspection, SessionError> {
    let opened = opened(bytes)?;
    let graph = &opened.model.graph;
    let file = hints::OrtFile::of(bytes)?;
    let mut warnings = file.warnings;
    let registry = ort_ops::registry();
    let unsupported = match import(opened.model.clone(), &registry, ImportLimits::default()) {
        Ok(_) => Vec::new(),
        Err(ImportError::Unsupported { nodes }) => nodes,
        Err(error) => {
            warnings.push(format!("a session would reject it: {error}"));
            Vec::new()
        }
    };
    let mut counts = Counts::default();
    graph.visit(&mut |graph| counts.add(graph));
    let values = Values::of(graph);
    Ok(Inspection {
        format: file.format,
        version: file.version,
        inputs: graph.inputs.iter().map(|name| values.describe(name)).collect(),
        outputs: graph.outputs.iter().map(|name| values.describe(name)).collect(),
        computed: computed(graph),
        n_subgraphs: counts.n_graphs - 1,
        operators: counts.operators(&registry, &unsupported),
        weights: counts.weights(),
        hints: file.hints,
        warnings,
        model: opened.model.info,
    })
}

fn computed(graph: &Graph<'_>) -> Vec<String> {
    let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
    outputs.filter(|name| !name.is_empty()).map(ToString::to_string).collect()
}

fn opened(bytes: &ModelBytes) -> Result<Opened<'_>, SessionError> {
    let (limits, external) = (&Limits::default(), &External::default());
    let initializers = &Initializers::default();
    let how = How { limits, external, load: Load::Auto, initializers };
    within_share(None, || Opened::of(bytes, how))
}

/// The values of a graph by name.
struct Values<'a> {
    declared: HashMap<&'a str, &'a Value<'a>>,
    initialized: HashSet<&'a str>,
}

impl<'a> Values<'a> {
    fn of(graph: &'a Graph<'a>) -> Self {
        let declared = graph.values.iter().map(|value| (&*value.name, value));
        let initialized = graph.constants().map(|tensor| &*tensor.name);
        Self { declared: declared.collect(), initialized: initialized.collect() }
    }

    fn describe(&self, name: &str) -> ValueDescription {
        let declared = self.declared.get(name).and_then(|value| value.ty.clone().ok());
        // An unknown type reads as unknown.
        let ty = declared.unwrap_or_default();
        ValueDescription { name: name.to_owned(), ty, has_default: self.initialized.contains(name) }
    }
}

/// Totals over graphs.
#[derive(Default)]
struct Counts<'a> {
    n_graphs: usize,
    operators: BTreeMap<(&'a str, &'a str, i32), usize>,
    weights: BTreeMap<i32, (usize, usize)>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, graph: &'a Graph<'_>) {
        self.n_graphs += 1;
        for node in &graph.nodes {
            let operator = (&*node.domain, &*node.op_type, node.since_version);
            *self.operators.entry(operator).or_default() += 1;
        }
        for tensor in graph.constants() {
            let (n_tensors, n_bytes) = self.weights.entry(tensor.dtype.onnx()).or_default();
            *n_tensors += 1;
            *n_bytes += tensor.n_bytes();
        }
    }

    fn operators(
        &self,
        registry: &Registry,
        unsupported: &[UnsupportedNode],
    ) -> Vec<OperatorCount> {
        let count = |(&(domain, op_type, version), &n_nodes): (&(&str, &str, i32), &usize)| {
            let is_this = |node: &&UnsupportedNode| {
                (node.domain.as_str(), node.op_type.as_str()) == (domain, op_type)
                    && node.since_version == version
            };
            let unsupported = match registry.find(domain, op_type, version) {
                Err(error) => Some(error.to_string()),
                Ok(_) => unsupported.iter().find(is_this).map(UnsupportedNode::reason),
            };
            OperatorCount {
                domain: domain.to_owned(),
                op_type: op_type.to_owned(),
                version,
                n_nodes,
                unsupported,
            }
        };
        let mut operators: Vec<_> = self.operators.iter().map(count).collect();
        operators.sort_by_key(|operator| std::cmp::Reverse(operator.n_nodes));
        operators
    }

    fn weights(&self) -> Vec<WeightCount> {
        let count = |(&number, &(n_tensors, n_bytes)): (&i32, &(usize, usize))| WeightCount {
            dtype: DType::from_onnx(number),
            n_tensors,
            n_bytes,
        };
        let mut weights: Vec<_> = self.weights.iter().map(count).collect();
        weights.sort_by_key(|weights| std::cmp::Reverse(weights.n_bytes));
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ort_format::record::{self, AttributeValue};
    use ort_format::{DataType, write};

    fn tensor(name: &'static str, data_type: DataType, raw: &[u8]) -> record::Tensor<'static> {
        let n = raw.len() * 8 / usize::try_from(data_type.bits().unwrap()).unwrap();
        let dims = vec![i64::try_from(n).unwrap()];
        let raw_data = Some(raw.to_vec().into());
        record::Tensor { name: name.into(), dims, data_type, raw_data, ..Default::default() }
    }

    fn node(op_type: &'static str, index: u32, output: &'static str) -> record::Node<'static> {
        record::Node {
            op_type: op_type.into(),
            since_version: 1,
            index,
            execution_provider_type: Some("CPUExecutionProvider".into()),
            outputs: vec![output.into()],
            ..Default::default()
        }
    }

    fn value(name: &'static str) -> record::ValueInfo<'static> {
        let value = record::TypeInfoValue::Tensor(record::TensorTypeAndShape {
            elem_type: DataType::Float,
            shape: Some(record::Shape { dim: vec![record::Dimension::default()] }),
        });
        let type_info = Some(record::TypeInfo { value: Some(value), ..Default::default() });
        record::ValueInfo { name: name.into(), type_info, ..Default::default() }
    }

    /// A model whose only node has a subgraph and an unknown operator.
    fn model() -> Vec<u8> {
        let denormal = 1e-40_f32.to_le_bytes();
        let below = record::Graph {
            initializers: vec![tensor("c", DataType::Float, &denormal)],
            node_args: vec![value("c"), value("z")],
            nodes: vec![node("Relu", 0, "z")],
            outputs: vec!["z".into()],
            ..Default::default()
        };
        let mut unknown = node("NobodyKnows", 0, "y");
        unknown.attributes.push(record::Attribute::new("body", AttributeValue::Graph(below)));
        let graph = record::Graph {
            initializers: vec![
                tensor("b", DataType::Float, &[0; 8]),
                tensor("i", DataType::Int64, &[0; 8]),
            ],
            node_args: vec![value("x"), value("b"), value("i"), value("y")],
            nodes: vec![unknown],
            inputs: vec!["x".into(), "b".into()],
            outputs: vec!["y".into()],
            ..Default::default()
        };
        let producer_name = Some("hand".into());
        let model = record::Model { ir_version: 8, producer_name, graph, ..Default::default() };
        write(&record::File { model, ..Default::default() }).unwrap()
    }

    #[test]
    fn subgraphs_count_and_unknown_operators_are_reported() {
        let found = inspect(&ModelBytes::from_vec(model())).unwrap();
        assert_eq!((found.version.as_str(), found.n_subgraphs), ("4", 1));
        assert_eq!(found.model.producer_name, "hand");
        let inputs: Vec<_> = found
            .inputs
            .iter()
            .map(|it| (it.name.as_str(), it.ty.to_string(), it.has_default))
            .collect();
        let ty = || "float[?]".to_owned();
        assert_eq!(inputs, [("x", ty(), false), ("b", ty(), true)]);
        let operators: Vec<_> = found
            .operators
            .iter()
            .map(|it| (it.op_type.as_str(), it.n_nodes, it.unsupported.is_some()))
            .collect();
        assert_eq!(operators, [("NobodyKnows", 1, true), ("Relu", 1, false)]);
        let weights: Vec<_> =
            found.weights.iter().map(|it| (it.dtype, it.n_tensors, it.n_bytes)).collect();
        assert_eq!(weights, [(Some(DType::F32), 2, 12), (Some(DType::I64), 1, 8)]);
        assert_eq!(found.hints.providers, [("CPUExecutionProvider".to_owned(), 2)]);
    }

    #[test]
    fn an_unsupported_type_is_reported() {
        let text = record::TypeInfoValue::Tensor(record::TensorTypeAndShape {
            elem_type: DataType::String,
            shape: None,
        });
        let type_info = Some(record::TypeInfo { value: Some(text), ..Default::default() });
        let x = record::ValueInfo { name: "x".into(), type_info, ..Default::default() };
        let relu = |index, output| {
            let (inputs, input_arg_counts) = (vec!["x".into()], vec![1]);
            record::Node {
                inputs,
                input_arg_counts,
                since_version: 14,
                ..node("Relu", index, output)
            }
        };
        let graph = record::Graph {
            node_args: vec![x],
            nodes: vec![relu(0, "y"), relu(1, "z")],
            inputs: vec!["x".into()],
            outputs: vec!["y".into(), "z".into()],
            ..Default::default()
        };
        let model = record::Model { ir_version: 8, graph, ..Default::default() };
        let bytes = write(&record::File { model, ..Default::default() }).unwrap();
        let found = inspect(&ModelBytes::from_vec(bytes.clone())).unwrap();
        let reason =
            "operator ai.onnx:Relu in version 14: input 0 has the unsupported type string[...]";
        assert_eq!(found.operators[0].unsupported.as_deref(), Some(reason));
        assert_eq!(found.operators[0].n_nodes, 2);
        // The session's error names both nodes.
        let rejected = crate::Session::builder().commit(ModelBytes::from_vec(bytes)).unwrap_err();
        let rejected = rejected.to_string();
        assert!(
            rejected.contains(&format!("2 nodes are not supported: {reason} (`Relu`, `Relu`)"))
        );
    }

    #[test]
    fn denormal_weights_are_found_in_every_graph() {
        let found = denormal_weights(&ModelBytes::from_vec(model())).unwrap();
        let expected = DenormalWeights {
            name: "c".to_owned(),
            dtype: DType::F32,
            n_denormal: 1,
            n_elements: 1,
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn other_bytes_are_an_error() {
        assert!(inspect(&ModelBytes::from_static(b"no model at all")).is_err());
        assert!(denormal_weights(&ModelBytes::from_static(&[])).is_err());
    }
}
