//! Tensor files, test-case folders, and the comparison of what came out with what should have.
//!
//! [`pb`] reads and writes ONNX's tensor, sequence, map and optional files, [`npy`] those of NumPy;
//! [`read_value`] and [`write_value`] go by the file's name. A [`Case`] is a folder with models and
//! the [`DataSet`]s to run them on, and [`compare`] says where two values differ first.
//!
//! This crate does not know what a model is: to a case, a model is a path.

#![forbid(unsafe_code)]

mod case;
mod close;
mod data_set;
mod file;

pub mod npy;
pub mod pb;

pub use crate::case::{Case, CaseError, find_cases};
pub use crate::close::{Difference, Mismatch, ParseToleranceError, Tolerance, compare};
pub use crate::data_set::{DataSet, OutputMismatch, Side, Slot};
pub use crate::file::{FileError, read_value, write_value};
