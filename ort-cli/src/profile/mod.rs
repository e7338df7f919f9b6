//! Where the time of a run goes: by operator and by node, compared with the machine's peak performance.

mod json;
mod text;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ort_session::{DenormalsMet, Dim, PeakPerformance, RunError, Session, StepTime, Type};

use crate::inputs::Inputs;
use crate::number::{self, as_f64};
use crate::table::Flush;

/// Nodes by the time they take in one run. The time of control flow (If, Loop, …) includes that of
/// its subgraphs.
#[derive(Debug)]
pub(crate) struct Profile {
    nodes: Vec<Row>,
    peak: PeakPerformance,
    n_runs: usize,
}

/// A node, or nodes that are equal in all that is shown; or all nodes of an operator and kernel.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its first step.
    pub(crate) step: StepTime,
    /// The work of one run.
    pub(crate) work: Work,
    /// The denormals met in any run; `None` if not reported.
    denormals: Option<DenormalsMet>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) calls: f64,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    pub(crate) time: Duration,
}

/// One figure: its text, and the number to sort by, if it is one.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) value: Option<f64>,
}

/// The figures of every row: see [`Profile::figures`].
pub(crate) const FIGURES: [(&str, Flush); 8] = [
    ("time", Flush::Right),
    ("share", Flush::Right),
    ("GFLOP/s", Flush::Right),
    ("of peak", Flush::Right),
    ("GB/s", Flush::Right),
    ("of bound", Flush::Right),
    ("bound", Flush::Left),
    ("denormals", Flush::Left),
];

