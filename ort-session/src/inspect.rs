//! What a file holds, without running it.

mod types;
mod weights;

use std::collections::BTreeMap;

use bytes::Bytes;
use ort_format::{AttributeValue, Limits};
use ort_graph::{ImportError, ImportLimits, ModelInfo, Registry, UnsupportedNode, import};
use ort_tensor::DType;

use crate::error::SessionError;
use crate::session::ValueDescription;

pub use self::weights::{DenormalWeights, denormal_weights};

/// What a file holds: of the main graph and of all graphs below it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Inspection {
    /// The version of the format, as the file has it: a decimal number.
    pub version: String,
    /// What the file says about the model.
    pub model: ModelInfo,
    /// The inputs of the main graph, in its order.
    pub inputs: Vec<ValueDescription>,
    /// Its outputs.
    pub outputs: Vec<ValueDescription>,
    /// How many graphs there are below the main one.
    pub n_subgraphs: usize,
    /// Each operator that a node applies, the most frequent first.
    pub operators: Vec<OperatorCount>,
    /// The initializers by element type, the largest sum of bytes first.
    pub weights: Vec<WeightCount>,
    /// What the file recommends.
    pub hints: Hints,
    /// What is odd about the file and does no harm.
    pub warnings: Vec<String>,
}

/// How often nodes apply an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperatorCount {
    /// Its domain; empty for ai.onnx.
    pub domain: String,
    /// Its name.
    pub op_type: String,
    /// The version that introduced this meaning of it.
    pub version: i32,
    /// How many nodes apply it.
    pub n_nodes: usize,
    /// Why it does not run here, if it does not, or not with the types and attributes of each node.
    pub unsupported: Option<String>,
}

/// Initializers of one element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightCount {
    /// The element type; `None` for one that this version does not know.
    pub dtype: Option<DType>,
    /// How many there are.
    pub n_tensors: usize,
    /// The bytes they take in the file; for strings the sum of their lengths.
    pub n_bytes: usize,
}

/// What a file says that nobody has to follow. A session ignores all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// Stored edges between nodes.
    pub n_edges: usize,
    /// The providers that nodes were assigned to, with the number of nodes, sorted by name.
    pub providers: Vec<(String, usize)>,
    /// Fusions that were found and not applied: optimizer, action, and how many, sorted.
    pub runtime_optimizations: Vec<(String, String, usize)>,
}

/// What the file in `bytes` holds. The elements of weights are not looked at, so that pages which
/// hold nothing else stay where they are; [`denormal_weights`] does look. What would keep a
/// session from running it is told: with the operator if it is one, else among the warnings.
///
/// # Errors
/// If the bytes are no sound `.ort` file.
pub fn inspect(bytes: &Bytes) -> Result<Inspection, SessionError> {
    let (file, warnings) =
        ort_format::open_with_warnings(bytes, &Limits::default()).map_err(Box::new)?;
    let mut warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let registry = ort_ops::registry();
    let unsupported = match import(file, bytes, &registry, ImportLimits::default()) {
        Ok(_) => Vec::new(),
        Err(ImportError::Unsupported { nodes }) => nodes,
        Err(error) => {
            warnings.push(format!("a session would refuse it: {error}"));
            Vec::new()
        }
    };
    let mut counts = Counts::default();
    visit(file.model().graph(), &mut |graph| counts.add(graph));
    let graph = file.model().graph();
    let values = types::Values::of(graph);
    Ok(Inspection {
        version: file.ort_version().unwrap_or_default().to_owned(),
        model: ModelInfo::of(file.model()),
        inputs: graph.inputs().iter().map(|name| values.describe(name)).collect(),
        outputs: graph.outputs().iter().map(|name| values.describe(name)).collect(),
        n_subgraphs: counts.n_graphs - 1,
        operators: counts.operators(&registry, &unsupported),
        weights: counts.weights(),
        hints: counts.hints(),
        warnings,
    })
}

/// Calls `seen` with the graph and all graphs below it.
pub(crate) fn visit<'a>(graph: ort_format::Graph<'a>, seen: &mut dyn FnMut(ort_format::Graph<'a>)) {
    seen(graph);
    for attribute in graph.nodes().iter().flat_map(|node| node.attributes().iter()) {
        match attribute.value() {
            AttributeValue::Graph(graph) => visit(graph, seen),
            AttributeValue::Graphs(graphs) => graphs.iter().for_each(|graph| visit(graph, seen)),
            _ => {}
        }
    }
}

/// Sums over graphs.
#[derive(Default)]
struct Counts<'a> {
    n_graphs: usize,
    operators: BTreeMap<(&'a str, &'a str, i32), usize>,
    weights: BTreeMap<i32, (usize, usize)>,
    n_edges: usize,
    providers: BTreeMap<&'a str, usize>,
    runtime_optimizations: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, graph: ort_format::Graph<'a>) {
        self.n_graphs += 1;
        for node in graph.nodes().iter() {
            let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
            let operator = (domain, node.op_type(), node.since_version());
            *self.operators.entry(operator).or_default() += 1;
            if let Some(provider) = node.execution_provider_type().filter(|name| !name.is_empty()) {
                *self.providers.entry(provider).or_default() += 1;
            }
        }
        let sparse = graph.sparse_initializers().iter();
        let sparse = sparse.flat_map(|tensor| [tensor.values(), tensor.indices()]);
        for tensor in graph.initializers().iter().chain(sparse) {
            let raw = tensor.raw_data().unwrap_or_default().len();
            let strings = tensor.string_data().unwrap_or_default().iter().map(str::len);
            let (n_tensors, n_bytes) = self.weights.entry(tensor.data_type().into()).or_default();
            *n_tensors += 1;
            *n_bytes += raw + strings.sum::<usize>();
        }
        self.n_edges += graph.node_edges().iter().map(|it| it.output_edges().len()).sum::<usize>();
        for entry in graph.runtime_optimizations().iter().flat_map(|all| all.records().iter()) {
            for record in entry.runtime_optimization_records().iter() {
                let action = (entry.optimizer_name(), record.action_id());
                *self.runtime_optimizations.entry(action).or_default() += 1;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use ort_format::record::{self, AttributeValue};
    use ort_format::{DataType, write};
    use ort_loader::ModelBytes;

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

    /// A model with a graph below its only node, whose operator nobody knows.
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
    fn graphs_below_count_and_what_nobody_knows_is_told() {
        let found = inspect(&model().into()).unwrap();
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
    fn an_operator_that_does_not_take_a_type_is_told() {
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
        let found = inspect(&bytes.clone().into()).unwrap();
        let reason =
            "operator ai.onnx:Relu in version 14: input 0 has the unsupported type string[...]";
        assert_eq!(found.operators[0].unsupported.as_deref(), Some(reason));
        assert_eq!(found.operators[0].n_nodes, 2);
        // A session names both nodes.
        let refused = crate::Session::builder().commit(ModelBytes::from_vec(bytes)).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains(&format!("2 nodes are not supported: {reason} (`Relu`, `Relu`)")));
    }

    #[test]
    fn denormal_weights_are_found_in_every_graph() {
        let found = denormal_weights(&model()).unwrap();
        let expected = DenormalWeights {
            name: "c".to_owned(),
            dtype: DType::F32,
            n_denormal: 1,
            n_elements: 1,
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn bytes_that_are_no_file_are_an_error() {
        assert!(inspect(&Bytes::from_static(b"no model at all")).is_err());
        assert!(denormal_weights(&[]).is_err());
    }
}
