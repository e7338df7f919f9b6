//! `run`: runs a model once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ort_session::{Activations, Outputs, Session};
use ort_tensor_io::write_value;
use serde_json::{Value as Json, json};

use super::{headline, planned};
use crate::examples::examples;
use crate::failure::Failure;
use crate::inputs::{Inputs, limited};
use crate::number;
use crate::options::{InputOptions, SessionOptions};
use crate::print::line;
use crate::run_options::RunChoices;
use crate::summary::{Spread, Summary};
use crate::table::{Flush, Table};

/// Run a model once and show its outputs, time and memory
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "run models/ppocr_cls/model.onnx --inputs models/ppocr_cls/test_data_set_0",
    "run models/silero_vad/model.ort --shape input=1x576 --level basic --output results",
))]
pub(crate) struct Arguments {
    /// The model, a .ort or .onnx file
    model: PathBuf,
    /// Write the outputs to this folder, as output_0.pb, output_1.pb, …
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
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

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let session = arguments.session.open(&arguments.model)?;
    let inputs = Inputs::gather(&session, &arguments.inputs)?;
    let failed = |source| Failure::run(&arguments.model, source);
    let start = Instant::now();
    let activations = session.activations(inputs.to_run()).map_err(failed)?;
    let planned_in = start.elapsed();
    if !arguments.json {
        // Before the run, so that users with too little memory see how much it needs.
        let headline = headline(&arguments.model, &session, &arguments.session);
        line(format!("{headline}\n\n  plan    {}", planned::text(&activations)))?;
    }
    let start = Instant::now();
    let outputs = session.run_with(inputs.to_run(), &arguments.runs.options()).map_err(failed)?;
    let first = planned_in + start.elapsed();
    if let Some(folder) = &arguments.output {
        limited(&session, || write(folder, &outputs))?;
    }
    if arguments.json {
        line(to_json(arguments, &session, &outputs, (first, &activations)))?;
    } else {
        line(to_text(&session, &outputs, first))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, outputs: &Outputs) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|source| Failure::Folder { path: folder.to_owned(), source })?;
    for (i, (name, value)) in outputs.iter().enumerate() {
        write_value(&folder.join(format!("output_{i}.pb")), name, value)?;
    }
    Ok(())
}

fn to_text(session: &Session, outputs: &Outputs, first: Duration) -> String {
    use Flush::{Left, Right};
    let mut table = Table::new([
        ("output", Left),
        ("type", Left),
        ("shape", Left),
        ("min", Right),
        ("mean", Right),
        ("max", Right),
        ("first", Left),
    ]);
    let mut warnings = String::new();
    for (name, value) in outputs.iter() {
        let summary = Summary::of(value);
        let spread = |of: fn(&Spread) -> f64| {
            summary.spread.as_ref().map_or_else(String::new, |it| number::significant(of(it)))
        };
        let (min, mean, max) = (spread(|it| it.min), spread(|it| it.mean), spread(|it| it.max));
        let (shape, first) = (summary.shape_text(), summary.first_text());
        table.row([name.to_owned(), summary.ty.clone(), shape, min, mean, max, first]);
        let n = summary.spread.map_or(0, |spread| spread.n_not_finite);
        if n > 0 {
            let n = number::count(n);
            warnings += &format!("  {name}: {n} of {} not finite\n", number::count(summary.len));
        }
    }
    let memory = session.memory();
    format!(
        "\n{table}\n{warnings}\n  time    load {} · first run {}\n  memory  weights {} mapped, {} copied · packed {} · activations {}",
        number::time(session.metadata().load_time),
        number::time(first),
        number::bytes(memory.weights_mapped.n_bytes()),
        number::bytes(memory.copied_bytes()),
        number::bytes(memory.packed_heap.n_bytes()),
        number::bytes(memory.activations_retained.n_bytes()),
    )
}

fn to_json(
    arguments: &Arguments,
    session: &Session,
    outputs: &Outputs,
    (first, activations): (Duration, &Activations),
) -> Json {
    let outputs = outputs.iter().map(|(name, value)| {
        let mut json = Summary::of(value).to_json();
        json["name"] = json!(name);
        json
    });
    let memory = session.memory();
    json!({
        "model": arguments.model.to_string_lossy(),
        "level": arguments.session.level(),
        "isa": arguments.session.isa(),
        "threads": session.n_threads(),
        "load_ms": number::millis(session.metadata().load_time),
        "first_ms": number::millis(first),
        "outputs": outputs.collect::<Vec<_>>(),
        "planned": planned::json(activations),
        "memory": {
            "weights_mapped": memory.weights_mapped.n_bytes(),
            "weights_copied": memory.copied_bytes(),
            "packed": memory.packed_heap.n_bytes(),
            "activations": memory.activations_retained.n_bytes(),
        },
    })
}
