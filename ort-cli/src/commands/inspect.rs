//! `inspect`: the contents of a model's file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ort_session::{
    DenormalWeights, Inspection, Load, ModelBytes, OperatorCount, ValueDescription, WeightCount,
    denormal_weights, inspect,
};
use serde_json::{Value as Json, json};

use crate::examples::examples;
use crate::failure::Failure;
use crate::number::{self, plural};
use crate::print::{line, one_line};
use crate::table::{Flush, Table};
use crate::terminal::bold;

/// How many entries of a long list the text report shows.
const N_SHOWN: usize = 5;

/// How many characters of a long text it shows.
const MAX_TEXT: usize = 100;

/// Show a model's inputs, outputs, operators and weights, and which nodes are unsupported
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "inspect models/ppocr_cls/model.onnx",
    "inspect models/silero_vad/model.ort --weights --json",
))]
pub(crate) struct Arguments {
    /// The model, a .ort or .onnx file
    model: PathBuf,
    /// Also read all weights and count the denormal ones
    #[arg(long)]
    weights: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let path = &arguments.model;
    let failed = |source| Failure::model(path, source);
    let bytes = ModelBytes::from_path(path, Load::Auto).map_err(|error| failed(error.into()))?;
    let inspection = inspect(&bytes).map_err(failed)?;
    let denormals = match arguments.weights {
        true => Some(denormal_weights(&bytes).map_err(failed)?),
        false => None,
    };
    let view = View { path, n_bytes: bytes.len(), inspection: &inspection, denormals };
    if arguments.json {
        line(view.to_json())?
    } else {
        line(view.to_text())?
    }
    Ok(ExitCode::SUCCESS)
}

/// What is shown.
struct View<'a> {
    path: &'a Path,
    n_bytes: usize,
    inspection: &'a Inspection,
    /// `None` if not requested.
    denormals: Option<Vec<DenormalWeights>>,
}

