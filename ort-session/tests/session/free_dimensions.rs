//! Dimensions that are fixed before a model is optimized.

use ort_format::record;
use ort_format::{DataType, DimensionValueType};
use ort_session::{
    CacheUse, DType, Dim, FreeDimensionError, InputError, Level, ModelBytes, RunError, Session,
    SessionBuilder, SessionError, Tensor, Type,
};

use crate::model::{ModelWriter, of_text};

/// The shape is only known in a run, unless `batch` is fixed; also in a branch.
const MODEL: &str = "graph(x: float[batch,3], c: bool[]) -> (y, s) {
      s = Shape-15 (x)
      y = If-16 [
        then_branch: graph() -> (a) { a = Relu-14 (x) },
        else_branch: graph() -> (b) { b = Neg-13 (x) }
      ] (c)
    }";

fn shape_of_input(session: &Session) -> Vec<Dim> {
    let inputs = session.inputs();
    let dims = match &inputs[0].ty {
        Type::Tensor(tensor) => tensor.dims.as_ref(),
        _ => None,
    };
    dims.unwrap().to_vec()
}

fn simple() -> Vec<u8> {
    of_text("graph(x: float[batch,3]) -> (y, s) { s = Shape-15 (x) y = Relu-14 (x) }")
}

fn error_of(builder: SessionBuilder, model: Vec<u8>) -> FreeDimensionError {
    let error = match builder.commit(ModelBytes::from_vec(model)) {
        Err(SessionError::FreeDimension(error)) => Some(error),
        _ => None,
    };
    error.unwrap()
}

#[test]
fn shapes_that_follow_from_a_fixed_dimension_are_known() {
    let of = |builder: SessionBuilder| builder.optimize(ModelBytes::from_vec(simple())).unwrap();
    let n_nodes = |text: &str| text.matches("Shape-").count();
    for level in [Level::Basic, Level::All] {
        let free = of(Session::builder().level(level));
        let fixed = of(Session::builder().level(level).free_dimension("batch", 4));
        assert_eq!((n_nodes(&free.text()), n_nodes(&fixed.text())), (1, 0), "{}", fixed.text());
    }
    let fixed = Session::builder().level(Level::Disable).free_dimension("batch", 4);
    let session = fixed.commit(ModelBytes::from_vec(simple())).unwrap();
    assert_eq!(shape_of_input(&session), [Dim::Known(4), Dim::Known(3)]);
    assert_eq!(session.outputs()[0].ty.to_string(), "float[4,3]");
}

#[test]
fn subgraphs_see_fixed_dimensions() {
    let builder = Session::builder().free_dimension("batch", 2);
    let optimized = builder.optimize(ModelBytes::from_vec(of_text(MODEL))).unwrap();
    assert!(!optimized.text().contains("batch"), "{}", optimized.text());
    let session = optimized.commit().unwrap();
    let x = Tensor::from_slice(&[2, 3], &[1.0_f32, -2.0, 3.0, -4.0, 5.0, -6.0]).unwrap();
    let c = Tensor::scalar(ort_session::Bool::from(true));
    let outputs = session.run([("x", &x), ("c", &c)]).unwrap();
    let y = outputs[0].as_tensor().unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [1.0, 0.0, 3.0, 0.0, 5.0, 0.0]);
    assert_eq!(outputs[1].as_tensor().unwrap().as_slice::<i64>().unwrap(), [2, 3]);
}

#[test]
fn inferred_sizes_override_symbols_of_the_file() {
    // Twice as many rows as the symbol implies; in a branch, too.
    let doubled = || {
        let concat = ModelWriter::default().declared("c", &[-1, 3]);
        concat.node("Concat", 13, &["x", "x"], "c").integer("axis", 0)
    };
    let model = doubled()
        .input("x", &[-1, 3])
        .scalar("flag", DataType::Bool)
        .node("Shape", 15, &["c"], "s")
        .node("If", 16, &["flag"], "t")
        .subgraph("then_branch", ModelWriter::default().node("Shape", 15, &["c"], "a").output("a"))
        .subgraph("else_branch", doubled().node("Shape", 15, &["c"], "b").output("b"))
        .output("s")
        .output("t");
    let model = model.bytes();
    let x = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
    for level in [Level::Disable, Level::Basic, Level::All] {
        let builder = Session::builder().level(level).free_dimension("n", 2);
        let session = builder.commit(ModelBytes::from_vec(model.clone())).unwrap();
        for flag in [true, false] {
            let flag = Tensor::scalar(ort_session::Bool::from(flag));
            let outputs = session.run([("x", &x), ("flag", &flag)]).unwrap();
            for output in 0..2 {
                let shape = outputs[output].as_tensor().unwrap().as_slice::<i64>().unwrap();
                assert_eq!(shape, [4, 3], "output {output} at {level}");
            }
        }
    }
}

