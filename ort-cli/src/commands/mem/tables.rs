//! The timeline as text.

use ort_session::{CopyReason, MemoryReport, Retained, Usage};

use super::answers::answers;
use super::parts::{self, PARTS};
use super::stages::{AFTER_RUNS, KINDS, N_STAGES, Stage, Timeline};
use crate::number;
use crate::table::{Flush, Table};
use crate::terminal::bold;

/// The stages as column headings.
const HEADS: [&str; N_STAGES] =
    ["before", "load", "first run", "runs", "drop", "load", "runs", "drop"];

/// The report as text.
pub(super) fn of(timeline: &Timeline) -> String {
    let mut text = format!("{}\n\n{}", timeline.headlines.join("\n"), stages(&timeline.stages));
    for (report, name) in timeline.stages[AFTER_RUNS].reports.iter().zip(&timeline.names) {
        let title = format!("Session of {name} after its runs");
        text += &format!("\n\n{}\n{}", bold(title), session(report));
    }
    for answer in answers(timeline) {
        text += &format!("\n\n{answer}");
    }
    text
}

/// A number of bytes as text.
pub(super) fn size(n: u64) -> String {
    number::bytes(n.try_into().unwrap_or(usize::MAX))
}

/// One column per stage: the process as a whole, then resident memory by purpose and by mapping.
fn stages(stages: &[Stage; N_STAGES]) -> String {
    let columns = HEADS.map(|head| (head, Flush::Right));
    let [c0, c1, c2, c3, c4, c5, c6, c7] = columns;
    let mut table = Table::new([("", Flush::Left), c0, c1, c2, c3, c4, c5, c6, c7]);
    let mut row = |name: &str, of: &dyn Fn(&Stage) -> u64| {
        let sizes = stages.each_ref().map(of);
        if sizes.iter().any(|&size| size > 0) {
            let [c0, c1, c2, c3, c4, c5, c6, c7] = sizes.map(size);
            table.row([name.to_owned(), c0, c1, c2, c3, c4, c5, c6, c7]);
        }
    };
    row("virtual", &|stage| stage.total().virtual_bytes);
    row("RSS", &|stage| stage.total().resident);
    row("PSS", &|stage| stage.total().pss);
    row("shared", &|stage| stage.total().shared());
    row("private", &|stage| stage.total().private());
    row("peak RSS", &|stage| stage.process.peak_rss);
    for (i, (_, name)) in PARTS.iter().enumerate() {
        row(&format!("for: {name}"), &|stage| parts::of(stage)[i]);
    }
    for (kind, name) in KINDS {
        row(&format!("in: {}", name.replace('_', " ")), &|stage| stage.resident(&[kind]));
    }
    table.to_string()
}

/// The kinds of one session.
fn session(report: &MemoryReport) -> String {
    let right = |name| (name, Flush::Right);
    let [count, virtual_bytes, resident] = ["count", "virtual", "resident"].map(right);
    let [shared, private] = ["shared", "private"].map(right);
    let (kind, largest) = (("kind", Flush::Left), ("largest", Flush::Left));
    let mut table = Table::new([kind, count, virtual_bytes, resident, shared, private, largest]);
    let mut row = |kind: &str, count: Option<usize>, usage: Usage, largest: &str| {
        let sum = |of: fn(&ort_session::Residency) -> usize| {
            usage.residency.as_ref().map_or_else(|| "?".to_owned(), |it| number::bytes(of(it)))
        };
        let count = count.map_or_else(String::new, number::count);
        let (resident, shared) = (sum(|it| it.resident), sum(|it| it.shared));
        let (private, virtual_bytes) = (sum(|it| it.private), number::bytes(usage.virtual_bytes));
        let largest = crate::print::one_line(largest, 48);
        table.row([kind.to_owned(), count, virtual_bytes, resident, shared, private, largest]);
    };
    row("model", None, report.model.whole, "");
    row("  weights", None, report.model.weights, "");
    row("  packed constants", None, report.model.packed, "");
    row("  structure", None, report.model.structure, "");
    for (name, retained) in kinds(report) {
        if retained.count > 0 {
            row(&name, Some(retained.count), retained.usage, &most(retained));
        }
    }
    let objects = report.objects;
    let [planned, most, graph, plan] = [
        report.activations_planned.n_bytes,
        report.activations_planned.largest,
        objects.graph,
        objects.plan,
    ]
    .map(number::bytes);
    let signatures = number::plural(report.activations_planned.signatures, "signature");
    let released = match report.weights_released {
        0 => String::new(),
        n => format!(
            "\n  no longer read from the file, as all kernels use packed copies: {}",
            number::plural(n, "weight")
        ),
    };
    format!(
        "{table}\n  activations planned {planned} for {signatures}, at most {most} for one\n  \
         objects, at least: graph {graph}, plan and kernels {plan}{released}"
    )
}

fn most(retained: &Retained) -> String {
    let texts = retained.largest.iter().take(1);
    texts.map(|(name, n_bytes)| format!("{} {name}", number::bytes(*n_bytes))).collect()
}

/// Every kind of memory that is counted, with its name.
fn kinds(report: &MemoryReport) -> Vec<(String, &Retained)> {
    let mut kinds = vec![("weights in the file".to_owned(), &report.weights_mapped)];
    for (reason, retained) in &report.weights_copied {
        kinds.push((format!("weights copied: {}", word(*reason)), retained));
    }
    kinds.push(("packed, mapped".to_owned(), &report.packed_mapped));
    kinds.push(("packed, private".to_owned(), &report.packed_heap));
    kinds.push(("activations retained".to_owned(), &report.activations_retained));
    kinds
}

/// The name of a reason.
pub(super) const fn word(reason: CopyReason) -> &'static str {
    match reason {
        CopyReason::NotAligned => "not aligned",
        CopyReason::Strings => "strings",
        _ => "computed",
    }
}
