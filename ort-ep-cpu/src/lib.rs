//! The CPU provider: it chooses which kernel runs which node, and packs the constants they want.
//!
//! Every operator runs here: where no fast kernel takes a node, its own `eval` does. The
//! instructions are ort-kernels'; this crate only chooses.
//!
//! # When to use it alone
//!
//! To ask what this processor can do, or to compile nodes without a session. Sessions have this provider anyway.
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
