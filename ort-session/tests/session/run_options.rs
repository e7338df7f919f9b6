//! Runs that end early: cancelled, too late, or wanting more than they may have.

use std::time::{Duration, Instant};

use ort_format::DataType;
use ort_session::{
    Cancel, Level, LimitError, ModelBytes, RunError, RunLimits, RunOptions, Session, Tensor, Value,
};
use ort_tensor::TensorError;

use crate::hooked::Hooked;
use crate::model::{ModelWriter, gated, gated_value};

/// A session of `gated`, all of whose nodes stay; `hook` is called in its first.
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

/// `v = v + v` while `go_on`, which nothing ever changes; all sums are kept.
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
    // The first is cancelled by its own first node, the second before it starts.
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
fn a_kernel_that_ends_while_it_prepares_ends_the_run() {
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
fn a_loop_without_end_ends_when_another_thread_cancels_it() {
    let (started, is_started) = std::sync::mpsc::channel();
    // Nobody listens any more after the third.
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
fn a_run_ends_at_its_deadline() {
    let session = hooked(|| {});
    let x = x();
    let late = RunOptions::new().tag("late").deadline(Instant::now());
    let error = session.run_with([("x", &x)], &late).unwrap_err();
    assert_eq!(error, RunError::DeadlineExceeded { tag: "late".to_owned() });
    assert_eq!(error.to_string(), "the run `late` was not done by its deadline");
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
fn a_run_has_no_more_iterations_than_it_may() {
    let session = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let limits = RunLimits { max_iterations: Some(5), ..RunLimits::default() };
    let error = limit_error(&session, x, limits);
    let node = "Loop_0".to_owned();
    assert_eq!(error, LimitError::Iterations { limit: 5, found: 6, node });
    assert_eq!(
        error.to_string(),
        "node `Loop_0`: iteration 6 of the run's loops, and 5 are allowed"
    );
}

#[test]
fn limits_of_a_session_hold_where_a_run_has_none_of_its_own() {
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
fn a_run_takes_no_more_time_than_it_may() {
    let session = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let limit = Duration::from_millis(5);
    let limits = RunLimits { max_time: Some(limit), ..RunLimits::default() };
    match limit_error(&session, x, limits) {
        LimitError::Time { limit: told, found, node } => {
            assert!(told == limit && found >= limit && !node.is_empty());
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_run_takes_no_more_memory_than_it_may() {
    let session = hooked(|| {});
    // The sum, over which the gate is written, and the output.
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
fn memory_that_a_dynamic_step_makes_counts() {
    // How many elements there are depends on x.
    let model = ModelWriter::default().input("x", &[-1]).node("NonZero", 13, &["x"], "y");
    let model = model.output("y").bytes();
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    let x = |value| Tensor::from_slice(&[100], &[value; 100]).unwrap();
    let limits = RunLimits { max_bytes: Some(100), ..RunLimits::default() };
    let options = RunOptions::new().limits(limits);
    assert!(session.run_with([("x", &x(0.0_f32))], &options).is_ok());
    let error = limit_error(&session, x(1.0), limits);
    // It is refused as soon as what was found so far is too much.
    let is_told = matches!(&error, LimitError::Bytes { limit: 100, found, node }
        if (101..=800).contains(found) && node == "NonZero_0");
    assert!(is_told, "{error}");
}

#[test]
fn what_iterations_leave_behind_counts_while_the_loop_goes_round() {
    let session = Session::builder().commit(ModelBytes::from_vec(endless())).unwrap();
    let x = Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    let limits = RunLimits { max_bytes: Some(1000), ..RunLimits::default() };
    match limit_error(&session, x, limits) {
        LimitError::Bytes { limit, found, .. } => {
            // Each iteration leaves 8 bytes behind, and a few more live within it.
            assert!(limit == 1000 && found > 1000 && found < 1100, "{found}");
        }
        other => panic!("{other}"),
    }
}
