//! From a `.ort` file: texts and elements stay where they are.

// collects are bounded: as long as the file's lists

use bytes::Bytes;
use ort_format::{AttributeValue, TypeInfo, TypeInfoValue, Vector};
use ort_tensor::{DType, Shape, TensorError, collected};

use super::{
    Attr, Contents, Form, Graph, Model, ModelInfo, Node, SparseTensor, Tensor, Text, Value,
};
use crate::dim::{Dim, Dims};
use crate::fact::{TensorType, Type};
use crate::import::ImportError;

impl<'a> Model<'a> {
    /// What a file holds. `bytes` are those that it was opened on: constants keep slices of them.
    ///
    /// # Errors
    /// If a constant has an unknown element type or an invalid dimension.
    pub fn of_ort(file: ort_format::File<'a>, bytes: &Bytes) -> Result<Self, ImportError> {
        let model = file.model();
        let graph = Reader { bytes }.graph(model.graph())?;
        Ok(Self { info: info(model), graph })
    }
}

fn info(model: ort_format::Model<'_>) -> ModelInfo {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let opsets = model.opset_import().iter().map(|set| (plain(set.domain()), set.version()));
    let opsets = opsets.map(|(domain, version)| (domain.to_owned(), version)).collect();
    let entries = model.metadata_props().iter();
    let entries = entries.map(|entry| (entry.key().to_owned(), entry.value().to_owned()));
    let mut metadata: Vec<_> = entries.collect();
    metadata.sort();
    ModelInfo {
        ir_version: model.ir_version(),
        opsets,
        producer_name: text(model.producer_name()),
        producer_version: text(model.producer_version()),
        domain: text(model.domain()),
        model_version: Some(model.model_version()).filter(|&version| version != i64::MAX),
        doc_string: text(model.doc_string()),
        graph_name: String::new(),
        graph_doc_string: text(model.graph_doc_string()),
        metadata,
    }
}

/// A domain's name; that of ONNX's own is empty.
fn plain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

struct Reader<'b> {
    bytes: &'b Bytes,
}

impl Reader<'_> {
    fn graph<'a>(&self, graph: ort_format::Graph<'a>) -> Result<Graph<'a>, ImportError> {
        let mut parsed = Graph {
            values: graph.node_args().iter().map(value).collect(),
            inputs: texts(graph.inputs()),
            outputs: texts(graph.outputs()),
            ..Graph::default()
        };
        for tensor in graph.initializers() {
            match tensor.packed_form() {
                Some(of) => parsed.forms.push(Form {
                    name: tensor.name().into(),
                    of: Some(of),
                    bytes: self.bytes.slice_ref(tensor.raw_data().unwrap_or_default()),
                }),
                None => parsed.initializers.push(self.tensor(tensor)?),
            }
        }
        for tensor in graph.sparse_initializers() {
            parsed.sparse_initializers.push(SparseTensor {
                values: self.tensor(tensor.values())?,
                indices: self.tensor(tensor.indices())?,
                shape: shape(tensor.dims(), tensor.values().name())?,
            });
        }
        for node in graph.nodes() {
            parsed.nodes.push(self.node(node)?);
        }
        Ok(parsed)
    }

    fn node<'a>(&self, node: ort_format::Node<'a>) -> Result<Node<'a>, ImportError> {
        let attribute = |attribute: ort_format::Attribute<'a>| {
            let attr = self.attr(attribute.value())?;
            Ok::<_, ImportError>((Text::from(attribute.name()), attr))
        };
        Ok(Node {
            name: node.name().into(),
            domain: plain(node.domain()).into(),
            op_type: node.op_type().into(),
            since_version: node.since_version(),
            inputs: texts(node.inputs()),
            outputs: texts(node.outputs()),
            attributes: node.attributes().iter().map(attribute).collect::<Result<_, _>>()?,
        })
    }

    fn attr<'a>(&self, value: AttributeValue<'a>) -> Result<Attr<'a>, ImportError> {
        Ok(match value {
            AttributeValue::Float(value) => Attr::Float(value),
            AttributeValue::Int(value) => Attr::Int(value),
            AttributeValue::String(value) => Attr::String(value.into()),
            AttributeValue::Tensor(value) => Attr::Tensor(self.tensor(value)?),
            AttributeValue::Graph(value) => Attr::Graph(self.graph(value)?),
            AttributeValue::Floats(values) => Attr::Floats(values.iter().collect()),
            AttributeValue::Ints(values) => Attr::Ints(values.iter().collect()),
            AttributeValue::Strings(values) => Attr::Strings(texts(values)),
            AttributeValue::Tensors(values) => {
                let tensors = values.iter().map(|value| self.tensor(value));
                Attr::Tensors(tensors.collect::<Result<_, _>>()?)
            }
            AttributeValue::Graphs(values) => {
                let graphs = values.iter().map(|value| self.graph(value));
                Attr::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            _ => Attr::Unknown,
        })
    }

    fn tensor<'a>(&self, tensor: ort_format::Tensor<'a>) -> Result<Tensor<'a>, ImportError> {
        let name = tensor.name();
        let dtype = dtype(tensor.data_type())
            .map_err(|number| ImportError::UnknownDType { name: name.to_owned(), number })?;
        let contents = if tensor.is_released() {
            Contents::Released
        } else if dtype == DType::String {
            let strings = tensor.string_data().unwrap_or_default();
            Contents::Strings(collected(strings.iter().map(Text::from)).map_err(|error| {
                ImportError::Tensor { name: name.to_owned(), error: Box::new(error) }
            })?)
        } else {
            Contents::Bytes(self.bytes.slice_ref(tensor.raw_data().unwrap_or_default()))
        };
        Ok(Tensor { name: name.into(), dtype, shape: shape(tensor.dims(), name)?, contents })
    }
}

