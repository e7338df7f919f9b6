//! Long-running programs of ort-conformance, built for speed.

use std::process::Command;

use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const CARGO: &str = "cargo";

/// An example of ort-conformance.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    /// Its file.
    pub(crate) path: &'static str,
    /// The message if it fails.
    pub(crate) failure: &'static str,
}

impl Example {
    /// Runs it to its end. It prints what it finds.
    pub(crate) fn run(
        &self,
        repository: &Repository,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Vec<Problem>, Failure> {
        let status = Command::new(CARGO)
            .args(["run", "--release", "-p", "ort-conformance", "--example", self.name, "--"])
            .args(arguments)
            .current_dir(&repository.root)
            .status()
            .map_err(|source| Failure::Start { program: CARGO, source })?;
        let problem = || Problem::new(self.path, 1, self.name, self.failure);
        Ok((!status.success()).then(problem).into_iter().collect())
    }
}
