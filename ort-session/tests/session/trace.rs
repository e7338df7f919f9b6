//! The trace of a profiled session: its structure, not its times.

use std::collections::BTreeMap;

use ort_session::{Denormals, Level, ModelBytes, ProfileError, Session, SessionBuilder, Tensor};
use serde_json::Value as Json;

use crate::model::{ModelWriter, gated, weights};

/// `w · x + w · x` in a branch that is always taken, between a product and a sum.
fn branching() -> Vec<u8> {
    let branch = |op_type| {
        ModelWriter::default().node(op_type, 14, &["product", "x"], "inner").output("inner")
    };
    ModelWriter::default()
        .input("x", &[-1, 3])
        .constant("b", &[3], &[1.0, -2.0, 0.5])
        .node("Mul", 14, &["x", "b"], "product")
        .node("ReduceMax", 13, &["x"], "max")
        .node("Cast", 13, &["max"], "is_true")
        .integer("to", 9)
        .node("If", 16, &["is_true"], "y")
        .subgraph("then_branch", branch("Add"))
        .subgraph("else_branch", branch("Sub"))
        .output("y")
        .bytes()
}

fn x(n_rows: usize) -> Tensor {
    Tensor::from_slice(&[n_rows, 3], &weights(3 * n_rows)).unwrap()
}

/// The events of a session after a few runs.
fn events(builder: SessionBuilder, model: Vec<u8>, n_rows: usize) -> Vec<Json> {
    let session = builder.collect_trace().commit(ModelBytes::from_vec(model)).unwrap();
    for _ in 0..3 {
        session.run([("x", &x(n_rows))]).unwrap();
    }
    let json = session.take_trace().unwrap().to_json();
    assert!(matches!(session.take_trace(), Err(ProfileError::Off)));
    serde_json::from_str(&json).unwrap()
}

fn text<'a>(event: &'a Json, key: &str) -> &'a str {
    event[key].as_str().unwrap()
}

fn number(event: &Json, key: &str) -> u64 {
    event[key].as_u64().unwrap()
}

fn of<'a>(events: &'a [Json], category: &str) -> Vec<&'a Json> {
    events.iter().filter(|event| event["cat"] == category).collect()
}

#[test]
fn every_node_has_the_fields_that_onnx_runtimes_tools_read() {
    for n_threads in [1, 2] {
        let events = events(Session::builder().threads(n_threads), gated(), 20_000);
        for event in &events {
            assert_eq!((text(event, "ph"), event.as_object().unwrap().len()), ("X", 8));
            assert_eq!(number(event, "pid"), u64::from(std::process::id()));
            assert!(number(event, "tid") > 0 && event["args"].is_object());
        }
        let nodes = of(&events, "Node");
        let n_nodes = |node: &&Json| text(&node["args"], "nodes").parse::<usize>().unwrap();
        assert_eq!(nodes.iter().map(n_nodes).sum::<usize>(), 3 * 3);
        let last = nodes.last().unwrap();
        assert_eq!(text(last, "name"), "Mul_2_kernel_time");
        let args = &last["args"];
        assert_eq!(
            (text(args, "op_name"), text(args, "provider")),
            ("Mul", "CPUExecutionProvider")
        );
        assert_eq!(args["output_type_shape"], serde_json::json!([{ "float": [20_000, 3] }]));
        assert_eq!(text(args, "output_size"), (20_000 * 3 * 4).to_string());
        for key in [
            "node_index",
            "activation_size",
            "parameter_size",
            "kernel",
            "isa",
            "bytes",
            "flops",
            "dur_ns",
            "gflops",
            "denormals",
            "thread",
        ] {
            assert!(!text(args, key).is_empty(), "{key}");
        }
        let scheduling = &args["thread_scheduling_stats"];
        assert_eq!(text(&scheduling["main_thread"], "thread_id"), number(last, "tid").to_string());
        assert!(scheduling["sub_threads"].as_object().unwrap().len() < n_threads);
    }
}

