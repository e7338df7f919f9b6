//! `bench`: the time of a model's runs, and the memory of the process.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ort_session::{Activations, Outputs, ProcessMemory, Session, cpu_time, process_memory};
use serde_json::{Value as Json, json};

use super::{headline, planned};
use crate::examples::examples;
use crate::failure::Failure;
use crate::hold;
use crate::inputs::Inputs;
use crate::number;
use crate::options::{InputOptions, SessionOptions};
use crate::percentiles::Percentiles;
use crate::print::line;
use crate::profile::Profile;
use crate::run_options::{RunChoices, seconds};
use crate::table::{Flush, Table};

/// With fewer runs, percentiles mean little.
const MIN_RUNS: usize = 3;

/// The share of the time spent on warm-up.
const WARM_UP: f64 = 0.1;

/// Run a model repeatedly and show the times
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "bench models/ppocr_cls/model.onnx --shape x=1x3x48x192 --threads 1",
    "bench models/magika/model.ort --seconds 1 --ops --nodes=10",
))]
pub(crate) struct Arguments {
    /// The model, a .ort or .onnx file
    model: PathBuf,
    /// How long to measure, in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds, allow_negative_numbers = true)]
    seconds: Duration,
    /// Also show each operator's time and its share of peak performance
    #[arg(long, conflicts_with = "only")]
    ops: bool,
    /// Also show the N slowest nodes [default: 30]
    #[arg(
        long,
        conflicts_with = "only",
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "30",
        require_equals = true
    )]
    nodes: Option<usize>,
    /// Print SESSION_READY after the first run, and wait until standard input ends before measuring
    #[arg(long)]
    hold: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inputs: InputOptions,
    #[command(flatten)]
    runs: RunChoices,
    #[command(flatten)]
    session: SessionOptions,
}

