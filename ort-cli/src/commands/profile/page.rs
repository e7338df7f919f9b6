//! The HTML page: one self-contained file.

use std::collections::HashMap;
use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use ort_session::{RunTimes, Span, StepTime, Trace};

use super::flame::{self, Flame};
use super::roofline;
use crate::number;
use crate::print::escaped;
use crate::profile::{Cell, FIGURES, Profile, Row};
use crate::table::Flush;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the page shows.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The time from the path to the session.
    pub(super) load: Duration,
    pub(super) trace: &'a Trace,
    /// The run whose flames are shown.
    pub(super) run: Option<&'a RunTimes>,
    pub(super) profile: &'a Profile,
    /// How many weights are denormal.
    pub(super) n_denormal: usize,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = escaped(self.title);
        let operators = self.profile.operators();
        let colors = Colors::of_operators(&operators);
        write!(f, "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>{title}</title>\n")?;
        write!(f, "<meta name=viewport content=\"width=device-width\"><style>\n{STYLE}</style>\n")?;
        write!(f, "<h1>{title}</h1>\n{}", self.facts())?;
        let zoom = "<input type=range min=100 max=3000 value=100 aria-label=zoom>";
        if let Some(run) = self.run {
            let flames: Vec<Flame> = run.steps.iter().flat_map(of_step).collect();
            let chart = flame::chart(&flames, &colors);
            write!(f, "<h2>One run</h2><p>The fastest of the recorded runs. {zoom}</p>\n{chart}")?;
        }
        let flames: Vec<Flame> = self.trace.spans.iter().map(of_span).collect();
        let chart = flame::chart(&flames, &Colors::default());
        write!(f, "<h2>Loading</h2><p>From the file to the session. {zoom}</p>\n{chart}")?;
        let plot = roofline::plot(self.profile, &colors);
        write!(
            f,
            "<h2>Roofline</h2><p>Each circle is a node; its area grows with its share of the time. Nodes under \
             the slope are memory-bound, those under the plateau compute-bound.</p>\n{plot}"
        )?;
        self.operators(f, &operators)?;
        self.nodes(f)?;
        write!(f, "<script>\n{SCRIPT}</script>\n</html>\n")
    }
}

impl Page<'_> {
    fn facts(&self) -> String {
        let time = |time: Option<Duration>| time.map_or_else(|| "–".to_owned(), number::time);
        let first = self.trace.runs.first().map(|run| run.time);
        let fastest = self.run.map(|run| run.time);
        let marked = self.profile.nodes().iter().filter(|row| row.met_denormal()).count();
        let facts = [
            ("load", time(Some(self.load))),
            ("first run", time(first)),
            ("fastest run", time(fastest)),
            (
                "peak",
                format!("{} GFLOP/s", number::significant(self.profile.peak().gflops.round())),
            ),
            (
                "memory",
                format!("{} GB/s", number::significant(self.profile.peak().gigabytes.round())),
            ),
            ("nodes that met denormals", number::count(marked)),
            ("denormal weights", number::count(self.n_denormal)),
        ];
        let mut html = String::from("<dl>");
        for (what, text) in facts {
            _ = write!(html, "<div><dt>{what}</dt><dd>{text}</dd></div>");
        }
        html + "</dl>\n"
    }

    fn operators(&self, f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
        let first = [("operator", Flush::Left), ("kernel", Flush::Left), ("calls", Flush::Right)];
        let rows = rows.iter().map(|row| {
            let calls = row.work.calls;
            let calls = Cell { text: number::significant(calls), value: Some(calls) };
            let mut cells =
                vec![Cell::text(&row.step.work.op_type), Cell::text(row.step.work.variant), calls];
            cells.extend(self.profile.figures(row));
            cells
        });
        let head = first.into_iter().chain(FIGURES);
        write!(f, "<h2>Operators</h2>\n{}", table(head.collect(), rows))
    }

    fn nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = |name| (name, Flush::Left);
        let first = ["node", "operator", "kernel"].map(left);
        let rows = self.profile.nodes().iter().map(|row| {
            let mut cells =
                vec![Cell::text(&row.step.work.node), Cell::text(&row.step.work.op_type)];
            cells.push(Cell::text(row.step.work.variant));
            cells.extend(self.profile.figures(row));
            cells.extend([row.output_text(), row.inputs_text()].map(|text| Cell::text(&text)));
            cells
        });
        let head = first.into_iter().chain(FIGURES).chain(["output", "inputs"].map(left));
        write!(f, "<h2>Nodes</h2>\n{}", table(head.collect(), rows))
    }
}

