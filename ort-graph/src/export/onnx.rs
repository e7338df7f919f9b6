//! Converts a `.ort` file to a `.onnx` one: table by table, message by message.

// collects are bounded: as long as the graph's lists

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use ort_format::record::{self, TypeInfoValue};
use ort_format::{AttributeType, DimensionValueType};
use ort_onnx::schema::{
    AttributeProto, DimensionProto, ElementTypeProto, GraphProto, MapTypeProto, ModelProto,
    NodeProto, OperatorSetIdProto, SparseTensorProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use ort_tensor::{TensorError, go_on, text_of, with_room};

/// The message of a file. Its graph is named `graph_name`: ONNX Runtime (1.32) requires a name, and `.ort` files have
/// none. Elements are copied.
///
/// # Errors
/// If there is no memory for them, or the thread was cancelled.
pub fn to_onnx(file: record::File<'_>, graph_name: &str) -> Result<ModelProto, TensorError> {
    let model = file.model;
    let set = |set: record::OperatorSetId<'_>| OperatorSetIdProto {
        domain: set.domain.into_owned(),
        version: set.version,
    };
    let entry = |entry: record::StringStringEntry<'_>| StringStringEntryProto {
        key: entry.key.into_owned(),
        value: entry.value.into_owned(),
    };
    let mut graph = graph(model.graph)?;
    graph.name = if graph_name.is_empty() { "graph" } else { graph_name }.to_owned();
    graph.doc_string = text(model.graph_doc_string);
    Ok(ModelProto {
        ir_version: model.ir_version,
        producer_name: text(model.producer_name),
        producer_version: text(model.producer_version),
        domain: text(model.domain),
        model_version: Some(model.model_version).filter(|&version| version != i64::MAX),
        doc_string: text(model.doc_string),
        graph: Some(graph),
        opset_import: model.opset_import.into_iter().map(set).collect(),
        metadata_props: model.metadata_props.into_iter().map(entry).collect(),
        functions: Vec::new(),
    })
}

fn text(text: Option<Cow<'_, str>>) -> String {
    text.map(Cow::into_owned).unwrap_or_default()
}

fn texts(texts: Vec<Cow<'_, str>>) -> Vec<String> {
    texts.into_iter().map(Cow::into_owned).collect()
}

/// Inputs and outputs come with their types, and so does every other value that has one.
fn graph(graph: record::Graph<'_>) -> Result<GraphProto, TensorError> {
    let initializer: Vec<_> = all(graph.initializers, tensor)?;
    let declared = graph.node_args.into_iter().map(value);
    let mut values: BTreeMap<String, ValueInfoProto> =
        declared.map(|value| (value.name.clone(), value)).collect();
    let named = |names: Vec<Cow<'_, str>>| -> Vec<ValueInfoProto> {
        let value = |name: Cow<'_, str>| {
            let none = || ValueInfoProto { name: name.clone().into_owned(), r#type: None };
            values.get(&*name).cloned().unwrap_or_else(none)
        };
        let named: Vec<_> = names.into_iter().map(value).collect();
        named
    };
    let (input, output) = (named(graph.inputs), named(graph.outputs));
    let boundary = input.iter().chain(&output).map(|value| &value.name);
    for name in boundary.chain(initializer.iter().map(|tensor| &tensor.name)) {
        values.remove(name);
    }
    let is_typed = |value: &ValueInfoProto| value.r#type.is_some() && !value.name.is_empty();
    Ok(GraphProto {
        value_info: values.into_values().filter(is_typed).collect(),
        node: all(graph.nodes, node)?,
        initializer,
        input,
        output,
        sparse_initializer: all(graph.sparse_initializers, sparse)?,
        ..GraphProto::default()
    })
}

fn all<T, U>(
    items: impl IntoIterator<Item = T>,
    convert: impl FnMut(T) -> Result<U, TensorError>,
) -> Result<Vec<U>, TensorError> {
    items.into_iter().map(convert).collect()
}

fn node(node: record::Node<'_>) -> Result<NodeProto, TensorError> {
    Ok(NodeProto {
        input: texts(node.inputs),
        output: texts(node.outputs),
        name: node.name.into_owned(),
        op_type: node.op_type.into_owned(),
        attribute: all(node.attributes, attribute)?,
        domain: node.domain.into_owned(),
        ..NodeProto::default()
    })
}

