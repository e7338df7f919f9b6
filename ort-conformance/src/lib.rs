//! Tests only: the ONNX standard's node cases and real models, in every configuration.
//!
//! A [`Way`] is a configuration: a provider, an optimization level, an instruction set and a number of threads. A
//! case must give the same result in each. The tests are in `tests/`.
//!
//! ```
//! use ort_conformance::Way;
//!
//! let available = Way::ALL.iter().filter(|way| way.is_available()).count();
//! assert!(available > 0);
//! ```

#![forbid(unsafe_code)]

pub mod differential;
pub mod node_cases;
pub mod overrun;
mod way;

pub use crate::way::{Way, run_data_set};
