//! Loads and owns the bytes of a model, and measures how many of them are resident.
//!
//! [`ModelBytes`] is a cheap clone over [`bytes::Bytes`]. Its owner is a mapped file, a buffer, a
//! `'static` slice or any owner that the caller passes. It lives until the last slice of it is dropped,
//! so a tensor that borrows from the model needs no lifetime.
//!
//! ```
//! # fn main() -> Result<(), ort_loader::LoadError> {
//! use ort_loader::{Load, ModelBytes};
//!
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("model.ort");
//! # std::fs::write(&path, b"weights").expect("a written file");
//! let model = ModelBytes::from_path(&path, Load::Mapped)?;
//! let weights = model.bytes().slice(2..5);
//! drop(model);
//! assert_eq!(&weights[..], b"igh");
//! # Ok(())
//! # }
//! ```
//!
//! This crate does not know the meaning of the bytes.
//!
//! # When to use it alone
//!
//! To map or read large files, share their bytes without lifetimes, and measure which of their pages are in memory.

#![deny(clippy::as_conversions)]

mod model_bytes;

mod load;
mod open;
mod read;
mod source;
mod within;

mod error;
mod pages;
mod process;
mod residency;
mod smaps;

pub use crate::error::{AdviseError, LoadError, MeasureError};
pub use crate::load::Load;
pub use crate::model_bytes::{Kind, ModelBytes};
pub use crate::open::{Link, open_file};
pub use crate::process::{Process, ProcessMemory, Sharing, process_memory};
pub use crate::residency::{PageTable, Residency};
pub use crate::smaps::{MappingKind, MemoryMapping, Pages};
