//! Cancellation of loading.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_session::{Cancel, Level, ModelBytes, Session, SessionBuilder, SessionError, Tensor};

use crate::hooked::Hooked;
use crate::model::{ModelWriter, forked};

/// A builder whose loading is cancelled when the provider compiles, and the number of compilations.
fn cancelling() -> (SessionBuilder, Arc<AtomicUsize>) {
    let (cancel, n_compiled) = (Cancel::new(), Arc::new(AtomicUsize::new(0)));
    let builder = Session::builder().threads(1).cancel(&cancel);
    let counter = n_compiled.clone();
    let provider = Hooked::compiling(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        cancel.cancel();
    });
    (builder.provider(provider), n_compiled)
}

#[test]
fn loading_is_cancelled_before_it_starts() {
    let cancel = Cancel::new();
    let builder = Session::builder().cancel(&cancel);
    let session = builder.clone().commit(ModelBytes::from_vec(forked())).unwrap();
    cancel.cancel();
    let error = builder.clone().commit(ModelBytes::from_vec(forked())).unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    assert_eq!(error.to_string(), "loading was cancelled");
    let folder = tempfile::tempdir().unwrap();
    let cached = builder.clone().cache_dir(folder.path()).commit(ModelBytes::from_vec(forked()));
    assert!(matches!(cached, Err(SessionError::Cancelled)));
    let error = builder.commit_from_file("no such file").unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    // A loaded session is not affected.
    let x = Tensor::from_slice(&[1, 3], &[0.0_f32; 3]).unwrap();
    assert!(session.run([("x", &x)]).is_ok());
}

#[test]
fn loading_is_cancelled_while_it_compiles() {
    let chain = |model: ModelWriter| {
        let model = model.node("Add", 14, &["x", "x"], "a").node("Add", 14, &["a", "x"], "b");
        model.node("Add", 14, &["b", "x"], "y").output("y").bytes()
    };
    let (builder, n_compiled) = cancelling();
    let bytes = chain(ModelWriter::default().input("x", &[2]));
    let error = builder.level(Level::Disable).commit(ModelBytes::from_vec(bytes)).unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    assert_eq!(n_compiled.load(Ordering::Relaxed), 1);
}

#[test]
fn loading_is_cancelled_while_it_optimizes() {
    // The sum is constant and too large for shape inference, so the optimizer computes it.
    let model = ModelWriter::default()
        .input("x", &[1000])
        .constant("b", &[1000], &[1.0; 1000])
        .node("Add", 14, &["b", "b"], "sum")
        .node("Mul", 14, &["x", "sum"], "y")
        .output("y");
    let (builder, n_compiled) = cancelling();
    let error = builder.optimize(ModelBytes::from_vec(model.bytes())).unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    assert_eq!(n_compiled.load(Ordering::Relaxed), 1);
}
