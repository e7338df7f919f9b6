//! The errors of tensors.

use crate::DType;

/// A tensor or view that cannot have the requested form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The elements have another type.
    #[error("expected elements of type {expected}, found {found}")]
    DType {
        /// The expected type.
        expected: DType,
        /// The actual type.
        found: DType,
    },
    /// The elements are strings where numbers were expected, or packed where words were.
    #[error("elements of type {found} have no slice of {n_bytes}-byte words")]
    NoWords {
        /// The actual type.
        found: DType,
        /// The expected width.
        n_bytes: usize,
    },
    /// The data does not have the length that shape and type require.
    #[error("{dtype}{shape:?} takes {expected} bytes or strings, found {found}")]
    Length {
        /// The element type.
        dtype: DType,
        /// The dimensions.
        shape: Vec<usize>,
        /// The required length.
        expected: usize,
        /// The actual length.
        found: usize,
    },
    /// The elements are missing: see [`crate::Tensor::released`].
    #[error("the elements of {dtype}{shape:?} were released: only packed copies remain")]
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
    /// Memory of a size that depends on a file or on data cannot be allocated.
    #[error("cannot allocate {n_bytes} bytes{}", of(*limit))]
    NoMemory {
        /// The requested size.
        n_bytes: usize,
        /// The limit on the total, if it is the reason; otherwise the system is out of memory.
        limit: Option<usize>,
    },
    /// The run was cancelled or timed out.
    #[error("the computation was cancelled or timed out")]
    Ended,
    /// The output was planned with another shape or type than the one now written.
    #[error("planned an output {planned_dtype}{planned:?}, got {dtype}{shape:?}")]
    Planned {
        /// The planned element type.
        planned_dtype: DType,
        /// The planned dimensions.
        planned: Vec<usize>,
        /// The requested element type.
        dtype: DType,
        /// The requested dimensions.
        shape: Vec<usize>,
    },
    /// A required input is absent.
    #[error("input {index} is missing")]
    MissingInput {
        /// The position of the input.
        index: usize,
    },
    /// An input is a sequence, map or optional where a tensor is needed, or the reverse.
    #[error("expected a {expected}, found a {found}")]
    Kind {
        /// The expected kind: `tensor`, `sequence`, `map` or `optional`.
        expected: &'static str,
        /// The actual kind.
        found: &'static str,
    },
}

fn of(limit: Option<usize>) -> String {
    limit.map_or_else(String::new, |limit| format!(": over the total limit of {limit}"))
}
