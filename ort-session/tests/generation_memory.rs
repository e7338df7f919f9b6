//! Thousands of tokens leave a session's memory as it is: in a process of its own, for every allocation counts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::alloc::System;

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{ModelBytes, Session, State, Tensor};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A head of attention, and a product that each token waits for.
const DECODER: &str = "graph(x: float[1,n,64], past.0: float[1,p,64]) -> (y, present.0) {
  present.0: float[1,t,64] = Concat-13 [axis: 1] (past.0, x)
  k = Transpose-13 [perm: [0, 2, 1]] (present.0)
  s = MatMul-13 (x, k)
  p = Softmax-13 [axis: -1] (s)
  z = MatMul-13 (p, present.0)
  w = const float[64,64] fill 0.01
  y: float[1,n,64] = MatMul-13 (z, w)
}";

fn session() -> Session {
    let graph = Graph::parse(DECODER, &ort_ops::registry()).unwrap();
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export { info: &info, resolver: None, private: &[] }).unwrap();
    let bytes = ModelBytes::from_vec(ort_format::write(&file).unwrap());
    Session::builder().threads(1).commit(bytes).unwrap()
}

/// Generates so many tokens, and tells by how many bytes the heap grew.
fn growth(session: &Session, state: &mut State, tokens: usize) -> isize {
    let x = Tensor::from_slice(&[1, 1, 64], &[0.5_f32; 64]).unwrap();
    let region = Region::new(MEMORY);
    for _ in 0..tokens {
        drop(session.run_state(state, [("x", &x)]).unwrap());
    }
    let change = region.change();
    change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed()
}

#[test]
fn two_thousand_tokens_leave_memory_as_it_is() {
    let session = session();
    let mut state = session.new_state().unwrap();
    state.reserve(4096).unwrap();
    // As many plans as a session remembers, and buffers as long as the cache.
    let _ = growth(&session, &mut state, 1000);
    let grown = growth(&session, &mut state, 2000);
    assert_eq!(state.len(), Some(3000));
    // Scores are as many as tokens, in a few buffers.
    assert!(grown < 64 << 10, "{grown} bytes more behind 2000 tokens");
}
