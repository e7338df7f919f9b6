//! The events of runs, in a span with their tag, and their traces.

use std::path::Path;

use ort_session::{
    Cancel, Level as Optimization, ModelBytes, RunError, RunOptions, Session, Severity, Tensor,
};
use serde_json::Value as Json;
use tracing::Level;

use crate::hooked::Hooked;
use crate::listener::{Heard, events, heard};
use crate::model::{gated, gated_value};

fn x() -> Tensor {
    Tensor::from_slice(&[2, 3], &[0.5_f32, 4.0, -1.0, 2.0, 0.0, 7.0]).unwrap()
}

/// A session of `gated`; `hook` is called in its first node.
fn hooked(hook: impl Fn() + Send + Sync + 'static) -> Session {
    let provider = Hooked::new(move |_| hook());
    let builder = Session::builder().threads(1).level(Optimization::Disable).provider(provider);
    builder.commit(ModelBytes::from_vec(gated())).unwrap()
}

/// The events of a run.
fn run_events(session: &Session, options: &RunOptions) -> Vec<(Level, String)> {
    let events = events(|| {
        let _ = session.run_with([("x", &x())], options);
    });
    events.into_iter().map(|(level, _, text)| (level, text)).collect()
}

#[test]
fn a_tagged_run_is_a_span_around_the_events_of_its_thread() {
    let session = hooked(|| tracing::info!("the kernel"));
    let of = |options: RunOptions| {
        heard(|| {
            session.run_with([("x", &x())], &options).unwrap();
        })
    };
    let tagged = of(RunOptions::new().tag("request 17"));
    assert_eq!(tagged[0], Heard::Span("run tag=\"request 17\"".to_owned()));
    assert_eq!((&tagged[1], tagged.last()), (&Heard::Enter, Some(&Heard::Exit)));
    let is_event = |heard: &Heard| matches!(heard, Heard::Event(..));
    let (first, last) = (2, tagged.len() - 1);
    assert!(tagged[first..last].iter().all(is_event), "{tagged:?}");
    // Without a tag there are the same events, and no span.
    assert_eq!(of(RunOptions::new()), tagged[first..last]);
    let kernel = Heard::Event(Level::INFO, None, "the kernel".to_owned());
    assert!(tagged.contains(&kernel) && tagged.len() == 3 + 4);
}

#[test]
fn a_run_emits_its_outcome_with_a_severity() {
    let debug = |text: &str| (Level::DEBUG, text.to_owned());
    let begins = debug("a run begins");
    let inputs = (Level::TRACE, "its inputs are `x` float[2,3]".to_owned());
    let done = run_events(&hooked(|| {}), &RunOptions::new());
    assert_eq!(done, [begins.clone(), inputs.clone(), debug("the run is done")]);
    let panicking = hooked(|| std::panic::resume_unwind(Box::new("odd")));
    let failed = run_events(&panicking, &RunOptions::new());
    let text = "the run failed: node `Add_0` (Add) panicked: odd".to_owned();
    assert_eq!(failed, [begins.clone(), inputs.clone(), (Level::ERROR, text)]);
    let cancel = Cancel::new();
    cancel.cancel();
    let cancelled = run_events(&hooked(|| {}), &RunOptions::new().cancel(&cancel));
    assert_eq!(cancelled, [begins, inputs, (Level::INFO, "the run was cancelled".to_owned())]);
}

#[test]
fn options_of_a_run_override_those_of_the_session() {
    let of = |session: Option<Severity>, run: Option<Severity>| {
        let builder = Session::builder().threads(1);
        let builder = match session {
            Some(least) => builder.log_severity(least),
            None => builder,
        };
        let session = builder.commit(ModelBytes::from_vec(gated())).unwrap();
        let options = run.map_or(RunOptions::new(), |it| RunOptions::new().log_severity(it));
        run_events(&session, &options).len()
    };
    let (verbose, warning) = (Some(Severity::Verbose), Some(Severity::Warning));
    assert_eq!((of(None, None), of(warning, None)), (3, 0));
    assert_eq!((of(None, warning), of(warning, verbose)), (0, 3));
    let session = Session::builder().threads(1).log_verbosity(0);
    let session = session.commit(ModelBytes::from_vec(gated())).unwrap();
    let n_details = |options: &RunOptions| {
        run_events(&session, options).iter().filter(|(level, _)| *level == Level::TRACE).count()
    };
    assert_eq!(n_details(&RunOptions::new()), 0);
    assert_eq!(n_details(&RunOptions::new().log_verbosity(1)), 1);
    assert_eq!(n_details(&RunOptions::new().log_verbosity(0)), 0);
}

