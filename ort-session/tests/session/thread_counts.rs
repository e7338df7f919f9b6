//! The number of threads changes no bit: random networks of layers with work enough to be shared.

use ort_session::{Level, ModelBytes, Session, Tensor};
use ort_testing::Rng;

use crate::model::of_text;
use crate::networks::{SHAPE, network};

#[test]
fn every_number_of_threads_gives_the_same_bits() {
    for seed in 0..4 {
        let text = network(seed, 8);
        let bytes = of_text(&text);
        let n = SHAPE.iter().product();
        let x = Tensor::from_slice(&SHAPE, &Rng::new(seed).uniforms(n)).unwrap();
        for level in [Level::Disable, Level::All] {
            let mut expected = None;
            for n_threads in [1, 2, 3, 4, 8] {
                let builder = Session::builder().level(level).threads(n_threads);
                let session = builder.commit(ModelBytes::from_vec(bytes.clone())).unwrap();
                // Who helps, and with what, differs from run to run.
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