#[test]
fn events_of_a_thread_nest_and_steps_add_up_to_less_than_their_run() {
    for model in [gated(), branching()] {
        let events = events(Session::builder().threads(2), model, 20_000);
        let mut open: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for event in &events {
            let (start, end) = (number(event, "ts"), number(event, "ts") + number(event, "dur"));
            let before = open.entry(number(event, "tid")).or_default();
            // Sorted by their ends: nested events come right before the enclosing one.
            while before.pop_if(|(other, _)| *other >= start).is_some() {}
            assert!(before.last().is_none_or(|(_, other)| *other <= start), "{event}");
            before.push((start, end));
        }
        for run in events.iter().filter(|event| event["name"] == "model_run") {
            let (start, end) = (number(run, "ts"), number(run, "ts") + number(run, "dur"));
            let inside = |node: &&&Json| (start..=end).contains(&number(node, "ts"));
            let nodes = of(&events, "Node");
            let nodes =
                nodes.iter().filter(inside).filter(|node| text(node, "name") != "If_3_kernel_time");
            let sum = nodes.map(|node| number(node, "dur")).sum::<u64>();
            assert!(0 < end && sum <= end - start, "{sum} of {run}");
        }
    }
}

#[test]
fn stages_of_loading_lie_in_the_session_and_nodes_of_subgraphs_in_their_node() {
    let events = events(Session::builder(), branching(), 2);
    let named =
        |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
    let within = |inner: &Json, outer: &Json| {
        let end = |event: &Json| number(event, "ts") + number(event, "dur");
        assert!(number(outer, "ts") <= number(inner, "ts") && end(inner) <= end(outer), "{inner}");
    };
    let [whole] = named("session_initialization")[..] else { panic!("{events:?}") };
    for stage in ["verify", "build", "optimize", "compile"] {
        let [stage] = named(stage)[..] else { panic!("{stage}") };
        assert_eq!(text(stage, "cat"), "Session");
        within(stage, whole);
    }
    let passes = named("ConstantFolding");
    assert!(!passes.is_empty());
    passes.iter().for_each(|pass| within(pass, named("optimize")[0]));
    assert_eq!(named("model_run").len(), 3);
    let (inner, outer) = (named("Add_0_kernel_time"), named("If_3_kernel_time"));
    assert_eq!((inner.len(), outer.len(), named("Sub_0_kernel_time").len()), (3, 3, 0));
    inner.iter().zip(outer).for_each(|(inner, outer)| within(inner, outer));
}

#[test]
fn tracing_does_not_change_results() {
    let run = |builder: SessionBuilder| {
        let session = builder.commit(ModelBytes::from_vec(branching())).unwrap();
        let outputs = session.run([("x", &x(100))]).unwrap();
        outputs[0].as_tensor().unwrap().view().as_slice::<f32>().unwrap().to_vec()
    };
    assert_eq!(run(Session::builder().collect_trace()), run(Session::builder()));
}

