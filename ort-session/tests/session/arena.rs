//! Retention of run memory, and its size before runs start.

use std::sync::Barrier;

use ort_session::{Arena, Level, ModelBytes, RunError, Session, SessionBuilder, Tensor};

use crate::hooked::Hooked;
use crate::model::{ModelWriter, gated, gated_value};

/// A session whose block holds the sum, which the gate overwrites: 12 bytes for each row.
fn session(builder: SessionBuilder) -> Session {
    builder.level(Level::Disable).commit(ModelBytes::from_vec(gated())).unwrap()
}

/// The block for this many rows, in whole cache lines.
fn block(n_rows: usize) -> usize {
    (n_rows * 12).next_multiple_of(64)
}

/// The block and the output, which are of the same size.
fn block_and_output(n_rows: usize) -> usize {
    2 * block(n_rows)
}

fn run(session: &Session, n_rows: usize) {
    let data: Vec<f32> = (0..3 * n_rows).map(|i| i as f32 - 7.0).collect();
    let x = Tensor::from_slice(&[n_rows, 3], &data).unwrap();
    let outputs = session.run([("x", &x)]).unwrap();
    let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
    assert_eq!(y, gated_value(&data));
}

/// The number of bytes retained for future runs.
fn kept(session: &Session) -> usize {
    session.memory().activations_retained.n_bytes()
}

#[test]
fn only_arena_keep_retains_the_memory_of_a_large_input() {
    let (large, small) = (100_000, 100);
    // The memory of the large output is retained as well; that of a small one, of 1200 bytes, is not.
    let with_output = block(large) + large * 12;
    for (arena, after_large, after_small) in [
        (Arena::Keep, with_output, with_output),
        (Arena::Shrink, with_output, block(small)),
        (Arena::Off, 0, 0),
    ] {
        let session = session(Session::builder().arena(arena));
        run(&session, large);
        assert_eq!(kept(&session), after_large, "{arena:?}");
        (0..40).for_each(|_| run(&session, small));
        assert_eq!(kept(&session), after_small, "{arena:?}");
    }
}

#[test]
fn only_dropped_outputs_lend_their_memory_to_later_ones() {
    let data: Vec<f32> = (0..300_000).map(|i| i as f32 - 7.0).collect();
    let x = Tensor::from_slice(&[100_000, 3], &data).unwrap();
    let output =
        |session: &Session| session.run([("x", &x)]).unwrap()[0].as_tensor().unwrap().clone();
    for arena in [Arena::Keep, Arena::Shrink] {
        let session = session(Session::builder().arena(arena));
        let first = output(&session);
        let second = output(&session);
        let address = second.address();
        assert_ne!(address, first.address());
        drop(second);
        let third = output(&session);
        assert_eq!(third.address(), address);
        // They outlive the session, and are not overwritten.
        assert_eq!(kept(&session), block(100_000));
        drop(session);
        for output in [first, third] {
            assert_eq!(output.as_slice::<f32>().unwrap(), gated_value(&data));
        }
    }
}

#[test]
fn memory_in_steady_use_is_retained() {
    let session = session(Session::builder());
    for run_of in 0..100 {
        run(&session, if run_of % 10 == 0 { 1000 } else { 10 });
        assert_eq!(kept(&session), block_and_output(1000));
    }
}

#[test]
fn signatures_share_one_block() {
    let session = session(Session::builder().arena(Arena::Keep));
    [500, 100, 300, 200, 400].iter().for_each(|&n_rows| run(&session, n_rows));
    assert_eq!(kept(&session), block_and_output(500));
}

#[test]
fn retained_memory_is_within_the_cap() {
    let (one, both) = (block(1000), block_and_output(1000));
    for (cap, expected) in [(0, 0), (one - 1, 0), (one, one), (both - 1, one), (both, both)] {
        let session = session(Session::builder().arena(Arena::Keep).activations_cap(cap));
        (0..3).for_each(|_| run(&session, 1000));
        assert_eq!(kept(&session), expected, "{cap}");
    }
}

#[test]
fn the_memory_of_a_run_is_known_before_it_starts() {
    let session = session(Session::builder().arena(Arena::Keep));
    let planned = session.activations_of_shapes(&[("x", &[1000, 3])]).unwrap();
    assert_eq!((planned.arena, planned.live), (block(1000), block(1000)));
    assert_eq!(planned.outputs, 12_000);
    assert!(planned.is_all());
    let steps: Vec<_> =
        planned.steps.iter().map(|step| (step.op_type.as_str(), step.live)).collect();
    assert_eq!(steps, [("Add", block(1000)), ("Relu", block(1000)), ("Mul", block(1000))]);
    assert_eq!(kept(&session), 0, "nothing ran yet");
    run(&session, 1000);
    assert_eq!(kept(&session), block_and_output(1000));
    let x = Tensor::from_slice(&[1000, 3], &[0.0_f32; 3000]).unwrap();
    assert_eq!(session.activations([("x", &x)]).unwrap(), planned);
}

