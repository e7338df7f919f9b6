//! `in_turns THREADS SECONDS MODEL …`: sessions of several models in one process, created in this order, whose
//! runs alternate. Prints a line of JSON: the minimal run time of each in milliseconds.
//!
//! Inputs are pseudo-random numbers between −1 and 1; unknown dimensions are 1.
#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::error::Error;
use std::time::{Duration, Instant};

use ort_session::{DType, Dim, Session, Tensor, Type};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [n_threads, seconds, models @ ..] = &words[..] else {
        return Err("usage: in_turns THREADS SECONDS MODEL …".into());
    };
    let (n_threads, time) = (n_threads.parse()?, Duration::from_secs_f64(seconds.parse()?));
    let session = |model| Session::builder().threads(n_threads).commit_from_file(model);
    let sessions: Vec<Session> = models.iter().map(session).collect::<Result<_, _>>()?;
    let inputs: Vec<_> = sessions.iter().map(inputs).collect::<Result<_, _>>()?;
    let (mut least, start) = (vec![Duration::MAX; sessions.len()], Instant::now());
    while start.elapsed() < time {
        for ((session, inputs), least) in sessions.iter().zip(&inputs).zip(&mut least) {
            let pairs: Vec<_> = inputs.iter().map(|(name, tensor)| (&**name, tensor)).collect();
            let run = Instant::now();
            session.run(pairs)?;
            *least = (*least).min(run.elapsed());
        }
    }
    let least: Vec<_> =
        least.iter().map(|time| format!("{:.4}", time.as_secs_f64() * 1e3)).collect();
    println!(r#"{{"ms": [{}]}}"#, least.join(", "));
    Ok(())
}

fn inputs(session: &Session) -> Result<Vec<(String, Tensor)>, Failure> {
    let described = session.inputs().into_iter().map(|input| {
        let Type::Tensor(ty) = &input.ty else { return Err("an input is not a tensor".into()) };
        if ty.dtype != DType::F32 {
            return Err(format!("`{}` is not an input of floats", input.name).into());
        }
        let dims = ty.dims.iter().flatten().map(|dim| Dim::known(dim).unwrap_or(1));
        let shape: Vec<usize> = dims.collect();
        let n = shape.iter().product();
        let values: Vec<f32> =
            (0..n).map(|i: usize| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0).collect();
        Ok((input.name, Tensor::from_slice(&shape, &values)?))
    });
    described.collect()
}
