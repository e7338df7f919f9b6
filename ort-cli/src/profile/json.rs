//! A profile as JSON. The keys are a stable interface.

use ort_session::Type;
use serde_json::{Value as Json, json};

use super::{Profile, Row, shape};
use crate::number;

impl Profile {
    pub(crate) fn peak_json(&self) -> Json {
        json!({
            "gflops": number::rounded(self.peak.gflops),
            "gbytes_per_s": number::rounded(self.peak.gigabytes),
        })
    }

    pub(crate) fn operators_json(&self) -> Json {
        self.operators().iter().map(|row| self.row_json(row)).collect()
    }

    pub(crate) fn eval_share_json(&self) -> Json {
        number::rounded(self.eval_share()).into()
    }

    pub(crate) fn nodes_json(&self, max: usize) -> Json {
        let node = |row: &Row| {
            let mut json = self.row_json(row);
            let work = &row.step.work;
            let shapes = |types: &[Type]| -> Json { types.iter().map(shape).collect() };
            let attributes = work.attributes.iter();
            json["node"] = work.node.as_str().into();
            json["nodes"] = work.n_nodes.into();
            json["inputs"] = shapes(&work.inputs);
            json["outputs"] = shapes(&work.outputs);
            json["attributes"] =
                attributes.map(|(name, ints)| (name.as_str(), ints.as_slice())).collect();
            json
        };
        self.nodes.iter().take(max).map(node).collect()
    }

    fn row_json(&self, Row { step, work, denormals }: &Row) -> Json {
        let speed = work.gflops();
        json!({
            "operator": step.work.op_type,
            "kernel": step.work.variant,
            "calls": work.calls,
            "ms": number::millis(work.time),
            "share": number::rounded(work.share_of(self.total().time)),
            "gflops": speed.map(number::rounded),
            "share_of_peak": speed.map(|speed| number::rounded(speed / self.peak.gflops)),
            "gbytes_per_s": number::rounded(work.gigabytes()),
            "bound": work.bound(&self.peak),
            "share_of_bound": number::rounded(work.share_of_bound(&self.peak)),
            "flops": work.flops,
            "bytes": work.bytes,
            "denormals": denormals.map(|met| met.to_string()),
        })
    }
}
