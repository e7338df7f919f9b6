//! The worst that a file or an input can cause: an error that names the node, within the limits.

use std::sync::Arc;
use std::time::Duration;

use ort_onnx::schema::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, attribute_type,
};
use ort_session::provider::Reference;
use ort_session::{
    Cancel, DType, Dim, LimitError, LoadLimitError, LoadLimits, ModelBytes, OpError, RunError,
    RunLimits, RunOptions, Session, SessionBuilder, SessionError, Tensor, TensorError, Type,
    ValueDescription,
};

use crate::model::{of_text, of_text_at};

const MIB: usize = 1 << 20;

/// A node of opset 17 with inputs of these types and shapes; `None` for dynamic ones.
struct Model {
    node: NodeProto,
    inputs: Vec<ValueInfoProto>,
    initializers: Vec<TensorProto>,
}

impl Model {
    fn new(op_type: &str, n_outputs: usize) -> Self {
        let output = (0..n_outputs).map(|i| format!("y{i}")).collect();
        let op_type = op_type.to_owned();
        let node = NodeProto { op_type, name: "it".to_owned(), output, ..NodeProto::default() };
        Self { node, inputs: Vec::new(), initializers: Vec::new() }
    }

    fn input(mut self, name: &str, elem_type: i32, dims: &[Option<i64>]) -> Self {
        let dim = |&dim_value: &Option<i64>| DimensionProto { dim_value, ..Default::default() };
        let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
        let tensor_type = Some(TensorTypeProto { elem_type, shape });
        let r#type = Some(TypeProto { tensor_type, ..TypeProto::default() });
        self.inputs.push(ValueInfoProto { name: name.to_owned(), r#type });
        self.node.input.push(name.to_owned());
        self
    }

    fn integers(mut self, name: &str, dims: &[i64], values: &[i64]) -> Self {
        self.initializers.push(TensorProto {
            name: name.to_owned(),
            dims: dims.to_vec(),
            data_type: 7,
            int64_data: values.to_vec(),
            ..TensorProto::default()
        });
        self.node.input.push(name.to_owned());
        self
    }

    fn absent(mut self) -> Self {
        self.node.input.push(String::new());
        self
    }

    fn attribute(mut self, name: &str, i: i64) -> Self {
        let (name, r#type) = (name.to_owned(), attribute_type::INT);
        let attribute = AttributeProto { name, i: Some(i), r#type, ..AttributeProto::default() };
        self.node.attribute.push(attribute);
        self
    }

    fn bytes(self) -> ModelBytes {
        let output = |name: &String| ValueInfoProto { name: name.clone(), r#type: None };
        let graph = GraphProto {
            output: self.node.output.iter().map(output).collect(),
            node: vec![self.node],
            input: self.inputs,
            initializer: self.initializers,
            ..GraphProto::default()
        };
        let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
        let model =
            ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() };
        ModelBytes::from_vec(ort_onnx::encode(&model).unwrap())
    }

    fn session(self) -> Result<Session, SessionError> {
        let limits = LoadLimits { max_bytes: Some(256 * MIB), ..LoadLimits::default() };
        Session::builder().threads(1).load_limits(limits).commit(self.bytes())
    }
}

fn limited() -> RunOptions {
    let limits = RunLimits { max_bytes: Some(64 * MIB), ..RunLimits::default() };
    RunOptions::new().limits(limits)
}

/// Whether a node or the plan failed to allocate, or rejected the size.
fn is_refused(error: &RunError) -> bool {
    use ort_session::{KernelError, PlanError};
    let refuses = |error: &KernelError| {
        let too_large = |error: &TensorError| {
            matches!(error, TensorError::NoMemory { .. } | TensorError::TooLarge { .. })
        };
        matches!(error, KernelError::Op(OpError::TooLarge))
            || matches!(error, KernelError::Op(OpError::Tensor(error)) if too_large(error))
    };
    match error {
        RunError::Limit(LimitError::Bytes { limit, found, node }) => {
            *limit == 64 * MIB && found > limit && node == "it"
        }
        RunError::Node { node, error, .. } => node == "it" && refuses(error),
        RunError::Plan(PlanError::Prepare { error, .. }) => refuses(error),
        _ => false,
    }
}

#[test]
fn strings_too_large_for_memory_are_refused() {
    for n in [1_i64 << 24, 1 << 40, 1 << 62] {
        let expand = Model::new("Expand", 1).input("x", 8, &[Some(1)]).input("n", 7, &[Some(1)]);
        let tile = Model::new("Tile", 1).input("x", 8, &[Some(1)]).input("n", 7, &[Some(1)]);
        for model in [expand, tile] {
            let session = model.session().unwrap();
            let x = Tensor::from_strings(&[1], vec!["text".to_owned()]).unwrap();
            let n = Tensor::from_slice(&[1], &[n]).unwrap();
            let error = session.run_with([("x", &x), ("n", &n)], &limited()).unwrap_err();
            assert!(is_refused(&error), "{n:?}: {error}");
        }
    }
}

#[test]
fn a_model_that_is_only_read_is_within_the_limit() {
    let limits = LoadLimits { max_bytes: Some(100), ..LoadLimits::default() };
    let bytes = || Model::new("Relu", 1).input("x", 1, &[None]).bytes();
    let read = |builder: SessionBuilder| builder.read_model(bytes()).map(drop);
    assert!(read(Session::builder()).is_ok());
    let error = read(Session::builder().load_limits(limits)).unwrap_err();
    assert!(matches!(error, SessionError::Onnx(_)), "{error}");
}

#[test]
fn parts_of_a_tensor_count_more_than_their_elements() {
    let session = Model::new("SplitToSequence", 1).input("x", 1, &[None]).session().unwrap();
    let x = Tensor::zeros(DType::F32, &[1 << 20]).unwrap();
    let error = session.run_with([("x", &x)], &limited()).unwrap_err();
    assert!(is_refused(&error), "{error}");
}

/// Its scratch is empty, and has any address.
#[test]
fn a_product_without_columns_is_empty() {
    let model = Model::new("MatMulInteger", 1).input("a", 2, &[Some(2), Some(3)]);
    let session = model.input("b", 2, &[Some(3), Some(0)]).session().unwrap();
    let zeros = |shape: &[usize]| Tensor::zeros(DType::U8, shape).unwrap();
    let (a, b) = (zeros(&[2, 3]), zeros(&[3, 0]));
    let y = session.run([("a", &a), ("b", &b)]).unwrap();
    assert_eq!(y[0].as_tensor().unwrap().shape(), [2, 0]);
}

#[test]
fn a_huge_dimension_of_an_empty_tensor_takes_no_memory() {
    let n = 1_usize << 40;
    let cases = [
        (Model::new("TopK", 2).attribute("axis", 0), [n, 0], Some(1)),
        (Model::new("TopK", 2).attribute("axis", 1), [0, n], Some(1)),
        (Model::new("Hardmax", 1).attribute("axis", 1), [0, n], None),
        (Model::new("Unique", 1).attribute("axis", 0), [n, 0], None),
        (Model::new("SplitToSequence", 1).attribute("axis", 0), [n, 0], None),
        (Model::new("Softmax", 1).attribute("axis", 1), [0, n], None),
    ];
    for (model, shape, k) in cases {
        let op_type = model.node.op_type.clone();
        let model = model.input("x", 1, &[None, None]);
        let model = match k {
            Some(k) => model.integers("k", &[1], &[k]),
            None => model,
        };
        let session = model.session().unwrap();
        let x = Tensor::zeros(DType::F32, &shape).unwrap();
        match session.run_with([("x", &x)], &limited()) {
            Ok(_) => {}
            Err(error) => assert!(is_refused(&error), "{op_type}: {error}"),
        }
    }
}

#[test]
fn dimensions_that_overflow_next_to_a_zero_are_an_error_of_loading() {
    let n = Some(1_i64 << 40);
    for op_type in ["Softmax", "Neg", "ReduceSum"] {
        let model = Model::new(op_type, 1).input("x", 1, &[Some(0), n, n]);
        let error = model.session().unwrap_err().to_string();
        assert!(error.contains("too large"), "{op_type}: {error}");
    }
    let n = 1_usize << 40;
    assert!(Tensor::zeros(DType::F32, &[0, n, n]).is_err());
}

#[test]
fn sizes_in_data_over_the_limit_are_refused() {
    let huge = 1_i64 << 40;
    let cases = [
        Model::new("DFT", 1).input("x", 1, &[Some(1), Some(4), Some(1)]).input("n", 7, &[]),
        Model::new("ConstantOfShape", 1).input("n", 7, &[Some(1)]),
        Model::new("Resize", 1)
            .input("x", 1, &[Some(1), Some(1), Some(1), Some(4)])
            .absent()
            .absent()
            .input("n", 7, &[Some(4)]),
    ];
    for model in cases {
        let op_type = model.node.op_type.clone();
        let session = model.session().unwrap();
        let n = match &*op_type {
            "DFT" => Tensor::from_slice(&[], &[huge]),
            "Resize" => Tensor::from_slice(&[4], &[1, 1, 1, huge]),
            _ => Tensor::from_slice(&[1], &[huge]),
        };
        let n = n.unwrap();
        let x = match &*op_type {
            "DFT" => Tensor::zeros(DType::F32, &[1, 4, 1]),
            _ => Tensor::zeros(DType::F32, &[1, 1, 1, 4]),
        };
        let x = x.unwrap();
        let inputs: Vec<_> = match session.inputs().len() {
            1 => vec![("n", &n)],
            _ => vec![("x", &x), ("n", &n)],
        };
        let error = session.run_with(inputs, &limited()).unwrap_err();
        assert!(is_refused(&error), "{op_type}: {error}");
    }
}

#[test]
fn a_declared_rank_is_not_trusted() {
    let n = Some(1_i64 << 40);
    for op_type in ["Reshape", "Expand"] {
        let model = Model::new(op_type, 1).input("x", 1, &[Some(1)]).input("n", 7, &[n]);
        assert!(model.session().is_ok(), "{op_type}");
    }
    assert!(Model::new("ConstantOfShape", 1).input("n", 7, &[n]).session().is_ok());
}

/// Boxes that all overlap, so that all pairs are compared.
fn many_boxes() -> Session {
    let model = Model::new("NonMaxSuppression", 1)
        .input("boxes", 1, &[Some(1), None, Some(4)])
        .input("scores", 1, &[Some(1), None, None]);
    model.integers("n", &[1], &[i64::MAX]).session().unwrap()
}

#[test]
fn deadline_and_cancellation_stop_a_running_step() {
    let n = 60_000_usize;
    let session = many_boxes();
    // Far apart, so that all are kept and all pairs are compared.
    let corners = (0..n).flat_map(|i| {
        let at = i as f32 * 2.0;
        [at, at, at + 1.0, at + 1.0]
    });
    let boxes = Tensor::from_slice(&[1, n, 4], &corners.collect::<Vec<f32>>()).unwrap();
    let scores = Tensor::from_slice(&[1, 1, n], &vec![0.5_f32; n]).unwrap();
    let inputs = || [("boxes", &boxes), ("scores", &scores)];
    let limits = RunLimits { max_time: Some(Duration::from_millis(20)), ..RunLimits::default() };
    let error = session.run_with(inputs(), &RunOptions::new().limits(limits)).unwrap_err();
    assert!(matches!(error, RunError::Limit(LimitError::Time { .. })), "{error}");
    let cancel = Cancel::new();
    let options = RunOptions::new().cancel(&cancel);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| session.run_with(inputs(), &options).unwrap_err());
        cancel.cancel();
        run.join().unwrap()
    });
    assert!(matches!(error, RunError::Cancelled { .. }), "{error}");
}

/// Nodes that would take minutes to days, and their zero inputs.
const ENDLESS: [(&str, &str); 4] = [
    (
        "RoiAlign of samples without end",
        "graph(x: float[1,1,64,64], r: float[8,4], i: int64[8]) -> (y) {
           y = RoiAlign-16 [output_height: 8, output_width: 8, sampling_ratio: 100000] (x, r, i)
         }",
    ),
    (
        "Conv of a filter as large as the image",
        "graph(x: float[1,1,2048,2048], w: float[1,1,1024,1024]) -> (y) { y = Conv-11 (x, w) }",
    ),
    (
        "ConvTranspose of such a filter",
        "graph(x: float[1,1,1024,1024], w: float[1,1,1024,1024]) -> (y) {
           y = ConvTranspose-11 (x, w)
         }",
    ),
    (
        "AveragePool of such a window",
        "graph(x: float[1,1,2048,2048]) -> (y) {
           y = AveragePool-11 [kernel_shape: [1024, 1024]] (x)
         }",
    ),
];

