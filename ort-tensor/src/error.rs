//! What can be wrong with a tensor.

use crate::DType;

/// A tensor or view that cannot be what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The elements have another type.
    #[error("expected elements of type {expected}, found {found}")]
    DType {
        /// The type asked for.
        expected: DType,
        /// The type there is.
        found: DType,
    },
    /// The elements are strings where numbers were asked for, or packed where words were.
    #[error("elements of type {found} have no slice of {n_bytes}-byte words")]
    NoWords {
        /// The type there is.
        found: DType,
        /// The width asked for.
        n_bytes: usize,
    },
    /// The data does not have the length that shape and type ask for.
    #[error("{dtype}{shape:?} takes {expected} bytes or strings, found {found}")]
    Length {
        /// The element type.
        dtype: DType,
        /// The dimensions.
        shape: Vec<usize>,
        /// What `shape` and `dtype` ask for.
        expected: usize,
        /// What there is.
        found: usize,
    },
    /// The elements are not there: see [`crate::Tensor::released`].
    #[error("the elements of {dtype}{shape:?} were released: only packed forms of them are there")]
    Released {
        /// The element type.
        dtype: DType,
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// The product of the dimensions overflows.
    #[error("a tensor of shape {shape:?} is too large")]
    TooLarge {
        /// The dimensions.
        shape: Vec<usize>,
    },
    /// There is no memory for what follows from sizes in a file or in data.
    #[error("{n_bytes} bytes of memory are not there{}", of(*limit))]
    NoMemory {
        /// How many bytes are wanted.
        n_bytes: usize,
        /// What all may take together, if that is the reason; else the system does not have them.
        limit: Option<usize>,
    },
    /// The run has ended.
    #[error("the computation was ended early")]
    Ended,
    /// The output was planned with another shape or type than the one now written.
    #[error("planned an output {planned_dtype}{planned:?}, got {dtype}{shape:?}")]
    Planned {
        /// The planned element type.
        planned_dtype: DType,
        /// The planned dimensions.
        planned: Vec<usize>,
        /// The element type asked for.
        dtype: DType,
        /// The dimensions asked for.
        shape: Vec<usize>,
    },
    /// An input that must be there is absent.
    #[error("input {index} is missing")]
    MissingInput {
        /// The position of the input.
        index: usize,
    },
    /// An input is a sequence, map or optional where a tensor is needed, or the reverse.
    #[error("expected a {expected}, found a {found}")]
    Kind {
        /// The kind asked for: `tensor`, `sequence`, `map` or `optional`.
        expected: &'static str,
        /// The kind there is.
        found: &'static str,
    },
}

fn of(limit: Option<usize>) -> String {
    limit.map_or_else(String::new, |limit| {
        format!(": {limit} are allowed, others have some of them")
    })
}
