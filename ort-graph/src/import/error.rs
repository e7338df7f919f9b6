//! What can be wrong with a model whose file is valid.

// collects are bounded: as long as the file's lists

use std::collections::BTreeMap;

use ort_onnx::ElementsError;
use ort_tensor::TensorError;

use crate::fact::{Type, TypeConflict};
use crate::graph::GraphError;
use crate::op::OpError;
use crate::order::CycleError;
use crate::parsed;
use crate::registry::RegistryError;

/// A valid file that does not contain a valid model, or one that we cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// All nodes without an operator, or with types that their operator does not take.
    #[error("{} not supported: {}", count(nodes.len()), list(nodes))]
    Unsupported {
        /// The nodes.
        nodes: Vec<UnsupportedNode>,
    },
    /// A node that does not fit its inputs or its declared outputs.
    #[error("node `{node}` ({op_type}): {error}")]
    Node {
        /// The node's name, or its operator if it has none.
        node: String,
        /// The operator.
        op_type: String,
        /// What is wrong.
        error: Box<GraphError>,
    },
    /// A node, graph output or subgraph names a value that is not defined.
    #[error("{user} reads `{value}`, which no node, input or initializer provides")]
    UnknownValue {
        /// What reads it.
        user: String,
        /// The name.
        value: String,
    },
    /// A tensor whose contents do not fit its type or shape.
    #[error("tensor `{name}`: {error}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        error: Box<TensorError>,
    },
    /// A tensor of a `.onnx` file with missing or invalid elements, or an invalid text of a node.
    #[error("`{name}`: {error}")]
    Elements {
        /// The tensor, or the node.
        name: String,
        /// What is wrong.
        error: ElementsError,
    },
    /// A graph input without a name, or with the name of another.
    #[error("an input of the graph has no name, or two are named `{name}`")]
    Input {
        /// The name.
        name: String,
    },
    /// An undefined element type.
    #[error("tensor or value `{name}` has the unknown element type {number}")]
    UnknownDType {
        /// The tensor or value.
        name: String,
        /// The number in the file.
        number: i32,
    },
    /// A sparse tensor with indices that do not fit, or that would be too large when dense.
    #[error("sparse tensor `{name}`: {what}")]
    Sparse {
        /// The tensor.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A packed form of a constant that its graph does not have.
    #[error("tensor `{name}` is a packed form of a constant that does not exist")]
    StrayForm {
        /// The tensor.
        name: String,
    },
    /// An attribute of a type that no operator has.
    #[error("node `{node}`: attribute `{attribute}` has a type that no operator takes")]
    Attribute {
        /// The node.
        node: String,
        /// The attribute.
        attribute: String,
    },
    /// Nodes form a cycle.
    #[error(transparent)]
    Cycle(#[from] CycleError),
    /// More values or nodes than ids.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A node that no operator can run.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsupportedNode {
    /// The node's name, or its operator if it has none.
    pub node: String,
    /// The operator set; empty for ai.onnx.
    pub domain: String,
    /// The operator.
    pub op_type: String,
    /// The version of the operator.
    pub since_version: i32,
    /// Why: no such operator, not in this version, an unknown attribute, a type of an input.
    pub error: RegistryError,
}

impl UnsupportedNode {
    /// Why, with the name of the operator.
    pub fn reason(&self) -> String {
        let Self { domain, op_type, since_version, error, .. } = self;
        let domain = if domain.is_empty() { "ai.onnx" } else { domain };
        match error {
            RegistryError::Op(error) => {
                format!("operator {domain}:{op_type} in version {since_version}: {error}")
            }
            named => named.to_string(),
        }
    }
}

/// Something unusual that does no harm.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportWarning {
    /// The declared shape of a value is not the one that follows from the node that computes it;
    /// the latter prevails.
    #[error("value `{value}`: {conflict}")]
    DeclaredShape {
        /// The value.
        value: String,
        /// Declared (expected) and inferred (found) type.
        conflict: TypeConflict,
    },
}

fn count(n: usize) -> String {
    if n == 1 { "1 node is".to_owned() } else { format!("{n} nodes are") }
}

/// Every node by name, grouped by reason.
fn list(nodes: &[UnsupportedNode]) -> String {
    let mut by_reason: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes {
        by_reason.entry(node.reason()).or_default().push(format!("`{}`", node.node));
    }
    let lines = by_reason.iter().map(|(reason, nodes)| format!("{reason} ({})", nodes.join(", ")));
    lines.collect::<Vec<_>>().join("; ")
}

/// Why a node has no operator, if that is what is wrong: none of its name, version and
/// attributes, or it does not take the type of an input.
pub(super) fn no_operator(error: &GraphError) -> Option<RegistryError> {
    match error {
        GraphError::Operator(error) => Some(error.clone()),
        GraphError::Inference(error @ OpError::InputType { found, .. })
            if **found != Type::Unknown =>
        {
            Some(error.clone().into())
        }
        _ => None,
    }
}

pub(super) fn node_error(node: &parsed::Node<'_>, error: Box<GraphError>) -> ImportError {
    ImportError::Node { node: node.label().to_owned(), op_type: node.op_type.to_string(), error }
}
