//! `side_by_side THREADS SECONDS`: the gain of running branches of a graph in parallel, and the
//! cost where there are none. For four branches of matrix products and for a chain of as many, prints a line
//! of JSON: the minimal run time in sequential and in parallel mode, whose runs alternate.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{DType, ExecutionMode, Level, ModelBytes, Session, Tensor};

type Failure = Box<dyn Error + Send + Sync>;

/// Products in each branch.
const N_PRODUCTS: usize = 16;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [n_threads, seconds] = &words[..] else {
        return Err("usage: side_by_side THREADS SECONDS".into());
    };
    let (n_threads, time) = (n_threads.parse()?, Duration::from_secs_f64(seconds.parse()?));
    for (name, n_branches, n) in [
        ("4 branches of small nodes", 4, 48),
        ("4 branches of large nodes", 4, 384),
        ("a chain of small nodes", 1, 48),
        ("a chain of large nodes", 1, 384),
    ] {
        let model = products(n_branches, n)?;
        let [sequential, parallel] = compare(&model, n, n_threads, time)?;
        println!(
            r#"{{"case": "{name}", "sequential_ms": {sequential:.4}, "parallel_ms": {parallel:.4}}}"#
        );
    }
    Ok(())
}

/// A model of branches that start with the same input and are summed at the end, each a chain of products of
/// `n`×`n`.
fn products(n_branches: usize, n: usize) -> Result<Vec<u8>, Failure> {
    let mut text = format!("graph(x: float[{n}, {n}]) -> (y) {{\n");
    let mut ends = Vec::new();
    for branch in 0..n_branches {
        let mut last = "x".to_owned();
        for i in 0..N_PRODUCTS * 4 / n_branches {
            let next = format!("v{branch}_{i}");
            writeln!(text, " {next} = MatMul-13 ({last}, x)")?;
            last = next;
        }
        ends.push(last);
    }
    writeln!(text, " y = Sum-13 ({})\n}}", ends.join(", "))?;
    let graph = Graph::parse(&text, &ort_ops::registry())?;
    let info = ModelInfo { opsets: vec![(String::new(), 17)], ..ModelInfo::default() };
    let file = export(&graph, Export::new(&info))?;
    Ok(ort_format::write(&file)?)
}

/// The minimal run time in each mode, in milliseconds.
fn compare(model: &[u8], n: usize, n_threads: usize, time: Duration) -> Result<[f64; 2], Failure> {
    let session = |mode| {
        // At higher levels, equal nodes would be merged.
        let builder = Session::builder().level(Level::Disable).threads(n_threads);
        builder.execution_mode(mode).commit(ModelBytes::from_vec(model.to_vec()))
    };
    let sessions = [session(ExecutionMode::Sequential)?, session(ExecutionMode::Parallel)?];
    let x = Tensor::zeros(DType::F32, &[n, n])?;
    let (mut least, start) = ([Duration::MAX; 2], Instant::now());
    while start.elapsed() < time {
        for (session, least) in sessions.iter().zip(&mut least) {
            // A few consecutive runs, as in real use: the first wakes sleeping workers.
            for _ in 0..8 {
                let run = Instant::now();
                session.run([("x", &x)])?;
                *least = (*least).min(run.elapsed());
            }
        }
    }
    Ok(least.map(|time| time.as_secs_f64() * 1e3))
}
