//! Optimization without a session: reports and saved models.

use ort_session::{
    InferError, Level, Load, ModelBytes, OperatorChange, OptimizeError, Optimized, SaveError,
    Session, SessionBuilder, SessionError, Tensor,
};

use crate::model::{ModelWriter, gated, gated_value, of_text};

/// `gated` with two nodes without effect.
fn padded() -> Vec<u8> {
    ModelWriter::default()
        .input("x", &[-1, 3])
        .constant("b", &[3], &[1.0, -2.0, 0.5])
        .node("Identity", 16, &["x"], "same")
        .node("Add", 14, &["same", "b"], "sum")
        .node("Relu", 14, &["sum"], "gate")
        .node("Identity", 16, &["gate"], "same gate")
        .node("Mul", 14, &["same gate", "x"], "y")
        .output("y")
        .bytes()
}

fn optimize(builder: SessionBuilder, model: Vec<u8>) -> Optimized {
    builder.optimize(ModelBytes::from_vec(model)).unwrap()
}

fn n_identities(optimized: &Optimized) -> (usize, usize) {
    let operators = optimized.operators();
    let found = operators.iter().find(|change| change.op_type == "Identity");
    found.map_or((0, 0), |&OperatorChange { before, after, .. }| (before, after))
}

fn assert_computes(session: &Session) {
    let x = Tensor::from_slice(&[2, 3], &[0.5_f32, 3.0, -1.0, 2.0, -2.0, 1.0]).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    let expected = gated_value(x.as_slice().unwrap());
    assert_eq!(outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap(), expected);
}

#[test]
fn a_saved_model_computes_the_same_and_is_not_optimized_again() {
    let optimized = optimize(Session::builder(), padded());
    assert_eq!(n_identities(&optimized), (2, 0));
    assert_eq!(optimized.report().applied(), 2);
    let bytes = optimized.to_bytes().unwrap();
    assert_eq!(bytes, optimize(Session::builder(), padded()).to_bytes().unwrap());
    let again = optimize(Session::builder(), bytes.clone());
    assert_eq!(again.report().applied(), 0);
    assert_eq!(again.to_bytes().unwrap(), bytes);
    assert_computes(&again.commit().unwrap());
    assert_computes(&optimized.commit().unwrap());
}

#[test]
fn passes_can_be_disabled_and_rewrites_limited() {
    let none = Session::builder().disable_optimizers(["EliminateIdentity"]);
    assert_eq!(n_identities(&optimize(none, padded())), (2, 2));
    for (n_rewrites, last, expected) in
        [(0, None, (2, 2)), (1, Some("Identity_0"), (2, 1)), (9, Some("Identity_3"), (2, 0))]
    {
        let optimized = optimize(Session::builder().stop_after(n_rewrites), padded());
        assert_eq!(n_identities(&optimized), expected);
        let found = optimized.report().last.as_ref();
        assert_eq!(found.map(|step| step.node.as_str()), last);
        assert_computes(&optimized.commit().unwrap());
    }
}

#[test]
fn level_all_has_operators_that_onnx_runtime_cannot_run() {
    let swish = || {
        ModelWriter::default()
            .input("x", &[-1, 3])
            .constant("three", &[], &[3.0])
            .constant("six", &[], &[6.0])
            .constant("zero", &[], &[0.0])
            .node("Add", 14, &["x", "three"], "moved")
            .node("Clip", 13, &["moved", "zero", "six"], "gate")
            .node("Mul", 14, &["x", "gate"], "product")
            .node("Div", 14, &["product", "six"], "y")
            .output("y")
            .bytes()
    };
    for (level, expected) in [(Level::Layout, 0), (Level::All, 1)] {
        let operators = optimize(Session::builder().level(level), swish()).operators();
        let is_swish = |change: &&OperatorChange| change.op_type == "HardSwish";
        let n_swishes: usize = operators.iter().filter(is_swish).map(|change| change.after).sum();
        assert_eq!(n_swishes, expected, "{level}: {operators:?}");
    }
}

#[test]
fn passes_are_disabled_by_onnx_runtimes_names() {
    for (name, expected) in
        [("Level1_RuleBasedTransformer", (2, 2)), ("EnsureUniqueDQForNodeUnit", (2, 0))]
    {
        let builder = Session::builder().disable_optimizers([name]);
        assert_eq!(n_identities(&optimize(builder, padded())), expected, "{name}");
    }
}

