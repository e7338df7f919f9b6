//! What a task reports, and why it could not run.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// What is wrong, and what is expected.
    pub(crate) what: String,
}

impl Problem {
    pub(crate) fn new(
        path: &str,
        line: usize,
        rule: &'static str,
        what: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, rule, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.what)
    }
}

/// A task that could not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{program} does not start: {source}")]
    Start { program: &'static str, source: io::Error },
    #[error("{program} failed with {status}: {stderr}")]
    Program { program: &'static str, status: ExitStatus, stderr: String },
    #[cfg(feature = "wasm")]
    #[error("{}: {reason}", module.display())]
    Module { module: PathBuf, reason: String },
}
