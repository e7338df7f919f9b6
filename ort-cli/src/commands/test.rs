//! `test`: compares the outputs of models with their test data.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ort_session::Session;
use ort_tensor_io::{Case, DataSet, Side, Tolerance, find_cases};
use serde_json::json;

use super::progress_bar;
use crate::examples::examples;
use crate::failure::Failure;
use crate::glob::Glob;
use crate::inputs::{kinds, limited};
use crate::options::SessionOptions;
use crate::print::{line, one_line};

/// The length of messages in the text report; `--json` has the whole message.
const MAX_MESSAGE: usize = 300;

/// Run models on test data and compare actual with expected outputs
///
/// A case is a folder with .ort or .onnx files and test_data_set_0, test_data_set_1, …; other folders
/// are searched for cases recursively. A case may have a file tol.txt with its tolerances, `rtol atol`;
/// the default is 1e-3 and 1e-5.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "test models",
    "test models/ppocr_cls --model model.onnx --level basic --json",
))]
pub(crate) struct Arguments {
    /// Cases, or folders of cases
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Only models whose file name matches this pattern: * is any text, ? any character
    #[arg(long, value_name = "GLOB")]
    model: Option<Glob>,
    /// Print one JSON object per case
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionOptions,
}

/// The outcome of one model of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    Pass,
    /// The outputs are not the expected ones.
    Fail(String),
    /// The model did not run.
    Error(String),
    Skip(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut cases = Vec::new();
    for folder in &arguments.folders {
        let found = find_cases(folder)?;
        if found.is_empty() {
            return Err(Failure::NoCase { path: folder.clone() });
        }
        cases.extend(found);
    }
    let bar = progress_bar(cases.len());
    let mut counts = Counts::default();
    for case in &cases {
        bar.set_message(case.name.clone());
        for (name, model) in models(case, arguments.model.as_ref()) {
            let status = match model {
                Ok(model) => status(model, case, &arguments.session),
                Err(reason) => Status::Skip(reason),
            };
            counts.add(&status);
            bar.suspend(|| report(&name, &status, arguments.json))?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    line(counts)?;
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The models of a case to run, with their names in reports; or why none is run.
fn models<'a>(case: &'a Case, glob: Option<&Glob>) -> Vec<(String, Result<&'a Path, String>)> {
    let file = |path: &'a PathBuf| path.file_name().unwrap_or_default().to_string_lossy();
    let chosen =
        case.models.iter().filter(|path| glob.is_none_or(|glob| glob.matches(&file(path))));
    let name = |path: &'a PathBuf| match case.models.len() {
        1 => case.name.clone(),
        _ => format!("{}/{}", case.name, file(path)),
    };
    let models: Vec<_> = chosen.map(|path| (name(path), Ok(path.as_path()))).collect();
    match glob {
        Some(glob) if models.is_empty() => {
            let reason = format!("no model matches {}", glob.as_str());
            vec![(case.name.clone(), Err(reason))]
        }
        _ => models,
    }
}

/// Runs one model on all data sets, up to the first that it fails.
fn status(model: &Path, case: &Case, options: &SessionOptions) -> Status {
    // A panic must not stop the other cases; its state is dropped with the session.
    let done = catch_unwind(AssertUnwindSafe(|| {
        let session = options.session(model);
        let session = session.map_err(|error| Status::Error(error.to_string()))?;
        case.data_sets.iter().try_for_each(|folder| data_set(&session, folder, case.tolerance))
    }));
    match done {
        Ok(Ok(())) => Status::Pass,
        Ok(Err(status)) => status,
        Err(payload) => Status::Error(format!("panicked: {}", panic_text(&*payload))),
    }
}

fn data_set(session: &Session, folder: &Path, tolerance: Tolerance) -> Result<(), Status> {
    let place = folder.file_name().unwrap_or_default().to_string_lossy();
    let error = |reason: &dyn fmt::Display| Status::Error(format!("{place}: {reason}"));
    let set = limited(session, || DataSet::read(folder, &kinds(session)));
    let set = set.map_err(|source| error(&source))?;
    let names = |side| -> Vec<String> {
        let values = if side == Side::Input { session.inputs() } else { session.outputs() };
        values.into_iter().map(|value| value.name).collect()
    };
    let input_names = names(Side::Input);
    let given = set.inputs.iter().filter_map(|slot| {
        slot.name_among(&input_names).map(|name| (name.to_owned(), &slot.value))
    });
    let given: ort_session::RunInputs<'_> = given.collect();
    let found = session.run(given).map_err(|source| error(&source))?.into_values();
    set.check(&names(Side::Output), &found, tolerance)
        .map_err(|wrong| Status::Fail(format!("{place}: {wrong}")))
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// One line per case; without `--json`, none for those that pass.
fn report(name: &str, status: &Status, is_json: bool) -> Result<(), Failure> {
    let (word, message) = match status {
        Status::Pass => ("pass", ""),
        Status::Fail(message) => ("fail", message.as_str()),
        Status::Error(message) => ("error", message.as_str()),
        Status::Skip(message) => ("skip", message.as_str()),
    };
    if is_json {
        return line(json!({ "case": name, "status": word, "message": message }));
    }
    match status {
        Status::Pass => Ok(()),
        _ => line(format_args!("{word:5}  {name}  {}", one_line(message, MAX_MESSAGE))),
    }
}

impl Counts {
    fn add(&mut self, status: &Status) {
        match status {
            Status::Pass => self.passed += 1,
            Status::Fail(_) | Status::Error(_) => self.failed += 1,
            Status::Skip(_) => self.skipped += 1,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}
