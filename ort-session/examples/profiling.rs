//! The overhead of profiling: one session alternates runs with and without it, together with two other sessions, one of
//! which collects a trace. The difference between the two without profiling is the noise between sessions, whose
//! memory lies at different addresses.
//!
//! ```text
//! cargo run --release -p ort-session --example profiling -- MODEL [THREADS [ROUNDS]]
//! ```

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::time::Instant;

use ort_session::{Dim, RunError, RunInputs, Session, Tensor, Type};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which model?")?;
    let n_threads: usize = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let n_rounds: usize = arguments.next().map_or(Ok(500), |n| n.parse())?;
    let builder = Session::builder().threads(n_threads);
    let session = builder.clone().commit_from_file(&path)?;
    let traced = builder.clone().collect_trace().commit_from_file(&path)?;
    let other = builder.commit_from_file(&path)?;
    let inputs = inputs(&session)?;
    let of = || -> RunInputs<'_> { inputs.iter().map(|(name, x)| (name.as_str(), x)).collect() };
    let arms: [(&str, &dyn Fn() -> Result<(), RunError>); 4] = [
        ("without", &|| session.run(of()).map(drop)),
        ("with", &|| session.run_profiled(of()).map(drop)),
        ("other, with", &|| traced.run(of()).map(drop)),
        ("other, without", &|| other.run(of()).map(drop)),
    ];
    let mut times = arms.map(|_| Vec::new());
    for round in 0..n_rounds {
        for i in 0..arms.len() {
            // Each follows each other one equally often.
            let which = (i * (1 + round % 2 * 2) + round) % arms.len();
            let start = Instant::now();
            arms[which].1()?;
            times[which].push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    println!("{:>15}  {:>8}  {:>8}  {:>8}   of `without`", "ms", "least", "p10", "median");
    let at = |times: &[f64], share: usize| times[times.len() * share / 100];
    times.iter_mut().for_each(|times| times.sort_unstable_by(f64::total_cmp));
    for ((what, _), these) in arms.iter().zip(&times) {
        let [least, p10, median] = [0, 10, 50].map(|share| at(these, share));
        let ratio = [0, 10, 50].map(|share| at(these, share) / at(&times[0], share));
        println!("{what:>15}  {least:8.3}  {p10:8.3}  {median:8.3}   {ratio:.3?}");
    }
    Ok(())
}

/// Zeros of the declared shapes, unknown dimensions 1.
fn inputs(session: &Session) -> Result<Vec<(String, Tensor)>, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for input in session.inputs() {
        let Type::Tensor(ty) = &input.ty else { return Err("an input is not a tensor".into()) };
        let dims = ty.dims.iter().flatten();
        let shape: Vec<usize> = dims.map(|dim| Dim::known(dim).unwrap_or(1)).collect();
        inputs.push((input.name, Tensor::zeros(ty.dtype, &shape)?));
    }
    Ok(inputs)
}
