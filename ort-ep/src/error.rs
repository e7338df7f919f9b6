//! What can go wrong in a provider. The node's name is added by the session.

use ort_graph::OpError;
use ort_tensor::TensorError;

/// A claim that its provider cannot compile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The claim names nodes that the provider does not run.
    #[error("{provider} does not run {op_type}")]
    NotClaimed {
        /// The provider.
        provider: &'static str,
        /// The operator of the claim's root.
        op_type: String,
    },
    /// Types, shapes or constants are not what the kernel needs.
    #[error(transparent)]
    Op(#[from] OpError),
}

/// A kernel that cannot compute what it was given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Types, shapes or values are not what the operator allows.
    #[error(transparent)]
    Op(#[from] OpError),
    /// `run` was given what another kernel prepared: a bug of the session or the kernel.
    #[error("prepared state of another kernel")]
    ForeignState,
    /// A fault of a provider of its own.
    #[error("{0}")]
    Provider(Box<str>),
}

impl From<TensorError> for KernelError {
    fn from(error: TensorError) -> Self {
        KernelError::Op(error.into())
    }
}