#[test]
fn dynamic_steps_are_named() {
    let body =
        ModelWriter::default().input("item", &[2]).node("Neg", 13, &["item"], "z").output("z");
    let model = ModelWriter::default()
        .sequence("s")
        .node("SequenceMap", 17, &["s"], "y")
        .body(body)
        .output("y")
        .bytes();
    let session = Session::builder().commit(ModelBytes::from_vec(model)).unwrap();
    let planned = session.activations([("s", ort_session::Value::Sequence(Vec::new()))]).unwrap();
    assert_eq!((planned.is_all(), planned.n_dynamic()), (false, 1));
    assert!(planned.steps[0].is_dynamic);
}

#[test]
fn wrong_shapes_are_reported_as_for_a_run() {
    let session = session(Session::builder());
    for (shapes, expected) in [
        (&[("y", &[1, 3][..])][..], "there is no input `y`; the inputs are `x`"),
        (&[], "input `x` (float[n,3]) is missing"),
        (&[("x", &[1, 4])], "input `x`: expected float[n,3], found float[1,4]"),
        (&[("x", &[usize::MAX, 3])], "input `x`: "),
    ] {
        let error = session.activations_of_shapes(shapes).unwrap_err();
        assert!(matches!(error, RunError::Input(_)), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn concurrent_runs_have_separate_memory_and_do_not_wait() {
    const N_THREADS: usize = 8;
    for (arena, n_kept) in [(Arena::Keep, N_THREADS), (Arena::Shrink, N_THREADS), (Arena::Off, 0)] {
        let barrier = Barrier::new(N_THREADS);
        let meeting = Hooked::new(move |_| {
            barrier.wait();
        });
        let session = session(Session::builder().threads(1).arena(arena).provider(meeting));
        let x = Tensor::from_slice(&[1000, 3], &[0.0_f32; 3000]).unwrap();
        // All of them meet in the middle of a run, or the test hangs.
        std::thread::scope(|scope| {
            (0..N_THREADS).for_each(|_| drop(scope.spawn(|| session.run([("x", &x)]).unwrap())));
        });
        // Outputs are dropped when their threads end, and then serve the next.
        let limits = n_kept * block(1000)..=n_kept * block_and_output(1000);
        assert!(limits.contains(&kept(&session)), "{arena:?}: {}", kept(&session));
    }
}

#[test]
fn a_burst_of_concurrent_runs_holds_its_memory_only_for_a_while() {
    let session = session(Session::builder());
    std::thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(|| (0..50).for_each(|_| run(&session, 1000)))));
    });
    (0..40).for_each(|_| run(&session, 1000));
    assert_eq!(kept(&session), block_and_output(1000));
}

#[test]
fn reused_blocks_do_not_change_results() {
    let weights: Vec<f32> = (0..20 * 3 * 3 * 3).map(|i| (i % 13) as f32 / 13.0 - 0.4).collect();
    let bytes = ModelWriter::default()
        .input("x", &[1, 3, -1, -1])
        .constant("w", &[20, 3, 3, 3], &weights)
        .node("Conv", 11, &["x", "w"], "a")
        .node("Relu", 14, &["a"], "b")
        .node("Softmax", 13, &["b"], "c")
        .node("Mul", 14, &["c", "b"], "d")
        .node("GlobalAveragePool", 1, &["d"], "e")
        .node("Add", 14, &["e", "d"], "y")
        .output("y")
        .bytes();
    let bits = |session: &Session, n: usize| {
        let data: Vec<f32> = (0..3 * n * n).map(|i| (i % 29) as f32 - 14.0).collect();
        let x = Tensor::from_slice(&[1, 3, n, n], &data).unwrap();
        let outputs = session.run([("x", &x)]).unwrap();
        let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
        y.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
    };
    let fresh = || Session::builder().commit(ModelBytes::from_vec(bytes.clone())).unwrap();
    let shared = fresh();
    for n in [33, 8, 21, 40, 9, 33, 8] {
        assert!(bits(&shared, n) == bits(&fresh(), n), "images of {n}x{n}");
    }
}
