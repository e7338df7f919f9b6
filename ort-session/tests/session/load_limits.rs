//! Models that exceed the limits of loading, and models that just meet them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ort_session::{
    Cancel, Level, LoadLimitError, LoadLimits, ModelBytes, Session, SessionBuilder, SessionError,
    Tensor,
};

use crate::hooked::Hooked;
use crate::memory::Shifted;
use crate::model::{ModelWriter, forked, of_text};

fn load(
    bytes: &[u8],
    limits: LoadLimits,
    builder: SessionBuilder,
) -> Result<Session, SessionError> {
    builder.load_limits(limits).commit(ModelBytes::from_vec(bytes.to_vec()))
}

/// The error for a model under these limits, if any.
fn refused(bytes: &[u8], limits: LoadLimits) -> Option<LoadLimitError> {
    load(bytes, limits, Session::builder().threads(1)).err().map(limit_of)
}

fn limit_of(error: SessionError) -> LoadLimitError {
    let limit = match error {
        SessionError::Limit(limit) => Ok(limit),
        other => Err(other),
    };
    limit.unwrap()
}

/// A loop in a branch, both with their own nodes; each iteration doubles `v`.
fn nested() -> Vec<u8> {
    let body = ModelWriter::default()
        .scalar("i", ort_format::DataType::Int64)
        .scalar("go_on", ort_format::DataType::Bool)
        .input("v", &[2])
        .node("Identity", 16, &["go_on"], "go_on_out")
        .node("Add", 14, &["v", "v"], "v_out")
        .output("go_on_out")
        .output("v_out");
    let branch = |model: ModelWriter| model.output("inner");
    let looping = ModelWriter::default().node("Loop", 16, &["", "go", "x"], "inner").body(body);
    let plain = ModelWriter::default().node("Neg", 13, &["x"], "inner");
    ModelWriter::default()
        .input("x", &[2])
        .scalar("go", ort_format::DataType::Bool)
        .node("If", 16, &["go"], "y")
        .subgraph("then_branch", branch(looping))
        .subgraph("else_branch", branch(plain))
        .output("y")
        .bytes()
}

#[test]
fn the_number_of_nodes_is_limited() {
    let limits = |n| LoadLimits { max_nodes: Some(n), ..LoadLimits::default() };
    let error = |limit, node: &str, place: &str| {
        let (node, place) = (node.to_owned(), place.to_owned());
        Some(LoadLimitError::Nodes { limit, node, place })
    };
    assert_eq!(refused(&forked(), limits(4)), None);
    assert_eq!(refused(&forked(), limits(3)), error(3, "Mul_3", ""));
    assert_eq!(refused(&forked(), limits(0)), error(0, "Add_0", ""));
    // The nodes of all graphs count.
    assert_eq!(refused(&nested(), limits(5)), None);
    let found = refused(&nested(), limits(3)).unwrap();
    assert_eq!(Some(found.clone()), error(3, "Add_1", "If_0.then_branch.Loop_0.body"));
    assert_eq!(
        found.to_string(),
        "node `Add_1` in `If_0.then_branch.Loop_0.body`: the model has more nodes than the limit of 3"
    );
}

#[test]
fn the_depth_of_graphs_is_limited() {
    let limits = |n| LoadLimits { max_depth: Some(n), ..LoadLimits::default() };
    assert_eq!(refused(&nested(), limits(2)), None);
    assert_eq!(refused(&forked(), limits(0)), None);
    for (limit, node, place) in [(1, "Loop_0", "If_0.then_branch"), (0, "If_0", "")] {
        let (node, place) = (node.to_owned(), place.to_owned());
        let expected = LoadLimitError::Depth { limit, found: limit + 1, node, place };
        assert_eq!(refused(&nested(), limits(limit)), Some(expected));
    }
}

#[test]
fn the_number_of_elements_is_limited() {
    let limits = |n| LoadLimits { max_elements: Some(n), ..LoadLimits::default() };
    let constant =
        of_text("graph(x: float[1]) -> (y) { c = const float[7,8] fill 1 y = Add-14 (x, c) }");
    let inferred = of_text("graph(x: float[7,1], z: float[1,8]) -> (y) { y = MatMul-13 (x, z) }");
    for (model, value) in [(constant, "c"), (inferred, "y")] {
        assert_eq!(refused(&model, limits(56)), None);
        let (value, place) = (value.to_owned(), String::new());
        let expected = LoadLimitError::Elements { limit: 55, found: 56, value, place };
        assert_eq!(refused(&model, limits(55)), Some(expected));
    }
    let found = refused(&nested(), limits(1)).unwrap();
    assert_eq!(found.to_string(), "value `x` has 2 elements, over the limit of 1");
}

