//! From a `.onnx` file: texts are moved, and elements stay where they are.

// collects are bounded: as long as the file's lists

use ort_onnx::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
    attribute_type as kind,
};
use ort_onnx::{Elements, ElementsError, ExternalFiles};

use super::onnx_types::{declared, value};
use super::{Attr, Contents, Graph, Model, ModelInfo, Node, SparseTensor, Tensor, Text};
use crate::import::ImportError;

impl Model<'static> {
    /// The contents of a model opened by [`ort_onnx::open`], with external data in `files`.
    ///
    /// # Errors
    /// If the elements of a constant cannot be read, or a text is not UTF-8.
    pub fn of_onnx(mut model: ModelProto, files: &ExternalFiles) -> Result<Self, ImportError> {
        let mut graph = model.graph.take().unwrap_or_default();
        let [graph_name, graph_doc_string] =
            [&mut graph.name, &mut graph.doc_string].map(std::mem::take);
        let graph = Reader { files }.graph(graph)?;
        let info = ModelInfo { graph_name, graph_doc_string, ..info(model) };
        Ok(Self { info, graph })
    }
}

/// What the model states outside its graph.
fn info(model: ModelProto) -> ModelInfo {
    let plain = |domain: String| if domain == "ai.onnx" { String::new() } else { domain };
    let opsets = model.opset_import.into_iter().map(|set| (plain(set.domain), set.version));
    let entries = model.metadata_props.into_iter().map(|entry| (entry.key, entry.value));
    let mut metadata: Vec<_> = entries.collect();
    metadata.sort();
    ModelInfo {
        ir_version: model.ir_version,
        opsets: opsets.collect(),
        producer_name: model.producer_name,
        producer_version: model.producer_version,
        domain: model.domain,
        model_version: model.model_version,
        doc_string: model.doc_string,
        metadata,
        ..ModelInfo::default()
    }
}

struct Reader<'f> {
    files: &'f ExternalFiles,
}

type Read<T> = Result<T, ImportError>;

