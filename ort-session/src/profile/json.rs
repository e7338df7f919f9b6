//! A trace as JSON: an array of events, ordered by their ends.
//!
//! Fields and their types are ONNX Runtime's: arguments are strings, except arrays and objects.
//! Times are whole microseconds, as its tools expect; both ends are rounded down, so that nesting is
//! preserved. `dur_ns` has the exact time.
//!
//! Source: files that ONNX Runtime 1.31 writes, and the Trace Event Format of chrome://tracing.

// collects are bounded: by the steps that were recorded

use std::io::{self, Write};
use std::time::Duration;

use ort_graph::{Dim, Type};

use super::trace::{RunTimes, Share, Span, StepTime, Trace};
use crate::json_text::JsonText;

/// The provider of control flow, as in ONNX Runtime.
const CONTROL_FLOW_PROVIDER: &str = "CPUExecutionProvider";

enum Event<'a> {
    Span(&'a Span),
    Run(&'a RunTimes),
    Step(&'a StepTime),
    Share(&'a StepTime, &'a Share),
}

impl Trace {
    /// Writes it as JSON.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut events: Vec<Event<'_>> = self.spans.iter().map(Event::Span).collect();
        for run in &self.runs {
            events.push(Event::Run(run));
            for step in &run.steps {
                events.push(Event::Step(step));
                events.extend(step.helpers.iter().map(|share| Event::Share(step, share)));
            }
        }
        // An event that ends with its enclosing event comes before it.
        events.sort_by_key(|event| {
            let (start, time, ..) = event.times();
            (start + time, std::cmp::Reverse(start))
        });
        let pid = std::process::id();
        for (i, event) in events.iter().enumerate() {
            out.write_all(if i == 0 { b"[\n" } else { b",\n" })?;
            event.write(pid, out)?;
        }
        out.write_all(if events.is_empty() { b"[]\n" } else { b"\n]\n" })
    }

    /// The same as text.
    pub fn to_json(&self) -> String {
        let mut bytes = Vec::new();
        match self.write_json(&mut bytes) {
            Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
            Err(_) => String::new(),
        }
    }
}

impl Event<'_> {
    /// Start, duration and thread.
    fn times(&self) -> (Duration, Duration, u64) {
        match self {
            Self::Span(span) => (span.start, span.time, span.thread),
            Self::Run(run) => (run.start, run.time, run.thread),
            Self::Step(step) => (step.start, step.time, step.thread),
            Self::Share(_, share) => (share.start, share.time, share.thread),
        }
    }

    fn write(&self, pid: u32, out: &mut dyn Write) -> io::Result<()> {
        let (start, time, tid) = self.times();
        let ts = start.as_micros();
        let dur = (start + time).as_micros() - ts;
        let (category, name) = match self {
            Self::Span(span) => ("Session", span.name.to_string()),
            Self::Run(_) => ("Session", "model_run".to_owned()),
            Self::Step(step) => ("Node", format!("{}_kernel_time", step.name())),
            Self::Share(step, _) => ("Thread", step.name()),
        };
        write!(
            out,
            r#"{{"cat":"{category}","pid":{pid},"tid":{tid},"dur":{dur},"ts":{ts},"ph":"X","name":{},"args":{{"#,
            JsonText(&name)
        )?;
        for (i, (name, value)) in self.args(time).iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match value {
                Arg::Text(text) => write!(out, "{comma}{}:{}", JsonText(name), JsonText(text))?,
                Arg::Json(json) => write!(out, "{comma}{}:{json}", JsonText(name))?,
            }
        }
        out.write_all(b"}}")
    }

    fn args(&self, time: Duration) -> Vec<(&'static str, Arg)> {
        let mut args = match self {
            Self::Span(span) => {
                span.args.iter().map(|(name, text)| (*name, Arg::Text(text.clone()))).collect()
            }
            Self::Run(run) if run.tag.is_empty() => Vec::new(),
            Self::Run(run) => vec![("tag", text(&run.tag))],
            Self::Step(step) => step_args(step),
            Self::Share(step, share) => vec![
                ("op_type", text(&step.work.op_type)),
                ("turns", text(share.n_turns)),
                ("busy_ns", text(share.busy.as_nanos())),
            ],
        };
        args.push(("dur_ns", text(time.as_nanos())));
        args
    }
}

/// The value of an argument.
enum Arg {
    Text(String),
    /// An array or an object, verbatim.
    Json(String),
}

fn text(value: impl ToString) -> Arg {
    Arg::Text(value.to_string())
}

fn step_args(step: &StepTime) -> Vec<(&'static str, Arg)> {
    let work = &*step.work;
    let denormals = step.denormals.map_or_else(|| "unknown".to_owned(), |met| met.to_string());
    let activation_bytes = work.n_bytes.saturating_sub(work.constant_bytes + work.output_bytes);
    let provider = if work.provider.is_empty() { CONTROL_FLOW_PROVIDER } else { work.provider };
    let mut args = vec![
        ("op_name", text(&work.op_type)),
        ("provider", text(provider)),
        ("node_index", text(work.index)),
        ("input_type_shape", Arg::Json(types(&work.inputs))),
        ("output_type_shape", Arg::Json(types(&work.outputs))),
        ("activation_size", text(activation_bytes)),
        ("parameter_size", text(work.constant_bytes)),
        ("output_size", text(work.output_bytes)),
        ("thread_scheduling_stats", Arg::Json(scheduling(step))),
        ("kernel", text(work.variant)),
        ("isa", text(work.isa())),
        ("nodes", text(work.n_nodes)),
        ("bytes", text(work.n_bytes)),
        ("flops", text(work.flops)),
        ("thread", text(step.thread)),
        ("denormals", text(denormals)),
    ];
    if let Some(gflops) = step.gflops() {
        args.push(("gflops", text(format!("{gflops:.3}"))));
    }
    args
}

impl StepTime {
    /// The node's name, or its operator and index if it has none.
    fn name(&self) -> String {
        let work = &*self.work;
        if work.node == work.op_type {
            format!("{}_{}", work.op_type, work.index)
        } else {
            work.node.clone()
        }
    }

    /// Operations per nanosecond; `None` where arithmetic does not dominate.
    pub fn gflops(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 rounding is fine")]
        let flops = self.work.flops as f64;
        (flops > 0.0).then(|| flops / self.time.as_secs_f64().max(1e-9) / 1e9)
    }
}

/// The meaningful part of ONNX Runtime's statistics of threads: which threads helped, and how often.
fn scheduling(step: &StepTime) -> String {
    let helpers: Vec<String> = { step.helpers.iter() }
        .map(|share| format!(r#""{}":{{"num_run":{},"core":-1}}"#, share.thread, share.n_turns))
        .collect();
    format!(
        r#"{{"main_thread":{{"thread_pool_name":"ort-worker","thread_id":"{}"}},"sub_threads":{{{}}}}}"#,
        step.thread,
        helpers.join(",")
    )
}

/// `[{"float":[1,3]},{"int64":[]}]`. As in ONNX Runtime, only tensors are listed.
fn types(types: &[Type]) -> String {
    let shape = |ty: &Type| {
        let Type::Tensor(tensor) = ty else { return None };
        let dims: Option<Vec<usize>> = tensor.dims.as_ref()?.iter().map(Dim::known).collect();
        let dims: Vec<String> = dims?.iter().map(ToString::to_string).collect();
        Some(format!(r#"{{"{}":[{}]}}"#, tensor.dtype, dims.join(",")))
    };
    let shapes: Vec<String> = types.iter().filter_map(shape).collect();
    format!("[{}]", shapes.join(","))
}
