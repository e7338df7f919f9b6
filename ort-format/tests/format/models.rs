//! Small models, one for each part of the format.

use std::borrow::Cow;

use ort_format::record::{
    ArgTypeAndIndex, Attribute, AttributeValue, Dimension, DimensionValue, File, Graph,
    KernelTypeStrArgsEntry, KernelTypeStrResolver, MapType, Model, Node, NodesToOptimizeIndices,
    OpIdKernelTypeStrArgsEntry, OperatorSetId, RuntimeOptimizationRecord,
    RuntimeOptimizationRecordContainerEntry, RuntimeOptimizations, SequenceType, Shape,
    SparseTensor, StringStringEntry, Tensor, TensorTypeAndShape, TypeInfo, TypeInfoValue,
    ValueInfo,
};
use ort_format::{ArgType, DataType, DimensionValueType};

pub(crate) type Text = Cow<'static, str>;

/// Every model below, by name.
pub(crate) fn all() -> Vec<(&'static str, File<'static>)> {
    vec![
        ("empty", file(Graph::default())),
        ("conv_relu", conv_relu()),
        ("branches", branches()),
        ("types", types()),
        ("constants", constants()),
        ("attributes", attributes()),
        ("hints", hints()),
    ]
}

pub(crate) fn file(graph: Graph<'static>) -> File<'static> {
    let opset_import = vec![OperatorSetId { domain: "".into(), version: 17 }];
    let model = Model { ir_version: 8, opset_import, graph, ..Model::default() };
    File { model, kernel_type_str_resolver: None }
}

/// `y = Relu(Conv(x, w))`, stored against the order of execution, as a fusion leaves it.
pub(crate) fn conv_relu() -> File<'static> {
    let relu = node("relu", "Relu", 0, &["conv"], &["y"]);
    let mut conv = node("conv", "Conv", 2, &["x", "w"], &["conv"]);
    conv.attributes = vec![Attribute::new("pads", AttributeValue::Ints(vec![1, 1, 1, 1]))];
    let mut file = file(Graph {
        initializers: vec![floats("w", &[1, 1, 3, 3], 9)],
        node_args: values(&["x", "w", "conv", "y"]),
        nodes: vec![relu, conv],
        inputs: texts(&["x"]),
        outputs: texts(&["y"]),
        ..Graph::default()
    });
    file.model.producer_name = Some("tests".into());
    file.model.graph_doc_string = Some("two nodes".into());
    file.model.metadata_props =
        vec![StringStringEntry { key: "author".into(), value: "no one — a test".into() }];
    file.kernel_type_str_resolver = Some(resolver(&[":Relu:13", ":Conv:13"]));
    file
}

/// An `If` whose branches read a value of the outer graph.
pub(crate) fn branches() -> File<'static> {
    let branch = |op: &'static str, result: &'static str| Graph {
        node_args: values(&["hidden", result]),
        nodes: vec![node("", op, 0, &["hidden"], &[result])],
        outputs: texts(&[result]),
        ..Graph::default()
    };
    let mut choose = node("choose", "If", 1, &["condition"], &["y"]);
    choose.attributes = vec![
        Attribute::new("then_branch", AttributeValue::Graph(branch("Neg", "then"))),
        Attribute::new("else_branch", AttributeValue::Graph(branch("Abs", "else"))),
    ];
    choose.implicit_inputs = texts(&["hidden"]);
    file(Graph {
        node_args: values(&["x", "condition", "hidden", "y"]),
        nodes: vec![node("exp", "Exp", 0, &["x"], &["hidden"]), choose],
        inputs: texts(&["x", "condition"]),
        outputs: texts(&["y"]),
        ..Graph::default()
    })
}

/// A sequence of tensors, a map, an unknown rank, a scalar, a symbol, no type.
pub(crate) fn types() -> File<'static> {
    let scalar = TensorTypeAndShape { elem_type: DataType::Int64, shape: Some(Shape::default()) };
    let unknown = TensorTypeAndShape { elem_type: DataType::Int4, shape: None };
    let tensor = |tensor| TypeInfo { value: Some(TypeInfoValue::Tensor(tensor)), denotation: None };
    let sequence = SequenceType { elem_type: Some(tensor(unknown.clone())) };
    let map = MapType { key_type: DataType::String, value_type: Some(tensor(scalar.clone())) };
    let kinds = [
        TypeInfoValue::Tensor(scalar),
        TypeInfoValue::Tensor(unknown),
        TypeInfoValue::Sequence(Box::new(sequence)),
        TypeInfoValue::Map(Box::new(map)),
    ];
    let mut node_args = values(&["symbol", ""]);
    node_args[1].type_info = None;
    node_args.extend(kinds.into_iter().enumerate().map(|(index, kind)| ValueInfo {
        name: format!("kind {index}").into(),
        doc_string: Some("a kind of type".into()),
        type_info: Some(TypeInfo { denotation: Some("IMAGE".into()), value: Some(kind) }),
    }));
    file(Graph { node_args, ..Graph::default() })
}