fn attribute(attribute: record::Attribute<'_>) -> Result<AttributeProto, TensorError> {
    let bytes = |text: Cow<'_, str>| Bytes::from(text.into_owned());
    let is_of = |kind| attribute.attribute_type == kind;
    Ok(AttributeProto {
        f: is_of(AttributeType::Float).then_some(attribute.f),
        i: is_of(AttributeType::Int).then_some(attribute.i),
        r#type: attribute.attribute_type.into(),
        name: attribute.name.into_owned(),
        s: attribute.s.map(bytes),
        t: attribute.t.map(|value| tensor(value).map(Box::new)).transpose()?,
        g: attribute.g.map(|value| graph(value).map(Box::new)).transpose()?,
        floats: attribute.floats.unwrap_or_default(),
        ints: attribute.ints.unwrap_or_default(),
        strings: attribute.strings.into_iter().flatten().map(bytes).collect(),
        tensors: all(attribute.tensors.into_iter().flatten(), tensor)?,
        graphs: all(attribute.graphs.into_iter().flatten(), graph)?,
        ..AttributeProto::default()
    })
}

fn tensor(tensor: record::Tensor<'_>) -> Result<TensorProto, TensorError> {
    let bytes = |text: Cow<'_, str>| Ok(Bytes::from(text_of(&[&text])?));
    Ok(TensorProto {
        dims: tensor.dims,
        data_type: tensor.data_type.into(),
        name: tensor.name.into_owned(),
        raw_data: tensor.raw_data.map(|raw| copied(&raw)).transpose()?,
        string_data: all(tensor.string_data.into_iter().flatten(), bytes)?,
        ..TensorProto::default()
    })
}

/// A copy of elements, in pieces that take a millisecond or two.
fn copied(raw: &[u8]) -> Result<Bytes, TensorError> {
    const PIECE: usize = 1 << 22;
    let mut copy: Vec<u8> = with_room(raw.len())?;
    for piece in raw.chunks(PIECE) {
        go_on()?;
        copy.extend_from_slice(piece);
    }
    Ok(copy.into())
}

fn sparse(sparse: record::SparseTensor<'_>) -> Result<SparseTensorProto, TensorError> {
    Ok(SparseTensorProto {
        values: Some(tensor(sparse.values)?),
        indices: Some(tensor(sparse.indices)?),
        dims: sparse.dims,
    })
}

fn value(value: record::ValueInfo<'_>) -> ValueInfoProto {
    ValueInfoProto { name: value.name.into_owned(), r#type: value.type_info.and_then(ty) }
}

fn ty(info: record::TypeInfo<'_>) -> Option<TypeProto> {
    let inner = |info: Option<record::TypeInfo<'_>>| info.and_then(ty).map(Box::new);
    Some(match info.value? {
        TypeInfoValue::Tensor(tensor) => {
            let elem_type = tensor.elem_type.into();
            let tensor_type = Some(TensorTypeProto { elem_type, shape: tensor.shape.map(shape) });
            TypeProto { tensor_type, ..TypeProto::default() }
        }
        TypeInfoValue::Sequence(sequence) => {
            let item = ElementTypeProto { elem_type: inner(sequence.elem_type) };
            TypeProto { sequence_type: Some(Box::new(item)), ..TypeProto::default() }
        }
        TypeInfoValue::Map(map) => {
            let (key_type, value_type) = (map.key_type.into(), inner(map.value_type));
            let map = MapTypeProto { key_type, value_type };
            TypeProto { map_type: Some(Box::new(map)), ..TypeProto::default() }
        }
        _ => return None,
    })
}

fn shape(shape: record::Shape<'_>) -> TensorShapeProto {
    let dim = |dim: record::Dimension<'_>| DimensionProto {
        dim_value: (dim.value.dim_type == DimensionValueType::Value).then_some(dim.value.dim_value),
        dim_param: dim.value.dim_param.map(Cow::into_owned),
        denotation: text(dim.denotation),
    };
    TensorShapeProto { dim: shape.dim.into_iter().map(dim).collect() }
}
