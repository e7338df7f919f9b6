//! The CPU execution provider: it selects a kernel for each node, and packs constants for it.
//!
//! Every operator runs here: a node without a fast kernel runs by its operator's `eval`. The
//! instructions are in ort-kernels; this crate only selects.
//!
//! # When to use it alone
//!
//! To query the processor's capabilities, or to compile nodes without a session. Sessions always include this provider.
//!
//! ```
//! use ort_ep::ExecutionProvider;
//! use ort_ep_cpu::{CpuOptions, CpuProvider};
//!
//! # fn main() -> Result<(), ort_ep_cpu::UnavailableIsa> {
//! let provider = CpuProvider::new(CpuOptions::default())?;
//! assert_eq!(provider.name(), "CPUExecutionProvider");
//! println!("kernels for {:?}", provider.isa());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod bilinear;
mod bytes;
mod cpu;
mod cut;
mod epilogue;
mod extended;
mod greatest;
mod kernels;
mod lanes;
mod operation;
mod options;
mod parameters;
mod peak;
mod pieces;
mod places;
mod product;
mod provider;
mod run;
mod scheme;
mod strided;
mod summand;
mod wide;

#[cfg(test)]
mod case;
#[cfg(test)]
mod steps;

pub use crate::options::{CpuOptions, Denormals, IsaChoice, ParseOptionError, UnavailableIsa};
pub use crate::peak::PeakPerformance;
pub use crate::provider::CpuProvider;
pub use ort_kernels::Isa;
