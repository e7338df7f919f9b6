//! `mem`: memory by purpose, from before a model is loaded until after it is dropped.

mod answers;
mod chart;
mod json;
mod parts;
mod processes;
mod stages;
mod svg;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::error::ErrorKind;

use self::chart::Chart;
use self::parts::Sizes;
use self::stages::Timeline;
use super::headline;
use crate::examples::examples;
use crate::failure::Failure;
use crate::hold;
use crate::named::NamedShape;
use crate::options::{InputOptions, SessionOptions};
use crate::print::line;

/// Show memory by purpose: before a model is loaded, while it runs, and after it is dropped
#[derive(Args, Clone, Debug)]
#[command(after_help = examples!(
    "mem models/silero_vad/model.ort --inputs models/silero_vad/test_data_set_0",
    "mem models/magika/model.ort --processes 2 --picture -",
))]
pub(crate) struct Arguments {
    /// The models, .ort or .onnx files; several are loaded together
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// The number of runs of each model
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Load the models in N processes at once, and show the memory of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    processes: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also draw the stages, or the processes, as SVG; `-` draws in the terminal
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// For the child processes of `--processes`: run, report, and wait until standard input ends.
    #[arg(long, hide = true)]
    held: bool,
    /// A folder with input_0.pb, input_1.npy, …; with several models, one for each
    #[arg(long, value_name = "DIR", help_heading = "Inputs")]
    inputs: Vec<PathBuf>,
    /// The shape of a random input, such as x=1x3x640x640
    #[arg(long, value_name = "NAME=SHAPE", help_heading = "Inputs")]
    shape: Vec<NamedShape>,
    #[command(flatten)]
    session: SessionOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (n_folders, n_models) = (arguments.inputs.len(), arguments.models.len());
    if n_folders != 0 && n_folders != n_models {
        return Err(Failure::InputFolders { n_folders, n_models });
    }
    if arguments.json && arguments.draws_in_terminal() {
        let error = "--picture - cannot be used with --json: both go to standard output\n";
        return Err(Failure::Usage(clap::Error::raw(ErrorKind::ArgumentConflict, error)));
    }
    if arguments.held {
        return held(arguments);
    }
    if let Some(n) = arguments.processes {
        processes::show(arguments, n)?;
        return Ok(ExitCode::SUCCESS);
    }
    let timeline = Timeline::measure(arguments)?;
    match arguments.json {
        true => line(json::of(arguments, &timeline))?,
        false => line(tables::of(&timeline))?,
    }
    arguments.draw(|| Chart::of_stages(&timeline))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the memory of the sessions as a line of JSON, then that they are ready.
fn held(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let loaded = stages::load(arguments)?;
    stages::run(arguments, &loaded, arguments.runs)?;
    let reports: Vec<_> = loaded.iter().map(|(session, _)| session.memory()).collect();
    line(processes::report(&Sizes::of_reports(&reports), &loaded))?;
    hold::until_input_ends()?;
    Ok(ExitCode::SUCCESS)
}

impl Arguments {
    fn draws_in_terminal(&self) -> bool {
        self.picture.as_deref() == Some(Path::new("-"))
    }

    /// Draws a chart if requested.
    fn draw(&self, chart: impl FnOnce() -> Chart) -> Result<(), Failure> {
        let Some(path) = &self.picture else { return Ok(()) };
        if self.draws_in_terminal() {
            return line(format_args!("\n{}", chart().text()));
        }
        let written = std::fs::write(path, chart().svg());
        written.map_err(|source| Failure::Picture { path: path.clone(), source })
    }

    /// The inputs of the model at this index. With several models, a shape applies to those that
    /// have such an input.
    fn inputs_of(&self, i: usize, session: &ort_session::Session) -> InputOptions {
        let inputs = session.inputs();
        let is_for = |shape: &&NamedShape| {
            self.models.len() == 1 || inputs.iter().any(|input| input.name == shape.name)
        };
        InputOptions {
            inputs: self.inputs.get(i).cloned(),
            input: Vec::new(),
            shape: self.shape.iter().filter(is_for).cloned().collect(),
        }
    }
}
