//! The allocations of a loop iteration do not grow with loop-carried values, and no iteration causes page faults:
//! in a separate process, as every allocation and page fault counts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::alloc::System;
use std::sync::{Mutex, PoisonError};

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{Arena, ModelBytes, RunInputs, Session, Tensor, Value};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Held by the running test.
static ALONE: Mutex<()> = Mutex::new(());

fn session(text: &str, arena: Arena) -> Session {
    let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info)).unwrap();
    let bytes = ort_format::write(&file).unwrap();
    let builder = Session::builder().threads(1).arena(arena);
    builder.commit(ModelBytes::from_vec(bytes)).unwrap()
}

/// The result of `measure` for a run with this many iterations, after two warm-up runs.
fn measured(session: &Session, trips: i64, inputs: &[Value], mut measure: impl FnMut(&dyn Fn())) {
    let trips = Tensor::scalar(trips).into();
    let inputs: Vec<&Value> = std::iter::once(&trips).chain(inputs).collect();
    let run = || drop(session.run(RunInputs::positional(inputs.iter().copied())).unwrap());
    (0..2).for_each(|_| run());
    measure(&run);
}

/// The bytes that a run with this many iterations allocates.
fn allocated(session: &Session, trips: i64, inputs: &[Value]) -> usize {
    let mut n_bytes = 0;
    measured(session, trips, inputs, |run| {
        let region = Region::new(MEMORY);
        run();
        n_bytes = region.change().bytes_allocated;
    });
    n_bytes
}

/// The page faults of a run with this many iterations; `None` where the system does not report them.
fn faults(session: &Session, trips: i64, inputs: &[Value]) -> Option<u64> {
    let mut n_faults = None;
    measured(session, trips, inputs, |run| {
        let before = faults_so_far();
        run();
        n_faults = before.and_then(|before| Some(faults_so_far()? - before));
    });
    n_faults
}

/// The process's minor faults: field 10 of `/proc/self/stat`, whose field 2 is a name in parentheses.
fn faults_so_far() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(7)?.parse().ok()
}

fn zeros(shape: &[usize]) -> Value {
    Tensor::from_slice(shape, &vec![0.5_f32; shape.iter().product()]).unwrap().into()
}

/// Float states that change, swap and stay, one that is only read, and a sequence.
const CARRIED: &str = "graph(m: int64[], a0: float[?], b0: float[?], c0: float[?], v: float[?]) -> (a, b, c, s) {
  s0 = SequenceEmpty-11 ()
  a, b, c, s = Loop-16 [
    body: graph(i: int64[], go: bool[], a_in: float[?], b_in: float[?], c_in: float[?], s_in: seq(float[...])) -> (go, a_out, b_out, c_out, s_out) {
      t = Mul-14 (a_in, v)
      a_out = Add-14 (t, b_in)
      b_out = Identity-16 (c_in)
      c_out = Identity-16 (b_in)
      one = const float[1] [1]
      s_out = SequenceInsert-11 (s_in, one)
    }
  ] (m, _, a0, b0, c0, s0)
}";

/// Rows that grow by one in each iteration, where their reader comes afterwards.
const GROWING: &str = "graph(m: int64[], g0: float[?,64], v: float[1,64]) -> (g, t) {
  g, t = Loop-16 [
    body: graph(i: int64[], go: bool[], g_in: float[?,64]) -> (go, g_out, t) {
      g_out = Concat-13 [axis: 0] (g_in, v)
      t = ReduceMax-13 [keepdims: 0] (g_in)
    }
  ] (m, _, g0)
}";

#[test]
fn an_iteration_allocates_no_more_with_larger_states() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let session = session(CARRIED, Arena::default());
    let an_iteration = |n: usize| {
        let inputs: Vec<Value> = (0..4).map(|_| zeros(&[n])).collect();
        let [few, many] = [20, 120].map(|trips| allocated(&session, trips, &inputs));
        (many - few) / 100
    };
    // Up to the size of a page, values are allocated on the heap.
    let (small, large) = (an_iteration(2_000), an_iteration(20_000));
    assert!(large <= small + 64, "{small} bytes for states of 8 KB, {large} for 80 KB");

    let growing = self::session(GROWING, Arena::default());
    let [half, whole] =
        [128, 256].map(|trips| allocated(&growing, trips, &[zeros(&[1, 64]), zeros(&[1, 64])]));
    assert!(whole < half * 5 / 2, "{half} bytes for 128 rows, {whole} for 256");
}

#[test]
fn an_iteration_touches_no_new_pages() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for arena in [Arena::Keep, Arena::Shrink, Arena::Off] {
        let carried = session(CARRIED, arena);
        // Each state is a separate mapping.
        let inputs: Vec<Value> = (0..4).map(|_| zeros(&[300_000])).collect();
        let [few, many] = [20, 120].map(|trips| faults(&carried, trips, &inputs));
        let (Some(few), Some(many)) = (few, many) else {
            println!("skipped: this system does not report page faults");
            return;
        };
        assert!(many < few + 100, "{arena:?}: {few} faults in 20 iterations, {many} in 120");

        // A growing value touches each page once, and again when it moves: twice its final size.
        let growing = session(GROWING, arena);
        let row = [zeros(&[1, 64]), zeros(&[1, 64])];
        let n_pages = 2_000 * 64 * 4 / 4096;
        let n_faults = faults(&growing, 2_000, &row).unwrap_or_default();
        assert!(n_faults < 4 * n_pages, "{arena:?}: {n_faults} faults for {n_pages} pages");
    }
}
