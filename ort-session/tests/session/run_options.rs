//! Runs that are stopped early: cancelled, timed out, or over a limit.

use std::time::{Duration, Instant};

use ort_format::DataType;
use ort_session::{
    Cancel, Level, LimitError, ModelBytes, RunError, RunLimits, RunOptions, Session, Tensor, Value,
};
use ort_tensor::TensorError;

use crate::hooked::Hooked;
use crate::model::{ModelWriter, gated, gated_value};

/// A session of `gated` with all its nodes; `hook` is called in its first.
fn hooked(hook: impl Fn() + Send + Sync + 'static) -> Session {
    let builder = Session::builder().level(Level::Disable).provider(Hooked::new(move |_| hook()));
    builder.commit(ModelBytes::from_vec(gated())).unwrap()
}

fn x() -> Tensor {
    Tensor::from_slice(&[2, 3], &[0.5_f32, 4.0, -1.0, 2.0, 0.0, 7.0]).unwrap()
}

fn assert_runs(session: &Session) {
    let x = x();
    let outputs = session.run([("x", &x)]).unwrap();
    let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
    assert_eq!(y, gated_value(x.as_slice().unwrap()));
}

/// `v = v + v` while `go_on`, which never changes; all sums are stacked.
fn endless() -> Vec<u8> {
    let body = ModelWriter::default()
        .scalar("i", DataType::Int64)
        .scalar("go_on", DataType::Bool)
        .input("v", &[2])
        .node("Identity", 16, &["go_on"], "go_on_out")
        .node("Add", 14, &["v", "v"], "v_out")
        .node("Neg", 13, &["v_out"], "kept")
        .output("go_on_out")
        .output("v_out")
        .output("kept");
    let model = ModelWriter::default().input("x", &[2]);
    let model = model.node("Loop", 16, &["", "", "x"], "y").also("all").body(body);
    model.output("y").output("all").bytes()
}

#[test]
fn a_run_is_cancelled_before_it_starts_between_two_steps_or_not_at_all() {
    let cancel = Cancel::new();
    let options = RunOptions::new().tag("request 17").cancel(&cancel);
    let in_run = cancel.clone();
    let session = hooked(move || in_run.cancel());
    let x = x();
    let expected = RunError::Cancelled { tag: "request 17".to_owned() };
    // The first run is cancelled by its first node, the second before it starts.
    for _ in 0..2 {
        let error = session.run_with([("x", &x)], &options).unwrap_err();
        assert_eq!(error, expected);
        assert_eq!(error.to_string(), "the run `request 17` was cancelled");
    }
    assert_runs(&session);
    let other = RunOptions::new().cancel(&Cancel::new());
    assert!(session.run_with([("x", &x)], &other).is_ok());
}

#[test]
fn cancellation_while_a_kernel_prepares_cancels_the_run() {
    let cancel = Cancel::new();
    let options = RunOptions::new().cancel(&cancel);
    let hook = Hooked::preparing(move || {
        cancel.cancel();
        Err(TensorError::Ended.into())
    });
    let builder = Session::builder().level(Level::Disable).provider(hook);
    let session = builder.commit(ModelBytes::from_vec(gated())).unwrap();
    let error = session.run_with([("x", &x())], &options).unwrap_err();
    assert_eq!(error, RunError::Cancelled { tag: String::new() });
}

#[test]
fn an_endless_loop_is_cancelled_by_another_thread() {
    let (started, is_started) = std::sync::mpsc::channel();
    // After the third there is no receiver.
    let hook = Hooked::new(move |_| {
        let _ = started.send(());
    });
    let session =
        Session::builder().provider(hook).commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let cancel = Cancel::new();
    let options = RunOptions::new().cancel(&cancel);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| session.run_with([("x", &x)], &options).unwrap_err());
        (0..3).for_each(|_| is_started.recv().unwrap());
        cancel.cancel();
        run.join().unwrap()
    });
    assert_eq!(error, RunError::Cancelled { tag: String::new() });
    assert_eq!(error.to_string(), "the run was cancelled");
}