/// Equal for steps that are equal in all that is shown.
type Key = (String, String, &'static str, String);

impl Profile {
    /// At most `max_runs` runs, as many as fit into half a second. The time of a node is that of the
    /// run in which it was fastest: interference only makes a run slower.
    pub(crate) fn measure(
        session: &Session,
        inputs: &Inputs,
        peak: PeakPerformance,
        max_runs: usize,
    ) -> Result<Self, RunError> {
        let start = Instant::now();
        let mut runs = Vec::new();
        while runs.is_empty()
            || runs.len() < max_runs && start.elapsed() < Duration::from_millis(500)
        {
            runs.push(session.run_profiled(inputs.to_run())?.1);
        }
        Ok(Self::of(peak, runs.iter().map(Vec::as_slice)))
    }

    /// The profile of these runs.
    pub(crate) fn of<'a>(
        peak: PeakPerformance,
        runs: impl Iterator<Item = &'a [StepTime]>,
    ) -> Self {
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        let mut n_runs = 0;
        for steps in runs {
            for (key, run) in one_run(steps) {
                match rows.get_mut(&key) {
                    None => drop(rows.insert(key, run)),
                    Some(row) => {
                        row.work.calls += run.work.calls;
                        row.work.time = row.work.time.min(run.work.time);
                        row.meet(run.denormals);
                    }
                }
            }
            n_runs += 1;
        }
        let mut nodes: Vec<Row> = rows.into_values().collect();
        for Row { step, work, .. } in &mut nodes {
            work.calls /= as_f64(n_runs);
            work.flops = number::float(step.work.flops) * work.calls;
            work.bytes = as_f64(step.work.n_bytes) * work.calls;
        }
        slowest_first(&mut nodes);
        Self { nodes, peak, n_runs }
    }

    /// The slowest first.
    pub(crate) fn nodes(&self) -> &[Row] {
        &self.nodes
    }

    /// Operators by kernel, the slowest first.
    pub(crate) fn operators(&self) -> Vec<Row> {
        let mut sums: BTreeMap<(&str, &str), Row> = BTreeMap::new();
        for row in &self.nodes {
            let sum = sums.entry((&row.step.work.op_type, row.step.work.variant));
            let none = Row { work: Work::default(), ..row.clone() };
            let sum = sum.or_insert(none);
            sum.work.add(row.work);
            sum.meet(row.denormals);
        }
        let mut operators: Vec<Row> = sums.into_values().collect();
        slowest_first(&mut operators);
        operators
    }

    /// The machine's peak performance.
    pub(crate) const fn peak(&self) -> &PeakPerformance {
        &self.peak
    }

    /// The share of the time that is spent in nodes without a kernel, which run their operators' `eval`.
    pub(crate) fn eval_share(&self) -> f64 {
        let eval = self.nodes.iter().filter(|row| row.step.work.variant == "eval");
        let eval: Duration = eval.map(|row| row.work.time).sum();
        eval.as_secs_f64() / self.total().time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(crate) fn total(&self) -> Work {
        let mut total = Work::default();
        self.nodes.iter().for_each(|row| total.add(row.work));
        total
    }

    /// Time, share of all time, speed, share of peak, bytes a second, share of the bound, what the
    /// bound is, and which denormals were met.
    pub(crate) fn figures(&self, Row { work, denormals, .. }: &Row) -> [Cell; 8] {
        let tenths = |x: f64| Cell::number(x, number::significant((x * 10.0).round() / 10.0));
        let percent = |share: f64| Cell::number(share, format!("{:.1} %", share * 100.0));
        let speed = work.gflops();
        let or_none = |cell: Option<Cell>| cell.unwrap_or_else(|| Cell::text("–"));
        let met = match denormals {
            None => "?".to_owned(),
            Some(DenormalsMet { operands: false, results: false }) => "–".to_owned(),
            Some(met) => met.to_string(),
        };
        [
            Cell::number(work.seconds(), number::time(work.time)),
            percent(work.share_of(self.total().time)),
            or_none(speed.map(tenths)),
            or_none(speed.map(|speed| percent(speed / self.peak.gflops))),
            tenths(work.gigabytes()),
            percent(work.share_of_bound(&self.peak)),
            Cell::text(work.bound(&self.peak)),
            Cell::text(&met),
        ]
    }
}

fn one_run(steps: &[StepTime]) -> BTreeMap<Key, Row> {
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    for step in steps {
        let work = &step.work;
        let shapes = format!("{:?}{:?}", work.inputs, work.outputs);
        let key = (work.node.clone(), work.op_type.clone(), work.variant, shapes);
        let none = || Row { step: step.clone(), work: Work::default(), denormals: step.denormals };
        let row = rows.entry(key).or_insert_with(none);
        row.work.add(Work { calls: 1.0, time: step.time, ..Work::default() });
        row.meet(step.denormals);
    }
    rows
}

fn slowest_first(rows: &mut [Row]) {
    rows.sort_by_key(|row| std::cmp::Reverse(row.work.time));
}

impl Row {
    /// Whether a denormal was met in any run.
    pub(crate) fn met_denormal(&self) -> bool {
        self.denormals.is_some_and(|met| met != DenormalsMet::default())
    }

    fn meet(&mut self, more: Option<DenormalsMet>) {
        let Some(more) = more else { return };
        let met = self.denormals.get_or_insert_default();
        met.operands |= more.operands;
        met.results |= more.results;
    }
}

impl Cell {
    fn number(value: f64, text: String) -> Self {
        Self { text, value: Some(value) }
    }

    pub(crate) fn text(text: &str) -> Self {
        Self { text: text.to_owned(), value: None }
    }
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

    /// `None` if arithmetic does not dominate.
    pub(crate) fn gflops(self) -> Option<f64> {
        (self.flops > 0.0).then(|| self.flops / self.seconds() / 1e9)
    }

    /// Bytes of inputs and outputs per nanosecond.
    pub(crate) fn gigabytes(self) -> f64 {
        self.bytes / self.seconds() / 1e9
    }

    pub(crate) fn share_of(self, total: Duration) -> f64 {
        self.time.as_secs_f64() / total.as_secs_f64().max(1e-9)
    }

    /// The least time that the work can take, divided by the time it took. It exceeds 1 if operands
    /// are in cache.
    fn share_of_bound(self, peak: &PeakPerformance) -> f64 {
        peak.least_time(self.flops, self.bytes).as_secs_f64() / self.seconds()
    }

    fn bound(self, peak: &PeakPerformance) -> &'static str {
        if peak.is_memory_bound(self.flops, self.bytes) { "memory" } else { "compute" }
    }
}

fn shape(ty: &Type) -> Option<Vec<usize>> {
    match ty {
        Type::Tensor(tensor) => tensor.dims.as_ref()?.iter().map(Dim::known).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
