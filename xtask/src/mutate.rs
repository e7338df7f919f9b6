//! Damaged and senseless models for as long as one likes: starts the program `mutate` of ort-conformance, built for speed.

use std::process::Command;

use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const CARGO: &str = "cargo";

/// For how long, and from which seed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long it runs; 0 runs the mutant of the seed alone
    #[arg(long)]
    seconds: f64,
    /// What the mutants follow from; the clock, if it is not given
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs it until it is over. What it finds it prints.
pub(crate) fn run(repository: &Repository, arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let status = Command::new(CARGO)
        .args(["run", "--release", "-p", "ort-conformance", "--example", "mutate", "--"])
        .arg(arguments.seconds.to_string())
        .args(arguments.seed.map(|seed| seed.to_string()))
        .current_dir(&repository.root)
        .status()
        .map_err(|source| Failure::Start { program: CARGO, source })?;
    let problem = || {
        let what = "some mutant did harm, or the program did not run; see above";
        Problem::new("ort-conformance/examples/mutate/main.rs", 1, "mutate", what)
    };
    Ok((!status.success()).then(problem).into_iter().collect())
}
