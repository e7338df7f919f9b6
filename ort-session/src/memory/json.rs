//! A memory report as JSON.

// collects are bounded: by the reasons, and the largest few

use ort_loader::Kind;

use super::{CopyReason, MemoryReport, Retained, Usage};
use crate::json_text::JsonText;

impl MemoryReport {
    /// The report as a JSON object. Sizes are bytes; what the system does not report is null. The keys are a stable
    /// interface.
    pub fn to_json(&self) -> String {
        let copied = self.weights_copied.iter();
        let copied =
            copied.map(|(reason, of)| format!("{}:{}", JsonText(reason.key()), retained(of)));
        let (model, planned) = (&self.model, &self.activations_planned);
        object(&[
            (
                "model",
                object(&[
                    ("kind", JsonText(kind(model.kind)).to_string()),
                    ("whole", usage(model.whole)),
                    ("weights", usage(model.weights)),
                    ("packed", usage(model.packed)),
                    ("structure", usage(model.structure)),
                ]),
            ),
            ("weights_mapped", retained(&self.weights_mapped)),
            ("weights_copied", format!("{{{}}}", copied.collect::<Vec<_>>().join(","))),
            ("weights_released", self.weights_released.to_string()),
            ("packed_mapped", retained(&self.packed_mapped)),
            ("packed_heap", retained(&self.packed_heap)),
            (
                "activations_planned",
                object(&[
                    ("signatures", planned.signatures.to_string()),
                    ("bytes", planned.n_bytes.to_string()),
                    ("largest", planned.largest.to_string()),
                ]),
            ),
            ("activations_retained", retained(&self.activations_retained)),
            (
                "objects",
                object(&[
                    ("graph", self.objects.graph.to_string()),
                    ("plan", self.objects.plan.to_string()),
                ]),
            ),
        ])
    }
}

impl CopyReason {
    const fn key(self) -> &'static str {
        match self {
            Self::NotAligned => "not_aligned",
            Self::Computed => "computed",
            Self::Strings => "strings",
        }
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Mapped => "mapped",
        Kind::Heap => "heap",
        Kind::Sealed => "sealed",
        Kind::Static => "static",
        Kind::Owner => "owner",
    }
}

/// An object of these keys, which need no escapes, and values.
fn object(fields: &[(&str, String)]) -> String {
    let fields = fields.iter().map(|(key, value)| format!("\"{key}\":{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn usage(of: Usage) -> String {
    object(&fields(of))
}

fn fields(of: Usage) -> [(&'static str, String); 4] {
    let part = |bytes: Option<usize>| bytes.map_or("null".to_owned(), |bytes| bytes.to_string());
    [
        ("virtual", of.virtual_bytes.to_string()),
        ("resident", part(of.residency.map(|it| it.resident))),
        ("shared", part(of.residency.map(|it| it.shared))),
        ("private", part(of.residency.map(|it| it.private))),
    ]
}

fn retained(of: &Retained) -> String {
    let largest = of.largest.iter().map(|(name, n_bytes)| {
        object(&[("name", JsonText(name).to_string()), ("bytes", n_bytes.to_string())])
    });
    let largest = format!("[{}]", largest.collect::<Vec<_>>().join(","));
    let [size, resident, shared, private] = fields(of.usage);
    let count = ("count", of.count.to_string());
    object(&[size, resident, shared, private, count, ("largest", largest)])
}
