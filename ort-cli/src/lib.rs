//! The program `ort-cli`: inspects, runs, tests, measures, compares, optimizes and converts models.
//!
//! It parses arguments and prints, and uses nothing below the session facade. Results go to standard output, everything else to standard
//! error; an error is one line, `error: …`, that identifies what failed.
//!
//! # When to use it alone
//!
//! As a program; `cargo install ort-cli` installs it. The library exports its `main`, for programs that embed it:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     ort_cli::main()
//! }
//! ```

#![forbid(unsafe_code)]

mod commands;
mod examples;
mod exit;
mod limits;
mod options;
mod overrides;
mod run_options;

mod config;
mod inputs;
mod random;
mod sizes;
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
mod table;
mod terminal;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    bench, cache, compare, completions, convert, generate, inspect, man, mem, optimize,
    profile as profile_command, run, test,
};
use crate::failure::Failure;

/// Runs ONNX models: `.onnx` files, and ONNX Runtime's `.ort` files.
#[derive(Debug, Parser)]
#[command(name = "ort-cli", version, max_term_width = 100, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Arguments),
    Run(run::Arguments),
    Generate(generate::Arguments),
    Test(test::Arguments),
    Bench(bench::Arguments),
    Profile(profile_command::Arguments),
    Mem(mem::Arguments),
    Compare(compare::Arguments),
    Optimize(optimize::Arguments),
    Convert(convert::Arguments),
    Cache(cache::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the program with these arguments, of which the first is its name. It reads and writes the standard streams of the
/// process; invalid arguments are printed, and return 2.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let done = match arguments.command {
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Profile(arguments) => profile_command::run(&arguments),
        Command::Mem(arguments) => mem::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Optimize(arguments) => optimize::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Cache(arguments) => cache::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, &mut Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
    };
    match done {
        Ok(code) => code,
        // The reader of our output has closed the pipe.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::FAILURE
        }
        Err(Failure::Usage(error)) => usage(&error),
        Err(failure) => {
            print::error(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Prints what is wrong with the arguments, or the requested help.
fn usage(error: &clap::Error) -> ExitCode {
    // A failure to print cannot be reported anywhere.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}
