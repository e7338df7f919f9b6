//! Mutants of everything that strangers pass in: the program `ort-fuzz`.

use crate::problem::{Failure, Problem};
use crate::program::Program;
use crate::repository::Repository;

/// A development build, so that overflows of integers are panics.
const FUZZ: Program = Program {
    cargo: &["--quiet", "-p", "ort-fuzz"],
    name: "fuzz",
    path: "ort-fuzz/src/main.rs",
    failure: "there are findings, or the program did not run; see above",
};

/// What the program takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How long each target runs [default: 60]
    #[arg(long)]
    seconds: Option<f64>,
    /// A target [default: all]
    #[arg(long)]
    target: Vec<String>,
    /// The seed of the first mutant [default: from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// The maximum number of mutants of each target
    #[arg(long)]
    count: Option<u64>,
}

/// Runs it to its end.
pub(crate) fn run(repository: &Repository, arguments: &Arguments) -> Result<Vec<Problem>, Failure> {
    let Arguments { seconds, target, seed, count } = arguments;
    let option = |name: &str, value: String| format!("--{name}={value}");
    let targets = target.iter().map(|target| option("target", target.clone()));
    let numbers = [
        seconds.map(|n| option("seconds", n.to_string())),
        seed.map(|n| option("seed", n.to_string())),
        count.map(|n| option("count", n.to_string())),
    ];
    FUZZ.run(repository, targets.chain(numbers.into_iter().flatten()))
}
