//! `man`: manual pages for the program and each subcommand.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::examples::examples;
use crate::failure::Failure;
use crate::print::text;

/// Print a manual page, or write all of them to a folder
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "man cache list",
    "man --output man",
))]
pub(crate) struct Arguments {
    /// The subcommand whose page to print, such as `run` or `cache list` [default: the program's page]
    #[arg(value_name = "SUBCOMMAND", conflicts_with = "output")]
    path: Vec<String>,
    /// Write the page of the program and one for each subcommand to this folder, as ort-cli-run.1
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Runs the command, for the program that `program` describes.
pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<ExitCode, Failure> {
    // Sets the full names of subcommands.
    program = program.disable_help_subcommand(true);
    program.build();
    match &arguments.output {
        None => text(&page(subcommand(&program, &arguments.path)?)?)?,
        Some(folder) => {
            let failed = |source| Failure::Folder { path: folder.clone(), source };
            fs::create_dir_all(folder).map_err(failed)?;
            write(&program, folder)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The subcommand at this path.
fn subcommand<'a>(program: &'a Command, path: &[String]) -> Result<&'a Command, Failure> {
    path.iter().try_fold(program, |command, name| {
        command.find_subcommand(name).ok_or_else(|| Failure::UnknownSubcommand {
            name: name.clone(),
            known: command.get_subcommands().map(|it| it.get_name().to_owned()).collect(),
        })
    })
}

/// Writes the page of a command, and those of its subcommands.
fn write(command: &Command, folder: &std::path::Path) -> Result<(), Failure> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    let failed = |source| Failure::Page { path: path.clone(), source };
    fs::write(&path, page(command)?).map_err(failed)?;
    command.get_subcommands().try_for_each(|subcommand| write(subcommand, folder))
}

/// The page in roff.
fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).map_err(Failure::Print)?;
    Ok(page)
}
