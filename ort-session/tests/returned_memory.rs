//! The memory of a session is returned to the system when it is dropped: in a separate process, as
//! other tests would count, too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

#[path = "session/model.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod model;

use ort_session::{Arena, DType, Load, Session, Tensor, process_memory};

use crate::model::ModelWriter;

/// The limit of what may remain: code and tables that the first session touches, stacks of threads, what an
/// allocator retains of small objects.
const MAX_LEFT_BYTES: u64 = 2 << 20;

/// Rows and columns of a layer's weights: 400 KiB, which could come from the heap.
const N: usize = 320;

const N_LAYERS: usize = 80;

/// Rows of the input: the values between two layers take 320 KiB each.
const N_ROWS: usize = 256;

#[test]
fn dropping_a_session_returns_its_memory() {
    let Some(_) = process_memory().unwrap() else {
        println!("skipped: this system does not report the memory of a process");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layers.ort");
    std::fs::write(&path, layers()).unwrap();
    let x = Tensor::zeros(DType::F32, &[N_ROWS, N]).unwrap();
    let (base, packed) = (private_bytes(), N_LAYERS * N * N * 4);
    for load in [Load::Mapped, Load::Read] {
        for arena in [Arena::Keep, Arena::Shrink, Arena::Off] {
            let builder = Session::builder().threads(2).load(load).arena(arena);
            let session = builder.commit_from_file(&path).unwrap();
            drop(session.run([("x", &x)]).unwrap());
            let held = private_bytes();
            drop(session);
            let left = private_bytes();
            let report = format!("{load:?}, {arena:?}: {base} before, {held} then, {left} left");
            assert!(
                held >= base + u64::try_from(packed).unwrap(),
                "too little to be seen: {report}"
            );
            assert!(left <= base + MAX_LEFT_BYTES, "{report}");
        }
    }
}

fn private_bytes() -> u64 {
    process_memory().unwrap().unwrap().rss_anon
}

/// Layers with 31 MiB of weights in total.
fn layers() -> Vec<u8> {
    let n = i64::try_from(N).unwrap();
    let mut model = ModelWriter::default().input("x", &[-1, n]);
    let mut last = "x";
    for layer in 0..N_LAYERS {
        let name = |what: &str| &*format!("{what}{layer}").leak();
        let (w, product, y) = (name("w"), name("product"), name("y"));
        let weights: Vec<f32> = (0..N * N).map(|i| ((i + layer) % 17) as f32 - 8.0).collect();
        model = model.constant(w, &[n, n], &weights).node("MatMul", 13, &[last, w], product).node(
            "Relu",
            14,
            &[product],
            y,
        );
        last = y;
    }
    model.output(last).bytes()
}
