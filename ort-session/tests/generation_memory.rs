//! Memory stays constant over thousands of tokens: in a separate process, as every allocation counts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::alloc::System;

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{ModelBytes, Session, State, Tensor};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// An attention head, and a product that depends on each token.
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
    let file = export(&graph, Export::new(&info)).unwrap();
    let bytes = ModelBytes::from_vec(ort_format::write(&file).unwrap());
    Session::builder().threads(1).commit(bytes).unwrap()
}

/// Generates this many tokens, and returns the growth of the heap in bytes.
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
fn memory_is_constant_over_two_thousand_tokens() {
    let session = session();
    let mut state = session.new_state().unwrap();
    state.reserve(4096).unwrap();
    // As many plans as a session caches, and buffers as long as the cache.
    let _ = growth(&session, &mut state, 1000);
    let grown = growth(&session, &mut state, 2000);
    assert_eq!(state.len(), Some(3000));
    // Only a few buffers of scores grow with the tokens.
    assert!(grown < 64 << 10, "{grown} bytes more after 2000 tokens");
}
