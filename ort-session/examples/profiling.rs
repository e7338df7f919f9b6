//! What profiling costs: two sessions of one model, one of them profiled, run in turns.
//!
//! ```text
//! cargo run --release -p ort-session --example profiling -- MODEL [THREADS [ROUNDS]]
//! ```

#![expect(clippy::print_stdout, reason = "a program talks to its user")]

use std::error::Error;
use std::time::{Duration, Instant};

use ort_session::{Dim, Session, Tensor, Type};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which model?")?;
    let n_threads: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let n_rounds: usize = arguments.next().map_or(Ok(500), |n| n.parse())?;
    let builder = Session::builder().threads(n_threads);
    let sessions = [
        builder.clone().commit_from_file(&path)?,
        builder.collect_trace().commit_from_file(&path)?,
    ];
    let mut inputs = Vec::new();
    for input in sessions[0].inputs() {
        let Type::Tensor(ty) = &input.ty else { return Err("an input is no tensor".into()) };
        let dims = ty.dims.iter().flatten();
        let shape: Vec<usize> = dims.map(|dim| Dim::known(dim).unwrap_or(1)).collect();
        inputs.push((input.name.clone(), Tensor::zeros(ty.dtype, &shape)?));
    }
    let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    for round in 0..n_rounds {
        // Who is first has the caches of the other.
        for which in [round % 2, (round + 1) % 2] {
            let inputs = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
            let start = Instant::now();
            sessions[which].run(inputs.collect::<Vec<_>>())?;
            times[which].push(start.elapsed());
        }
    }
    let [off, on] = times.map(|mut times| {
        times.sort_unstable();
        [times[0], times[times.len() / 10], times[times.len() / 2]]
    });
    for ((what, off), on) in ["least", "p10", "median"].into_iter().zip(off).zip(on) {
        let ratio = on.as_secs_f64() / off.as_secs_f64();
        println!("{what:>6}: off {off:>10.1?}  on {on:>10.1?}  ratio {ratio:.4}");
    }
    Ok(())
}
