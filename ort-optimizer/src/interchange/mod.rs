//! A graph of nodes that ONNX Runtime's CPU has kernels for. When it loads a `.onnx` file, it expands functions, and
//! computes in float what it cannot compute in float16; a `.ort` file's nodes it takes unchanged.

mod bodies;
mod casts;
mod functions;
mod sequence_map;

use std::collections::BTreeSet;

use ort_graph::{Graph, Registry};

use crate::driver::{OptimizeError, run};
use crate::eval::Reference;
use crate::options::{Level, Options};

/// Expands functions of the standard for which ONNX Runtime's CPU provider has no kernels, and casts float16 to float
/// where it has only float kernels; `opset` is the version of ai.onnx that the model imports. Returns the remaining
/// operators that it does not support.
///
/// # Errors
/// If nodes form a cycle.
pub fn lower_for_onnx_runtime(
    graph: Graph,
    registry: &Registry,
    opset: Option<i64>,
) -> Result<(Graph, BTreeSet<String>), OptimizeError> {
    let options = Options { level: Level::Basic, opset, ..Options::default() };
    let passes = vec![&sequence_map::PASS, &bodies::PASS, &functions::PASS, &casts::PASS];
    let (graph, _) = run(graph, registry, &options, &Reference, passes)?;
    let mut left = BTreeSet::new();
    functions::collect_left(&graph, &mut left);
    Ok((graph, left))
}

/// Writes out operators that are newer than `opset`, the version of ai.onnx that the model imports, where a pass made
/// them: other runtimes read nodes by that version.
///
/// # Errors
/// If nodes form a cycle.
pub fn lower_to_opset(
    graph: Graph,
    registry: &Registry,
    opset: Option<i64>,
) -> Result<Graph, OptimizeError> {
    let options = Options { level: Level::Basic, opset, ..Options::default() };
    let (graph, _) = run(graph, registry, &options, &Reference, vec![&bodies::NEWER])?;
    Ok(graph)
}
