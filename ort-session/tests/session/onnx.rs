//! The features of `.onnx` files, each tested by its results.

use ort_onnx::schema::{
    AttributeProto, DimensionProto, ElementTypeProto, FunctionProto, GraphProto, ModelProto,
    NodeProto, OperatorSetIdProto, SparseTensorProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, attribute_type,
};
use ort_session::{ModelBytes, Session, SessionError, Tensor, Value};

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
    let op_type = op_type.to_owned();
    NodeProto { op_type, input: texts(input), output: texts(output), ..NodeProto::default() }
}

fn tensor(name: &str, data_type: i32, dims: &[i64]) -> TensorProto {
    let (name, dims) = (name.to_owned(), dims.to_vec());
    TensorProto { name, data_type, dims, ..TensorProto::default() }
}

fn floats(name: &str, values: &[f32]) -> TensorProto {
    let n = i64::try_from(values.len()).unwrap();
    TensorProto { float_data: values.to_vec(), ..tensor(name, 1, &[n]) }
}

fn integers(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto { int64_data: values.to_vec(), ..tensor(name, 7, dims) }
}

/// A value of floats; dimensions are numbers or symbols.
fn value(name: &str, dims: &[&str]) -> ValueInfoProto {
    let dim = |dim: &&str| match dim.parse() {
        Ok(size) => DimensionProto { dim_value: Some(size), ..Default::default() },
        Err(_) => DimensionProto { dim_param: Some((*dim).to_owned()), ..Default::default() },
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape });
    let r#type = Some(TypeProto { tensor_type, ..TypeProto::default() });
    ValueInfoProto { name: name.to_owned(), r#type }
}

fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.to_owned(), r#type: None }
}

fn set(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: domain.to_owned(), version }
}

/// A graph that returns the outputs of its last node.
fn graph(node: Vec<NodeProto>) -> GraphProto {
    let output = node.last().map(|node| node.output.iter().map(|name| untyped(name)).collect());
    GraphProto { node, output: output.unwrap_or_default(), ..GraphProto::default() }
}

fn model(graph: GraphProto) -> ModelProto {
    let opset_import = vec![set("", 18)];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() }
}

fn session(model: &ModelProto) -> Result<Session, SessionError> {
    let bytes = ort_onnx::encode(model).unwrap();
    Session::builder().threads(1).commit(ModelBytes::from_vec(bytes))
}

