//! `paced MODEL THREADS CALLERS SECONDS HERTZ`: runs a model from several threads at once, each at this
//! rate, or without a pause if it is 0. Prints a line of JSON: the number of runs,
//! the elapsed seconds, the sum of run times, and the processor time of the process.
//!
//! Inputs are zeros; unknown dimensions are 1. Needs Linux, for the processor time.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::time::{Duration, Instant};

use ort_session::{Dim, Session, Tensor, Type, cpu_time};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [model, n_threads, n_callers, seconds, hertz] = &words[..] else {
        return Err("usage: paced MODEL THREADS CALLERS SECONDS HERTZ".into());
    };
    let (n_callers, hertz): (usize, f64) = (n_callers.parse()?, hertz.parse()?);
    let session = Session::builder().threads(n_threads.parse()?).commit_from_file(model)?;
    let time = Duration::from_secs_f64(seconds.parse()?);
    let pace = Duration::from_secs_f64(if hertz > 0.0 { 1.0 / hertz } else { 0.0 });
    let inputs = inputs(&session)?;
    for _ in 0..3 {
        session.run(pairs(&inputs))?;
    }
    let (start, before) = (Instant::now(), cpu_time().unwrap_or_default());
    let done = std::thread::scope(|scope| {
        let caller = || scope.spawn(|| caller(&session, &inputs, time, pace));
        let callers: Vec<_> = (0..n_callers).map(|_| caller()).collect();
        let done =
            callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller panicked")?);
        done.collect::<Result<Vec<_>, Failure>>()
    })?;
    let n_runs: u32 = done.iter().map(|(n, _)| n).sum();
    let busy: Duration = done.iter().map(|(_, busy)| busy).sum();
    println!(
        r#"{{"runs": {n_runs}, "seconds": {:.3}, "busy_ms": {:.3}, "cpu_ms": {}}}"#,
        start.elapsed().as_secs_f64(),
        busy.as_secs_f64() * 1e3,
        (cpu_time().unwrap_or_default() - before).as_millis(),
    );
    Ok(())
}

/// Runs for this long; returns the number of runs and their total time.
fn caller(
    session: &Session,
    inputs: &[(String, Tensor)],
    time: Duration,
    pace: Duration,
) -> Result<(u32, Duration), Failure> {
    let (start, mut n_runs, mut busy) = (Instant::now(), 0, Duration::ZERO);
    while start.elapsed() < time {
        let run = Instant::now();
        session.run(pairs(inputs))?;
        busy += run.elapsed();
        n_runs += 1;
        std::thread::sleep(pace.saturating_sub(run.elapsed()));
    }
    Ok((n_runs, busy))
}

fn pairs(inputs: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    inputs.iter().map(|(name, tensor)| (&**name, tensor)).collect()
}

fn inputs(session: &Session) -> Result<Vec<(String, Tensor)>, Failure> {
    let described = session.inputs().into_iter().map(|input| {
        let Type::Tensor(ty) = &input.ty else { return Err("an input is not a tensor".into()) };
        let dims = ty.dims.iter().flatten().map(|dim| Dim::known(dim).unwrap_or(1));
        Ok((input.name, Tensor::zeros(ty.dtype, &dims.collect::<Vec<_>>())?))
    });
    described.collect()
}
