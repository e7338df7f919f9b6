//! The page `/metrics`, in Prometheus's text format: Triton's names where it has the metric, `ort_…` for others.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ort_session::{MemoryReport, Usage};
use tokio::task::spawn_blocking;

use crate::app::App;
use crate::failure::Failure;
use crate::model::Model;
use crate::statistics::{BUCKETS_MS, REASONS, Statistics};

/// The format's media type.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn page(State(app): State<Arc<App>>) -> Result<Response, Failure> {
    // Measuring the memory of sessions asks the system.
    let text = spawn_blocking(move || text(&app)).await;
    let text = text.map_err(|_| Failure::Internal("the metrics panicked"))?;
    Ok(([(header::CONTENT_TYPE, TEXT)], text).into_response())
}

/// A number of each model.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Statistics) -> u64,
}

const METRICS: [Metric; 8] = [
    Metric {
        name: "nv_inference_request_success",
        kind: "counter",
        help: "Number of successful inference requests",
        value: |it| it.succeeded.n.get(),
    },
    Metric {
        name: "nv_inference_count",
        kind: "counter",
        help: "Number of inferences: the rows of batches, or one per request without batching",
        value: |it| it.n_inferences.get(),
    },
    Metric {
        name: "nv_inference_exec_count",
        kind: "counter",
        help: "Number of runs of the model",
        value: |it| it.n_runs.get(),
    },
    Metric {
        name: "nv_inference_request_duration_us",
        kind: "counter",
        help: "Total time from decoded requests to their answers, in microseconds",
        value: |it| (it.succeeded.ns.get() + it.failed.ns.get()) / 1000,
    },
    Metric {
        name: "nv_inference_queue_duration_us",
        kind: "counter",
        help: "Total time of requests in the queue, in microseconds",
        value: |it| it.queued.ns.get() / 1000,
    },
    Metric {
        name: "nv_inference_compute_input_duration_us",
        kind: "counter",
        help: "Total time of requests until the inputs of their batch were joined, in microseconds",
        value: |it| it.ran.inputs.ns.get() / 1000,
    },
    Metric {
        name: "nv_inference_compute_infer_duration_us",
        kind: "counter",
        help: "Total time of requests in runs, in microseconds",
        value: |it| it.ran.compute.ns.get() / 1000,
    },
    Metric {
        name: "nv_inference_compute_output_duration_us",
        kind: "counter",
        help: "Total time of requests until the outputs of their batch were split, in microseconds",
        value: |it| it.ran.outputs.ns.get() / 1000,
    },
];

fn text(app: &App) -> String {
    let models = app.repository.ready();
    let mut page = Page(String::new());
    for metric in METRICS {
        page.head(metric.name, metric.kind, metric.help);
        for model in &models {
            page.line(metric.name, &labels(model), (metric.value)(&model.statistics));
        }
    }
    failures(&mut page, &models);
    let pending = "nv_inference_pending_request_count";
    page.head(pending, "gauge", "Number of requests in the queue");
    for model in &models {
        page.line(pending, &labels(model), model.n_queued());
    }
    latencies(&mut page, &models);
    memory(&mut page, &models);
    let active = "ort_active_requests";
    page.head(
        active,
        "gauge",
        "Number of inference requests in progress, from their headers to their answers",
    );
    page.line(active, "", app.n_active());
    let used = "ort_request_memory_bytes";
    page.head(used, "gauge", "Bytes of the messages and outputs of requests in progress");
    page.line(used, "", app.budget.used());
    if let Some(tracer) = &app.tracer {
        let lost = "ort_trace_spans_lost";
        page.head(lost, "counter", "Number of spans that could not be written to the trace file");
        page.line(lost, "", tracer.n_lost());
    }
    page.0
}

fn failures(page: &mut Page, models: &[Arc<Model>]) {
    let name = "nv_inference_request_failure";
    page.head(name, "counter", "Number of failed inference requests, by reason");
    for model in models {
        for (reason, counter) in REASONS.iter().zip(&model.statistics.n_failed) {
            let labels = format!("{},reason=\"{reason}\"", labels(model));
            page.line(name, &labels, counter.get());
        }
    }
}

fn latencies(page: &mut Page, models: &[Arc<Model>]) {
    let name = "ort_inference_request_duration_seconds";
    page.head(name, "histogram", "Time from decoded requests to their answers");
    for model in models {
        let labels = labels(model);
        let bounds = BUCKETS_MS.iter().map(|ms| (ms / 1e3).to_string());
        let bounds = bounds.chain(["+Inf".to_owned()]);
        let mut n = 0;
        for (bound, counter) in bounds.zip(&model.statistics.latencies) {
            n += counter.get();
            page.line(&format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), n);
        }
        let Statistics { succeeded, failed, .. } = &model.statistics;
        let ns = succeeded.ns.get() + failed.ns.get();
        let seconds = format_args!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        page.line(&format!("{name}_sum"), &labels, seconds);
        page.line(&format!("{name}_count"), &labels, n);
    }
}

fn memory(page: &mut Page, models: &[Arc<Model>]) {
    let name = "ort_session_memory_bytes";
    page.head(
        name,
        "gauge",
        "Memory of sessions by kind; mapped memory is shared with other processes",
    );
    for model in models {
        for (kind, n_bytes) in kinds(&model.session.memory()) {
            page.line(name, &format!("{},kind=\"{kind}\"", labels(model)), n_bytes);
        }
    }
}

fn kinds(report: &MemoryReport) -> [(&'static str, usize); 6] {
    let resident = |usage: &Usage| usage.residency.map_or(usage.virtual_bytes, |it| it.resident);
    [
        ("model_file", resident(&report.model.whole)),
        ("weights_copied", report.copied_bytes()),
        ("weights_packed", report.packed_heap.n_bytes()),
        ("activations_planned", report.activations_planned.n_bytes),
        ("activations_retained", report.activations_retained.n_bytes()),
        ("objects", report.objects.graph + report.objects.plan),
    ]
}

fn labels(model: &Model) -> String {
    let name = model.name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("model=\"{name}\",version=\"{}\"", model.version)
}

/// The text so far. Writing to it does not fail.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }
}