/// The first output of a model for `x`, truncated to its input.
fn run(model: &ModelProto, x: &[f32]) -> Vec<f32> {
    let session = session(model).unwrap();
    let x = Tensor::from_slice(&[x.len()], x).unwrap();
    let inputs = if session.inputs().is_empty() { vec![] } else { vec![("x", &x)] };
    let values = session.run(inputs).unwrap().into_values();
    values[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn ir_versions_are_read_from_the_first_to_the_newest() {
    let with = |ir_version| ModelProto {
        ir_version,
        ..model(GraphProto {
            input: vec![value("x", &["2"]), value("w", &["2"])],
            initializer: vec![floats("w", &[1.0, 2.0])],
            ..graph(vec![node("Add", &["x", "w"], &["y"])])
        })
    };
    for version in 1..=ort_onnx::NEWEST_IR {
        let model = with(version);
        assert_eq!(run(&model, &[10.0, 20.0]), [11.0, 22.0], "IR {version}");
        // Before version 4 every initializer had to be an input as well.
        let names: Vec<_> =
            session(&model).unwrap().inputs().into_iter().map(|it| it.name).collect();
        assert_eq!(names, if version < 4 { &["x"][..] } else { &["x", "w"] }, "IR {version}");
    }
    for version in [i64::MIN, -1, 0, ort_onnx::NEWEST_IR + 1, i64::MAX] {
        let error = session(&with(version)).unwrap_err().to_string();
        assert!(error.contains(&version.to_string()) && error.contains("IR version"), "{error}");
    }
}

#[test]
fn elements_are_the_same_in_the_field_of_their_type_and_raw() {
    let t = |data_type| tensor("w", data_type, &[2]);
    let all_ones = f64::from(f32::MAX);
    let cases = [
        (
            TensorProto { float_data: vec![1.5, -2.0], ..t(1) },
            [1.5_f32, -2.0].map(f32::to_le_bytes).concat(),
        ),
        (TensorProto { int32_data: vec![255, 7], ..t(2) }, vec![255, 7]),
        (TensorProto { int32_data: vec![-128, 7], ..t(3) }, vec![128, 7]),
        (TensorProto { int32_data: vec![65_535, 1], ..t(4) }, vec![255, 255, 1, 0]),
        (TensorProto { int32_data: vec![-2, 1], ..t(5) }, vec![254, 255, 1, 0]),
        (TensorProto { int32_data: vec![-2, 1], ..t(6) }, vec![254, 255, 255, 255, 1, 0, 0, 0]),
        (
            TensorProto { int64_data: vec![-2, 1], ..t(7) },
            [-2_i64, 1].map(i64::to_le_bytes).concat(),
        ),
        (TensorProto { int32_data: vec![1, 0], ..t(9) }, vec![1, 0]),
        (TensorProto { int32_data: vec![0x3c00, 0xc000], ..t(10) }, vec![0, 0x3c, 0, 0xc0]),
        (
            TensorProto { double_data: vec![all_ones, -0.5], ..t(11) },
            [all_ones, -0.5].map(f64::to_le_bytes).concat(),
        ),
        (
            TensorProto { uint64_data: vec![u64::from(u32::MAX), 3], ..t(12) },
            vec![255, 255, 255, 255, 3, 0, 0, 0],
        ),
        (
            TensorProto { uint64_data: vec![u64::MAX, 3], ..t(13) },
            [u64::MAX, 3].map(u64::to_le_bytes).concat(),
        ),
        (TensorProto { int32_data: vec![0x3f80, 0xbf80], ..t(16) }, vec![0x80, 0x3f, 0x80, 0xbf]),
    ];
    for (typed, raw) in cases {
        let of = |w: TensorProto| {
            let of = graph(vec![node("Identity", &["w"], &["y"])]);
            let session = session(&model(GraphProto { initializer: vec![w], ..of })).unwrap();
            session.run(Vec::<(&str, &Tensor)>::new()).unwrap().into_values()
        };
        let raw = TensorProto { raw_data: Some(raw.into()), ..t(typed.data_type) };
        assert_eq!(of(typed.clone()), of(raw), "{typed:?}");
    }
}

#[test]
fn sparse_initializers_are_dense_with_indices_of_either_form() {
    for (indices, dims) in [(&[1, 5][..], &[2][..]), (&[0, 1, 1, 2], &[2, 2])] {
        let sparse = SparseTensorProto {
            values: Some(floats("w", &[3.0, 4.0])),
            indices: Some(integers("", dims, indices)),
            dims: vec![2, 3],
        };
        let flat = node("Reshape", &["w", "all"], &["y"]);
        let of = GraphProto {
            sparse_initializer: vec![sparse],
            initializer: vec![integers("all", &[1], &[-1])],
            ..graph(vec![flat])
        };
        assert_eq!(run(&model(of), &[]), [0.0, 3.0, 0.0, 0.0, 0.0, 4.0]);
    }
}

#[test]
fn strings_sequences_and_optionals_are_values() {
    let x = || vec![value("x", &["2"])];
    let of_sequence = graph(vec![
        node("SequenceConstruct", &["x", "x"], &["s"]),
        NodeProto {
            attribute: vec![AttributeProto {
                name: "axis".to_owned(),
                i: Some(0),
                r#type: attribute_type::INT,
                ..AttributeProto::default()
            }],
            ..node("ConcatFromSequence", &["s"], &["y"])
        },
    ]);
    let y = run(&model(GraphProto { input: x(), ..of_sequence }), &[1.0, 2.0]);
    assert_eq!(y, [1.0, 2.0, 1.0, 2.0]);
    let of_optional =
        graph(vec![node("Optional", &["x"], &["o"]), node("OptionalGetElement", &["o"], &["y"])]);
    assert_eq!(run(&model(GraphProto { input: x(), ..of_optional }), &[1.0, 2.0]), [1.0, 2.0]);
    // The types of both can be declared.
    let tensor_type = Some(TensorTypeProto { elem_type: 1, shape: None });
    let of_tensor = TypeProto { tensor_type, ..TypeProto::default() };
    let of = Some(Box::new(ElementTypeProto { elem_type: Some(Box::new(of_tensor)) }));
    let sequence = TypeProto { sequence_type: of.clone(), ..TypeProto::default() };
    let optional = TypeProto { optional_type: of, ..TypeProto::default() };
    for (ty, expected) in [(sequence, "sequence"), (optional, "optional")] {
        let s = ValueInfoProto { name: "s".to_owned(), r#type: Some(ty) };
        let of = GraphProto { input: vec![s], ..graph(vec![node("Identity", &["s"], &["y"])]) };
        let described = format!("{:?}", session(&model(of)).unwrap().inputs()[0].ty).to_lowercase();
        assert!(described.contains(expected), "{described}");
    }
    let text = |name: &str, text: &'static str| TensorProto {
        string_data: vec![bytes::Bytes::from_static(text.as_bytes())],
        ..tensor(name, 8, &[1])
    };
    let of = GraphProto {
        initializer: vec![text("a", "né"), text("b", "e")],
        ..graph(vec![node("StringConcat", &["a", "b"], &["y"])])
    };
    let model = ModelProto { opset_import: vec![set("", 20)], ..model(of) };
    let values = session(&model).unwrap().run(Vec::<(&str, &Tensor)>::new()).unwrap().into_values();
    assert_eq!(values, [Value::from(Tensor::from_strings(&[1], texts(&["née"])).unwrap())]);
}

#[test]
fn subgraphs_capture_outer_values() {
    let branch = |name: &str, op_type: &str| AttributeProto {
        name: name.to_owned(),
        g: Some(Box::new(graph(vec![node(op_type, &["x", "w"], &["b"])]))),
        r#type: attribute_type::GRAPH,
        ..AttributeProto::default()
    };
    let choice = NodeProto {
        attribute: vec![branch("then_branch", "Add"), branch("else_branch", "Sub")],
        ..node("If", &["c"], &["y"])
    };
    let of = GraphProto {
        input: vec![value("x", &["1"])],
        initializer: vec![floats("w", &[1.0]), integers("zero", &[], &[0])],
        ..graph(vec![
            node("ReduceSum", &["x"], &["sum"]),
            node("CastLike", &["zero", "sum"], &["null"]),
            node("Greater", &["sum", "null"], &["c"]),
            choice,
        ])
    };
    assert_eq!(run(&model(of.clone()), &[5.0]), [6.0]);
    assert_eq!(run(&model(of), &[-5.0]), [-6.0]);
}

/// The inner function has an older opset, and gets an attribute of the node that calls the outer one.
#[test]
fn functions_call_functions_and_pass_attributes() {
    let reference = |name: &str, of: &str| AttributeProto {
        name: name.to_owned(),
        ref_attr_name: of.to_owned(),
        r#type: attribute_type::FLOAT,
        ..AttributeProto::default()
    };
    let function = |name: &str, inner: NodeProto, version| FunctionProto {
        name: name.to_owned(),
        domain: "local".to_owned(),
        input: texts(&["a"]),
        output: texts(&["b"]),
        node: vec![inner],
        opset_import: vec![set("", version), set("local", 1)],
        ..FunctionProto::default()
    };
    let leaky = NodeProto {
        attribute: vec![reference("alpha", "slope")],
        ..node("LeakyRelu", &["a"], &["b"])
    };
    let through = NodeProto {
        domain: "local".to_owned(),
        attribute: vec![reference("slope", "outer_slope")],
        ..node("Inner", &["a"], &["b"])
    };
    let mut outer = function("Outer", through, 18);
    let default = |f| AttributeProto {
        f: Some(f),
        ref_attr_name: String::new(),
        ..reference("outer_slope", "")
    };
    outer.attribute_proto = vec![default(0.5)];
    let mut inner = function("Inner", leaky, 6);
    inner.attribute = texts(&["slope"]);
    let call = |attribute: Vec<AttributeProto>| {
        let of =
            NodeProto { domain: "local".to_owned(), attribute, ..node("Outer", &["x"], &["y"]) };
        let of = GraphProto { input: vec![value("x", &["1"])], ..graph(vec![of]) };
        ModelProto {
            functions: vec![outer.clone(), inner.clone()],
            opset_import: vec![set("", 18), set("local", 1)],
            ..model(of)
        }
    };
    assert_eq!(run(&call(vec![default(0.25)]), &[-8.0]), [-2.0]);
    assert_eq!(run(&call(vec![]), &[-8.0]), [-4.0]);
}

#[test]
fn fields_without_effect_on_results_are_kept_or_skipped() {
    let of = GraphProto {
        input: vec![value("x", &["batch", "2"])],
        value_info: vec![value("t", &["batch", "2"])],
        output: vec![value("y", &["batch", "2"])],
        doc_string: "of the graph".to_owned(),
        ..graph(vec![node("Relu", &["x"], &["t"]), node("Neg", &["t"], &["y"])])
    };
    let entry = StringStringEntryProto { key: "author".to_owned(), value: "nobody".to_owned() };
    let model = ModelProto {
        metadata_props: vec![entry],
        producer_name: "hand".to_owned(),
        model_version: Some(7),
        ..model(of)
    };
    let mut bytes = ort_onnx::encode(&model).unwrap();
    // A further part of field 7, the graph: a quantization annotation, field 14, of the tensor `t`.
    bytes.extend([7 << 3 | 2, 5, 14 << 3 | 2, 3, 1 << 3 | 2, 1, b't']);
    let session = Session::builder().threads(1).commit(ModelBytes::from_vec(bytes)).unwrap();
    let info = &session.metadata().model;
    assert_eq!(info.metadata, [("author".to_owned(), "nobody".to_owned())]);
    assert_eq!((&*info.producer_name, info.model_version), ("hand", Some(7)));
    assert_eq!(info.graph_doc_string, "of the graph");
    assert!(format!("{:?}", session.inputs()[0].ty).contains("batch"));
    let x = Tensor::from_slice(&[1, 2], &[1.0_f32, -2.0]).unwrap();
    let y = session.run(vec![("x", &x)]).unwrap().into_values();
    assert_eq!(y, [Value::from(Tensor::from_slice(&[1, 2], &[-1.0_f32, -0.0]).unwrap())]);
}