#[test]
fn a_run_stops_at_its_deadline() {
    let session = hooked(|| {});
    let x = x();
    let late = RunOptions::new().tag("late").deadline(Instant::now());
    let error = session.run_with([("x", &x)], &late).unwrap_err();
    assert_eq!(error, RunError::DeadlineExceeded { tag: "late".to_owned() });
    assert_eq!(error.to_string(), "the run `late` exceeded its deadline");
    let early = RunOptions::new().deadline(Instant::now() + Duration::from_secs(3600));
    assert!(session.run_with([("x", &x)], &early).is_ok());
    let endless = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let soon = RunOptions::new().deadline(Instant::now() + Duration::from_millis(10));
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let error = endless.run_with([("x", &x)], &soon).unwrap_err();
    assert!(matches!(error, RunError::DeadlineExceeded { .. }), "{error}");
}

fn limit_error(session: &Session, x: impl Into<Value>, limits: RunLimits) -> LimitError {
    let options = RunOptions::new().limits(limits);
    let limit_of = |error| match error {
        RunError::Limit(limit) => Some(limit),
        _ => None,
    };
    session.run_with([("x", &x.into())], &options).err().and_then(limit_of).unwrap()
}

#[test]
fn the_number_of_iterations_is_limited() {
    let session = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let limits = RunLimits { max_iterations: Some(5), ..RunLimits::default() };
    let error = limit_error(&session, x, limits);
    let node = "Loop_0".to_owned();
    assert_eq!(error, LimitError::Iterations { limit: 5, found: 6, node });
    assert_eq!(
        error.to_string(),
        "node `Loop_0`: iteration 6 of the run's loops, over the limit of 5"
    );
}

#[test]
fn limits_of_a_session_are_the_defaults_of_its_runs() {
    let limits = |n| RunLimits { max_iterations: Some(n), ..RunLimits::default() };
    let builder = Session::builder().run_limits(limits(5));
    let session = builder.commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let other = RunLimits { max_bytes: Some(1 << 20), ..RunLimits::default() };
    for (own, allowed) in [(RunLimits::default(), 5), (other, 5), (limits(7), 7), (limits(2), 2)] {
        match limit_error(&session, x.clone(), own) {
            LimitError::Iterations { limit, .. } => assert_eq!(limit, allowed),
            other => panic!("{other}"),
        }
    }
    let error = session.run([("x", &x)]).unwrap_err();
    assert!(matches!(error, RunError::Limit(LimitError::Iterations { .. })), "{error}");
}

#[test]
fn the_time_of_a_run_is_limited() {
    let session = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let limit = Duration::from_millis(5);
    let limits = RunLimits { max_time: Some(limit), ..RunLimits::default() };
    match limit_error(&session, x, limits) {
        LimitError::Time { limit: found_limit, found, node } => {
            assert!(found_limit == limit && found >= limit && !node.is_empty());
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_memory_of_a_run_is_limited() {
    let session = hooked(|| {});
    // The sum, which the gate overwrites, and the output.
    let needed = 64 + 24;
    let limits = |n| RunLimits { max_bytes: Some(n), ..RunLimits::default() };
    let options = RunOptions::new().limits(limits(needed));
    assert!(session.run_with([("x", &x())], &options).is_ok());
    match limit_error(&session, x(), limits(needed - 1)) {
        LimitError::Bytes { limit, found, node } => {
            assert_eq!((limit, found), (needed - 1, needed));
            assert!(!node.is_empty());
        }
        other => panic!("{other}"),
    }
    assert_runs(&session);
}

#[test]
fn the_memory_of_dynamic_steps_counts() {
    // The number of elements depends on x.
    let model = ModelWriter::default().input("x", &[-1]).node("NonZero", 13, &["x"], "y");
    let model = model.output("y").bytes();
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    let x = |value| Tensor::from_slice(&[100], &[value; 100]).unwrap();
    let limits = RunLimits { max_bytes: Some(100), ..RunLimits::default() };
    let options = RunOptions::new().limits(limits);
    assert!(session.run_with([("x", &x(0.0_f32))], &options).is_ok());
    let error = limit_error(&session, x(1.0), limits);
    // It is refused as soon as the elements found so far exceed the limit.
    let is_reported = matches!(&error, LimitError::Bytes { limit: 100, found, node }
        if (101..=800).contains(found) && node == "NonZero_0");
    assert!(is_reported, "{error}");
}

#[test]
fn results_of_iterations_count_while_the_loop_runs() {
    let session = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let limits = RunLimits { max_bytes: Some(1000), ..RunLimits::default() };
    match limit_error(&session, x, limits) {
        LimitError::Bytes { limit, found, .. } => {
            // Each iteration adds 8 bytes to the result, and has a few more alive.
            assert!(limit == 1000 && found > 1000 && found < 1100, "{found}");
        }
        other => panic!("{other}"),
    }
}
