//! The semantics of operators: one file per operator (or family of trivial ones), one line to register it.
//!
//! A file contains the operator's attributes as a struct, their parsing from a node, shape
//! inference, and `eval`: simple, obviously correct, and therefore the reference implementation for every fast kernel.
//! Nothing here depends on speed or devices, with one exception: data movement copies words, independently
//! of element types, and needs no faster kernel.
//!
//! # When to use it alone
//!
//! To evaluate single operators (as a reference in tests, for instance), or to infer shapes: with ort-graph, without a runtime.
//!
//! ```
//! use ort_graph::Graph;
//!
//! # fn main() -> Result<(), ort_graph::TextError> {
//! let text = "graph(x: float[2,3]) -> (y) { y = Transpose-13 [perm: [1, 0]] (x) }";
//! let graph = Graph::parse(text, &ort_ops::registry())?;
//! assert_eq!(graph.fact(graph.outputs()[0]).ty.to_string(), "float[3,2]");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod accumulate;
pub mod activation;
pub mod arithmetic;
mod attend;
pub mod axes;
pub mod blocked;
mod bodies;
pub mod broadcast;
pub mod channels_last;
mod elementwise;
pub mod features;
mod floats;
pub mod forest;
mod fourier;
pub mod infer;
mod integer;
pub mod labels;
mod lanes;
pub mod linear;
mod offsets;
pub mod ops;
mod order;
pub mod pattern;
mod pool;
mod product;
mod quantized;
mod random;
pub mod scatter;
pub mod scores;
pub mod strided;
mod vocabulary;
mod walk;
mod weights;

#[cfg(test)]
mod case;
#[cfg(test)]
mod properties;

use ort_graph::Registry;

/// A registry of every operator.
pub fn registry() -> Registry {
    Registry::new(&ops::all()).with_bodies(bodies::inputs)
}
