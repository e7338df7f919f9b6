//! `side_by_side THREADS SECONDS [MODEL.ort …]`: what it brings to run branches of a graph side by side.
//! For four branches of products, a chain of as many, and each model, a line of JSON: the least
//! milliseconds of a run in sequential and in parallel mode, whose runs take turns.
//!
//! Inputs are zeros; dimensions that are not known are 1.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ort_graph::{Export, Graph, ModelInfo, export};
use ort_session::{Dim, ExecutionMode, Level, ModelBytes, Session, SessionBuilder, Tensor, Type};

type Failure = Box<dyn Error + Send + Sync>;

/// Products in a branch.
const N_PRODUCTS: usize = 16;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [n_threads, seconds, models @ ..] = &words[..] else {
        return Err("usage: side_by_side THREADS SECONDS [MODEL.ort …]".into());
    };
    let (n_threads, time) = (n_threads.parse()?, Duration::from_secs_f64(seconds.parse()?));
    for (name, n_branches, n) in [
        ("4 branches of small nodes", 4, 48),
        ("4 branches of large nodes", 4, 384),
        ("a chain of small nodes", 1, 48),
        ("a chain of large nodes", 1, 384),
    ] {
        let bytes = products(n_branches, n)?;
        let session = |builder: SessionBuilder| {
            // Constants are folded otherwise, and this has no other inputs to read.
            builder.level(Level::Disable).commit(ModelBytes::from_vec(bytes.clone()))
        };
        compare(name, n_threads, time, &session)?;
    }
    for model in models {
        compare(model, n_threads, time, &|builder| builder.commit_from_file(model))?;
    }
    Ok(())
}

/// A model of branches that begin with the same input and end in one sum, each a chain of products of
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
    let file = export(&graph, Export { info: &info, resolver: None, private: &[] })?;
    Ok(ort_format::write(&file)?)
}

fn compare<E: Error + Send + Sync + 'static>(
    name: &str,
    n_threads: usize,
    time: Duration,
    session: &dyn Fn(SessionBuilder) -> Result<Session, E>,
) -> Result<(), Failure> {
    let modes = [ExecutionMode::Sequential, ExecutionMode::Parallel];
    let session = |mode| session(Session::builder().threads(n_threads).execution_mode(mode));
    let sessions = [session(modes[0])?, session(modes[1])?];
    let inputs = inputs(&sessions[0])?;
    let pairs = || inputs.iter().map(|(name, tensor)| (&**name, tensor)).collect::<Vec<_>>();
    let (mut least, start) = ([Duration::MAX; 2], Instant::now());
    while start.elapsed() < time {
        for (session, least) in sessions.iter().zip(&mut least) {
            // A few runs in a row, as in use: the first wakes who sleeps.
            for _ in 0..8 {
                let run = Instant::now();
                session.run(pairs())?;
                *least = (*least).min(run.elapsed());
            }
        }
    }
    let [sequential, parallel] = least.map(|time| time.as_secs_f64() * 1e3);
    println!(
        r#"{{"case": "{name}", "sequential_ms": {sequential:.4}, "parallel_ms": {parallel:.4}}}"#
    );
    Ok(())
}

fn inputs(session: &Session) -> Result<Vec<(String, Tensor)>, Failure> {
    let described = session.inputs().into_iter().map(|input| {
        let Type::Tensor(ty) = &input.ty else { return Err("an input is no tensor".into()) };
        let dims = ty.dims.iter().flatten().map(|dim| Dim::known(dim).unwrap_or(1));
        Ok((input.name, Tensor::zeros(ty.dtype, &dims.collect::<Vec<_>>())?))
    });
    described.collect()
}
