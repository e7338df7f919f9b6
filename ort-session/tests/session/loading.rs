//! Loading that somebody ends early.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_ep::{Claim, CompileError, ExecutionProvider, Kernel, PackStore};
use ort_graph::{Graph, NodeId};
use ort_session::{Cancel, Level, ModelBytes, Session, SessionBuilder, SessionError, Tensor};

use crate::hooked::Hooked;
use crate::model::{ModelWriter, forked};

/// Takes `Add`, and calls a hook whenever it is to compile one.
pub(crate) struct Compiling {
    add: Arc<dyn ExecutionProvider>,
    hook: Box<dyn Fn() + Send + Sync>,
    n_compiled: AtomicUsize,
}

impl Compiling {
    pub(crate) fn new(hook: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let (add, hook) = (Hooked::new(|_| {}), Box::new(hook));
        Arc::new(Self { add, hook, n_compiled: AtomicUsize::new(0) })
    }

    pub(crate) fn n_compiled(&self) -> usize {
        self.n_compiled.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Compiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiling")
    }
}

impl ExecutionProvider for Compiling {
    fn name(&self) -> &'static str {
        "Compiling"
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
        (self.hook)();
        self.add.compile(graph, claim, packs)
    }
}

/// The builder of a session that is cancelled when the provider compiles.
fn cancelling() -> (SessionBuilder, Arc<Compiling>) {
    let cancel = Cancel::new();
    let builder = Session::builder().threads(1).cancel(&cancel);
    let provider = Compiling::new(move || cancel.cancel());
    (builder.provider(provider.clone()), provider)
}

/// Three sums, each of the one before.
pub(crate) fn chain() -> Vec<u8> {
    let model = ModelWriter::default().input("x", &[2]);
    let model = model.node("Add", 14, &["x", "x"], "a").node("Add", 14, &["a", "x"], "b");
    model.node("Add", 14, &["b", "x"], "y").output("y").bytes()
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
    let (builder, provider) = cancelling();
    let error = builder.level(Level::Disable).commit(ModelBytes::from_vec(chain())).unwrap_err();
    assert!(matches!(error, SessionError::Cancelled), "{error}");
    assert_eq!(provider.n_compiled(), 1);
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
    assert_eq!(provider.n_compiled(), 1);
}
