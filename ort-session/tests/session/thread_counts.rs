//! Neither the number nor the kind of threads changes results: random networks whose layers are large enough to be parallelized.

use std::sync::Arc;
use std::time::Duration;

use ort_session::{Level, ModelBytes, Session, SessionBuilder, Tensor};
use ort_testing::Rng;

use crate::model::of_text;
use crate::networks::{SHAPE, network};

#[test]
fn every_number_and_kind_of_threads_gives_the_same_bits() {
    for seed in 0..4 {
        let text = network(seed, 8);
        let bytes = of_text(&text);
        let n = SHAPE.iter().product();
        let x = Tensor::from_slice(&SHAPE, &Rng::new(seed).uniforms(n)).unwrap();
        for level in [Level::Disable, Level::All] {
            let mut expected = None;
            for builder in builders() {
                let n_threads = builder.thread_count().n_threads();
                let session =
                    builder.level(level).commit(ModelBytes::from_vec(bytes.clone())).unwrap();
                // The assignment of parts to threads differs between runs.
                for _ in 0..2 {
                    let outputs = session.run([("x", &x)]).unwrap();
                    let y = outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap();
                    let bits: Vec<u32> = y.iter().map(|y| y.to_bits()).collect();
                    let expected = expected.get_or_insert_with(|| bits.clone());
                    let is_same = *expected == bits;
                    let ops: Vec<_> = text.lines().filter(|line| !line.contains("const")).collect();
                    assert!(is_same, "{n_threads} threads, {level:?}:\n{}", ops.join("\n"));
                }
            }
        }
    }
}

/// Sessions with any number and kind of threads.
fn builders() -> Vec<SessionBuilder> {
    let mut builders: Vec<_> = [1, 2, 3, 4, 8].map(|n| Session::builder().threads(n)).into();
    let workers = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    builders.extend([
        Session::builder().threads(2).own_pool(true),
        Session::builder().threads(3).spinning(Duration::ZERO),
        Session::builder().thread_pool(Arc::new(workers)),
    ]);
    builders
}
