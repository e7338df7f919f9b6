//! Which output becomes which input of the next run: by names, by patterns, or found.

// collects are bounded: by the graph's inputs and outputs

use std::borrow::Cow;

use ort_graph::{Graph, ValueId};

use super::StateError;

/// What exporters call a value of the past as an output and as an input: the first is replaced by one of
/// the others. Optimum: `present.0.key`, `past_key_values.0.key` (with `decoder.` or `encoder.` in between for
/// two stacks); GenAI: `present.0.key`, `past_key_values.0.key` or `past.0.key`; ONNX Runtime's own
/// converters: `present_0`, `past_0`, `present_key_self_0`, `past_key_self_0`.
const NAMES: &[(&str, &[&str])] = &[
    ("present_key_values", &["past_key_values", "past"]),
    ("present", &["past_key_values", "past"]),
];

/// An output that becomes an input, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) output: ValueId,
    pub(super) input: ValueId,
}

/// The pairs whose names tell, in the order of the outputs.
pub(super) fn found(graph: &Graph) -> Result<Vec<Places>, StateError> {
    let pair = |&output: &ValueId| {
        let name = &graph.value(output).name;
        let inputs = NAMES.iter().filter_map(|(present, pasts)| {
            let rest = name.strip_prefix(present)?;
            pasts.iter().find_map(|past| id(graph, graph.inputs(), &format!("{past}{rest}")))
        });
        Some(Places { output, input: { inputs }.next()? })
    };
    let pairs: Vec<_> = graph.outputs().iter().filter_map(pair).collect();
    if pairs.is_empty() {
        let names = graph.outputs().iter().map(|&id| format!("`{}`", graph.value(id).name));
        return Err(StateError::NoPairs { outputs: names.collect() });
    }
    each_once(graph, pairs)
}

/// The pairs of these names and patterns.
pub(super) fn named(
    graph: &Graph,
    names: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Places>, StateError> {
    let mut pairs = Vec::new();
    for (output, input) in names {
        let before = pairs.len();
        for &id in graph.outputs() {
            let Some(part) = matched(&output, &graph.value(id).name) else { continue };
            let input = filled(&input, part);
            pairs.push(Places { output: id, input: known(graph, "input", &input)? });
        }
        if pairs.len() == before {
            return Err(StateError::Unknown { kind: "output", name: output });
        }
    }
    each_once(graph, pairs)
}

/// The input of this name.
pub(super) fn known(graph: &Graph, kind: &'static str, name: &str) -> Result<ValueId, StateError> {
    let unknown = || StateError::Unknown { kind, name: name.to_owned() };
    id(graph, graph.inputs(), name).ok_or_else(unknown)
}

fn id(graph: &Graph, ids: &[ValueId], name: &str) -> Option<ValueId> {
    ids.iter().copied().find(|&id| graph.value(id).name == name)
}

fn each_once(graph: &Graph, pairs: Vec<Places>) -> Result<Vec<Places>, StateError> {
    for (i, pair) in pairs.iter().enumerate() {
        let is_again = |other: &&Places| other.input == pair.input || other.output == pair.output;
        if let Some(other) = pairs[..i].iter().find(is_again) {
            let id = if other.input == pair.input { pair.input } else { pair.output };
            return Err(StateError::Duplicate { name: graph.value(id).name.clone() });
        }
    }
    Ok(pairs)
}

/// A pattern before and after its `*`, or GenAI's `%d`; `None` if it is a name.
fn split(pattern: &str) -> Option<(&str, &str, bool)> {
    let any = pattern.split_once('*').map(|(before, after)| (before, after, false));
    any.or_else(|| pattern.split_once("%d").map(|(before, after)| (before, after, true)))
}

/// What the `*` of a pattern is in a name, which it matches; nothing where the pattern is the name.
fn matched<'n>(pattern: &str, name: &'n str) -> Option<&'n str> {
    let Some((before, after, is_number)) = split(pattern) else {
        return (pattern == name).then_some("");
    };
    let part = name.strip_prefix(before)?.strip_suffix(after)?;
    (!is_number || part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty())
        .then_some(part)
}

fn filled<'p>(pattern: &'p str, part: &str) -> Cow<'p, str> {
    match split(pattern) {
        Some((before, after, _)) => format!("{before}{part}{after}").into(),
        None => pattern.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_anything_and_a_d_a_number() {
        assert_eq!(matched("present.*", "present.3.key"), Some("3.key"));
        assert_eq!(matched("present.%d.key", "present.31.key"), Some("31"));
        assert_eq!(matched("present.%d.key", "present.x.key"), None);
        assert_eq!(matched("present.%d.key", "present..key"), None);
        assert_eq!(matched("h", "h"), Some(""));
        assert_eq!(matched("h*", "g"), None);
        assert_eq!(filled("past_key_values.*", "3.key"), "past_key_values.3.key");
        assert_eq!(filled("past_%d_k", "31"), "past_31_k");
        assert_eq!(filled("c", ""), "c");
    }
}