#[test]
fn an_unknown_pass_is_an_error() {
    for (name, expected) in [
        (
            "EliminateIdentities",
            "there is no optimizer `EliminateIdentities`; did you mean `EliminateIdentity`?",
        ),
        ("Weather", "there is no optimizer `Weather`"),
    ] {
        let builder = Session::builder().disable_optimizers([name]);
        let error = builder.commit(ModelBytes::from_vec(gated())).unwrap_err();
        assert!(matches!(error, SessionError::UnknownOptimizer { .. }));
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_mapped_model_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.ort");
    std::fs::write(&path, padded()).unwrap();
    let optimized = Session::builder().load(Load::Mapped).optimize_from_file(&path).unwrap();
    let n_bytes = optimized.write(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap().len(), n_bytes);
    assert_computes(&optimized.commit().unwrap());
    assert_computes(&Session::builder().commit_from_file(&path).unwrap());
    let error = optimize(Session::builder(), gated()).write(folder.path()).unwrap_err();
    assert!(matches!(error, SaveError::NotAFile { .. }), "{error}");
}

/// A shape mismatch that only folding reveals: in the graph, in a body, and by a captured value.
#[test]
fn a_model_that_could_not_be_loaded_is_not_saved() {
    let bad = [
        "n = const int64[1] [7] k = ReduceMax-13 [axes: [0]] (n) y = Reshape-14 (x, k)",
        "n = const int64[1] [7] k = ReduceMax-13 [axes: [0]] (n) \
         y = If-16 [then_branch: graph() -> (t) { t = Reshape-14 (x, k) }, \
         else_branch: graph() -> (e) { e = Identity-16 (x) }] (c)",
        "n = const int64[1,2] [3, -1] k = ReduceMax-13 [axes: [0], keepdims: 0] (n) \
         z = Reshape-14 (x, k) \
         y = If-16 [then_branch: graph() -> (t) { t = MatMul-13 (z, z) }, \
         else_branch: graph() -> (e) { e = Identity-16 (z) }] (c)",
    ];
    for nodes in bad {
        let file = of_text(&format!("graph(x: float[2,3], c: bool[]) -> (y) {{ {nodes} }}"));
        for level in Level::ALL.iter().copied() {
            let optimized =
                Session::builder().level(level).optimize(ModelBytes::from_vec(file.clone()));
            match optimized {
                Ok(optimized) => {
                    assert_eq!(level, Level::Disable, "{nodes}");
                    let saved = ModelBytes::from_vec(optimized.to_bytes().unwrap());
                    let builder = Session::builder().level(Level::Disable);
                    builder.commit(saved).unwrap();
                }
                Err(error) => {
                    let is_reported = matches!(&error, SessionError::Optimize(error)
                        if matches!(&**error, OptimizeError::Infer(InferError::Node { op_type, .. })
                            if op_type == "Reshape" || op_type == "MatMul"));
                    assert!(is_reported && level > Level::Disable, "{nodes}: {error}");
                }
            }
        }
    }
}

#[test]
fn unsupported_values_are_named() {
    let model = ModelWriter::default().input("x", &[2]).node("Optional", 15, &["x"], "y");
    let optimized = optimize(Session::builder(), model.output("y").bytes());
    let error = optimized.to_bytes().unwrap_err();
    let expected = "value `y` is of type optional(float[2]), which .ort files cannot hold";
    assert_eq!(error.to_string(), expected);
    optimized.commit().unwrap();
}

#[test]
fn only_an_assumed_block_size_causes_a_warning() {
    let weights: Vec<String> = (0..96).map(|n| n.to_string()).collect();
    let text = "graph(x: float[1,3,2,2]) -> (y) {
        w = const float[32,3,1,1] [WEIGHTS]
        a = com.microsoft.nchwc:Conv-1 (x, w)
        y = com.microsoft.nchwc:ReorderOutput-1 [channels: 32] (a)
    }";
    let model = of_text(&text.replace("WEIGHTS", &weights.join(", ")));
    let commit =
        |builder: SessionBuilder| builder.commit(ModelBytes::from_vec(model.clone())).unwrap();
    let session = commit(Session::builder());
    let [warning] = &session.metadata().warnings[..] else { panic!("one warning") };
    assert!(
        warning.starts_with("the block size of the com.microsoft.nchwc nodes is assumed to be ")
    );
    let x = Tensor::from_slice(&[1, 3, 2, 2], &[1.0_f32; 12]).unwrap();
    for (size, expected) in [("8", [24.0_f32, 27.0]), ("16", [48.0, 51.0])] {
        let builder = Session::builder().config("session.nchwc_block_size", size).unwrap();
        let session = commit(builder);
        assert!(session.metadata().warnings.is_empty());
        let outputs = session.run([("x", &x)]).unwrap();
        let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
        // The filter of channel c of a block of B has the weights c, B + c and 2B + c.
        assert_eq!([y[0], y[4]], expected, "{size}");
    }
}
