//! Small models, written with ort-format.

use std::borrow::Cow;

use ort_format::record;
use ort_format::{AttributeType, DataType, DimensionValueType};
use ort_graph::{Export, Graph, ModelInfo, export};

/// A model, or the subgraph of a node.
#[derive(Default)]
pub(crate) struct ModelWriter {
    graph: record::Graph<'static>,
}

impl ModelWriter {
    /// An input of floats; a negative dimension is the symbol `n`.
    pub(crate) fn input(mut self, name: &'static str, dims: &[i64]) -> Self {
        self.graph.inputs.push(name.into());
        self.value(name, floats(Some(dims)))
    }

    /// An input that is a sequence of floats.
    pub(crate) fn sequence(mut self, name: &'static str) -> Self {
        self.graph.inputs.push(name.into());
        let sequence = record::SequenceType { elem_type: Some(floats(None)) };
        let value = Some(record::TypeInfoValue::Sequence(Box::new(sequence)));
        self.value(name, record::TypeInfo { value, ..record::TypeInfo::default() })
    }

    /// A scalar input of any type.
    pub(crate) fn scalar(mut self, name: &'static str, elem_type: DataType) -> Self {
        self.graph.inputs.push(name.into());
        let shape = Some(record::Shape::default());
        let tensor = record::TensorTypeAndShape { elem_type, shape };
        let value = Some(record::TypeInfoValue::Tensor(tensor));
        self.value(name, record::TypeInfo { value, ..record::TypeInfo::default() })
    }

    pub(crate) fn output(mut self, name: &'static str) -> Self {
        self.graph.outputs.push(name.into());
        self
    }

    /// Declares a shape of a value.
    pub(crate) fn declared(self, name: &'static str, dims: &[i64]) -> Self {
        self.value(name, floats(Some(dims)))
    }

    /// An initializer of floats.
    pub(crate) fn constant(mut self, name: &'static str, dims: &[i64], data: &[f32]) -> Self {
        let raw: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.graph.initializers.push(record::Tensor {
            name: name.into(),
            dims: dims.to_vec(),
            data_type: DataType::Float,
            raw_data: Some(raw.into()),
            ..record::Tensor::default()
        });
        self.value(name, floats(Some(dims)))
    }

    /// An initializer of `n` floats, all zero but the first.
    pub(crate) fn sparse(mut self, name: &'static str, n: i64) -> Self {
        let tensor = |data_type, raw: &[u8]| record::Tensor {
            name: name.into(),
            dims: vec![1],
            data_type,
            raw_data: Some(raw.to_vec().into()),
            ..record::Tensor::default()
        };
        self.graph.sparse_initializers.push(record::SparseTensor {
            values: tensor(DataType::Float, &1.0_f32.to_le_bytes()),
            indices: tensor(DataType::Int64, &0_i64.to_le_bytes()),
            dims: vec![n],
        });
        self.value(name, floats(None))
    }

    /// An initializer of floats that is also an input: a run may override it.
    pub(crate) fn default_input(mut self, name: &'static str, dims: &[i64], data: &[f32]) -> Self {
        self.graph.inputs.push(name.into());
        self.constant(name, dims, data)
    }

