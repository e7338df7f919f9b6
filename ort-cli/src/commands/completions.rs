//! `completions`: prints a shell completion script.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::examples::examples;
use crate::failure::Failure;
use crate::print::text;

/// Print a shell completion script for subcommands, options and their values
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "completions bash > ort-cli.bash",
    "completions zsh > _ort-cli",
))]
pub(crate) struct Arguments {
    /// The shell to generate the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command, for the program that `program` describes.
pub(crate) fn run(arguments: &Arguments, program: &mut Command) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, program, program.get_name().to_owned(), &mut script);
    text(&script)?;
    Ok(ExitCode::SUCCESS)
}
