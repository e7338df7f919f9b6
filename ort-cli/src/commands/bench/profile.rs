//! Where the time of a run goes: by operator and by node, beside what the machine could do at most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ort_session::{Dim, Roof, RunError, Session, StepTime, Type};
use serde_json::{Value as Json, json};

use crate::inputs::Inputs;
use crate::number::{self, as_f64};
use crate::print::{Flush, Table};

/// Nodes by the time they take in one run. The time of control flow (If, Loop and their like) has
/// that of its subgraphs in it.
#[derive(Debug)]
pub(super) struct Profile {
    nodes: Vec<Row>,
    roof: Roof,
    n_runs: usize,
}

/// A node, or nodes that differ in nothing that is shown; or all nodes of an operator and kernel.
#[derive(Clone, Debug)]
struct Row {
    /// The first step it stands for.
    step: StepTime,
    /// What one run does.
    work: Work,
}

#[derive(Clone, Copy, Debug, Default)]
struct Work {
    calls: f64,
    flops: f64,
    bytes: f64,
    time: Duration,
}

/// Equal for steps that differ in nothing that is shown.
type Key = (String, String, &'static str, String);

impl Profile {
    /// At most `max_runs` runs, as many as fit into half a second. The time of a node is that of the
    /// run in which it was fastest: what disturbs a run only makes it slower.
    pub(super) fn measure(
        session: &Session,
        inputs: &Inputs,
        roof: Roof,
        max_runs: usize,
    ) -> Result<Self, RunError> {
        let start = Instant::now();
        let mut n_runs = 0;
        Self::of(roof, || {
            let is_over =
                n_runs > 0 && (n_runs >= max_runs || start.elapsed() >= Duration::from_millis(500));
            n_runs += 1;
            (!is_over).then(|| Ok(session.run_profiled(inputs.to_run())?.1)).transpose()
        })
    }

    /// What the runs that `next` gives, until there is none, say together.
    fn of(
        roof: Roof,
        mut next: impl FnMut() -> Result<Option<Vec<StepTime>>, RunError>,
    ) -> Result<Self, RunError> {
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        let mut n_runs = 0;
        while let Some(steps) = next()? {
            for (key, run) in one_run(steps) {
                match rows.get_mut(&key) {
                    None => drop(rows.insert(key, run)),
                    Some(row) => {
                        row.work.calls += run.work.calls;
                        row.work.time = row.work.time.min(run.work.time);
                    }
                }
            }
            n_runs += 1;
        }
        let mut nodes: Vec<Row> = rows.into_values().collect();
        for Row { step, work } in &mut nodes {
            work.calls /= as_f64(n_runs);
            work.flops = number::float(step.flops) * work.calls;
            work.bytes = as_f64(step.n_bytes) * work.calls;
        }
        slowest_first(&mut nodes);
        Ok(Self { nodes, roof, n_runs })
    }

    fn operators(&self) -> Vec<Row> {
        let mut sums: BTreeMap<(&str, &str), Row> = BTreeMap::new();
        for row in &self.nodes {
            let sum = sums.entry((&row.step.op_type, row.step.variant));
            let none = Row { step: row.step.clone(), work: Work::default() };
            sum.or_insert(none).work.add(row.work);
        }
        let mut operators: Vec<Row> = sums.into_values().collect();
        slowest_first(&mut operators);
        operators
    }

    fn total(&self) -> Work {
        let mut total = Work::default();
        self.nodes.iter().for_each(|row| total.add(row.work));
        total
    }

    /// What the figures are to be held against.
    pub(super) fn roof_text(&self) -> String {
        format!(
            "\n  peak {} GFLOP/s · memory {} GB/s · each node at its fastest of {}",
            number::significant(self.roof.gflops.round()),
            number::significant((self.roof.gigabytes * 10.0).round() / 10.0),
            number::plural(self.n_runs, "run"),
        )
    }

    pub(super) fn operators_text(&self) -> String {
        use Flush::{Left, Right};
        let [time, share, gflops, peak, of_bound] = FIGURES.map(|name| (name, Right));
        let mut table = Table::new([
            ("operator", Left),
            ("kernel", Left),
            ("calls", Right),
            time,
            share,
            gflops,
            peak,
            of_bound,
            ("bound", Left),
        ]);
        for Row { step, work } in self.operators() {
            let [time, share, gflops, peak, of_bound, bound] = self.figures(work);
            let calls = number::significant(work.calls);
            let (operator, kernel) = (step.op_type, step.variant.to_owned());
            table.row([operator, kernel, calls, time, share, gflops, peak, of_bound, bound]);
        }
        format!("\n{table}")
    }

    pub(super) fn nodes_text(&self, max: usize) -> String {
        use Flush::{Left, Right};
        let [time, share, gflops, peak, of_bound] = FIGURES.map(|name| (name, Right));
        let mut table = Table::new([
            ("node", Left),
            ("operator", Left),
            ("kernel", Left),
            time,
            share,
            gflops,
            peak,
            of_bound,
            ("bound", Left),
            ("output", Left),
            ("inputs", Left),
        ]);
        for Row { step, work } in self.nodes.iter().take(max) {
            let [time, share, gflops, peak, of_bound, bound] = self.figures(*work);
            let output = step.outputs.first().map_or_else(String::new, shape_text);
            let (node, operator) = (name(step), step.op_type.clone());
            let kernel = step.variant.to_owned();
            let inputs = inputs_text(step);
            table.row([
                node, operator, kernel, time, share, gflops, peak, of_bound, bound, output, inputs,
            ]);
        }
        format!("\n{table}")
    }

    /// Time, share of all time, speed, share of peak, share of the bound, and what the bound is.
    fn figures(&self, work: Work) -> [String; 6] {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let speed = work.gflops();
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        [
            number::time(work.time),
            percent(work.share_of(self.total().time)),
            or_none(speed.map(|speed| number::significant((speed * 10.0).round() / 10.0))),
            or_none(speed.map(|speed| percent(speed / self.roof.gflops))),
            percent(work.share_of_bound(&self.roof)),
            work.bound(&self.roof).to_owned(),
        ]
    }

    pub(super) fn roof_json(&self) -> Json {
        json!({
            "gflops": number::rounded(self.roof.gflops),
            "gbytes_per_s": number::rounded(self.roof.gigabytes),
        })
    }

    pub(super) fn operators_json(&self) -> Json {
        self.operators().iter().map(|row| self.row_json(row)).collect()
    }

    pub(super) fn nodes_json(&self, max: usize) -> Json {
        let node = |row: &Row| {
            let mut json = self.row_json(row);
            let shapes = |types: &[Type]| -> Json { types.iter().map(shape).collect() };
            let attributes = row.step.attributes.iter();
            json["node"] = row.step.node.as_str().into();
            json["nodes"] = row.step.n_nodes.into();
            json["inputs"] = shapes(&row.step.inputs);
            json["outputs"] = shapes(&row.step.outputs);
            json["attributes"] =
                attributes.map(|(name, ints)| (name.as_str(), ints.as_slice())).collect();
            json
        };
        self.nodes.iter().take(max).map(node).collect()
    }

    fn row_json(&self, Row { step, work }: &Row) -> Json {
        let speed = work.gflops();
        json!({
            "operator": step.op_type,
            "kernel": step.variant,
            "calls": work.calls,
            "ms": number::millis(work.time),
            "share": number::rounded(work.share_of(self.total().time)),
            "gflops": speed.map(number::rounded),
            "share_of_peak": speed.map(|speed| number::rounded(speed / self.roof.gflops)),
            "bound": work.bound(&self.roof),
            "share_of_bound": number::rounded(work.share_of_bound(&self.roof)),
            "flops": work.flops,
            "bytes": work.bytes,
        })
    }
}

/// What is said of work, whatever did it; what bounds it follows.
const FIGURES: [&str; 5] = ["time", "share", "GFLOP/s", "of peak", "of bound"];

fn one_run(steps: Vec<StepTime>) -> BTreeMap<Key, Row> {
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    for step in steps {
        let shapes = format!("{:?}{:?}", step.inputs, step.outputs);
        let key = (step.node.clone(), step.op_type.clone(), step.variant, shapes);
        let time = step.time;
        let row = rows.entry(key).or_insert(Row { step, work: Work::default() });
        row.work.add(Work { calls: 1.0, time, ..Work::default() });
    }
    rows
}

fn slowest_first(rows: &mut [Row]) {
    rows.sort_by_key(|row| std::cmp::Reverse(row.work.time));
}

impl Work {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.flops += other.flops;
        self.bytes += other.bytes;
        self.time += other.time;
    }

    fn seconds(self) -> f64 {
        self.time.as_secs_f64().max(1e-9)
    }

    /// None where arithmetic is not what costs.
    fn gflops(self) -> Option<f64> {
        (self.flops > 0.0).then(|| self.flops / self.seconds() / 1e9)
    }

    fn share_of(self, total: Duration) -> f64 {
        self.time.as_secs_f64() / total.as_secs_f64().max(1e-9)
    }

    /// The least time that the work can take, by the time it took. What is in a cache already can
    /// be there sooner than memory would have it.
    fn share_of_bound(self, roof: &Roof) -> f64 {
        roof.least_time(self.flops, self.bytes).as_secs_f64() / self.seconds()
    }

    fn bound(self, roof: &Roof) -> &'static str {
        if roof.is_memory_bound(self.flops, self.bytes) { "memory" } else { "compute" }
    }
}

