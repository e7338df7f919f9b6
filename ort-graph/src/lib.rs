//! The graph: values, nodes, their types and shapes, and import from and export to files.
//!
//! A [`Graph`] holds values and nodes under distinct ids. A [`Fact`] is what is statically known of a value:
//! its type, its dimensions as far as they are known, and its contents if it is constant.
//! The semantics of a node is an [`Operator`] object that a [`Registry`] creates from its attributes; this
//! crate knows no concrete operator, and neither files on disk nor devices.
//!
//! # When to use it alone
//!
//! To read, validate, edit and print models: for a converter, a linter, or a custom pass. It needs a [`Registry`] of
//! operators, such as that of ort-ops.
//!
//! ```
//! use ort_graph::{Graph, Registry};
//!
//! # fn main() -> Result<(), ort_graph::TextError> {
//! let graph = Graph::parse("graph(x: float[n,3]) -> (x) {}", &Registry::default())?;
//! assert_eq!((graph.inputs().len(), graph.n_nodes()), (1, 0));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod attrs;
mod dim;
mod export;
mod fact;
mod graph;
mod ids;
mod import;
mod op;
mod order;
pub mod parsed;
mod patch;
mod registry;
#[cfg(test)]
mod testing;
mod text;
mod verify;

pub use crate::attrs::{Attr, Attrs, NodeSpec};
pub use crate::dim::{Dim, Dims};
pub use crate::export::{Export, ExportError, export, to_onnx};
pub use crate::fact::{Fact, TensorType, Type, TypeConflict};
pub use crate::graph::{Graph, GraphError, InferError, NewNode, Node, PackedForm, ValueInfo};
pub use crate::ids::{IdHasher, IdMap, IdSet, NodeId, ValueId};
pub use crate::import::{ImportError, ImportLimits, ImportWarning, Model, UnsupportedNode, import};
pub use crate::op::{Behaviour, Control, Facts, OpError, Operator};
pub use crate::order::CycleError;
pub use crate::parsed::ModelInfo;
pub use crate::patch::{Change, Names, Patch, PatchError};
pub use crate::registry::{Body, BodyInputs, OpDef, OperatorSource, Registry, RegistryError};
pub use crate::text::{Text, TextError, TextErrorKind};
pub use crate::verify::VerifyError;
