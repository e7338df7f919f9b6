//! Damaged and mutated models: the program `mutate` of ort-conformance.

use crate::example::Example;
use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const MUTATE: Example = Example {
    name: "mutate",
    path: "ort-conformance/examples/mutate/main.rs",
    failure: "a mutant caused a failure, or the program did not run; see above",
};

/// Its duration and seed.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long it runs; 0 runs the mutant of the seed alone
    #[arg(long)]
    seconds: f64,
    /// The seed of the mutants; by default, from the clock
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs it to its end.
pub(crate) fn run(repository: &Repository, arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let Arguments { seconds, seed } = arguments;
    let seed = seed.map(|seed| seed.to_string());
    MUTATE.run(repository, [seconds.to_string()].into_iter().chain(seed))
}
