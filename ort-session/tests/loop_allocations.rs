//! What a loop allocates in an iteration does not grow with what it carries: in a process of its own,
//! for every allocation counts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::alloc::System;

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{ModelBytes, RunInputs, Session, Tensor, Value};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn session(text: &str) -> Session {
    let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export { info: &info, resolver: None, private: &[] }).unwrap();
    let bytes = ort_format::write(&file).unwrap();
    Session::builder().threads(1).commit(ModelBytes::from_vec(bytes)).unwrap()
}

/// Bytes that a run of so many iterations allocates, after two that made everything ready.
fn allocated(session: &Session, trips: i64, inputs: &[Value]) -> usize {
    let trips = Tensor::scalar(trips).into();
    let inputs: Vec<&Value> = std::iter::once(&trips).chain(inputs).collect();
    let run = || drop(session.run(RunInputs::positional(inputs.iter().copied())).unwrap());
    (0..2).for_each(|_| run());
    let region = Region::new(MEMORY);
    run();
    region.change().bytes_allocated
}

fn zeros(shape: &[usize]) -> Value {
    Tensor::from_slice(shape, &vec![0.5_f32; shape.iter().product()]).unwrap().into()
}

/// States of floats that change, change places and stay, one that is looked at only, and a sequence.
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

#[test]
fn an_iteration_allocates_no_more_where_more_is_carried() {
    let session = session(CARRIED);
    let an_iteration = |n: usize| {
        let inputs: Vec<Value> = (0..4).map(|_| zeros(&[n])).collect();
        let [few, many] = [20, 120].map(|trips| allocated(&session, trips, &inputs));
        (many - few) / 100
    };
    // Up to the size of a page, values are pieces of the heap.
    let (small, large) = (an_iteration(2_000), an_iteration(20_000));
    assert!(large <= small + 64, "{small} bytes for states of 8 KB, {large} for 80 KB");

    let growing = self::session(
        "graph(m: int64[], g0: float[?,64], v: float[1,64]) -> (g) {
           g = Loop-16 [
             body: graph(i: int64[], go: bool[], g_in: float[?,64]) -> (go, g_out) {
               g_out = Concat-13 [axis: 0] (g_in, v)
             }
           ] (m, _, g0)
         }",
    );
    let [half, whole] =
        [128, 256].map(|trips| allocated(&growing, trips, &[zeros(&[1, 64]), zeros(&[1, 64])]));
    assert!(whole < half * 5 / 2, "{half} bytes for 128 rows, {whole} for 256");
}
