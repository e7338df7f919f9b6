//! `compare`: how far the results of two models differ, or of one model under two settings.

mod json;
mod text;
mod values;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ort_session::{Outputs, Session};
use ort_tensor_io::Tolerance;

use self::values::{Comparison, Values};
use crate::examples::examples;
use crate::exit;
use crate::failure::Failure;
use crate::inputs::Inputs;
use crate::options::{InputOptions, SessionOptions};
use crate::overrides::Override;
use crate::percentiles::Percentiles;
use crate::print::line;

/// Compare two models, or one under two settings: outputs, intermediate values, and times
///
/// Both run on the same inputs. Elements differ if |b - a| > atol + rtol × |a|. Intermediate values that have the same
/// name in both files are compared as well; the first difference shows which node to look at. Exit code 3: the outputs
/// differ.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "compare models/ppocr_cls/model.onnx models/ppocr_cls/model.ort",
    "compare models/silero_vad/model.ort --set-b provider=reference --set-b level=disable",
))]
pub(crate) struct Arguments {
    /// Model A, a .ort or .onnx file
    a: PathBuf,
    /// Model B [default: model A with the settings of --set-b]
    #[arg(required_unless_present = "set_b")]
    b: Option<PathBuf>,
    /// A session option for B only, such as level=basic or no-spinning; the others apply to both
    #[arg(long, value_name = "OPTION[=VALUE]")]
    set_b: Vec<Override>,
    /// The tolerance relative to the element of A
    #[arg(long, value_name = "X", default_value = "1e-3", value_parser = bound, allow_negative_numbers = true)]
    rtol: f64,
    /// The absolute tolerance
    #[arg(long, value_name = "X", default_value = "1e-5", value_parser = bound, allow_negative_numbers = true)]
    atol: f64,
    /// The number of timed runs of each model, alternating
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Also show every value that was compared
    #[arg(long)]
    nodes: bool,
    /// Print one JSON object, with every value
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inputs: InputOptions,
    #[command(flatten)]
    session: SessionOptions,
}

/// Model A or B.
#[derive(Debug)]
struct Side<'a> {
    path: &'a Path,
    options: SessionOptions,
    session: Session,
    outputs: Outputs,
    first: Duration,
    times: Vec<Duration>,
}

/// The result of the comparison.
#[derive(Debug)]
struct Report<'a> {
    sides: [Side<'a>; 2],
    /// By name, those of A first.
    outputs: Vec<(String, Comparison)>,
    values: Values,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let tolerance = Tolerance { rtol: arguments.rtol, atol: arguments.atol };
    let options = arguments.session.with(&arguments.set_b)?;
    let path_b = arguments.b.as_deref().unwrap_or(&arguments.a);
    let session_a = arguments.session.open(&arguments.a)?;
    let session_b = options.open(path_b)?;
    let inputs = Inputs::gather(&session_a, &arguments.inputs)?;
    let a = Side::new(&arguments.a, arguments.session.clone(), session_a, &inputs)?;
    let b = Side::new(path_b, options, session_b, &inputs)?;
    let values = Values::compare([&a, &b], &inputs, tolerance)?;
    let outputs = values::outputs([&a.outputs, &b.outputs], tolerance);
    let mut report = Report { sides: [a, b], outputs, values };
    for _ in 0..arguments.runs {
        // Alternating, so that other load on the machine affects both.
        report.sides.iter_mut().try_for_each(|side| side.time(&inputs))?;
    }
    match arguments.json {
        true => line(json::of(&report))?,
        false => line(text::of(&report, arguments.nodes))?,
    }
    let differs = report.outputs.iter().any(|(_, comparison)| comparison.differs());
    Ok(if differs { ExitCode::from(exit::DIFFERENT) } else { ExitCode::SUCCESS })
}

impl<'a> Side<'a> {
    /// Loads the model and runs it once.
    fn new(
        path: &'a Path,
        options: SessionOptions,
        session: Session,
        inputs: &Inputs,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let outputs = session.run(inputs.to_run()).map_err(|error| Failure::run(path, error))?;
        let (first, times) = (start.elapsed(), Vec::new());
        Ok(Self { path, options, session, outputs, first, times })
    }

    /// Times a run.
    fn time(&mut self, inputs: &Inputs) -> Result<(), Failure> {
        let start = Instant::now();
        let outputs = self.session.run(inputs.to_run());
        self.times.push(start.elapsed());
        outputs.map_err(|error| Failure::run(self.path, error)).map(drop)
    }

    fn percentiles(&self) -> Percentiles {
        Percentiles::of(self.times.clone())
    }
}

/// Parses a tolerance.
fn bound(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("expected a non-negative number".to_owned()),
    }
}