    /// A node with one output, of this name.
    pub(crate) fn node(
        mut self,
        op_type: &'static str,
        since_version: i32,
        inputs: &[&'static str],
        output: &'static str,
    ) -> Self {
        let index = u32::try_from(self.graph.nodes.len()).unwrap();
        self.graph.nodes.push(record::Node {
            name: format!("{op_type}_{index}").into(),
            op_type: op_type.into(),
            since_version,
            index,
            inputs: inputs.iter().map(|&name| Cow::from(name)).collect(),
            outputs: vec![output.into()],
            input_arg_counts: vec![1; inputs.len()],
            ..record::Node::default()
        });
        self
    }

    /// Another output of the last node.
    pub(crate) fn also(mut self, output: &'static str) -> Self {
        self.graph.nodes.last_mut().unwrap().outputs.push(output.into());
        self
    }

    /// The attribute `body` of the last node.
    pub(crate) fn body(self, body: ModelWriter) -> Self {
        self.subgraph("body", body)
    }

    /// A graph that is an attribute of the last node.
    pub(crate) fn subgraph(mut self, name: &'static str, body: ModelWriter) -> Self {
        self.graph.nodes.last_mut().unwrap().attributes.push(record::Attribute {
            name: name.into(),
            attribute_type: AttributeType::Graph,
            g: Some(body.graph),
            ..record::Attribute::default()
        });
        self
    }

    /// An integer that is an attribute of the last node.
    pub(crate) fn integer(mut self, name: &'static str, value: i64) -> Self {
        self.graph.nodes.last_mut().unwrap().attributes.push(record::Attribute {
            name: name.into(),
            attribute_type: AttributeType::Int,
            i: value,
            ..record::Attribute::default()
        });
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let opset = record::OperatorSetId { domain: "".into(), version: 17 };
        let model = record::Model {
            ir_version: 8,
            opset_import: vec![opset],
            graph: self.graph,
            ..record::Model::default()
        };
        ort_format::write(&record::File { model, ..record::File::default() }).unwrap()
    }

    /// Declares a value, unless it is declared.
    fn value(mut self, name: &'static str, type_info: record::TypeInfo<'static>) -> Self {
        if self.graph.node_args.iter().any(|value| value.name == name) {
            return self;
        }
        self.graph.node_args.push(record::ValueInfo {
            name: name.into(),
            type_info: Some(type_info),
            ..record::ValueInfo::default()
        });
        self
    }
}

/// The type of a tensor of floats; a negative dimension is the symbol `n`.
fn floats(dims: Option<&[i64]>) -> record::TypeInfo<'static> {
    let dim = |&n: &i64| record::Dimension {
        value: record::DimensionValue {
            dim_type: if n < 0 { DimensionValueType::Param } else { DimensionValueType::Value },
            dim_value: n.max(0),
            dim_param: (n < 0).then(|| "n".into()),
        },
        ..record::Dimension::default()
    };
    let shape = dims.map(|dims| record::Shape { dim: dims.iter().map(dim).collect() });
    let tensor = record::TensorTypeAndShape { elem_type: DataType::Float, shape };
    let value = Some(record::TypeInfoValue::Tensor(tensor));
    record::TypeInfo { value, ..record::TypeInfo::default() }
}

/// Pseudo-random numbers between −1 and 1.
pub(crate) fn weights(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 2003) as f32 / 1001.0 - 1.0).collect()
}

/// `y = relu(x + b) · x`, with x: [n, 3].
pub(crate) fn gated() -> Vec<u8> {
    ModelWriter::default()
        .input("x", &[-1, 3])
        .constant("b", &[3], &[1.0, -2.0, 0.5])
        .node("Add", 14, &["x", "b"], "sum")
        .node("Relu", 14, &["sum"], "gate")
        .node("Mul", 14, &["gate", "x"], "y")
        .output("y")
        .bytes()
}

/// What `gated` computes.
pub(crate) fn gated_value(x: &[f32]) -> Vec<f32> {
    let b = [1.0, -2.0, 0.5];
    x.iter().enumerate().map(|(i, x)| (x + b[i % 3]).max(0.0) * x).collect()
}

/// The file of a graph in text form.
pub(crate) fn of_text(text: &str) -> Vec<u8> {
    of_text_at(17, text)
}

/// The same with another opset.
pub(crate) fn of_text_at(opset: i64, text: &str) -> Vec<u8> {
    let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
    let info = ModelInfo { opsets: vec![(String::new(), opset)], ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info)).unwrap();
    ort_format::write(&file).unwrap()
}

/// `y = relu(x + b)`, `z = −y`, `w = x · x`, with x: [n, 3]; the first output is read by a node.
pub(crate) fn forked() -> Vec<u8> {
    ModelWriter::default()
        .input("x", &[-1, 3])
        .constant("b", &[3], &[1.0, -2.0, 0.5])
        .node("Add", 14, &["x", "b"], "sum")
        .node("Relu", 14, &["sum"], "y")
        .node("Neg", 13, &["y"], "z")
        .node("Mul", 14, &["x", "x"], "w")
        .output("y")
        .output("z")
        .output("w")
        .bytes()
}

/// The outputs of `forked`.
pub(crate) fn forked_values(x: &[f32]) -> [Vec<f32>; 3] {
    let y: Vec<f32> =
        x.iter().zip([1.0, -2.0, 0.5].iter().cycle()).map(|(x, b)| (x + b).max(0.0)).collect();
    [y.clone(), y.iter().map(|y| -y).collect(), x.iter().map(|x| x * x).collect()]
}
