//! The differential test for hours: starts the program `soak` of ort-conformance, built for speed.

use std::process::Command;

use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const CARGO: &str = "cargo";

/// For how long, and from which seed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long it runs
    #[arg(long)]
    hours: f64,
    /// What the graphs follow from; the clock, if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// Which family of operators, if not all
    #[arg(long, requires = "seed")]
    family: Option<String>,
}

/// Runs it until it is over. What it finds it prints.
pub(crate) fn run(repository: &Repository, arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let status = Command::new(CARGO)
        .args(["run", "--release", "-p", "ort-conformance", "--example", "soak", "--"])
        .arg(arguments.hours.to_string())
        .args(arguments.seed.map(|seed| seed.to_string()))
        .args(&arguments.family)
        .current_dir(&repository.root)
        .status()
        .map_err(|source| Failure::Start { program: CARGO, source })?;
    let problem = || {
        let what = "some results were wrong, or the program did not run; see above";
        Problem::new("ort-conformance/examples/soak.rs", 1, "soak", what)
    };
    Ok((!status.success()).then(problem).into_iter().collect())
}