impl Reader<'_> {
    fn graph(&self, graph: GraphProto) -> Read<Graph<'static>> {
        let names = |values: &[ort_onnx::schema::ValueInfoProto]| {
            values.iter().map(|value| Text::from(value.name.clone())).collect()
        };
        let (inputs, outputs) = (names(&graph.input), names(&graph.output));
        let values = graph.value_info.into_iter().chain(graph.output).chain(graph.input);
        Ok(Graph {
            values: values.map(value).collect(),
            inputs,
            outputs,
            initializers: each(graph.initializer, |tensor| self.tensor(tensor))?,
            sparse_initializers: each(graph.sparse_initializer, |tensor| self.sparse(tensor))?,
            forms: Vec::new(),
            nodes: each(graph.node, |node| self.node(node))?,
        })
    }

    fn node(&self, node: NodeProto) -> Read<Node<'static>> {
        let label = if node.name.is_empty() { &node.op_type } else { &node.name }.clone();
        let attribute = |mut attribute: AttributeProto| {
            let name = std::mem::take(&mut attribute.name);
            let attr = self.attr(attribute, &label)?;
            Ok::<_, ImportError>((Text::from(name), attr))
        };
        let domain = if node.domain == "ai.onnx" { String::new() } else { node.domain };
        Ok(Node {
            attributes: each(node.attribute, attribute)?,
            name: node.name.into(),
            domain: domain.into(),
            op_type: node.op_type.into(),
            since_version: node.since_version,
            inputs: node.input.into_iter().map(Text::from).collect(),
            outputs: node.output.into_iter().map(Text::from).collect(),
        })
    }

    /// In a file that states the type, an absent field has its default value.
    fn attr(&self, attribute: AttributeProto, node: &str) -> Read<Attr<'static>> {
        let wrong = |error| ImportError::Elements { name: node.to_owned(), error };
        let strings = |strings: &[bytes::Bytes]| ort_onnx::strings(strings).map_err(wrong);
        Ok(match kind_of(&attribute) {
            kind::FLOAT => Attr::Float(attribute.f.unwrap_or_default()),
            kind::INT => Attr::Int(attribute.i.unwrap_or_default()),
            kind::STRING => {
                let string = strings(&[attribute.s.unwrap_or_default()])?.pop();
                Attr::String(string.unwrap_or_default().into())
            }
            kind::TENSOR => match attribute.t {
                Some(tensor) => Attr::Tensor(self.tensor(*tensor)?),
                None => Attr::Unknown,
            },
            kind::GRAPH => Attr::Graph(self.graph(*attribute.g.unwrap_or_default())?),
            kind::SPARSE_TENSOR => match attribute.sparse_tensor {
                Some(tensor) => Attr::SparseTensor(self.sparse(*tensor)?),
                None => Attr::Unknown,
            },
            kind::TYPE_PROTO => {
                let ty = declared(attribute.tp.as_deref());
                Attr::Type(ty.map_err(|number| wrong(ElementsError::DType { number }))?)
            }
            kind::FLOATS => Attr::Floats(attribute.floats),
            kind::INTS => Attr::Ints(attribute.ints),
            kind::STRINGS => {
                Attr::Strings(strings(&attribute.strings)?.into_iter().map(Text::from).collect())
            }
            kind::TENSORS => Attr::Tensors(each(attribute.tensors, |tensor| self.tensor(tensor))?),
            kind::GRAPHS => Attr::Graphs(each(attribute.graphs, |graph| self.graph(graph))?),
            _ => Attr::Unknown,
        })
    }

    fn tensor(&self, mut tensor: TensorProto) -> Read<Tensor<'static>> {
        let name = std::mem::take(&mut tensor.name);
        let wrong = |error| ImportError::Elements { name: name.clone(), error };
        let (dtype, shape) = (tensor.dtype().map_err(wrong)?, tensor.shape().map_err(wrong)?);
        let contents = match tensor.into_elements(self.files).map_err(wrong)? {
            Elements::Bytes(bytes) => Contents::Bytes(bytes),
            Elements::Strings(strings) => {
                Contents::Strings(strings.into_iter().map(Text::from).collect())
            }
        };
        Ok(Tensor { name: name.into(), dtype, shape, contents })
    }

    fn sparse(&self, tensor: SparseTensorProto) -> Read<SparseTensor<'static>> {
        let values = self.tensor(tensor.values.unwrap_or_default())?;
        let indices = self.tensor(tensor.indices.unwrap_or_default())?;
        let wrong = |error| ImportError::Elements { name: values.name.to_string(), error };
        let shape = ort_onnx::shape(&tensor.dims).map_err(wrong)?;
        Ok(SparseTensor { values, indices, shape })
    }
}

/// Reads each item, in memory that is allocated once: `collect` cannot know how many there are before an error.
fn each<T, U>(items: Vec<T>, read: impl FnMut(T) -> Read<U>) -> Read<Vec<U>> {
    // bounded: as long as the file's lists
    let mut all = Vec::with_capacity(items.len());
    for item in items.into_iter().map(read) {
        all.push(item?);
    }
    Ok(all)
}

/// Which field has the value. IR version 1 does not state it: the one that is present.
fn kind_of(attribute: &AttributeProto) -> i32 {
    let is_there = [
        (kind::FLOAT, attribute.f.is_some()),
        (kind::INT, attribute.i.is_some()),
        (kind::STRING, attribute.s.is_some()),
        (kind::TENSOR, attribute.t.is_some()),
        (kind::GRAPH, attribute.g.is_some()),
        (kind::FLOATS, !attribute.floats.is_empty()),
        (kind::INTS, !attribute.ints.is_empty()),
        (kind::STRINGS, !attribute.strings.is_empty()),
        (kind::TENSORS, !attribute.tensors.is_empty()),
        (kind::GRAPHS, !attribute.graphs.is_empty()),
    ];
    match attribute.r#type {
        kind::UNDEFINED => {
            let found = is_there.into_iter().find(|(_, is_there)| *is_there);
            found.map_or(kind::UNDEFINED, |(kind, _)| kind)
        }
        stated => stated,
    }
}
