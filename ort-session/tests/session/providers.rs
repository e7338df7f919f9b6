//! A second provider, which claims only `Add`: sessions treat the CPU provider like any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_session::{ModelBytes, Session, Tensor};

use crate::hooked::Hooked;
use crate::model::{gated, gated_value};

#[test]
fn a_provider_runs_what_it_claims_and_the_cpu_the_rest() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let provider = Hooked::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let builder = Session::builder().provider(provider);
    let session = builder.commit(ModelBytes::from_vec(gated())).unwrap();
    assert_eq!(session.placement(), [("TakingExecutionProvider", 1), ("CPUExecutionProvider", 2)]);
    let data = [0.5_f32, 4.0, -1.0];
    let x = Tensor::from_slice(&[1, 3], &data).unwrap();
    for run in 1..=3 {
        let outputs = session.run([("x", &x)]).unwrap();
        let y = outputs[0].as_tensor().unwrap();
        assert_eq!(y.as_slice::<f32>().unwrap(), gated_value(&data));
        assert_eq!(runs.load(Ordering::Relaxed), run);
    }
}
