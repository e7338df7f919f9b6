//! Models of files that a program changes, and those with elements in other files.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ort_session::model::Node;
use ort_session::{
    ExternalElements, Join, ModelBytes, SaveError, Session, SharedPool, Spawn, Tensor,
};

use crate::model::ModelWriter;

/// `y = x + w`.
fn sum() -> ModelBytes {
    let model = ModelWriter::default()
        .input("x", &[3])
        .constant("w", &[3], &[1.0, 2.0, 3.0])
        .node("Add", 14, &["x", "w"], "y")
        .output("y");
    ModelBytes::from_vec(model.bytes())
}

fn x() -> Tensor {
    Tensor::from_slice(&[3], &[1.0_f32, 1.0, 1.0]).unwrap()
}

fn run(session: &Session) -> Vec<f32> {
    let outputs = session.run([("x", &x())]).unwrap();
    outputs[0].as_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn a_model_of_a_file_is_changed_before_its_session_is_built() {
    let onnx = Session::builder().optimize(sum()).unwrap().to_onnx_bytes().unwrap();
    for bytes in [sum(), ModelBytes::from_vec(onnx)] {
        let mut model = Session::builder().read_model(bytes).unwrap();
        model.graph.nodes.push(Node {
            op_type: "Neg".into(),
            inputs: vec!["y".into()],
            outputs: vec!["negated".into()],
            ..Node::default()
        });
        model.graph.outputs[0] = "negated".into();
        let session = Session::builder().commit_model(model).unwrap();
        assert_eq!(run(&session), [-2.0, -3.0, -4.0]);
        let operators: Vec<&str> = session.nodes().map(|node| &*node.op_type).collect();
        assert_eq!(operators, ["Add", "Neg"]);
    }
}

#[test]
fn elements_are_stored_outside_of_a_model() {
    let optimized = Session::builder().optimize(sum()).unwrap();
    let mut stored = vec![0_u8; 4];
    let bytes = optimized.to_onnx_bytes_with_external::<SaveError>(&mut |name, elements| {
        assert_eq!(name, "w");
        stored.extend_from_slice(elements.view().as_bytes().unwrap());
        Ok(Some(ExternalElements { file: "w.data".to_owned(), offset: 4, n_bytes: 12 }))
    });
    let bytes = ModelBytes::from_vec(bytes.unwrap());
    let data = ModelBytes::from_vec(stored);
    let session = Session::builder().external_data("w.data", data).commit(bytes).unwrap();
    assert_eq!(run(&session), [2.0, 3.0, 4.0]);
}

/// Counts the threads that it starts.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Spawn for Counting {
    fn spawn(&self, name: String, work: Box<dyn FnOnce() + Send>) -> std::io::Result<Join> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        let thread = Mutex::new(Some(thread));
        Ok(Box::new(move || {
            if let Some(thread) = thread.into_inner().unwrap() {
                thread.join().unwrap();
            }
        }))
    }
}

#[test]
fn sessions_of_a_shared_pool_have_the_same_threads() {
    let (pool, threads) = (SharedPool::default(), Arc::new(Counting::default()));
    let session = |n_threads| {
        let builder = Session::builder().threads(n_threads).shared_pool(&pool);
        builder.spawn_threads(threads.clone()).commit(sum()).unwrap()
    };
    for (n_threads, n_started) in [(3, 2), (3, 2), (2, 3), (3, 3)] {
        assert_eq!(run(&session(n_threads)), [2.0, 3.0, 4.0]);
        assert_eq!(threads.0.load(Ordering::Relaxed), n_started);
    }
}