/// What was measured.
#[derive(Debug)]
struct Measured {
    first: Duration,
    runs: Percentiles,
    /// The average number of busy processors during the runs.
    cpus: Option<f64>,
    /// At the median time; 0 if no operator reports its operation count, or not all operators run.
    gflops: f64,
    planned: Activations,
    /// Before the first run.
    loaded: Option<ProcessMemory>,
    memory: Option<ProcessMemory>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let session = arguments.session.open(&arguments.model)?;
    let inputs = Inputs::gather(&session, &arguments.inputs)?;
    let failed = |source| Failure::run(&arguments.model, source);
    let loaded = process_memory()?;
    let (first, runs, cpus) = measure(arguments, &session, &inputs)?;
    let flops = match arguments.runs.are_whole() {
        true => session.flops(inputs.to_run()).map_err(failed)?,
        false => 0,
    };
    let median = runs.at(50.0).as_secs_f64().max(f64::MIN_POSITIVE);
    let gflops = number::rounded(number::float(flops) / median / 1e9);
    let planned = session.activations(inputs.to_run()).map_err(failed)?;
    let memory = process_memory()?;
    let measured = Measured { first, runs, cpus, gflops, planned, loaded, memory };
    let profile = match arguments.ops || arguments.nodes.is_some() {
        true => {
            let peak = arguments.session.peak(session.n_threads());
            let max_runs = measured.runs.len();
            Some(Profile::measure(&session, &inputs, peak, max_runs).map_err(failed)?)
        }
        false => None,
    };
    if arguments.json {
        line(to_json(arguments, &session, &measured, profile.as_ref()))?;
    } else {
        line(to_text(arguments, &session, &measured))?;
        profile.map_or(Ok(()), |profile| show(arguments, &profile))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(arguments: &Arguments, profile: &Profile) -> Result<(), Failure> {
    line(profile.peak_text())?;
    if arguments.ops {
        line(profile.operators_text())?;
    }
    arguments.nodes.map_or(Ok(()), |n| line(profile.nodes_text(n)))
}

/// The first run, the runs after warm-up, and the average number of busy processors during these.
fn measure(
    arguments: &Arguments,
    session: &Session,
    inputs: &Inputs,
) -> Result<(Duration, Percentiles, Option<f64>), Failure> {
    let time = arguments.seconds;
    let failed = |source| Failure::run(&arguments.model, source);
    let options = arguments.runs.options();
    let once = || -> Result<Duration, Failure> {
        let start = Instant::now();
        let outputs: Outputs = session.run_with(inputs.to_run(), &options).map_err(failed)?;
        let elapsed = start.elapsed();
        drop(outputs);
        Ok(elapsed)
    };
    let first = once()?;
    if arguments.hold {
        hold::until_input_ends()?;
    }
    let warm = Instant::now();
    while warm.elapsed() < time.mul_f64(WARM_UP) {
        once()?;
    }
    let (start, cpu_start) = (Instant::now(), cpu_time());
    let mut times = Vec::new();
    while times.len() < MIN_RUNS || start.elapsed() < time {
        times.push(once()?);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let cpu = cpu_start.zip(cpu_time()).map(|(start, end)| end.saturating_sub(start));
    let cpus = cpu.map(|cpu| number::rounded(cpu.as_secs_f64() / elapsed));
    Ok((first, Percentiles::of(times), cpus))
}

fn to_text(arguments: &Arguments, session: &Session, measured: &Measured) -> String {
    let runs = &measured.runs;
    let mut table = Table::new(
        ["load", "first", "p10", "p50", "p90", "p99", "runs", "CPUs", "GFLOP/s"]
            .map(|name| (name, Flush::Right)),
    );
    table.row([
        number::time(session.metadata().load_time),
        number::time(measured.first),
        number::time(runs.at(10.0)),
        number::time(runs.at(50.0)),
        number::time(runs.at(90.0)),
        number::time(runs.at(99.0)),
        number::count(runs.len()),
        measured.cpus.map_or_else(|| "-".to_owned(), number::significant),
        number::significant(measured.gflops),
    ]);
    let headline = headline(&arguments.model, session, &arguments.session);
    let memory = measured.memory.map_or_else(String::new, |memory| {
        let size = |n: u64| number::bytes(n.try_into().unwrap_or(usize::MAX));
        let (anon, file) = (size(memory.rss_anon), size(memory.rss_file));
        let peak = size(memory.peak_rss);
        format!("\n\n  memory  anonymous {anon} · file {file} · peak {peak}")
    });
    let planned = planned::text(&measured.planned);
    format!("{headline}\n\n{table}{memory}\n  plan    {planned}")
}

/// The keys are a stable interface.
fn to_json(
    arguments: &Arguments,
    session: &Session,
    measured: &Measured,
    profile: Option<&Profile>,
) -> Json {
    let percentile = |percent| number::millis(measured.runs.at(percent));
    let memory = |of: fn(&ProcessMemory) -> u64| {
        measured.memory.as_ref().map(|memory| number::mebibytes(of(memory)))
    };
    let loaded = measured.loaded.as_ref().map(|memory| number::mebibytes(memory.rss_anon));
    let mut json = json!({
        "load_ms": number::millis(session.metadata().load_time),
        "first_ms": number::millis(measured.first),
        "p10_ms": percentile(10.0),
        "p50_ms": percentile(50.0),
        "p90_ms": percentile(90.0),
        "p99_ms": percentile(99.0),
        "runs": measured.runs.len(),
        "threads": session.n_threads(),
        "cpus": measured.cpus,
        "gflops": measured.gflops,
        "rss_anon_mib": memory(|memory| memory.rss_anon),
        "rss_anon_loaded_mib": loaded,
        "rss_file_mib": memory(|memory| memory.rss_file),
        "peak_rss_mib": memory(|memory| memory.peak_rss),
        "planned": planned::json(&measured.planned),
        "level": arguments.session.level(),
        "isa": arguments.session.isa(),
    });
    if let Some(profile) = profile {
        json["peak"] = profile.peak_json();
        json["operators"] = profile.operators_json();
        json["eval_share"] = profile.eval_share_json();
        if let Some(n) = arguments.nodes {
            json["nodes"] = profile.nodes_json(n);
        }
    }
    json
}
