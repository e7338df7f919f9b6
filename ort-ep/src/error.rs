//! The errors of a provider. The session adds the node's name.

use ort_graph::OpError;
use ort_tensor::TensorError;

/// A claim that its provider cannot compile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The claim contains nodes that the provider does not run.
    #[error("{provider} does not run {op_type}")]
    NotClaimed {
        /// The provider.
        provider: &'static str,
        /// The operator of the claim's root.
        op_type: String,
    },
    /// Types, shapes or constants do not meet the kernel's requirements.
    #[error(transparent)]
    Op(#[from] OpError),
}

/// A kernel that cannot compute its inputs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Types, shapes or values do not meet the operator's requirements.
    #[error(transparent)]
    Op(#[from] OpError),
    /// `run` got the prepared state of another kernel: a bug of the session or the kernel.
    #[error("prepared state of another kernel")]
    ForeignState,
    /// An error specific to a provider.
    #[error("{0}")]
    Provider(Box<str>),
}

impl From<TensorError> for KernelError {
    fn from(error: TensorError) -> Self {
        KernelError::Op(error.into())
    }
}