#[test]
fn elements_count_as_soon_as_their_number_is_known() {
    let model = of_text("graph(x: float[n,3]) -> (y) { y = Concat-13 [axis: 0] (x, x) }");
    let limits = LoadLimits { max_elements: Some(60), ..LoadLimits::default() };
    let fixed = |n| {
        let error = load(&model, limits, Session::builder().free_dimension("n", n)).err();
        error.map(|error| error.to_string())
    };
    assert_eq!((refused(&model, limits), fixed(10)), (None, None));
    assert_eq!(fixed(11).as_deref(), Some("value `y` has 66 elements, over the limit of 60"));
}

/// A product with a constant that kernels pack.
fn product() -> Vec<u8> {
    of_text(
        "graph(x: float[9,64]) -> (y) { w = const float[64,48] fill 0.25 y = MatMul-13 (x, w) }",
    )
}

#[test]
fn the_memory_of_packed_constants_is_limited() {
    let limits = |n| LoadLimits { max_bytes: Some(n), ..LoadLimits::default() };
    for n_threads in [1, 2] {
        let builder = || Session::builder().threads(n_threads);
        let free = load(&product(), LoadLimits::default(), builder()).unwrap().memory();
        let needed = free.packed_heap.n_bytes() + free.copied_bytes();
        assert!(needed > 0);
        let exact = load(&product(), limits(needed), builder()).unwrap().memory();
        assert_eq!(exact.packed_heap.n_bytes() + exact.copied_bytes(), needed);
        let error = load(&product(), limits(needed - 1), builder()).unwrap_err();
        let SessionError::Limit(LoadLimitError::Bytes { limit, found, value }) = error else {
            panic!("{error}");
        };
        assert_eq!((limit, found, value.as_str()), (needed - 1, needed, "w"));
        // Kernels that do not pack need nothing; the checks of the file hold its names for a while.
        let names = 1000;
        assert!(names < needed);
        assert!(load(&product(), limits(names), builder().prepacking(false)).is_ok());
        assert!(load(&product(), limits(0), builder().prepacking(false)).is_err());
    }
}

#[test]
fn constants_that_are_computed_last_count() {
    let model = of_text(
        "graph(x: float[1,64,16,16]) -> (y) {
           w = const float[64,64,1,1] fill 0.5
           v = const float[64,64,1,1] fill 0.25
           a = Conv-11 (x, w)
           y = Conv-11 (a, v)
         }",
    );
    let builder = || Session::builder().threads(1);
    let free = load(&model, LoadLimits::default(), builder()).unwrap().memory();
    let needed = free.packed_heap.n_bytes() + free.copied_bytes();
    assert!(needed >= 2 * 64 * 64 * size_of::<f32>());
    let limits = |n| LoadLimits { max_bytes: Some(n), ..LoadLimits::default() };
    assert!(load(&model, limits(needed), builder()).is_ok());
    let error = limit_of(load(&model, limits(needed - 1), builder()).unwrap_err());
    let LoadLimitError::Bytes { limit, found, value } = error else { panic!("{error}") };
    assert_eq!((limit, found), (needed - 1, needed));
    assert!(["w", "v"].contains(&&*value), "{value}");
}

#[test]
fn the_memory_for_making_a_packed_file_is_limited() {
    let limits = LoadLimits { max_bytes: Some(100), ..LoadLimits::default() };
    let folder = tempfile::tempdir().unwrap();
    let builder = Session::builder().threads(1).load_limits(limits);
    let bytes = || ModelBytes::from_vec(product());
    let error = builder.clone().optimize(bytes()).unwrap().to_packed_bytes(Default::default());
    assert!(error.unwrap_err().to_string().starts_with("value `w`: constants take "));
    let error = builder.clone().cache_dir(folder.path()).commit(bytes()).unwrap_err();
    assert!(matches!(error, SessionError::Limit(LoadLimitError::Bytes { .. })), "{error}");
    // A mapped file takes none.
    let path = folder.path().join("packed.ort");
    let free = Session::builder().threads(1).optimize(bytes()).unwrap();
    free.write_packed(&path, Default::default()).unwrap();
    let session = builder.commit_from_file(&path).unwrap();
    assert_eq!(session.memory().packed_heap.n_bytes(), 0);
}

