//! `optimize`: optimizes a model, reports the changes, and saves it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ort_session::{OperatorChange, Optimized, Pack, PackedSize, PassReport};
use serde_json::{Value as Json, json};

use crate::examples::examples;
use crate::failure::Failure;
use crate::number::{self, plural};
use crate::options::{SessionOptions, Words, words};
use crate::print::line;
use crate::table::{Flush, Table};
use crate::terminal::bold;

/// Optimize a model and save it as a .ort file, for this program and for ONNX Runtime
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "optimize models/ppocr_cls/model.onnx -o optimized.ort --level layout",
    "optimize models/ppocr_cls/model.onnx --explain",
))]
pub(crate) struct Arguments {
    /// The model, a .ort or .onnx file
    model: PathBuf,
    /// The path of the optimized model; without it, nothing is saved
    #[arg(short, long, value_name = "OUT", required_unless_present_any = ["explain", "json"])]
    output: Option<PathBuf>,
    /// Also save every constant packed for the kernels of this machine, next to the original or
    /// instead of it
    #[arg(long, value_name = "HOW", value_parser = words(PACKS), requires = "output")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "keep")]
    pack: Option<Pack>,
    /// Show what each pass rewrote, and what blocked other rewrites
    #[arg(long)]
    explain: bool,
    /// Stop after N rewrites and show the last: bisect over N to find the one that breaks a model
    #[arg(long, value_name = "N")]
    stop_after: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionOptions,
}