#[test]
fn another_size_in_a_run_is_an_error() {
    let builder = Session::builder().free_dimension("batch", 4);
    let session = builder.commit(ModelBytes::from_vec(simple())).unwrap();
    let run = |n: usize| {
        let x = Tensor::from_slice(&[n, 3], &vec![1.0_f32; n * 3]).unwrap();
        session.run([("x", &x)]).map(|outputs| outputs[0].as_tensor().unwrap().shape().to_vec())
    };
    assert_eq!(run(4).unwrap(), [4, 3]);
    let error = run(2).unwrap_err();
    assert!(matches!(&error, RunError::Input(InputError::Type { .. })), "{error}");
    assert_eq!(error.to_string(), "input `x`: expected float[4,3], found float[2,3]");
}

#[test]
fn an_unknown_name_is_an_error() {
    let error = error_of(Session::builder().free_dimension("bach", 1), simple());
    assert_eq!(error.to_string(), "no input has a free dimension `bach`; did you mean `batch`?");
    let error = error_of(Session::builder().free_dimension_by_denotation("N", 1), simple());
    assert_eq!(error.to_string(), "no input has a free dimension `N`");
}

#[test]
fn a_denotation_fixes_named_and_unnamed_dimensions() {
    for name in ["n", ""] {
        let builder = || Session::builder().free_dimension_by_denotation("DATA_BATCH", 5);
        let model = denoted(name, "DATA_BATCH");
        let session = builder().commit(ModelBytes::from_vec(model.clone())).unwrap();
        assert_eq!(shape_of_input(&session), [Dim::Known(5), Dim::Known(3)], "{name}");
        let error = error_of(Session::builder().free_dimension_by_denotation("DATA", 5), model);
        assert!(matches!(&error, FreeDimensionError::Unknown { name, .. } if name == "DATA"));
    }
}

#[test]
fn contradictory_sizes_are_an_error() {
    let builder = Session::builder().free_dimension("n", 4);
    let both = builder.free_dimension_by_denotation("DATA_BATCH", 5);
    let error = error_of(both, denoted("n", "DATA_BATCH"));
    assert_eq!(error.to_string(), "dimension `DATA_BATCH` of input `x` is 4, not 5");
    // Equal ones do not.
    let builder = Session::builder().free_dimension("n", 5);
    let both = builder.free_dimension_by_denotation("DATA_BATCH", 5);
    assert!(both.commit(ModelBytes::from_vec(denoted("n", "DATA_BATCH"))).is_ok());
}

#[test]
fn a_cache_folder_has_a_file_for_each_size() {
    let folder = tempfile::tempdir().unwrap();
    for (size, cache) in
        [(4, CacheUse::Made), (5, CacheUse::Made), (4, CacheUse::Found), (5, CacheUse::Found)]
    {
        let builder = Session::builder().cache_dir(folder.path()).free_dimension("batch", size);
        let session = builder.commit(ModelBytes::from_vec(simple())).unwrap();
        assert_eq!(session.metadata().cache, cache);
        assert_eq!(shape_of_input(&session)[0], Dim::Known(size));
    }
}

/// `y = relu(x)` with x: [name, 3], whose first dimension has a denotation.
fn denoted(name: &'static str, denotation: &'static str) -> Vec<u8> {
    let dim = |dim_type, dim_value, dim_param: &'static str, denotation: &'static str| {
        let value = record::DimensionValue {
            dim_type,
            dim_value,
            dim_param: Some(dim_param).filter(|it| !it.is_empty()).map(Into::into),
        };
        let denotation = Some(denotation).filter(|it| !it.is_empty()).map(Into::into);
        record::Dimension { value, denotation }
    };
    let dims = vec![
        dim(DimensionValueType::Param, 0, name, denotation),
        dim(DimensionValueType::Value, 3, "", ""),
    ];
    let shape = Some(record::Shape { dim: dims });
    let tensor = record::TensorTypeAndShape { elem_type: DataType::Float, shape };
    let value = Some(record::TypeInfoValue::Tensor(tensor));
    let graph = record::Graph {
        inputs: vec!["x".into()],
        outputs: vec!["y".into()],
        node_args: vec![record::ValueInfo {
            name: "x".into(),
            type_info: Some(record::TypeInfo { value, denotation: None }),
            ..record::ValueInfo::default()
        }],
        nodes: vec![record::Node {
            op_type: "Relu".into(),
            since_version: 14,
            inputs: vec!["x".into()],
            outputs: vec!["y".into()],
            input_arg_counts: vec![1],
            ..record::Node::default()
        }],
        ..record::Graph::default()
    };
    let opset = record::OperatorSetId { domain: "".into(), version: 17 };
    let model = record::Model {
        ir_version: 8,
        opset_import: vec![opset],
        graph,
        ..record::Model::default()
    };
    ort_format::write(&record::File { model, ..record::File::default() }).unwrap()
}