impl View<'_> {
    fn to_text(&self) -> String {
        let parts = [
            self.headline(),
            self.about(),
            self.values(),
            self.operators(),
            self.weights(),
            self.hints(),
            self.warnings(),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    fn headline(&self) -> String {
        let (path, model) = (self.path.display(), &self.inspection.model);
        let mut text = format!(
            "{} · {} · format {} · IR {}",
            bold(path),
            number::bytes(self.n_bytes),
            [self.inspection.format, &self.inspection.version].join(" ").trim_end(),
            model.ir_version
        );
        if !model.producer_name.is_empty() {
            text += &format!(" · made by {} {}", model.producer_name, model.producer_version);
        }
        text.trim_end().to_owned()
    }

    /// The model's metadata, one `name: text` per line.
    fn about(&self) -> String {
        let model = &self.inspection.model;
        let is_used = |domain: &str| self.inspection.operators.iter().any(|o| o.domain == domain);
        let used = model.opsets.iter().filter(|(domain, _)| is_used(domain));
        let opsets: Vec<String> =
            used.map(|(domain, version)| format!("{} {version}", domain_text(domain))).collect();
        let version = model.model_version.map(|version| version.to_string());
        let named = [
            ("opsets", opsets.join(", ")),
            ("domain", model.domain.clone()),
            ("model version", version.unwrap_or_default()),
            ("about", model.doc_string.clone()),
            ("graph", model.graph_doc_string.clone()),
        ];
        let metadata = model.metadata.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let lines: Vec<String> = named
            .into_iter()
            .chain(metadata)
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| format!("  {name}: {}", one_line(&text, MAX_TEXT)))
            .collect();
        lines.join("\n")
    }

    fn values(&self) -> String {
        let mut table =
            Table::new([("", Flush::Left), ("name", Flush::Left), ("type", Flush::Left)]);
        let sides = [("input", &self.inspection.inputs), ("output", &self.inspection.outputs)];
        for (side, values) in sides {
            for value in values {
                let optional = if value.has_default { " (has a default)" } else { "" };
                table.row([side.to_owned(), value.name.clone(), format!("{}{optional}", value.ty)]);
            }
        }
        table.to_string()
    }

    fn operators(&self) -> String {
        let mut table = Table::new([
            ("operator", Flush::Left),
            ("domain", Flush::Left),
            ("version", Flush::Right),
            ("nodes", Flush::Right),
            ("", Flush::Left),
        ]);
        for operator in &self.inspection.operators {
            table.row([
                operator.op_type.clone(),
                domain_text(&operator.domain).to_owned(),
                operator.version.to_string(),
                number::count(operator.n_nodes),
                operator.unsupported.clone().unwrap_or_default(),
            ]);
        }
        let sum = |of: fn(&OperatorCount) -> usize| -> usize {
            self.inspection.operators.iter().map(of).sum()
        };
        let n_missing =
            sum(|operator| operator.unsupported.as_ref().map_or(0, |_| operator.n_nodes));
        let missing = match n_missing {
            0 => "all supported".to_owned(),
            n => format!("{} not supported", number::count(n)),
        };
        let below = match self.inspection.n_subgraphs {
            0 => String::new(),
            n => format!(", including {}", plural(n, "subgraph")),
        };
        format!("{table}\n  {}{below}: {missing}", plural(sum(|operator| operator.n_nodes), "node"))
    }

    fn weights(&self) -> String {
        let kinds: Vec<String> = self
            .inspection
            .weights
            .iter()
            .map(|kind| {
                let dtype = kind.dtype.map_or("unknown", |dtype| dtype.name());
                format!(
                    "{} {} in {}",
                    dtype,
                    number::bytes(kind.n_bytes),
                    number::count(kind.n_tensors)
                )
            })
            .collect();
        let n_bytes = self.inspection.weights.iter().map(|kind| kind.n_bytes).sum();
        let mut text = format!("  weights: {}", number::bytes(n_bytes));
        if !kinds.is_empty() {
            text += &format!(" ({})", kinds.join(", "));
        }
        match &self.denormals {
            None => text += "\n  denormal weights: not counted (--weights)",
            Some(found) => text += &denormals_text(found),
        }
        text
    }

    fn hints(&self) -> String {
        let hints = &self.inspection.hints;
        let mut parts = Vec::new();
        if hints.n_edges > 0 {
            parts.push(plural(hints.n_edges, "edge"));
        }
        parts.extend(
            hints.providers.iter().map(|(name, n)| format!("{} for {name}", plural(*n, "node"))),
        );
        parts.extend(
            hints.runtime_optimizations.iter().map(|(optimizer, action, n)| {
                format!("{} {optimizer}/{action}", number::count(*n))
            }),
        );
        if parts.is_empty() {
            String::new()
        } else {
            format!("  hints, ignored: {}", parts.join(", "))
        }
    }

    fn warnings(&self) -> String {
        let warnings = &self.inspection.warnings;
        let mut lines: Vec<String> = warnings
            .iter()
            .take(N_SHOWN)
            .map(|text| format!("  warning: {}", one_line(text, MAX_TEXT)))
            .collect();
        if warnings.len() > N_SHOWN {
            lines.push(format!("  warnings: {} more", number::count(warnings.len() - N_SHOWN)));
        }
        lines.join("\n")
    }

    fn to_json(&self) -> Json {
        let it = self.inspection;
        json!({
            "file_bytes": self.n_bytes,
            "format": it.format,
            "version": it.version,
            "model": self.model_json(),
            "inputs": list(&it.inputs, value_json),
            "outputs": list(&it.outputs, value_json),
            "subgraphs": it.n_subgraphs,
            "operators": list(&it.operators, operator_json),
            "weights": list(&it.weights, weights_json),
            "denormals": self.denormals.as_ref().map(|found| list(found, denormals_json)),
            "hints": {
                "edges": it.hints.n_edges,
                "providers": list(&it.hints.providers, |(name, n)| json!({
                    "name": name, "nodes": n,
                })),
                "runtime_optimizations": list(
                    &it.hints.runtime_optimizations,
                    |(optimizer, action, n)| json!({
                        "optimizer": optimizer, "action": action, "records": n,
                    }),
                ),
            },
            "warnings": it.warnings,
        })
    }

    fn model_json(&self) -> Json {
        let model = &self.inspection.model;
        let map = |pairs: &[(String, String)]| -> Json {
            pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
        };
        let opsets = model.opsets.iter().map(|(domain, version)| (domain.clone(), json!(version)));
        json!({
            "ir_version": model.ir_version,
            "opsets": opsets.collect::<Json>(),
            "producer_name": model.producer_name,
            "producer_version": model.producer_version,
            "domain": model.domain,
            "model_version": model.model_version,
            "doc_string": model.doc_string,
            "graph_doc_string": model.graph_doc_string,
            "metadata": map(&model.metadata),
        })
    }
}

fn list<T>(items: &[T], json: impl Fn(&T) -> Json) -> Json {
    items.iter().map(json).collect()
}

fn value_json(value: &ValueDescription) -> Json {
    let (name, ty) = (&value.name, value.ty.to_string());
    json!({ "name": name, "type": ty, "has_default": value.has_default })
}

fn operator_json(operator: &OperatorCount) -> Json {
    json!({
        "domain": operator.domain,
        "op_type": operator.op_type,
        "version": operator.version,
        "nodes": operator.n_nodes,
        "unsupported": operator.unsupported,
    })
}

fn weights_json(kind: &WeightCount) -> Json {
    let dtype = kind.dtype.map(|dtype| dtype.name());
    json!({ "type": dtype, "tensors": kind.n_tensors, "bytes": kind.n_bytes })
}

fn denormals_json(found: &DenormalWeights) -> Json {
    json!({
        "name": found.name,
        "type": found.dtype.name(),
        "denormal": found.n_denormal,
        "elements": found.n_elements,
    })
}

fn denormals_text(found: &[DenormalWeights]) -> String {
    let sum = |of: fn(&DenormalWeights) -> usize| -> usize { found.iter().map(of).sum() };
    if found.is_empty() {
        return "\n  denormal weights: none".to_owned();
    }
    let names: Vec<String> = found
        .iter()
        .take(N_SHOWN)
        .map(|it| {
            format!(
                "{} ({} of {})",
                it.name,
                number::count(it.n_denormal),
                number::count(it.n_elements)
            )
        })
        .collect();
    let more = if found.len() > N_SHOWN { ", …" } else { "" };
    format!(
        "\n  denormal weights: {} in {}, slow unless flushed: {}{more}",
        number::count(sum(|it| it.n_denormal)),
        plural(found.len(), "tensor"),
        names.join(", "),
    )
}

fn domain_text(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}
