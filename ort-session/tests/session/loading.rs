//! Loading that somebody ends early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_ep::{Claim, CompileError, ExecutionProvider, Kernel, PackStore};
use ort_graph::{Graph, NodeId};
use ort_session::{Cancel, Level, ModelBytes, Session, SessionBuilder, SessionError, Tensor};

use crate::hooked::Hooked;
use crate::model::{ModelWriter, forked};

/// Takes `Add`, and cancels as soon as it is to compile one.
#[derive(Debug)]
struct Cancelling {
    add: Arc<dyn ExecutionProvider>,
    cancel: Cancel,
    n_compiled: AtomicUsize,
}

impl ExecutionProvider for Cancelling {
    fn name(&self) -> &'static str {
        "Cancelling"
    }

    fn claim(&self, graph: &Graph, root: NodeId) -> Option<Claim> {
        self.add.claim(graph, root)
    }

    fn compile(
        &self,
        graph: &Graph,
        claim: &Claim,
        packs: &dyn PackStore,
    ) -> Result<Box<dyn Kernel>, CompileError> {
        self.n_compiled.fetch_add(1, Ordering::Relaxed);
        self.cancel.cancel();
        self.add.compile(graph, claim, packs)
    }
}

/// The builder of a session that is cancelled when the provider compiles.
fn cancelling() -> (SessionBuilder, Arc<Cancelling>) {
    let (add, cancel): (Arc<dyn ExecutionProvider>, _) = (Hooked::new(|_| {}), Cancel::new());
    let builder = Session::builder().threads(1).cancel(&cancel);
    let provider = Arc::new(Cancelling { add, cancel, n_compiled: AtomicUsize::new(0) });
    (builder.provider(provider.clone()), provider)
}

#[test]
fn loading_ends_before_it_begins() {
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
    // What is loaded is loaded.
    let x = Tensor::from_slice(&[1, 3], &[0.0_f32; 3]).unwrap();
    assert!(session.run([("x", &x)]).is_ok());
}

#[test]
fn loading_ends_while_it_compiles() {
    let chain = |model: ModelWriter| {
        let model = model.node("Add", 14, &["x", "x"], "a").node("Add", 14, &["a", "x"], "b");
        model.node("Add", 14, &["b", "x"], "y").output("y").bytes()
    };
    let (builder, provider) = cancelling();
    let bytes = chain(ModelWriter::default().input("x", &[2]));
    let error = builder.level(Level::Disable).commit(ModelBytes::from_vec(bytes)).unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    assert_eq!(provider.n_compiled.load(Ordering::Relaxed), 1);
}

#[test]
fn loading_ends_while_it_optimizes() {
    // The sum is constant, so the optimizer computes it; not in passing, for it is not small.
    let model = ModelWriter::default()
        .input("x", &[1000])
        .constant("b", &[1000], &[1.0; 1000])
        .node("Add", 14, &["b", "b"], "sum")
        .node("Mul", 14, &["x", "sum"], "y")
        .output("y");
    let (builder, provider) = cancelling();
    let error = builder.optimize(ModelBytes::from_vec(model.bytes())).unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    assert_eq!(provider.n_compiled.load(Ordering::Relaxed), 1);
}
