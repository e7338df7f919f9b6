//! A graph of nodes that ONNX Runtime's CPU has kernels for. What it does to a `.onnx` file when it reads it, it does
//! not do to a `.ort` file, whose nodes it takes as they are: functions are written out, and what it cannot compute in
//! float16 is computed in float.

mod casts;
mod functions;

use std::collections::BTreeSet;

use ort_graph::{Graph, Registry};

use crate::driver::{OptimizeError, run};
use crate::eval::Reference;
use crate::options::{Level, Options};

/// Writes out functions of the standard that ONNX Runtime's CPU has no kernels of their own for, and casts float16 to
/// float where it has kernels for that only; `opset` is the version of ai.onnx that the model imports. Returns the
/// operators that are left and that it refuses.
///
/// # Errors
/// If nodes form a cycle.
pub fn lower_for_onnx_runtime(
    graph: Graph,
    registry: &Registry,
    opset: Option<i64>,
) -> Result<(Graph, BTreeSet<String>), OptimizeError> {
    let options = Options { level: Level::Basic, opset, ..Options::default() };
    let (passes, eval) = (vec![&functions::PASS, &casts::PASS], &Reference);
    let (graph, _) = run(graph, registry, &options, eval, passes)?;
    let mut left = BTreeSet::new();
    functions::collect_left(&graph, &mut left);
    Ok((graph, left))
}
