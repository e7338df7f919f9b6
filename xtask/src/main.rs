//! Tasks about the repository itself: `cargo xtask fmt`, `tidy`, `docs`, `package`, `soak` and `fuzz`; and
//! `wasm`, of the feature by that name.
//!
//! Each task but the last four reads the tracked files and reports problems, `path:line: rule: what`. Any problem
//! means exit code 1.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

mod api;
mod docs;
mod fmt;
mod fuzz;
mod package;
mod program;
mod soak;
mod tidy;
#[cfg(feature = "wasm")]
mod wasm;

mod functions;
mod manifest;
mod markers;
mod problem;
mod repository;
mod scan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::problem::{Failure, Problem};
use crate::repository::Repository;

/// Tasks about the repository itself.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format every tracked Rust file, modules declared by macros included
    Fmt {
        /// Change nothing; fail if a file is not formatted
        #[arg(long)]
        check: bool,
    },
    /// Check sizes, names, unsafe, dependencies and documents against CONVENTIONS.md
    Tidy,
    /// Write the generated blocks of the documents, and the lists of public items
    Docs {
        /// Change nothing; fail if a block is stale
        #[arg(long)]
        check: bool,
    },
    /// Package all published crates, and check that each builds from its package
    Package,
    /// Run random graphs of real sizes in every configuration, and compare with plain evaluation
    Soak(soak::Arguments),
    /// Run mutants of everything that strangers pass in: files, texts, arguments
    #[command(visible_alias = "mutate")]
    Fuzz(fuzz::Arguments),
    /// Make the JavaScript of the WebAssembly module
    #[cfg(feature = "wasm")]
    Wasm(wasm::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().task) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            for problem in &problems {
                println!("{problem}");
            }
            eprintln!("problems: {}", problems.len());
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<Vec<Problem>, Failure> {
    let repository = Repository::open()?;
    match task {
        Task::Fmt { check: false } => fmt::write(&repository),
        Task::Fmt { check: true } => fmt::check(&repository),
        Task::Tidy => {
            let report = tidy::check(&repository)?;
            println!("{}", report.summary);
            Ok(report.problems)
        }
        Task::Docs { check: false } => docs::write(&repository),
        Task::Docs { check: true } => docs::check(&repository),
        Task::Package => package::run(&repository),
        Task::Soak(arguments) => soak::run(&repository, arguments),
        Task::Fuzz(arguments) => fuzz::run(&repository, arguments),
        #[cfg(feature = "wasm")]
        Task::Wasm(arguments) => wasm::run(arguments),
    }
}
