//! `profile`: where the time of a session goes, as a trace, as tables, and as an HTML page.

mod flame;
mod page;
mod roofline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ort_session::{Load, ModelBytes, RunTimes, Session, SessionError, Trace, denormal_weights};
use serde_json::{Value as Json, json};

use self::page::Page;
use super::{circumstances, headline};
use crate::examples::examples;
use crate::failure::Failure;
use crate::inputs::Inputs;
use crate::number;
use crate::options::{InputOptions, SessionOptions};
use crate::print::line;
use crate::profile::Profile;

/// More runs than this are assumed to be a typing error.
const MAX_RUNS: u32 = 100_000;

/// Show where a model's time goes: a trace, tables of operators and nodes, an HTML page
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "profile models/ppocr_cls/model.onnx -o trace.json",
    "profile models/silero_vad/model.ort --html profile.html",
))]
pub(crate) struct Arguments {
    /// The model, a .ort or .onnx file
    model: PathBuf,
    /// Write a trace for Perfetto, chrome://tracing and ONNX Runtime's tools to this file
    #[arg(short, long, value_name = "TRACE.json")]
    output: Option<PathBuf>,
    /// Write a self-contained HTML page with flame chart and roofline to this file
    #[arg(long, value_name = "REPORT.html")]
    html: Option<PathBuf>,
    /// The number of runs to record after the first
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RUNS)))]
    runs: u32,
    /// How many nodes the table shows
    #[arg(long, value_name = "N", default_value = "30")]
    nodes: usize,
    /// Print one JSON object, with every node
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inputs: InputOptions,
    #[command(flatten)]
    session: SessionOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let session = arguments.session.open_traced(&arguments.model)?;
    let inputs = Inputs::gather(&session, &arguments.inputs)?;
    for _ in 0..=arguments.runs {
        let done = session.run(inputs.to_run());
        drop(done.map_err(|source| Failure::run(&arguments.model, source))?);
    }
    let trace = session.take_trace()?;
    if let Some(path) = &arguments.output {
        trace.write(path)?;
    }
    let peak = arguments.session.peak(session.n_threads());
    // The first run plans and touches all memory for the first time.
    let warm = trace.runs.get(1..).unwrap_or_default();
    let profile = Profile::of(peak, warm.iter().map(|run| run.steps.as_slice()));
    let n_denormal = n_denormal(&arguments.model)?;
    if let Some(path) = &arguments.html {
        let fastest = warm.iter().min_by_key(|run| run.time);
        let circumstances = circumstances(&session, &arguments.session);
        let title = &format!("{} · {circumstances}", arguments.model.display());
        let load = session.metadata().load_time;
        let (trace, profile) = (&trace, &profile);
        let page = Page { title, load, trace, run: fastest, profile, n_denormal };
        write(path, &page.to_string())?;
    }
    match arguments.json {
        true => line(to_json(arguments, &session, &trace, &profile, n_denormal))?,
        false => {
            line(headline(&arguments.model, &session, &arguments.session))?;
            line(profile.peak_text())?;
            if n_denormal > 0 {
                let flushed =
                    "not visible in the trace when flushed to zero (see inspect --weights)";
                line(format!("  {} {flushed}", number::plural(n_denormal, "denormal weight")))?;
            }
            line(profile.operators_text())?;
            line(profile.nodes_text(arguments.nodes))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// How many weights in the model's file are denormal: its file in a cache may contain packed
/// constants only. The trace shows them as operands only where denormals are preserved.
fn n_denormal(model: &Path) -> Result<usize, Failure> {
    let bytes = ModelBytes::from_path(model, Load::Auto).map_err(SessionError::from);
    let weights = bytes.and_then(|bytes| denormal_weights(&bytes));
    let weights = weights.map_err(|source| Failure::model(model, source))?;
    Ok(weights.iter().map(|weights| weights.n_denormal).sum())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|source| Failure::Page { path: path.to_owned(), source })
}

/// The keys are a stable interface.
fn to_json(
    arguments: &Arguments,
    session: &Session,
    trace: &Trace,
    profile: &Profile,
    n_denormal: usize,
) -> Json {
    let stage = |span: &ort_session::Span| json!({ "name": span.name, "ms": number::millis(span.time), "thread": span.thread });
    let ms = |run: &RunTimes| number::millis(run.time);
    json!({
        "load_ms": number::millis(session.metadata().load_time),
        "stages": trace.spans.iter().map(stage).collect::<Json>(),
        "runs_ms": trace.runs.iter().map(ms).collect::<Json>(),
        "threads": session.n_threads(),
        "level": arguments.session.level(),
        "isa": arguments.session.isa(),
        "denormal_weights": n_denormal,
        "peak": profile.peak_json(),
        "operators": profile.operators_json(),
        "nodes": profile.nodes_json(usize::MAX),
    })
}
