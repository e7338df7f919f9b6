//! The targets: what mutants are made of, and what is done with them. A target is a file, and a line in [`TARGETS`].

mod arguments;
mod capi;
mod config;
mod graphs;
mod itself;
mod onnx;
mod ort;
mod packed;
mod tensors;
mod text;

use std::time::Duration;

use crate::attack::{Mutant, Outcome};
use crate::stages::{MAX_BYTES, MAX_PROCESSOR_TIME};

/// Makes a mutant and uses it.
pub(crate) type Attack = Box<dyn FnMut(&mut Mutant) -> Outcome>;

/// A target.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its name.
    pub(crate) name: &'static str,
    /// How many mutants `--quick` runs: about ten seconds of them, in a development build.
    pub(crate) quick: u64,
    /// The memory that a mutant may use.
    pub(crate) max_bytes: usize,
    /// The processor time that a mutant may use.
    pub(crate) max_time: Duration,
    /// Reads its corpus.
    pub(crate) prepare: fn() -> Attack,
}

/// Tests the program. It runs only if it is named.
pub(crate) const ITSELF: Target = Target::new("itself", 0, itself::prepare);

/// Every target.
pub(crate) const TARGETS: &[Target] = &[
    Target::new("ort", 15_000, ort::prepare),
    Target::new("onnx", 30_000, onnx::prepare),
    Target::new("graphs", 3_000, graphs::prepare),
    Target::new("packed", 300, packed::prepare),
    Target::new("tensors", 300_000, tensors::prepare),
    Target::new("text", 60_000, text::prepare),
    // `profile` measures the bandwidth of a buffer that exceeds the caches.
    Target { max_bytes: 512 << 20, ..Target::new("arguments", 300, arguments::prepare) },
    Target::new("capi", 1_000, capi::prepare),
    Target::new("config", 2_000, config::prepare),
];

impl Target {
    const fn new(name: &'static str, quick: u64, prepare: fn() -> Attack) -> Self {
        let (max_bytes, max_time) = (MAX_BYTES, MAX_PROCESSOR_TIME);
        Self { name, quick, max_bytes, max_time, prepare }
    }
}