const PACKS: Words<Pack> = &[("keep", Pack::KeepOriginals), ("replace", Pack::Replace)];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (model, output) = (&arguments.model, arguments.output.as_deref());
    let start = Instant::now();
    let optimized = arguments.session.optimize(model, arguments.stop_after)?;
    let time = start.elapsed();
    let size =
        output.map(|output| save(&optimized, arguments.pack, [model, output])).transpose()?;
    let operators = optimized.operators();
    let view = View { arguments, optimized: &optimized, operators, time, size };
    if arguments.json {
        line(view.to_json())?;
    } else {
        line(view.to_text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Saves the model and returns the file's size. It must not overwrite the model it was made from,
/// which would be lost.
fn save(
    optimized: &Optimized,
    pack: Option<Pack>,
    [model, output]: [&Path; 2],
) -> Result<PackedSize, Failure> {
    if let (Ok(from), Ok(to)) = (fs::canonicalize(model), fs::canonicalize(output))
        && from == to
    {
        return Err(Failure::Overwrite { path: output.to_owned() });
    }
    // A packed model stays packed.
    let size = match pack.or(optimized.is_packed().then_some(Pack::KeepOriginals)) {
        Some(pack) => optimized.write_packed(output, pack),
        None => optimized.write(output).map(PackedSize::unpacked),
    };
    size.map_err(|source| Failure::save(model, source))
}

/// What is shown.
struct View<'a> {
    arguments: &'a Arguments,
    optimized: &'a Optimized,
    operators: Vec<OperatorChange>,
    time: Duration,
    /// Of the file that was written.
    size: Option<PackedSize>,
}

impl View<'_> {
    fn to_text(&self) -> String {
        let mut parts = vec![self.headline()];
        if self.arguments.explain {
            parts.extend([self.passes(), self.operators()]);
        }
        parts.push(self.sum());
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    fn headline(&self) -> String {
        let model = bold(self.arguments.model.display());
        let size = number::bytes(self.optimized.bytes().len());
        let mut text = format!("{model} · {size} · level {}", self.arguments.session.level());
        if let (Some(output), Some(size)) = (&self.arguments.output, self.size) {
            let n_bytes = number::bytes(size.file_bytes);
            text += &format!(" → {} · {n_bytes}", bold(output.display()));
        }
        text
    }

    /// Passes that rewrote something, or were blocked.
    fn passes(&self) -> String {
        use Flush::{Left, Right};
        let mut table = Table::new([
            ("pass", Left),
            ("level", Left),
            ("exactness", Left),
            ("applied", Right),
            ("time", Right),
            ("blocked by", Left),
        ]);
        let passes = &self.optimized.report().passes;
        let is_shown = |pass: &&PassReport| pass.applied > 0 || !pass.refused.is_empty();
        for pass in passes.iter().filter(is_shown) {
            let blocker = |(reason, n): &(&str, usize)| format!("{reason} ({})", number::count(*n));
            let blockers: Vec<String> = pass.refused.iter().map(blocker).collect();
            table.row([
                pass.name.to_owned(),
                pass.level.to_string(),
                pass.exactness.to_string(),
                number::count(pass.applied),
                number::time(Duration::from_micros(pass.micros)),
                blockers.join(", "),
            ]);
        }
        let n_idle = passes.iter().filter(|pass| !is_shown(pass)).count();
        format!("{table}\n  {} found nothing", plural_passes(n_idle))
    }

    /// Operators whose number of nodes changed.
    fn operators(&self) -> String {
        if self.operators.iter().all(|change| change.before == change.after) {
            return String::new();
        }
        let mut table = Table::new([
            ("operator", Flush::Left),
            ("domain", Flush::Left),
            ("before", Flush::Right),
            ("after", Flush::Right),
        ]);
        for change in self.operators.iter().filter(|change| change.before != change.after) {
            let domain = if change.domain.is_empty() { "ai.onnx" } else { &change.domain };
            table.row([
                change.op_type.clone(),
                domain.to_owned(),
                number::count(change.before),
                number::count(change.after),
            ]);
        }
        table.to_string()
    }

    fn sum(&self) -> String {
        let report = self.optimized.report();
        let (before, after) = self.n_nodes();
        let mut text = format!(
            "  {} → {} · {} · {}",
            plural(before, "node"),
            number::count(after),
            plural(report.applied(), "rewrite"),
            number::time(self.time),
        );
        if let (Some(_), Some(size)) = (self.arguments.pack, self.size) {
            text += &format!(
                "\n  packed weights {}; originals left out {}",
                number::bytes(size.packed_bytes),
                number::bytes(size.left_out_bytes),
            );
        }
        if let Some(last) = report.last.as_ref().filter(|_| self.arguments.stop_after.is_some()) {
            text += &format!("\n  last rewrite: {} at `{}`", last.pass, last.node);
        }
        text
    }

    fn n_nodes(&self) -> (usize, usize) {
        let sum = |of: fn(&OperatorChange) -> usize| self.operators.iter().map(of).sum();
        (sum(|change| change.before), sum(|change| change.after))
    }

    fn to_json(&self) -> Json {
        let report = self.optimized.report();
        let (before, after) = self.n_nodes();
        let output = self.arguments.output.as_deref().map(Path::to_string_lossy);
        let last = report.last.as_ref();
        json!({
            "model": self.arguments.model.to_string_lossy(),
            "output": output,
            "file_bytes": { "before": self.optimized.bytes().len(), "after": self.size.map(|size| size.file_bytes) },
            "packed_bytes": self.size.map(|size| size.packed_bytes),
            "left_out_bytes": self.size.map(|size| size.left_out_bytes),
            "level": self.arguments.session.level(),
            "ms": number::millis(self.time),
            "nodes": { "before": before, "after": after },
            "applied": report.applied(),
            "passes": report.passes.iter().map(pass_json).collect::<Json>(),
            "operators": self.operators.iter().map(operator_json).collect::<Json>(),
            "last": last.map(|last| json!({ "pass": last.pass, "node": last.node })),
        })
    }
}

fn pass_json(pass: &PassReport) -> Json {
    let blocker = |(reason, n): &(&str, usize)| json!({ "reason": reason, "nodes": n });
    json!({
        "name": pass.name,
        "level": pass.level.name(),
        "exactness": pass.exactness.to_string(),
        "applied": pass.applied,
        "refused": pass.refused.iter().map(blocker).collect::<Json>(),
        "ms": number::millis(Duration::from_micros(pass.micros)),
    })
}

fn operator_json(change: &OperatorChange) -> Json {
    json!({
        "domain": change.domain,
        "op_type": change.op_type,
        "before": change.before,
        "after": change.after,
    })
}

fn plural_passes(n: usize) -> String {
    format!("{} other pass{}", number::count(n), if n == 1 { "" } else { "es" })
}
