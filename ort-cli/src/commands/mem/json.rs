//! The timeline as JSON. All sizes are bytes; the keys are a stable interface.

use ort_session::{Kind, MemoryReport, Pages, Retained, Usage};
use serde_json::{Map, Value as Json, json};

use super::Arguments;
use super::answers::answers;
use super::parts::{self, PARTS};
use super::stages::{KINDS, STAGES, Stage, Timeline};
use super::tables::word;

/// The report as JSON.
pub(super) fn of(arguments: &Arguments, timeline: &Timeline) -> Json {
    let stages = STAGES.iter().zip(&timeline.stages);
    json!({
        "models": arguments.models.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "model_bytes": timeline.model_bytes,
        "level": arguments.session.level(),
        "isa": arguments.session.isa(),
        "runs": arguments.runs,
        "stages": stages.map(|(name, stage)| of_stage(name, stage)).collect::<Vec<_>>(),
        "answers": answers(timeline),
    })
}

fn of_stage(name: &str, stage: &Stage) -> Json {
    let mappings = KINDS.iter().map(|(kind, word)| {
        let pages = stage.kinds.get(kind).copied().unwrap_or_default();
        ((*word).to_owned(), of_pages(pages))
    });
    let parts = PARTS.iter().zip(parts::of(stage));
    let parts = parts.map(|((_, word), n_bytes)| (word.replace(' ', "_"), json!(n_bytes)));
    let mut json = of_pages(stage.total());
    json["stage"] = json!(name);
    json["peak_resident"] = json!(stage.process.peak_rss);
    json["threads"] = json!(stage.process.n_threads);
    json["mappings"] = Json::Object(mappings.collect());
    json["purposes"] = Json::Object(parts.collect());
    json["model_files"] = of_pages(stage.model_files);
    json["sessions"] = stage.reports.iter().map(of_report).collect();
    json
}

pub(super) fn of_pages(pages: Pages) -> Json {
    json!({
        "virtual": pages.virtual_bytes,
        "resident": pages.resident,
        "pss": pages.pss,
        "shared": pages.shared(),
        "private": pages.private(),
        "anonymous": pages.anonymous,
        "huge": pages.anon_huge,
    })
}

fn of_report(report: &MemoryReport) -> Json {
    let copied: Map<String, Json> = report
        .weights_copied
        .iter()
        .map(|(reason, retained)| (word(*reason).replace(' ', "_"), of_retained(retained)))
        .collect();
    let planned = report.activations_planned;
    json!({
        "model": {
            "kind": kind(report.model.kind),
            "whole": of_usage(report.model.whole),
            "weights": of_usage(report.model.weights),
            "packed": of_usage(report.model.packed),
            "structure": of_usage(report.model.structure),
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
    json["count"] = json!(retained.count);
    let largest =
        retained.largest.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
    json["largest"] = largest.collect();
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
