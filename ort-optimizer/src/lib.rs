//! Graph rewrites by level, each with its exactness.
//!
//! A pass matches patterns in a graph and replaces them; most are rules written like
//! the formula they state. The driver applies the passes to a graph and its subgraphs, commits
//! each rewrite as a validated patch, and reports which rewrites were applied, which were rejected, and why.
//! Passes have ONNX Runtime's names where it has the pass.
//!
//! This crate knows neither devices nor files. Constants are folded through
//! [`ConstEval`], so that a folded constant is bitwise equal to the value computed by a run.
//!
//! # When to use it alone
//!
//! To simplify a graph without running it, in a converter for instance.
//!
//! ```
//! use ort_graph::Graph;
//! use ort_optimizer::{Options, Reference, optimize};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = ort_ops::registry();
//! let text = "graph(x: float[3]) -> (y) {
//!   h = Identity-13 (x)
//!   y = Relu-14 (h)
//! }";
//! let graph = Graph::parse(text, &registry)?;
//! let (graph, _report) = optimize(graph, &registry, &Options::default(), &Reference)?;
//! assert_eq!(graph.n_nodes(), 1);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod cut;
mod dim_names;
mod driver;
#[cfg(test)]
mod equivalence;
mod eval;
mod inline;
mod interchange;
#[cfg(test)]
mod interpreter;
mod matching;
mod names;
mod nchwc;
mod options;
mod pass;
mod passes;
mod pattern;
mod queue;
mod report;
mod rule;
mod sizes;
#[cfg(test)]
mod testing;

pub use crate::driver::{OptimizeError, optimize};
pub use crate::eval::{ConstEval, EvalError, Reference};
pub use crate::interchange::{lower_for_onnx_runtime, lower_to_opset};
pub use crate::names::names;
pub use crate::nchwc::{AssumedBlockSize, Contradiction, NchwcError};
pub use crate::options::{Exactness, Level, Options, ParseLevelError, UnknownLevel};
pub use crate::report::{PassReport, Report, Step, Visit};

/// Name, level and exactness of every pass, in the order in which they run.
pub fn passes() -> impl Iterator<Item = (&'static str, Level, Exactness)> {
    let passes = passes::all().map(|pass| (pass.name, pass.level, pass.exactness));
    std::iter::once(nchwc::LISTED).chain(passes)
}