/// The traces in a folder, sorted by file name.
fn traces(folder: &Path) -> Vec<Vec<Json>> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    files.iter().map(read).collect()
}

fn named<'a>(trace: &'a [Json], name: &str) -> Vec<&'a Json> {
    trace.iter().filter(|event| event["name"] == name).collect()
}

#[test]
fn a_run_writes_its_own_trace_with_and_without_one_of_the_session() {
    for is_profiled in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let builder = Session::builder().threads(1).level(Optimization::Disable);
        let builder = if is_profiled { builder.collect_trace() } else { builder };
        let session = builder.commit(ModelBytes::from_vec(gated())).unwrap();
        let options = RunOptions::new().tag("one").enable_profiling(folder.path().join("run"));
        session.run([("x", &x())]).unwrap();
        // The second of two in one millisecond has another name.
        for _ in 0..2 {
            let outputs = session.run_with([("x", &x())], &options).unwrap();
            let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
            assert_eq!(y, gated_value(x().as_slice().unwrap()));
        }
        session.run([("x", &x())]).unwrap();
        let traces = traces(folder.path());
        assert_eq!(traces.len(), 2);
        for trace in &traces {
            let runs = named(trace, "model_run");
            assert_eq!((runs.len(), trace.len()), (1, 4));
            assert_eq!((&runs[0]["ts"], &runs[0]["args"]["tag"]), (&0.into(), &"one".into()));
            let end = |event: &Json| event["ts"].as_u64().unwrap() + event["dur"].as_u64().unwrap();
            assert!(trace.iter().all(|event| end(event) <= end(runs[0])), "{trace:?}");
        }
        if is_profiled {
            let whole: Vec<Json> =
                serde_json::from_str(&session.take_trace().unwrap().to_json()).unwrap();
            let tags =
                named(&whole, "model_run").into_iter().map(|run| run["args"]["tag"].as_str());
            assert_eq!(tags.collect::<Vec<_>>(), [None, Some("one"), Some("one"), None]);
        }
    }
}

#[test]
fn concurrent_runs_write_separate_traces() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder().threads(1).commit(ModelBytes::from_vec(gated())).unwrap();
    let options = RunOptions::new().enable_profiling(folder.path().join("run"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    session.run_with([("x", &x())], &options).unwrap();
                }
            });
        }
    });
    let traces = traces(folder.path());
    assert_eq!(traces.len(), 100);
    assert!(traces.iter().all(|trace| named(trace, "model_run").len() == 1));
}

#[test]
fn a_failed_run_has_a_trace_and_an_unwritable_trace_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let panicking = hooked(|| std::panic::resume_unwind(Box::new("odd")));
    let options = RunOptions::new().enable_profiling(folder.path().join("run"));
    let error = panicking.run_with([("x", &x())], &options).unwrap_err();
    assert!(matches!(error, RunError::Panicked { .. }), "{error}");
    assert_eq!(named(&traces(folder.path())[0], "model_run").len(), 1);
    let nowhere = RunOptions::new().enable_profiling(folder.path().join("no/such"));
    let session = hooked(|| {});
    assert!(session.run_with([("x", &x())], &nowhere).is_ok());
    let events = run_events(&session, &nowhere);
    let is_lost = |(level, text): &(Level, String)| {
        *level == Level::WARN && text.starts_with("the trace of the run cannot be written: ")
    };
    assert_eq!(events.iter().filter(|event| is_lost(event)).count(), 1, "{events:?}");
}
