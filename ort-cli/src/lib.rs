//! The program `ort-cli`: what a model holds, what it computes, whether that is right, how
//! fast, in how much memory, and what it becomes when it is optimized.
//!
//! Arguments and printing, and nothing below the session facade. Exit code 0 is success, 1 an error
//! or a failed test, 2 wrong usage. Results go to standard output, everything else to standard
//! error; an error is one line, `error: …`, that names its culprit.
//!
//! # When to use it alone
//!
//! As a program; `cargo install ort-cli` installs it. The library is its `main`, for programs that contain it:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     ort_cli::main()
//! }
//! ```

#![forbid(unsafe_code)]

mod commands;
mod limits;
mod options;
mod run_options;

mod config;
mod inputs;
mod random;
mod threads;

mod glob;
mod hold;
mod named;

mod failure;
mod number;
mod percentiles;
mod print;
mod profile;
mod summary;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, cache, convert, inspect, mem, optimize, profile as profile_command, run, test,
};
use crate::failure::Failure;

/// Runs ONNX models: `.onnx` files, and ONNX Runtime's `.ort` files.
#[derive(Debug, Parser)]
#[command(name = "ort-cli", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Arguments),
    Run(run::Arguments),
    Test(test::Arguments),
    Bench(bench::Arguments),
    Profile(profile_command::Arguments),
    Mem(mem::Arguments),
    Optimize(optimize::Arguments),
    Convert(convert::Arguments),
    Cache(cache::Arguments),
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Profile(arguments) => profile_command::run(&arguments),
        Command::Mem(arguments) => mem::run(&arguments),
        Command::Optimize(arguments) => optimize::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Cache(arguments) => cache::run(&arguments),
    };
    match done {
        Ok(code) => code,
        // Whoever read our output has had enough.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(failure) => {
            print::error(&failure);
            ExitCode::FAILURE
        }
    }
}