fn texts<'a>(texts: Vector<'a, &'a str>) -> Vec<Text<'a>> {
    texts.iter().map(Text::from).collect()
}

fn shape(dims: Vector<'_, i64>, name: &str) -> Result<Shape, ImportError> {
    let shape: Option<Shape> = dims.iter().map(|dim| usize::try_from(dim).ok()).collect();
    shape.ok_or_else(|| ImportError::Tensor {
        name: name.to_owned(),
        error: Box::new(TensorError::TooLarge { shape: Vec::new() }),
    })
}

fn dtype(number: ort_format::DataType) -> Result<DType, i32> {
    let number = i32::from(number);
    DType::from_onnx(number).ok_or(number)
}

fn value(value: ort_format::ValueInfo<'_>) -> Value<'_> {
    let info = value.type_info();
    let shape = match info.and_then(TypeInfo::value) {
        Some(TypeInfoValue::Tensor(tensor)) => tensor.shape(),
        _ => None,
    };
    let dims = shape.map(|shape| shape.dim()).into_iter().flat_map(|dims| dims.iter());
    let denotations = dims.map(|dim| Text::from(dim.denotation().unwrap_or_default())).collect();
    Value { name: value.name().into(), ty: declared(info), denotations }
}

/// One without an element type is unknown.
fn declared(info: Option<TypeInfo<'_>>) -> Result<Type, i32> {
    match info.and_then(TypeInfo::value) {
        Some(TypeInfoValue::Tensor(tensor)) => {
            if i32::from(tensor.elem_type()) == 0 {
                return Ok(Type::Unknown);
            }
            let dtype = dtype(tensor.elem_type())?;
            let dims = tensor.shape().map(|shape| shape.dim().iter().map(dim).collect::<Dims>());
            Ok(Type::Tensor(TensorType { dtype, dims }))
        }
        Some(TypeInfoValue::Sequence(sequence)) => {
            Ok(Type::Sequence(Box::new(declared(sequence.elem_type())?)))
        }
        Some(TypeInfoValue::Map(map)) => {
            let value = Box::new(declared(map.value_type())?);
            Ok(Type::Map { key: dtype(map.key_type())?, value })
        }
        _ => Ok(Type::Unknown),
    }
}

/// A negative size means unknown.
fn dim(dim: ort_format::Dimension<'_>) -> Dim {
    use ort_format::DimensionValueType as Kind;
    let value = dim.value();
    match value.dim_type() {
        Kind::Value => usize::try_from(value.dim_value()).map_or(Dim::Unknown, Dim::Known),
        Kind::Param => match value.dim_param() {
            Some(name) if !name.is_empty() => Dim::Symbol(name.into()),
            _ => Dim::Unknown,
        },
        _ => Dim::Unknown,
    }
}
