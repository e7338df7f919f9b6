//! Several processes that hold the same models at once: what each has of them, and all together.

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

/// What one process holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    pub(super) id: u32,
    pub(super) total: Pages,
    /// Of the models' files.
    pub(super) model_files: Pages,
    /// Blocks that runs compute in, resident.
    pub(super) activations: u64,
    /// What the models run on.
    pub(super) inputs: u64,
}

impl Row {
    /// What the process has for itself beyond activations and inputs.
    pub(super) const fn private_without_activations(&self) -> u64 {
        self.total.private().saturating_sub(self.activations + self.inputs)
    }
}

/// Starts the processes, looks at each while all hold the models, and ends them.
pub(super) fn show(arguments: &Arguments, n: u32) -> Result<(), Failure> {
    let session = arguments.session.open(&arguments.models[0])?;
    let headline = headline(&arguments.models[0], &session, &arguments.session);
    drop(session);
    let program = std::env::current_exe()
        .map_err(|source| Failure::Process { path: PathBuf::from("ort-cli"), source })?;
    let started: Result<Vec<Held>, Failure> = (0..n).map(|_| Held::start(&program)).collect();
    let mut processes = started?;
    let told: Result<Vec<Told>, Failure> =
        processes.iter_mut().map(Held::wait_until_ready).collect();
    let rows: Result<Vec<Row>, Failure> = processes
        .iter()
        .zip(told?)
        .map(|(process, told)| look(process.child.id(), &told))
        .collect();
    let rows = rows?;
    processes.into_iter().try_for_each(Held::end)?;
    match arguments.json {
        true => line(to_json(arguments, &rows))?,
        false => line(to_text(&headline, &rows))?,
    }
    let names: Vec<_> = arguments.models.iter().map(|path| path.display().to_string()).collect();
    arguments.draw(|| Chart::of_processes(&names, &rows, &sum(&rows)))
}

/// What a process tells before it is ready, for [`Held::wait_until_ready`].
pub(super) fn told(sizes: &Sizes, loaded: &Loaded) -> Json {
    let (inputs, files) = (stages::inputs(loaded), stages::files(loaded));
    json!({ "activations": sizes.activations, "inputs": inputs, "files": files })
}

/// What a process told.
#[derive(Debug, Default)]
struct Told {
    activations: u64,
    inputs: u64,
    files: Vec<PathBuf>,
}

impl Told {
    fn read(text: &str) -> Self {
        let json: Json = serde_json::from_str(text).unwrap_or_default();
        let files = json["files"].as_array().into_iter().flatten();
        let files = files.filter_map(|file| Some(file.as_str()?.into())).collect();
        let size = |key: &str| json[key].as_u64().unwrap_or(0);
        Self { activations: size("activations"), inputs: size("inputs"), files }
    }
}

fn look(id: u32, told: &Told) -> Result<Row, Failure> {
    let mappings = Process::Id(id).mappings()?.ok_or(Failure::NotTold)?;
    let is_reserved = |kind| kind == MappingKind::Reserved;
    let total = mappings.iter().filter(|it| !is_reserved(it.kind)).map(|it| it.pages).sum();
    let of_models = mappings.iter().filter(|mapping| told.files.contains(&mapping.name));
    let model_files = of_models.map(|mapping| mapping.pages).sum();
    let (activations, inputs) = (told.activations, told.inputs);
    Ok(Row { id, total, model_files, activations, inputs })
}

/// A process that holds the models. It ends when this is dropped, at the latest.
struct Held {
    program: PathBuf,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Held {
    /// Starts this program once more, with the same arguments.
    fn start(program: &std::path::Path) -> Result<Self, Failure> {
        let failed = |source| Failure::Process { path: program.to_owned(), source };
        let mut command = Command::new(program);
        // Right behind the command: behind a `--` it would be a model.
        let mut words = std::env::args_os().skip(1);
        command.args(words.next()).arg("--held").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let Some(output) = child.stdout.take() else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self { program: program.to_owned(), child, output: BufReader::new(output) })
    }

    /// What it has told when its sessions are ready.
    fn wait_until_ready(&mut self) -> Result<Told, Failure> {
        let mut told = Told::default();
        loop {
            let mut text = String::new();
            let n_read = self.output.read_line(&mut text);
            if n_read.map_err(|source| self.failed(source))? == 0 {
                return Err(self.ended());
            }
            if text.trim_end() == READY {
                return Ok(told);
            }
            told = Told::read(&text);
        }
    }

    /// Ends its standard input, which ends it.
    fn end(mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::Ended { id: self.child.id(), status }),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn ended(&mut self) -> Failure {
        match self.child.wait() {
            Ok(status) => Failure::Ended { id: self.child.id(), status },
            Err(source) => self.failed(source),
        }
    }

    fn failed(&self, source: std::io::Error) -> Failure {
        Failure::Process { path: self.program.clone(), source }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and is waited for again at no cost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All together; the id says nothing.
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
    let [activations, inputs] = ["of it activations", "inputs"].map(right);
    let rest = right("and the rest");
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
