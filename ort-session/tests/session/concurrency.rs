//! One session, many threads.

use ort_session::{Denormals, ModelBytes, Session, Tensor};

use crate::model::{ModelWriter, gated, gated_value};

#[test]
fn threads_share_a_session_and_get_their_own_results() {
    let session = Session::builder().threads(2).commit(ModelBytes::from_vec(gated())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u16 {
            let session = &session;
            scope.spawn(move || {
                for run in 0..100_u16 {
                    // Different shapes in every thread, so that layouts are replaced.
                    let n = usize::from(1 + (thread + run) % 13);
                    let data: Vec<f32> = (0..3 * n).map(|i| f32::from(thread) - i as f32).collect();
                    let x = Tensor::from_slice(&[n, 3], &data).unwrap();
                    let outputs = session.run([("x", &x)]).unwrap();
                    let y = outputs[0].as_tensor().unwrap();
                    assert_eq!(y.as_slice::<f32>().unwrap(), gated_value(&data));
                }
            });
        }
    });
}

#[test]
fn denormals_are_flushed_in_the_run_and_nowhere_else() {
    let model = ModelWriter::default()
        .input("x", &[4])
        .constant("tiny", &[4], &[1e-40; 4])
        .node("Mul", 14, &["x", "tiny"], "y")
        .output("y")
        .bytes();
    let x = Tensor::from_slice(&[4], &[1.0_f32; 4]).unwrap();
    let tiny_product = || std::hint::black_box(1e-40_f32) * std::hint::black_box(1.0);
    for (denormals, expected) in
        [(Denormals::Flush, 0.0), (Denormals::Preserve, 1e-40), (Denormals::Flush, 0.0)]
    {
        let builder = Session::builder().denormals(denormals);
        let session = builder.commit(ModelBytes::from_vec(model.clone())).unwrap();
        let outputs = session.run([("x", &x)]).unwrap();
        let y = outputs[0].as_tensor().unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap(), [expected; 4], "{denormals}");
        assert_eq!(tiny_product(), 1e-40, "the caller's own arithmetic after {denormals}");
    }
}