/// A table that can be sorted by each column.
fn table(head: Vec<(&str, Flush)>, rows: impl Iterator<Item = Vec<Cell>>) -> String {
    let mut html = String::from("<div class=wide><table><thead><tr>");
    let class = |flush: Flush| if flush == Flush::Right { " class=n" } else { "" };
    for (name, flush) in &head {
        _ = write!(html, "<th{}>{name}", class(*flush));
    }
    html += "</thead><tbody>\n";
    for row in rows {
        html += "<tr>";
        for (cell, (_, flush)) in row.iter().zip(&head) {
            let value =
                cell.value.map_or_else(String::new, |value| format!(" data-v=\"{value:e}\""));
            _ = write!(html, "<td{}{value}>{}", class(*flush), escaped(&cell.text));
        }
        html.push('\n');
    }
    html + "</tbody></table></div>\n"
}

fn of_span(span: &Span) -> Flame {
    let more: Vec<String> =
        span.args.iter().map(|(name, text)| format!("{name}: {text}")).collect();
    Flame {
        name: span.name.to_string(),
        kind: span.name.to_string(),
        more: more.join("\n"),
        thread: span.thread,
        start: span.start,
        time: span.time,
    }
}

/// A step, and the work of other threads on it.
fn of_step(step: &StepTime) -> impl Iterator<Item = Flame> {
    let work = &step.work;
    let flame = |thread, start, time, more| Flame {
        name: work.node.clone(),
        kind: work.op_type.clone(),
        more,
        thread,
        start,
        time,
    };
    let mut more = format!("{} · {}", work.op_type, work.variant);
    if let Some(gflops) = step.gflops() {
        more += &format!("\n{} GFLOP/s", number::significant(gflops));
    }
    if let Some(met) = step.denormals.filter(|_| step.met_denormal()) {
        more += &format!("\ndenormals: {met}");
    }
    let own = flame(step.thread, step.start, step.time, more);
    let shares = step.helpers.iter().map(move |share| {
        let busy = share.busy.as_secs_f64() * 1e6;
        let turns = usize::try_from(share.n_turns).unwrap_or(usize::MAX);
        let more = format!("{}, {busy:.1} µs busy", number::plural(turns, "turn"));
        flame(share.thread, share.start, share.time, more)
    });
    std::iter::once(own).chain(shares)
}

/// One colour per operator: the slowest differ most.
#[derive(Debug, Default)]
pub(super) struct Colors(HashMap<String, usize>);

impl Colors {
    fn of_operators(rows: &[Row]) -> Self {
        let mut colors = HashMap::new();
        for row in rows {
            let next = colors.len();
            colors.entry(row.step.work.op_type.clone()).or_insert(next);
        }
        Self(colors)
    }

    /// As CSS. A kind that is not an operator gets a colour by its letters.
    pub(super) fn of(&self, kind: &str) -> String {
        let by_letters = || kind.bytes().map(usize::from).sum();
        let place = self.0.get(kind).copied().unwrap_or_else(by_letters);
        // Steps of the golden angle: neighbours are far apart.
        let hue = (210 + place * 137) % 360;
        format!("hsl({hue} 55% 62%)")
    }
}
