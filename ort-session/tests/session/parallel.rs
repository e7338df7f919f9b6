//! Parallel branches compute the same as sequential steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ort_session::{
    BoundOutputs, Cancel, DType, ExecutionMode, Level, LimitError, ModelBytes, RunError, RunLimits,
    RunOptions, Session, SessionBuilder, Tensor,
};
use ort_testing::Rng;
use proptest::prelude::*;

use crate::hooked::Hooked;
use crate::model::of_text;

/// The size of all square matrices here: large enough for branches to be profitable, and too small for
/// a step to use several threads.
const N: usize = 72;

fn parallel() -> SessionBuilder {
    Session::builder().level(Level::Disable).threads(2).execution_mode(ExecutionMode::Parallel)
}

fn commit(builder: SessionBuilder, text: &str) -> Session {
    builder.commit(ModelBytes::from_vec(of_text(text))).unwrap()
}

fn x() -> Tensor {
    Tensor::from_slice(&[N, N], &Rng::new(5).uniforms(N * N)).unwrap()
}

fn bits(session: &Session, options: &RunOptions) -> Vec<Vec<u32>> {
    let outputs = session.run_with([("x", &x())], options).unwrap();
    let bits = |i: usize| {
        let values = outputs[i].as_tensor().unwrap().as_slice::<f32>().unwrap();
        values.iter().map(|value| value.to_bits()).collect()
    };
    (0..outputs.len()).map(bits).collect()
}

/// A graph of `n_nodes` that each read one or two earlier values, three of which are
/// outputs.
fn any_graph(seed: u64, n_nodes: usize) -> String {
    let mut rng = Rng::new(seed);
    let (mut text, mut values) = (String::new(), vec!["x".to_owned()]);
    for i in 0..n_nodes {
        // Mostly recent values, so that there are chains.
        let mut any =
            || values[values.len() - 1 - rng.index(values.len()).min(rng.index(4))].clone();
        let (a, b, y) = (any(), any(), format!("v{i}"));
        let node = match rng.index(7) {
            0 | 1 => format!(" p{i} = MatMul-13 ({a}, {b})\n {y} = Tanh-13 (p{i})\n"),
            2 => format!(" {y} = Add-14 ({a}, {b})\n"),
            3 => format!(" {y} = Relu-14 ({a})\n"),
            4 => format!(" {y} = Transpose-13 ({a})\n"),
            5 => format!(
                " s{i} = const int64[2] [{}, {}]\n r{i} = Reshape-14 ({a}, s{i})\n \
                 t{i} = const int64[2] [{N}, {N}]\n {y} = Reshape-14 (r{i}, t{i})\n",
                N * 2,
                N / 2
            ),
            // The number of non-zero elements depends on data.
            _ => format!(
                " z{i} = Relu-14 ({a})\n n{i} = NonZero-13 (z{i})\n f{i} = Cast-13 [to: 1] (n{i})\n \
                 m{i} = ReduceMean-13 [axes: [0, 1]] (f{i})\n d{i} = Add-14 ({a}, m{i})\n \
                 {y} = Tanh-13 (d{i})\n"
            ),
        };
        text += &node;
        values.push(y);
    }
    let outputs: Vec<_> = (0..3).map(|i| format!("o{i}")).collect();
    for output in &outputs {
        let value = &values[values.len() - 1 - rng.index(n_nodes.min(6))];
        writeln!(text, " {output} = Neg-13 ({value})").unwrap();
    }
    format!("graph(x: float[{N},{N}]) -> ({}) {{\n{text}}}", outputs.join(", "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_graph_gives_the_same_bits(seed in 0_u64..100_000, n_nodes in 2_usize..24, n_threads in 2_usize..5) {
        let text = any_graph(seed, n_nodes);
        let sequential = commit(Session::builder().level(Level::Disable).threads(1), &text);
        let parallel = commit(parallel().threads(n_threads), &text);
        for options in [RunOptions::new(), RunOptions::new().outputs(["o1"])] {
            let expected = bits(&sequential, &options);
            // The second run reuses the memory of the first.
            for _ in 0..3 {
                prop_assert!(bits(&parallel, &options) == expected, "{text}");
            }
        }
        // Concurrent callers share what a session retains.
        let expected = bits(&sequential, &RunOptions::new());
        let same = std::thread::scope(|scope| {
            let run = || scope.spawn(|| bits(&parallel, &RunOptions::new()) == expected);
            let runs: Vec<_> = (0..3).map(|_| run()).collect();
            runs.into_iter().all(|run| run.join().unwrap())
        });
        prop_assert!(same, "{text}");
    }
}

/// Two branches that each start with a node for [`Hooked`], and their sum.
fn two_branches() -> String {
    format!(
        "graph(x: float[{N},{N}]) -> (y, a2, b1) {{
  a0 = Add-14 (x, x)
  a1 = MatMul-13 (a0, x)
  a2 = MatMul-13 (a1, x)
  b0 = Add-14 (x, x)
  b1 = MatMul-13 (b0, x)
  b2 = MatMul-13 (b1, b0)
  y = Sub-14 (a2, b2)
}}"
    )
}

