//! A summary in sentences: what of the model is resident, what is private, what was released, and
//! what remains.

use ort_session::{Kind, MappingKind, MemoryReport};

use super::parts::{self, PARTS, Sizes};
use super::stages::{AFTER_DROP, AFTER_RUNS, AFTER_SECOND_DROP, BEFORE_LOAD, Stage, Timeline};
use super::tables::{size, word};
use crate::number;

/// Smaller amounts are not reported.
const NOTEWORTHY_BYTES: u64 = 64 << 10;

/// The answers, a paragraph each.
pub(super) fn answers(timeline: &Timeline) -> Vec<String> {
    let stages = &timeline.stages;
    let mut answers = vec![model(timeline), private(&stages[AFTER_RUNS])];
    answers.push(released(stages));
    answers.push(remaining(&stages[BEFORE_LOAD], &stages[AFTER_DROP]));
    answers.push(growth(&stages[AFTER_DROP], &stages[AFTER_SECOND_DROP]));
    answers
}

/// How much of the model's file is resident, and why.
fn model(timeline: &Timeline) -> String {
    let stage = &timeline.stages[AFTER_RUNS];
    let resident = stage.model_files.resident + Sizes::of_reports(&stage.reports).model_read;
    let of = |of: fn(&MemoryReport) -> ort_session::Usage| {
        let residency = stage.reports.iter().filter_map(|report| of(report).residency);
        size(residency.map(|it| it.resident as u64).sum())
    };
    let whole = number::bytes(timeline.model_bytes);
    let (weights, structure) = (of(|it| it.model.weights), of(|it| it.model.structure));
    let packed = of(|it| it.model.packed);
    let text = format!(
        "Model: {} of {whole} are resident (weights {weights}, packed constants {packed}, \
         structure {structure}).",
        size(resident),
    );
    let is_copy = |kind: Kind| matches!(kind, Kind::Heap | Kind::Sealed);
    if stage.reports.iter().all(|report| is_copy(report.model.kind)) {
        return format!("{text} The file was read into private memory.");
    }
    let released = match stage.reports.iter().map(|report| report.weights_released).sum() {
        0 => String::new(),
        n => format!(
            " {} are no longer read, as all kernels use packed copies: their pages were \
             released.",
            number::plural(n, "weight"),
        ),
    };
    let (shared, private) = (stage.model_files.shared(), stage.model_files.private());
    format!(
        "{text} It is mapped: a page is loaded on first access, with some neighbours.\
         {released} {} are shared with other processes, {} are mapped by this process only; \
         both are in the page cache, which the system reclaims when memory is short.",
        size(shared),
        size(private),
    )
}

/// What of the session is private, and why.
fn private(stage: &Stage) -> String {
    let sizes = Sizes::of_reports(&stage.reports);
    let mut words = vec![
        format!("{} packed for the kernels", size(sizes.packed)),
        format!("{} of arenas", size(sizes.activations)),
    ];
    for report in &stage.reports {
        for (reason, retained) in
            report.weights_copied.iter().filter(|(_, retained)| retained.count > 0)
        {
            let n_bytes = number::bytes(retained.usage.virtual_bytes);
            let n = number::plural(retained.count, "weight");
            words.push(format!("{n_bytes} of {n} copied ({})", word(*reason)));
        }
    }
    let objects: usize = stage.reports.iter().map(|it| it.objects.graph + it.objects.plan).sum();
    words.push(format!("at least {} of graph and plan", number::bytes(objects)));
    format!("Private: {}.", words.join(", "))
}

fn released(stages: &[Stage]) -> String {
    let rss = |stage: usize| stages[stage].total().resident;
    let grown = rss(AFTER_RUNS).saturating_sub(rss(BEFORE_LOAD));
    let stayed = rss(AFTER_DROP).saturating_sub(rss(BEFORE_LOAD));
    format!(
        "Released: RSS grew by {} from before the load to after the runs; the drop released {}, \
         and {} remain.",
        size(grown),
        size(grown.saturating_sub(stayed)),
        size(stayed),
    )
}

/// What is resident after the drop and was not before the load.
fn remaining(before: &Stage, after: &Stage) -> String {
    let more = |kinds: &[MappingKind]| after.resident(kinds).saturating_sub(before.resident(kinds));
    let (model, other) = (1, 2);
    let parts = (parts::of(before), parts::of(after));
    let of_part = |i: usize| parts.1[i].saturating_sub(parts.0[i]);
    debug_assert_eq!((PARTS[model].1, PARTS[other].1), ("model", "other files"));
    let found: Vec<String> = [
        (
            more(&[MappingKind::Program, MappingKind::Library]),
            "of the program and its libraries: code that ran for the first time, which every \
             process of the program shares",
        ),
        (of_part(model), "of the model's file, which is still mapped: a tensor refers to it"),
        (of_part(other), "of other mapped files"),
        (
            more(&[MappingKind::Heap]),
            "of the allocator's heap: free memory with small live objects in between, which the \
             next load reuses",
        ),
        (
            more(&[MappingKind::Anonymous]),
            "of anonymous memory: large blocks in use, or retained by the allocator",
        ),
        (
            more(&[MappingKind::Stack, MappingKind::ThreadStack]),
            "of stacks: their maximum depth so far",
        ),
    ]
    .into_iter()
    .filter(|(n_bytes, _)| *n_bytes >= NOTEWORTHY_BYTES)
    .map(|(n_bytes, what)| format!("{} {what}", size(n_bytes)))
    .collect();
    match found[..] {
        [] => format!("Remaining: nothing above {}.", size(NOTEWORTHY_BYTES)),
        _ => format!("Remaining: {}.", found.join("; ")),
    }
}

fn growth(first: &Stage, second: &Stage) -> String {
    let (first, second) = (first.total().resident, second.total().resident);
    match second.saturating_sub(first) {
        grown @ NOTEWORTHY_BYTES.. => {
            format!("Growth: a second load, run and drop left {} more.", size(grown))
        }
        _ => "Growth: none; a second load, run and drop left no more than the first.".to_owned(),
    }
}