/// Every element type, including sub-byte ones; strings; sparse constants; a constant without elements.
pub(crate) fn constants() -> File<'static> {
    let mut initializers: Vec<Tensor<'static>> = (1..=26)
        .map(DataType::from)
        .filter_map(|kind| Some((kind, kind.bits()?)))
        .map(|(kind, bits)| {
            bytes(format!("{kind:?}"), &[5], kind, vec![7; bits_to_bytes(5 * bits)])
        })
        .collect();
    initializers.push(bytes("none", &[3, 0, 2], DataType::Double, vec![]));
    initializers.push(bytes("one", &[], DataType::Uint8, vec![9]));
    initializers.push(Tensor {
        name: "texts".into(),
        dims: vec![2],
        data_type: DataType::String,
        string_data: Some(texts(&["", "ünïcode"])),
        ..Tensor::default()
    });
    let indices = |dims: &[i64], at: &[i64]| {
        bytes("", dims, DataType::Int64, at.iter().flat_map(|at| at.to_le_bytes()).collect())
    };
    let sparse_initializers = vec![
        SparseTensor {
            values: floats("a", &[2], 2),
            indices: indices(&[2], &[0, 5]),
            dims: vec![2, 3],
        },
        SparseTensor {
            values: floats("b", &[1], 1),
            indices: indices(&[1, 2], &[1, 2]),
            dims: vec![2, 3],
        },
    ];
    file(Graph { initializers, sparse_initializers, ..Graph::default() })
}

/// A node with an attribute of each type.
pub(crate) fn attributes() -> File<'static> {
    let graph = || Graph { node_args: values(&["unused"]), ..Graph::default() };
    let attributes = [
        AttributeValue::Float(-0.0),
        AttributeValue::Int(i64::MIN),
        AttributeValue::String("text".into()),
        AttributeValue::Tensor(floats("", &[2], 2)),
        AttributeValue::Graph(graph()),
        AttributeValue::Floats(vec![f32::INFINITY, 1.5]),
        AttributeValue::Ints(vec![]),
        AttributeValue::Strings(texts(&["a", "", "a"])),
        AttributeValue::Tensors(vec![floats("", &[], 1), floats("", &[0], 0)]),
        AttributeValue::Graphs(vec![graph(), graph()]),
    ];
    let named = attributes.into_iter().enumerate();
    let mut node = node("everything", "Everything", 0, &[], &["y"]);
    node.domain = "test".into();
    node.attributes =
        named.map(|(index, value)| Attribute::new(format!("a{index}"), value)).collect();
    file(Graph { nodes: vec![node], ..Graph::default() })
}

/// A recorded fusion, and vectors with lookup keys, unsorted.
pub(crate) fn hints() -> File<'static> {
    let mut file = conv_relu();
    let fusion = RuntimeOptimizationRecord {
        action_id: "ConvAct".into(),
        nodes_to_optimize_indices: Some(NodesToOptimizeIndices {
            node_indices: vec![2, 0, u32::MAX],
            num_outputs: 1,
            has_variadic_input: true,
            num_variadic_inputs: 3,
            ..NodesToOptimizeIndices::default()
        }),
        produced_op_ids: texts(&["com.microsoft:FusedConv:1"]),
    };
    let by = |name: &'static str| RuntimeOptimizationRecordContainerEntry {
        optimizer_name: name.into(),
        runtime_optimization_records: vec![fusion.clone()],
    };
    let records = vec![by("ConvActivationFusion"), by("QDQSelectorActionTransformer")];
    file.model.graph.runtime_optimizations = Some(RuntimeOptimizations { records });
    file
}

pub(crate) fn node(
    name: &'static str,
    op_type: &'static str,
    index: u32,
    inputs: &[&'static str],
    outputs: &[&'static str],
) -> Node<'static> {
    Node {
        name: name.into(),
        op_type: op_type.into(),
        since_version: 13,
        index,
        inputs: texts(inputs),
        outputs: texts(outputs),
        input_arg_counts: vec![1; inputs.len()],
        ..Node::default()
    }
}

pub(crate) fn values(names: &[&'static str]) -> Vec<ValueInfo<'static>> {
    let symbol = DimensionValue {
        dim_type: DimensionValueType::Param,
        dim_param: Some("batch".into()),
        ..DimensionValue::default()
    };
    let dim = vec![Dimension { value: symbol, denotation: None }];
    let tensor = TensorTypeAndShape { elem_type: DataType::Float, shape: Some(Shape { dim }) };
    let info = TypeInfo { denotation: None, value: Some(TypeInfoValue::Tensor(tensor)) };
    let value = |name: &&'static str| ValueInfo {
        name: (*name).into(),
        doc_string: None,
        type_info: Some(info.clone()),
    };
    names.iter().map(value).collect()
}

pub(crate) fn texts(texts: &[&'static str]) -> Vec<Text> {
    texts.iter().map(|text| Text::from(*text)).collect()
}

pub(crate) fn floats(name: &'static str, dims: &[i64], count: usize) -> Tensor<'static> {
    bytes(name, dims, DataType::Float, 1.5_f32.to_le_bytes().repeat(count))
}

pub(crate) fn bytes(
    name: impl Into<Text>,
    dims: &[i64],
    data_type: DataType,
    raw_data: Vec<u8>,
) -> Tensor<'static> {
    Tensor {
        name: name.into(),
        dims: dims.to_vec(),
        data_type,
        raw_data: Some(raw_data.into()),
        ..Tensor::default()
    }
}

pub(crate) fn resolver(ops: &[&'static str]) -> KernelTypeStrResolver<'static> {
    let args =
        vec![ArgTypeAndIndex::default(), ArgTypeAndIndex { arg_type: ArgType::Output, index: 0 }];
    let kernel_type_str_args = vec![KernelTypeStrArgsEntry { kernel_type_str: "T".into(), args }];
    let entry = |op: &&'static str| OpIdKernelTypeStrArgsEntry {
        op_id: (*op).into(),
        kernel_type_str_args: kernel_type_str_args.clone(),
    };
    KernelTypeStrResolver { op_kernel_type_str_args: ops.iter().map(entry).collect() }
}

fn bits_to_bytes(bits: u64) -> usize {
    usize::try_from(bits.div_ceil(8)).unwrap()
}
