//! The language of graphs. A graph that can be read prints as text that is read as the same graph.

use bytes::Bytes;
use ort_graph::parsed::Model;
use ort_graph::{Graph, ImportLimits, import};

use super::Attack;
use crate::attack::Outcome;
use crate::corpus;
use crate::damage::{damaged, garbled, words};

/// Texts with a meaning in the language, and numbers and names that may have none.
const TOKENS: &str = "graph ( ) { } [ ] : , = -> < > \" \\ - . … _ float int64 string seq optional NaN inf 1e400 \
    -9223372036854775809 4294967296 ? Add-14 \u{0}";

pub(super) fn prepare() -> Attack {
    let (registry, tokens) = (ort_ops::registry(), words(TOKENS));
    let texts: Vec<String> = corpus::ort_files().iter().filter_map(text).collect();
    Box::new(move |mutant| {
        let rng = &mut mutant.rng;
        let text = &texts[rng.index(texts.len())];
        let text = match rng.below(4) {
            0 => {
                let other = texts[rng.index(texts.len())].as_bytes();
                let bytes = damaged(text.clone().into_bytes(), other, rng);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => garbled(text, &tokens, rng),
        };
        let Ok(graph) = Graph::parse(&text, &registry) else { return Outcome::Rejected };
        let printed = graph.text().in_full().to_string();
        match Graph::parse(&printed, &registry) {
            Ok(again) if again.text().in_full().to_string() == printed => Outcome::Accepted,
            Ok(_) => Outcome::Found("the graph of a printed text is another".to_owned()),
            Err(error) => Outcome::Found(format!("a printed text cannot be read: {error}")),
        }
    })
}

fn text(file: &Bytes) -> Option<String> {
    let opened = ort_format::open(file, &ort_format::Limits::default()).ok()?;
    let model = Model::of_ort(opened, file).ok()?;
    let model = import(model, &ort_ops::registry(), ImportLimits::default()).ok()?;
    Some(model.graph.text().in_full().to_string())
}