#[test]
fn constants_that_must_be_copied_count() {
    let load = |max_bytes| {
        let limits = LoadLimits { max_bytes: Some(max_bytes), ..LoadLimits::default() };
        let builder = Session::builder().level(Level::Disable).load_limits(limits);
        let text =
            "graph(x: double[300]) -> (y) { d = const double[300] fill 2 y = Add-14 (x, d) }";
        builder.commit(ModelBytes::from_owner(Shifted::new(&of_text(text))))
    };
    assert_eq!(load(2400).unwrap().memory().copied_bytes(), 2400);
    let error = load(2399).unwrap_err();
    let expected = LoadLimitError::Bytes { limit: 2399, found: 2400, value: "d".to_owned() };
    assert!(matches!(error, SessionError::Limit(limit) if limit == expected));
}

#[test]
fn a_sparse_constant_counts_with_its_dense_size() {
    let model = ModelWriter::default().input("x", &[1]).sparse("s", 1000);
    let model = model.node("Add", 14, &["x", "s"], "y").output("y").bytes();
    let bytes = |n| LoadLimits { max_bytes: Some(n), ..LoadLimits::default() };
    let elements = |n| LoadLimits { max_elements: Some(n), ..LoadLimits::default() };
    assert_eq!((refused(&model, bytes(4000)), refused(&model, elements(1000))), (None, None));
    let (value, place) = ("s".to_owned(), String::new());
    let error = LoadLimitError::Bytes { limit: 3999, found: 4000, value: value.clone() };
    assert_eq!(refused(&model, bytes(3999)), Some(error));
    let error = LoadLimitError::Elements { limit: 999, found: 1000, value, place };
    assert_eq!(refused(&model, elements(999)), Some(error));
}

#[test]
fn folding_stops_at_the_limit() {
    let text = "graph(x: float[800]) -> (y) { a = const float[800] fill 2 b = Sin-7 (a) y = Add-14 (x, b) }";
    let n_folded = |max_bytes| {
        let limits = LoadLimits { max_bytes: Some(max_bytes), ..LoadLimits::default() };
        load(&of_text(text), limits, Session::builder().threads(1)).unwrap().memory().copied_bytes()
    };
    assert_eq!((n_folded(3199), n_folded(3200)), (0, 3200));
}

#[test]
fn the_time_of_loading_is_limited() {
    let limits = |max_time| LoadLimits { max_time: Some(max_time), ..LoadLimits::default() };
    let late = |model: &[u8], limit, builder| match limit_of(
        load(model, limits(limit), builder).unwrap_err(),
    ) {
        LoadLimitError::Time { limit: found_limit, found, stage } => {
            assert!(found_limit == limit && found >= limit);
            stage
        }
        other => panic!("{other}"),
    };
    let hour = Duration::from_secs(3600);
    for time in [hour, Duration::MAX] {
        assert!(load(&forked(), limits(time), Session::builder()).is_ok());
    }
    assert_eq!(late(&forked(), Duration::ZERO, Session::builder()), "model_loading_uri");
    // The time is up when the first of two nodes is compiled, or before.
    let short = Duration::from_millis(300);
    let chain = of_text("graph(x: float[2]) -> (y) { a = Add-14 (x, x) y = Add-14 (a, x) }");
    let n_compiled = Arc::new(AtomicUsize::new(0));
    let counter = n_compiled.clone();
    let slow = Hooked::compiling(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(short);
    });
    late(&chain, short, Session::builder().threads(1).level(Level::Disable).provider(slow));
    assert!(n_compiled.load(Ordering::Relaxed) <= 1);
    // Explicit cancellation is reported as such.
    let cancel = Cancel::new();
    cancel.cancel();
    let both = load(&forked(), limits(Duration::ZERO), Session::builder().cancel(&cancel));
    assert!(matches!(both, Err(SessionError::Cancelled)));
}

#[test]
fn limits_that_are_not_reached_have_no_effect() {
    let limits = LoadLimits {
        max_nodes: Some(4),
        max_depth: Some(0),
        max_elements: Some(100),
        max_bytes: Some(1 << 20),
        max_time: Some(Duration::from_secs(3600)),
    };
    let session = load(&forked(), limits, Session::builder()).unwrap();
    let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 2.0, 3.0]).unwrap();
    assert!(session.run([("x", &x)]).is_ok());
}
