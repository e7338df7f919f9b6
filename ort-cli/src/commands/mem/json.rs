//! The timeline as JSON. All sizes are bytes; the keys are a stable interface.

use ort_session::{MemoryReport, Pages};
use serde_json::{Value as Json, json};

use super::Arguments;
use super::answers::answers;
use super::parts::{self, PARTS};
use super::stages::{KINDS, STAGES, Stage, Timeline};

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
    serde_json::from_str(&report.to_json()).expect("invariant: the report is JSON")
}