#[test]
fn the_file_is_written_at_the_end_once_or_when_the_session_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("a");
    let builder = || Session::builder().enable_profiling(&prefix);
    let commit = |builder: SessionBuilder| builder.commit(ModelBytes::from_vec(gated())).unwrap();
    let files = || std::fs::read_dir(&folder).unwrap().count();

    let session = commit(builder());
    session.run([("x", &x(2))]).unwrap();
    assert_eq!(files(), 0);
    let path = session.end_profiling().unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let form: String = name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "a_0000-00-00_00-00-00_000.json");
    let events: Vec<Json> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(events.iter().filter(|event| event["name"] == "model_run").count(), 1);
    assert!(matches!(session.end_profiling(), Err(ProfileError::Off)));
    session.run([("x", &x(2))]).unwrap();
    drop(session);
    assert_eq!(files(), 1);

    drop(commit(builder()));
    assert_eq!(files(), 2);
    // A failed load has a trace up to the failure.
    assert!(builder().commit(ModelBytes::from_vec(b"ORTM".to_vec())).is_err());
    assert_eq!(files(), 3);
    let by_key = |prefix: &str| {
        let builder = Session::builder().config("session.enable_profiling", prefix).unwrap();
        commit(builder).end_profiling()
    };
    assert!(by_key(prefix.to_str().unwrap()).is_ok() && files() == 4);
    // One session has one trace, also if an optimized model is saved in addition to a cached file.
    let other = tempfile::tempdir().unwrap();
    let cached = || builder().cache_dir(other.path().join("cache"));
    drop(commit(cached().optimized_model(other.path().join("saved.ort"))));
    assert_eq!(files(), 5);
    let nowhere = cached().optimized_model(other.path().join("no/saved.ort"));
    assert!(nowhere.commit(ModelBytes::from_vec(gated())).is_err());
    assert_eq!(files(), 6);
    let off = by_key("").unwrap_err();
    assert_eq!(off.to_string(), "the session is not profiled, or its trace was already taken");
    let lost = commit(Session::builder().enable_profiling(folder.path().join("no/such")));
    assert!(lost.end_profiling().unwrap_err().to_string().contains("no/such"));
}

/// The denormals met by the node that multiplies by `factor`, on this many threads, and by the others.
fn met(factor: f32, denormals: Denormals, n_threads: usize) -> (String, Vec<String>) {
    // The denormal is the last of many elements, which another thread may meet, or the first.
    let n = 300_000;
    let mut w = vec![0.5; n];
    w[if n_threads.is_multiple_of(2) { n - 1 } else { 0 }] = factor;
    let model = ModelWriter::default()
        .input("x", &[n.try_into().unwrap()])
        .constant("w", &[n.try_into().unwrap()], &w)
        .node("Neg", 13, &["x"], "minus")
        .node("Mul", 14, &["minus", "w"], "product")
        .node("Neg", 13, &["product"], "y")
        .output("y");
    let builder = Session::builder().level(Level::Disable).denormals(denormals).threads(n_threads);
    let session = builder.collect_trace().commit(ModelBytes::from_vec(model.bytes())).unwrap();
    // A factor times 2^-100.
    let x = Tensor::from_slice(&[n], &vec![f32::from_bits(27 << 23); n]).unwrap();
    session.run([("x", &x)]).unwrap();
    let events: Vec<Json> = serde_json::from_str(&session.take_trace().unwrap().to_json()).unwrap();
    let nodes = of(&events, "Node").into_iter().map(|node| {
        let args = &node["args"];
        (text(args, "op_name").to_owned(), text(args, "denormals").to_owned())
    });
    let (products, others): (Vec<_>, Vec<_>) = nodes.partition(|(op_type, _)| op_type == "Mul");
    (products[0].1.clone(), others.into_iter().map(|(_, met)| met).collect())
}

#[cfg(target_arch = "x86_64")]
#[test]
fn nodes_that_meet_denormals_are_marked_on_whichever_thread() {
    let (normal, denormal, small) = (0.25, f32::from_bits(5), 1.1e-10);
    for n_threads in 1..=4 {
        for (factor, denormals, expected) in [
            (normal, Denormals::Flush, "none"),
            (normal, Denormals::Preserve, "none"),
            (small, Denormals::Flush, "results"),
            (small, Denormals::Preserve, "results"),
            // It is treated as zero, and the product is zero: nothing is reported.
            (denormal, Denormals::Flush, "none"),
            (denormal, Denormals::Preserve, "operands and results"),
        ] {
            let (product, others) = met(factor, denormals, n_threads);
            assert_eq!(product, expected, "{factor:e} {denormals:?} on {n_threads} threads");
            assert_eq!(others, ["none", "none"]);
        }
    }
}
