//! The report as JSON. The keys are a stable interface.

use serde_json::{Value as Json, json};

use super::values::{Compared, Comparison, Source};
use super::{Report, Side};
use crate::number;

/// The report.
pub(super) fn of(report: &Report<'_>) -> Json {
    let values = &report.values;
    let [a, b] = report.sides.each_ref();
    let outputs = report.outputs.iter().map(|(name, comparison)| {
        let mut json = of_comparison(comparison);
        json["name"] = json!(name);
        json
    });
    json!({
        "a": of_side(a, values.counts[0]),
        "b": of_side(b, values.counts[1]),
        "differs": report.outputs.iter().any(|(_, comparison)| comparison.differs()),
        "outputs": outputs.collect::<Vec<_>>(),
        "values": values.compared.iter().map(of_value).collect::<Vec<_>>(),
        "first_difference": values.first_difference().map(of_value),
    })
}

fn of_side(side: &Side<'_>, n_values: usize) -> Json {
    let times = side.percentiles();
    json!({
        "model": side.path.to_string_lossy(),
        "level": side.options.level(),
        "isa": side.options.isa(),
        "threads": side.session.n_threads(),
        "values": n_values,
        "load_ms": number::millis(side.session.metadata().load_time),
        "first_ms": number::millis(side.first),
        "p10_ms": number::millis(times.at(10.0)),
        "p50_ms": number::millis(times.at(50.0)),
        "p90_ms": number::millis(times.at(90.0)),
        "runs": times.len(),
    })
}

fn of_value(compared: &Compared) -> Json {
    let node = |source: &Source| json!({ "node": source.node, "operator": source.op_type });
    let [a, b] = compared.sources.each_ref().map(node);
    let mut json = of_comparison(&compared.comparison);
    json["name"] = json!(compared.name);
    json["a"] = a;
    json["b"] = b;
    json
}

fn of_comparison(comparison: &Comparison) -> Json {
    let differs = comparison.differs();
    match comparison {
        Comparison::Tensors(it) => json!({
            "differs": differs,
            "elements": it.n_elements,
            "beyond": it.n_beyond,
            "max_abs": distance(it.max_abs),
            "max_rel": distance(it.max_rel),
            "index": it.first.as_ref().map(|first| &first.index),
        }),
        Comparison::Same => json!({ "differs": differs }),
        Comparison::Other(reason) => json!({ "differs": differs, "reason": reason }),
    }
}

/// A number, or the string `inf`, which JSON cannot represent as a number.
fn distance(x: f64) -> Json {
    if x.is_finite() { json!(x) } else { json!(x.to_string()) }
}