/// Waits until two threads have arrived; false if there is no second within a minute.
#[derive(Default)]
struct Meeting(Mutex<usize>, Condvar);

impl Meeting {
    fn meet(&self) -> bool {
        let mut n = self.0.lock().unwrap();
        *n += 1;
        self.1.notify_all();
        let is_alone = |n: &mut usize| *n < 2;
        let waited = self.1.wait_timeout_while(n, Duration::from_secs(60), is_alone).unwrap();
        !waited.1.timed_out()
    }
}

#[test]
fn branches_run_at_the_same_time() {
    let meeting = Arc::new((Meeting::default(), AtomicUsize::new(0)));
    let hook = {
        let meeting = meeting.clone();
        Hooked::new(move |_| {
            meeting.1.fetch_add(usize::from(meeting.0.meet()), Ordering::Relaxed);
        })
    };
    // User-provided workers are waited for, though they sleep.
    let workers = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let session = commit(parallel().provider(hook).thread_pool(workers), &two_branches());
    assert!(session.n_branches() > 1);
    session.run([("x", &x())]).unwrap();
    assert_eq!(meeting.1.load(Ordering::Relaxed), 2);
}

#[test]
fn in_sequential_mode_branches_do_not_run_at_the_same_time() {
    let (n, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let (n, most) = (n, most.clone());
        Hooked::new(move |_| {
            most.fetch_max(n.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            n.fetch_sub(1, Ordering::SeqCst);
        })
    };
    let builder = parallel().execution_mode(ExecutionMode::Sequential).provider(hook);
    let session = commit(builder, &two_branches());
    assert_eq!(session.n_branches(), 1);
    (0..20).for_each(|_| drop(session.run([("x", &x())]).unwrap()));
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn bound_outputs_are_written_from_any_branch() {
    let sequential = parallel().execution_mode(ExecutionMode::Sequential);
    let expected = bits(&commit(sequential, &two_branches()), &RunOptions::new());
    let session = commit(parallel(), &two_branches());
    for bound in [&["y"][..], &["a2", "b1"], &["y", "a2", "b1"]] {
        let mut memory: Vec<_> =
            bound.iter().map(|_| Tensor::zeros(DType::F32, &[N, N]).unwrap()).collect();
        let mut outputs = BoundOutputs::default();
        for (name, tensor) in bound.iter().zip(&mut memory) {
            outputs = outputs.with(*name, tensor.view_mut());
        }
        let rest = session.run_into([("x", &x())], outputs, &RunOptions::new()).unwrap();
        assert_eq!(rest.len(), 3 - bound.len());
        for (name, tensor) in bound.iter().zip(&memory) {
            let at = ["y", "a2", "b1"].iter().position(|other| other == name).unwrap();
            let found = tensor.as_slice::<f32>().unwrap();
            let is_same = |(a, b): (&f32, &u32)| a.to_bits() == *b;
            assert!(found.iter().zip(&expected[at]).all(is_same), "{name} of {bound:?}");
        }
    }
}

/// A session in parallel mode whose `Add` nodes call `hook`; the second in a run with 1.
fn hooked(hook: impl Fn(usize) + Send + Sync + 'static) -> Session {
    let n = AtomicUsize::new(0);
    let hook = Hooked::new(move |_| hook(n.fetch_add(1, Ordering::SeqCst) % 2));
    commit(parallel().provider(hook), &two_branches())
}

#[test]
fn a_panic_in_a_branch_names_its_node() {
    let session = hooked(|i| {
        if i == 1 {
            resume_unwind(Box::new("no more"));
        }
    });
    for _ in 0..10 {
        match session.run([("x", &x())]) {
            Err(RunError::Panicked { node, op_type, message }) => {
                assert_eq!((&*op_type, &*message), ("Add", "no more"));
                assert!(node.contains("Add") || node == "a0" || node == "b0", "{node}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_run_is_cancelled_from_within_a_branch() {
    let cancel = Cancel::new();
    let session = hooked({
        let cancel = cancel.clone();
        move |_| cancel.cancel()
    });
    let options = RunOptions::new().cancel(&cancel).tag("both");
    let error = session.run_with([("x", &x())], &options).unwrap_err();
    assert_eq!(error, RunError::Cancelled { tag: "both".into() });
    assert_eq!(session.run([("x", &x())]).unwrap().len(), 3);
}

#[test]
fn the_memory_of_branches_counts_against_the_limit() {
    let text = format!(
        "graph(x: float[{N},{N}]) -> (y) {{
  a00 = MatMul-13 (x, x)
  a0 = MatMul-13 (a00, x)
  a1 = NonZero-13 (a0)
  a2 = Cast-13 [to: 1] (a1)
  a3 = ReduceMean-13 [axes: [0, 1]] (a2)
  b00 = MatMul-13 (x, x)
  b0 = MatMul-13 (x, b00)
  b1 = NonZero-13 (b0)
  b2 = Cast-13 [to: 1] (b1)
  b3 = ReduceMean-13 [axes: [0, 1]] (b2)
  y = Add-14 (a3, b3)
}}"
    );
    let session = commit(parallel(), &text);
    let arena = session.activations([("x", &x())]).unwrap().arena;
    // Two indices of 8 bytes for each non-zero element, and as many floats.
    let dynamic = 2 * N * N * (8 + 4) * 2;
    // While it runs, NonZero has a list of positions, which doubles as it grows.
    let lists = 2 * N * N * 8 * 2;
    let run = |max_bytes| {
        let limits = RunLimits { max_bytes: Some(max_bytes), ..RunLimits::default() };
        session.run_with([("x", &x())], &RunOptions::new().limits(limits))
    };
    run(arena + dynamic + lists + 4096).unwrap();
    match run(arena + dynamic / 4) {
        Err(RunError::Limit(LimitError::Bytes { limit, found, .. })) => {
            assert!(found > limit);
        }
        other => panic!("{other:?}"),
    }
    // Memory no longer counts after the run.
    run(arena + dynamic + lists + 4096).unwrap();
}

#[test]
fn a_trace_has_every_step_once_on_any_thread() {
    let names = |mode| {
        let session = commit(parallel().execution_mode(mode), &two_branches());
        let (_, steps) = session.run_profiled([("x", &x())]).unwrap();
        let mut names: Vec<_> = steps.into_iter().map(|step| step.work.node.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(ExecutionMode::Parallel), names(ExecutionMode::Sequential));
}

#[test]
fn every_value_is_observed_on_any_thread() {
    let shown = |mode| {
        let text = two_branches().replace("(y, a2, b1)", "(y)");
        let session = commit(parallel().execution_mode(mode), &text);
        let shown = Mutex::new(BTreeMap::new());
        let outputs = session.run_observed([("x", &x())], &|it| {
            shown.lock().unwrap().insert(it.name.to_owned(), it.value.to_value().unwrap());
        });
        outputs.unwrap();
        shown.into_inner().unwrap()
    };
    let expected = shown(ExecutionMode::Sequential);
    let names: Vec<&String> = expected.keys().collect();
    assert_eq!(names, ["a0", "a1", "a2", "b0", "b1", "b2", "y"]);
    (0..20).for_each(|_| assert_eq!(shown(ExecutionMode::Parallel), expected));
}
