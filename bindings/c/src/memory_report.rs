//! The memory of a session as a JSON file, requested by the key `ort_rs.memory_report`: of session options, written
//! when the session is released, or of run options, written after the run.

use std::path::Path;

use ort_session::{CopyReason, Kind, MemoryReport, Retained, Session, Usage};
use serde_json::{Map, Value as Json, json};

use crate::error::Error;

/// The key, whose value is the file's path.
pub(crate) const KEY: &str = "ort_rs.memory_report";

/// Writes the report of a session.
pub(crate) fn write(session: &Session, path: &Path) -> Result<(), Error> {
    let text = format!("{:#}\n", of_report(&session.memory()));
    let failed = |error| Error::fail(format!("cannot write {}: {error}", path.display()));
    std::fs::write(path, text).map_err(failed)
}

fn of_report(report: &MemoryReport) -> Json {
    let copied = report.weights_copied.iter();
    let copied = copied.map(|(reason, it)| (word(*reason).to_owned(), of_retained(it)));
    let copied: Map<String, Json> = copied.collect();
    let (model, planned) = (&report.model, report.activations_planned);
    json!({
        "model": {
            "kind": kind(model.kind),
            "whole": of_usage(model.whole),
            "weights": of_usage(model.weights),
            "packed": of_usage(model.packed),
            "structure": of_usage(model.structure),
        },
        "weights_mapped": of_retained(&report.weights_mapped),
        "weights_copied": copied,
        "weights_released": report.weights_released,
        "packed_mapped": of_retained(&report.packed_mapped),
        "packed_heap": of_retained(&report.packed_heap),
        "activations_planned": {
            "signatures": planned.signatures,
            "bytes": planned.n_bytes,
            "largest": planned.largest,
        },
        "activations_retained": of_retained(&report.activations_retained),
        "objects": { "graph": report.objects.graph, "plan": report.objects.plan },
    })
}

const fn word(reason: CopyReason) -> &'static str {
    match reason {
        CopyReason::NotAligned => "not_aligned",
        CopyReason::Computed => "computed",
        CopyReason::Strings => "strings",
        _ => "other",
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Mapped => "mapped",
        Kind::Heap => "heap",
        Kind::Sealed => "sealed",
        Kind::Static => "static",
        Kind::Owner => "owner",
    }
}

fn of_retained(retained: &Retained) -> Json {
    let mut json = of_usage(retained.usage);
    let largest = retained.largest.iter();
    json["count"] = json!(retained.count);
    json["largest"] = largest.map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect();
    json
}

/// What the system does not report is null.
fn of_usage(usage: Usage) -> Json {
    json!({
        "virtual": usage.virtual_bytes,
        "resident": usage.residency.map(|it| it.resident),
        "shared": usage.residency.map(|it| it.shared),
        "private": usage.residency.map(|it| it.private),
    })
}
