//! The differential test for hours: the program `soak` of ort-conformance.

use crate::example::Example;
use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const SOAK: Example = Example {
    name: "soak",
    path: "ort-conformance/examples/soak.rs",
    failure: "some results were wrong, or the program did not run; see above",
};

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

/// Runs it until it is over.
pub(crate) fn run(repository: &Repository, arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let Arguments { hours, seed, family } = arguments;
    let rest = seed.map(|seed| seed.to_string()).into_iter().chain(family.clone());
    SOAK.run(repository, [hours.to_string()].into_iter().chain(rest))
}
