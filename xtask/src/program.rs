//! Long-running programs of the repository.

use std::process::Command;

use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const CARGO: &str = "cargo";

/// A program that tests.
pub(crate) struct Program {
    /// The arguments of `cargo run`.
    pub(crate) cargo: &'static [&'static str],
    pub(crate) name: &'static str,
    /// Its file.
    pub(crate) path: &'static str,
    /// The message if it fails.
    pub(crate) failure: &'static str,
}

impl Program {
    /// Runs it to its end. It prints what it finds.
    pub(crate) fn run(
        &self,
        repository: &Repository,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Vec<Problem>, Failure> {
        let status = Command::new(CARGO)
            .arg("run")
            .args(self.cargo)
            .arg("--")
            .args(arguments)
            .current_dir(&repository.root)
            .status()
            .map_err(|source| Failure::Start { program: CARGO, source })?;
        let problem = || Problem::new(self.path, 1, self.name, self.failure);
        Ok((!status.success()).then(problem).into_iter().collect())
    }
}
