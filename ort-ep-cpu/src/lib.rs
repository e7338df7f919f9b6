//! The CPU provider: it chooses which kernel runs which node, and packs the constants they want.
//!
//! Every operator runs here: where no fast kernel takes a node, its own `eval` does. The
//! instructions are ort-kernels'; this crate only chooses.

#![forbid(unsafe_code)]

mod bytes;
mod cpu;
mod cut;
mod kernels;
mod lanes;
mod operation;
mod options;
mod pieces;
mod places;
mod product;
mod provider;
mod roof;
mod scheme;
mod strided;
mod summand;
mod tail;
mod wide;

#[cfg(test)]
mod case;
#[cfg(test)]
mod steps;

pub use crate::options::{CpuOptions, Denormals, IsaChoice, ParseOptionError, UnavailableIsa};
pub use crate::provider::CpuProvider;
pub use crate::roof::Roof;
