//! Without a run, no thread of a session computes. In a separate process,
//! since it reads the processor time of all threads.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]
#![cfg(target_os = "linux")]

use std::time::Duration;

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{ModelBytes, Session, Tensor};

/// The processor time of this process, in ticks of 10 ms on a default Linux. Fields 14 and 15
/// of the file, whose second field is a name in parentheses.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn no_thread_spins_between_runs() {
    let text = "graph(a: float[256,256], b: float[256,256]) -> (y) {\n y = MatMul-13 (a, b)\n}";
    let graph = Graph::parse(text, &ort_ops::registry()).unwrap();
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info)).unwrap();
    let bytes = ort_format::write(&file).unwrap();
    let a = Tensor::from_slice(&[256, 256], &vec![1.0_f32; 256 * 256]).unwrap();
    for n_threads in [2, 4] {
        let builder = Session::builder().threads(n_threads);
        let session = builder.commit(ModelBytes::from_vec(bytes.clone())).unwrap();
        for _ in 0..20 {
            session.run([("a", &a), ("b", &a)]).unwrap();
        }
        let before = ticks();
        std::thread::sleep(Duration::from_millis(250));
        // One spinning thread takes 25 ticks, or its share of a machine with other load.
        let n_ticks = ticks() - before;
        assert!(n_ticks < 5, "{n_ticks} ticks in 250 ms with {n_threads} threads");
    }
}
