//! Several processes with the same models: the memory of each, and of all together.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use ort_session::{MappingKind, Pages, Process};
use serde_json::{Value as Json, json};

use super::chart::Chart;
use super::json::of_pages;
use super::parts::Sizes;
use super::stages::{self, Loaded};
use super::tables::size;
use super::{Arguments, headline};
use crate::failure::Failure;
use crate::hold::READY;
use crate::number;
use crate::print::line;
use crate::table::{Flush, Table};

/// The memory of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) id: u32,
    pub(super) total: Pages,
    /// Of the models' files.
    pub(super) model_files: Pages,
    /// Arenas, resident.
    pub(super) activations: u64,
    /// The inputs of the models.
    pub(super) inputs: u64,
}

impl Row {
    /// Private memory other than activations and inputs.
    pub(super) const fn private_without_activations(&self) -> u64 {
        self.total.private().saturating_sub(self.activations + self.inputs)
    }
}

/// Starts the processes, measures each while all have the models loaded, and stops them.
pub(super) fn show(arguments: &Arguments, n: u32) -> Result<(), Failure> {
    let session = arguments.session.open(&arguments.models[0])?;
    let headline = headline(&arguments.models[0], &session, &arguments.session);
    drop(session);
    let program = std::env::current_exe()
        .map_err(|source| Failure::Process { path: PathBuf::from("ort-cli"), source })?;
    let started: Result<Vec<ModelProcess>, Failure> =
        (0..n).map(|_| ModelProcess::start(&program)).collect();
    let mut processes = started?;
    let reported: Result<Vec<Report>, Failure> =
        processes.iter_mut().map(ModelProcess::wait_until_ready).collect();
    let rows: Result<Vec<Row>, Failure> = processes
        .iter()
        .zip(reported?)
        .map(|(process, reported)| measure(process.child.id(), &reported))
        .collect();
    let rows = rows?;
    processes.into_iter().try_for_each(ModelProcess::end)?;
    match arguments.json {
        true => line(to_json(arguments, &rows))?,
        false => line(to_text(&headline, &rows))?,
    }
    let names: Vec<_> = arguments.models.iter().map(|path| path.display().to_string()).collect();
    arguments.draw(|| Chart::of_processes(&names, &rows, &sum(&rows)))
}

/// What a process reports before it is ready, for [`ModelProcess::wait_until_ready`].
pub(super) fn report(sizes: &Sizes, loaded: &Loaded) -> Json {
    let (inputs, files) = (stages::inputs(loaded), stages::files(loaded));
    json!({ "activations": sizes.activations, "inputs": inputs, "files": files })
}

/// What a process reported.
#[derive(Debug, Default)]
struct Report {
    activations: u64,
    inputs: u64,
    files: Vec<PathBuf>,
}

impl Report {
    fn read(text: &str) -> Self {
        let json: Json = serde_json::from_str(text).unwrap_or_default();
        let files = json["files"].as_array().into_iter().flatten();
        let files = files.filter_map(|file| Some(file.as_str()?.into())).collect();
        let size = |key: &str| json[key].as_u64().unwrap_or(0);
        Self { activations: size("activations"), inputs: size("inputs"), files }
    }
}

fn measure(id: u32, reported: &Report) -> Result<Row, Failure> {
    let mappings = Process::Id(id).mappings()?.ok_or(Failure::NotReported)?;
    let is_reserved = |kind| kind == MappingKind::Reserved;
    let total = mappings.iter().filter(|it| !is_reserved(it.kind)).map(|it| it.pages).sum();
    let of_models = mappings.iter().filter(|mapping| reported.files.contains(&mapping.name));
    let model_files = of_models.map(|mapping| mapping.pages).sum();
    let (activations, inputs) = (reported.activations, reported.inputs);
    Ok(Row { id, total, model_files, activations, inputs })
}

/// A child process with the models loaded. It is killed when this is dropped.
struct ModelProcess {
    program: PathBuf,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl ModelProcess {
    /// Starts this program again, with the same arguments.
    fn start(program: &std::path::Path) -> Result<Self, Failure> {
        let failed = |source| Failure::Process { path: program.to_owned(), source };
        let mut command = Command::new(program);
        // Right after the subcommand: after a `--` it would be a model.
        let mut words = std::env::args_os().skip(1);
        command.args(words.next()).arg("--held").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let Some(output) = child.stdout.take() else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self { program: program.to_owned(), child, output: BufReader::new(output) })
    }

    /// What it has reported once its sessions are ready.
    fn wait_until_ready(&mut self) -> Result<Report, Failure> {
        let mut reported = Report::default();
        loop {
            let mut text = String::new();
            let n_read = self.output.read_line(&mut text);
            if n_read.map_err(|source| self.failed(source))? == 0 {
                return Err(self.exited());
            }
            if text.trim_end() == READY {
                return Ok(reported);
            }
            reported = Report::read(&text);
        }
    }

    /// Closes its standard input, so that it exits.
    fn end(mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Ended { id: self.child.id(), status }),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn exited(&mut self) -> Failure {
        match self.child.wait() {
            Ok(status) => Failure::Ended { id: self.child.id(), status },
            Err(source) => self.failed(source),
        }
    }

    fn failed(&self, source: std::io::Error) -> Failure {
        Failure::Process { path: self.program.clone(), source }
    }
}

impl Drop for ModelProcess {
    fn drop(&mut self) {
        // Neither call has an effect if it has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum; its id has no meaning.
fn sum(rows: &[Row]) -> Row {
    rows.iter().fold(Row::default(), |sum, row| Row {
        id: 0,
        total: sum.total + row.total,
        model_files: sum.model_files + row.model_files,
        activations: sum.activations + row.activations,
        inputs: sum.inputs + row.inputs,
    })
}

fn to_text(headline: &str, rows: &[Row]) -> String {
    let right = |name| (name, Flush::Right);
    let [rss, pss, shared, private] = ["RSS", "PSS", "shared", "private"].map(right);
    let [activations, inputs] = ["activations", "inputs"].map(right);
    let rest = right("other private");
    let model = right("model's PSS");
    let process = ("process", Flush::Left);
    let mut table =
        Table::new([process, rss, pss, shared, private, activations, inputs, rest, model]);
    let named = rows.iter().map(|row| (row.id.to_string(), *row));
    for (name, row) in named.chain([("all".to_owned(), sum(rows))]) {
        let pages = row.total;
        let sizes = [pages.resident, pages.pss, pages.shared(), pages.private(), row.activations];
        let [rss, pss, shared, private, activations] = sizes.map(size);
        let (inputs, rest) = (size(row.inputs), size(row.private_without_activations()));
        let model = size(row.model_files.pss);
        table.row([name, rss, pss, shared, private, activations, inputs, rest, model]);
    }
    let n = number::count(rows.len());
    format!("{headline} · {n} processes\n\n{table}")
}

fn to_json(arguments: &Arguments, rows: &[Row]) -> Json {
    let of = |row: &Row| {
        let mut json = of_pages(row.total);
        json["model_files"] = of_pages(row.model_files);
        json["activations"] = json!(row.activations);
        json["inputs"] = json!(row.inputs);
        json["private_without_activations"] = json!(row.private_without_activations());
        json
    };
    let processes = rows.iter().map(|row| {
        let mut json = of(row);
        json["process"] = json!(row.id);
        json
    });
    json!({
        "models": arguments.models.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "sum": of(&sum(rows)),
    })
}
