//! Tensor files, test-case folders, and the comparison of actual with expected outputs.
//!
//! [`pb`] reads and writes ONNX's tensor, sequence, map and optional files, [`npy`] those of NumPy;
//! [`read_value`] and [`write_value`] choose the format by the file's name. A [`Case`] is a folder with models and
//! the [`DataSet`]s to run them on. [`compare`] finds the first difference of two values, and [`deviation`]
//! measures how far two tensors deviate.
//!
//! This crate does not know what a model is: to a case, a model is a path.
//!
//! # When to use it alone
//!
//! To read and write NumPy's and ONNX's tensor files, or to run the ONNX standard's test cases with another runtime.
//!
//! ```
//! use ort_tensor::Tensor;
//! use ort_tensor_io::npy;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tensor = Tensor::from_slice(&[3], &[1.0_f32, 2.0, 3.0])?;
//! let bytes = npy::encode(&tensor)?;
//! assert_eq!(npy::decode(&bytes.into())?.shape(), [3]);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod case;
mod close;
mod data_set;
mod file;

pub mod npy;
pub mod pb;

pub use crate::case::{Case, CaseError, find_cases};
pub use crate::close::{
    Beyond, Deviation, Difference, Mismatch, ParseToleranceError, Tolerance, compare, deviation,
};
pub use crate::data_set::{DataSet, OutputMismatch, Side, Slot};
pub use crate::file::{FileError, read_value, write_value};

/// Errors are sent between threads.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<CaseError>();
    is_send_and_sync::<FileError>();
    is_send_and_sync::<npy::NpyError>();
    is_send_and_sync::<ParseToleranceError>();
    is_send_and_sync::<pb::PbError>();
};