#[test]
fn endless_steps_stop_at_the_time_limit() {
    for (what, text) in ENDLESS {
        for provider in [None, Some(Arc::new(Reference))] {
            let builder = Session::builder().threads(2);
            let builder = match provider {
                Some(reference) => builder.provider(reference),
                None => builder,
            };
            let session = builder.commit(ModelBytes::from_vec(of_text(text))).unwrap();
            let zeros = |input: &ValueDescription| {
                let Type::Tensor(ty) = &input.ty else { return (String::new(), None) };
                let dims = ty.dims.iter().flatten().filter_map(Dim::known);
                let shape: Vec<usize> = dims.collect();
                (input.name.clone(), Tensor::zeros(ty.dtype, &shape).ok())
            };
            let inputs: Vec<_> = session.inputs().iter().map(zeros).collect();
            let inputs: Vec<(&str, &Tensor)> = { inputs.iter() }
                .filter_map(|(name, tensor)| Some((name.as_str(), tensor.as_ref()?)))
                .collect();
            let max_time = Some(Duration::from_millis(20));
            let limits = RunLimits { max_time, ..RunLimits::default() };
            let error = session.run_with(inputs, &RunOptions::new().limits(limits)).unwrap_err();
            assert!(matches!(error, RunError::Limit(LimitError::Time { .. })), "{what}: {error}");
        }
    }
}

