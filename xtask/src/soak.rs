//! The long-running differential test: the program `soak` of ort-conformance.

use crate::problem::{Failure, Problem};
use crate::program::Program;
use crate::repository::Repository;

const SOAK: Program = Program {
    cargo: &["--release", "-p", "ort-conformance", "--example", "soak"],
    name: "soak",
    path: "ort-conformance/examples/soak.rs",
    failure: "some results were wrong, or the program did not run; see above",
};

/// Its duration, seed and family.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long it runs
    #[arg(long)]
    hours: f64,
    /// The seed of the graphs; by default, from the clock
    #[arg(long)]
    seed: Option<u64>,
    /// The family of operators; all by default
    #[arg(long, requires = "seed")]
    family: Option<String>,
}

/// Runs it to its end.
pub(crate) fn run(repository: &Repository, arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let Arguments { hours, seed, family } = arguments;
    let rest = seed.map(|seed| seed.to_string()).into_iter().chain(family.clone());
    SOAK.run(repository, [hours.to_string()].into_iter().chain(rest))
}
