//! Tests only: the ONNX standard's node cases and real models, over every way to run them.
//!
//! A [`Way`] is a provider, an optimization level, an instruction set and a number of threads; a
//! case must give the same answer every way. The tests are in `tests/`.
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