#[test]
fn endless_folding_stops_at_the_time_limit_of_loading() {
    let text = "graph() -> (y) {
        x = const float[1,1,2048,2048] fill 0.5
        w = const float[1,1,1024,1024] fill 0.5
        y = Conv-11 (x, w)
    }";
    let limits = LoadLimits { max_time: Some(Duration::from_millis(200)), ..LoadLimits::default() };
    let builder = Session::builder().threads(2).load_limits(limits);
    let error = builder.commit(ModelBytes::from_vec(of_text(text))).unwrap_err();
    assert!(matches!(error, SessionError::Limit(LoadLimitError::Time { .. })), "{error}");
}

#[test]
fn strings_that_double_are_refused_at_the_limit() {
    let text = "graph(x: string[1]) -> (y) {
        n = const int64[] 60
        y = Loop-16 [body: graph(i: int64[], go: bool[], a: string[1]) -> (go, b) {
          b = StringConcat-20 (a, a)
        }] (n, _, x)
    }";
    let file = ModelBytes::from_vec(of_text_at(20, text));
    let session = Session::builder().commit(file).unwrap();
    let x = Tensor::from_strings(&[1], vec!["text".to_owned()]).unwrap();
    let error = session.run_with([("x", &x)], &limited()).unwrap_err().to_string();
    assert!(error.contains("bytes"), "{error}");
}
