//! What operators mean: one file an operator (or a family of trivial ones), one line to register it.
//!
//! A file holds the operator's attributes as a struct, how they are read from a node, shape
//! inference, and `eval`: plain, obviously right, and therefore the oracle of every fast kernel.
//! Nothing here knows about speed or devices, with one exception: data movement moves words, not
//! types, and is as fast here as it needs to be anywhere.

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

/// A registry of every operator there is.
pub fn registry() -> Registry {
    Registry::new(&ops::all()).with_bodies(bodies::inputs)
}
