//! Whether a changed model is one: every value that is read is computed once.

use std::collections::HashSet;

use ort_session::model::{Graph, Model};
use ort_sys::OrtErrorCode;

use crate::error::Error;

/// Checks a model after additions to its graph.
pub(crate) fn check_change(before: &Model<'_>, after: &Model<'_>) -> Result<(), Error> {
    check_constants(&before.graph, &after.graph)?;
    for node in &after.graph.nodes[before.graph.nodes.len()..] {
        if after.info.opset(&node.domain).is_none() {
            let domain = &node.domain;
            return Err(invalid(&format!("No opset import for domain '{domain}'"), node.label()));
        }
    }
    check_values(&after.graph)
}

fn invalid(what: &str, whose: &str) -> Error {
    Error::new(
        OrtErrorCode::ORT_INVALID_GRAPH,
        format!("This is an invalid model: {what} ({whose})"),
    )
}

/// Existing initializers are not replaced.
fn check_constants(before: &Graph<'_>, after: &Graph<'_>) -> Result<(), Error> {
    let there: HashSet<_> = before.constants().map(|constant| &constant.name).collect();
    let added = &after.initializers[before.initializers.len()..];
    match added.iter().find(|constant| there.contains(&constant.name)) {
        Some(constant) => Err(invalid("the initializer is there already", &constant.name)),
        None => Ok(()),
    }
}

fn check_values(graph: &Graph<'_>) -> Result<(), Error> {
    let given = graph.inputs.iter().chain(graph.constants().map(|constant| &constant.name));
    let mut known: HashSet<&str> = given.map(|name| &**name).collect();
    for node in &graph.nodes {
        for output in node.outputs.iter().filter(|name| !name.is_empty()) {
            if !known.insert(output) {
                let text = format!("'{output}' is computed twice, or is an input or initializer");
                return Err(invalid(&text, node.label()));
            }
        }
    }
    for node in &graph.nodes {
        let mut inputs = node.inputs.iter().filter(|name| !name.is_empty());
        if let Some(input) = inputs.find(|name| !known.contains(&***name)) {
            let text = format!(
                "Node input '{input}' is not a graph input, initializer, or output of a node."
            );
            return Err(invalid(&text, node.label()));
        }
    }
    match graph.outputs.iter().find(|name| !known.contains(&***name)) {
        Some(output) => Err(invalid("no node computes the output", output)),
        None => Ok(()),
    }
}
