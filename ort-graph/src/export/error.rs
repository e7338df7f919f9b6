//! What a graph can have that a file cannot.

use ort_tensor::TensorError;

use crate::fact::Type;
use crate::order::CycleError;

/// A graph that no file can hold.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A value of a type that files cannot represent: unknown, optional, or containing one.
    #[error("value `{value}` is of type {ty}, which .ort files cannot hold")]
    Type {
        /// The value.
        value: String,
        /// Its type.
        ty: Box<Type>,
    },
    /// An attribute that is a type, say of an empty optional.
    #[error("node `{node}` has an attribute that is the type {ty}, which .ort files cannot hold")]
    TypeAttribute {
        /// The node's name, or its operator if it has none.
        node: String,
        /// The type.
        ty: Box<Type>,
    },
    /// A node follows a newer version of its operator than the model imports, so a reader of the file would
    /// misinterpret it.
    #[error(
        "node `{node}` ({op_type}) follows version {since_version} of {domain}, \
         but the model imports version {imported}"
    )]
    Version {
        /// The node's name, or its operator if it has none.
        node: String,
        /// The operator.
        op_type: String,
        /// The domain, `ai.onnx` for the empty one.
        domain: String,
        /// The version that the node follows.
        since_version: i32,
        /// The version that the model imports.
        imported: i64,
    },
    /// A subgraph returns a captured value unchanged. ONNX Runtime (1.31) loads such a file, and returns zeros.
    #[error("a subgraph of node `{node}` returns `{value}`, which it only captures")]
    ReturnedCapture {
        /// The name of the node that has the subgraph, or its operator if it has none.
        node: String,
        /// The value.
        value: String,
    },
    /// There is no memory for elements that were to be computed when they are first read.
    #[error("constant `{constant}`: {error}")]
    Elements {
        /// The constant; empty for one that is an attribute.
        constant: String,
        /// The error.
        error: TensorError,
    },
    /// More nodes than a file can number.
    #[error("a graph in a file holds at most 2^32 nodes")]
    TooManyNodes,
    /// Nodes form a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
}