/// The node's name, which can be long, and how many nodes ran with it.
fn name(step: &StepTime) -> String {
    const MAX: usize = 40;
    let n_chars = step.node.chars().count();
    let tail: String = step.node.chars().skip(n_chars.saturating_sub(MAX)).collect();
    let name = if n_chars > MAX { format!("…{tail}") } else { tail };
    match step.n_nodes {
        1 => name,
        n => format!("{name} +{}", n - 1),
    }
}

/// The shapes of what it reads, and the attributes that say how much work that is.
fn inputs_text(step: &StepTime) -> String {
    let inputs: Vec<String> = step.inputs.iter().take(2).map(shape_text).collect();
    let mut text = inputs.join(" · ");
    for (name, values) in &step.attributes {
        let is_told = match name.as_str() {
            "group" | "dilations" | "strides" => values.iter().any(|&n| n != 1),
            "kernel_shape" => step.inputs.len() == 1,
            _ => false,
        };
        if is_told {
            let values: Vec<String> = values.iter().map(i64::to_string).collect();
            text += &format!(" · {name} {}", values.join("x"));
        }
    }
    text
}

fn shape(ty: &Type) -> Option<Vec<usize>> {
    match ty {
        Type::Tensor(tensor) => tensor.dims.as_ref()?.iter().map(Dim::known).collect(),
        _ => None,
    }
}

fn shape_text(ty: &Type) -> String {
    match shape(ty).as_deref() {
        None => "?".to_owned(),
        Some([]) => "scalar".to_owned(),
        Some(dims) => dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x"),
    }
}

#[cfg(test)]
mod tests;
