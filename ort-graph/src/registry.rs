//! Maps (domain, operator, version) to the operator.

// collects are bounded: as long as the graph's lists

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use ort_tensor::DType;

use crate::attrs::{Attrs, NodeSpec};
use crate::fact::Type;
use crate::op::{OpError, Operator};

/// One operator: its name, the versions it covers, and how to make it from a node.
#[derive(Clone, Copy, Debug)]
pub struct OpDef {
    /// The operator set: `""` for ai.onnx.
    pub domain: &'static str,
    /// ONNX's spelling.
    pub name: &'static str,
    /// The since-versions covered, oldest and newest. A version between two of the
    /// specification's means the older one.
    pub versions: (i32, i32),
    /// Which element types it takes: those of its data, the first type parameter of its
    /// specification. The operator itself checks others (of indices, scales).
    pub types: fn(DType) -> bool,
    /// Reads the attributes.
    pub build: fn(&NodeSpec<'_>) -> Result<Arc<dyn Operator>, OpError>,
}

/// Operators that are known at run time only, such as those that a program in C registers.
pub trait OperatorSource: Debug + Send + Sync {
    /// The domain and name of each operator.
    fn names(&self) -> Vec<(String, String)>;

    /// Creates the operator of a node; `None` if there is none of this domain and name.
    ///
    /// # Errors
    /// If there is none of the node's version, or the node is not a valid one.
    fn build(
        &self,
        domain: &str,
        op_type: &str,
        spec: &NodeSpec<'_>,
    ) -> Option<Result<Arc<dyn Operator>, RegistryError>>;
}

/// All operators that a program knows.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    by_name: HashMap<(&'static str, &'static str), Vec<OpDef>>,
    sources: Vec<Arc<dyn OperatorSource>>,
    bodies: Option<BodyInputs>,
}

/// A node that has subgraphs, before it is created.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The operator set: empty for ai.onnx.
    pub domain: &'a str,
    /// The operator.
    pub op_type: &'a str,
    /// The version that the node follows.
    pub since_version: i32,
    /// The types of what the node reads.
    pub inputs: &'a [Type],
    /// Its attributes except the subgraphs.
    pub attrs: &'a Attrs,
}

/// The types of the inputs of a node's subgraphs, as far as they follow from the node.
pub type BodyInputs = fn(&Body<'_>) -> Vec<Type>;

/// A node for which there is no operator, or that is not a valid one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No operator of this name.
    #[error("there is no operator {domain}:{op_type}")]
    UnknownOperator {
        /// The domain, `ai.onnx` for the empty one.
        domain: String,
        /// The operator.
        op_type: String,
    },
    /// The operator exists, but not in this version.
    #[error("operator {domain}:{op_type} is known in versions {oldest} to {newest}, not {found}")]
    UnknownVersion {
        /// The domain, `ai.onnx` for the empty one.
        domain: String,
        /// The operator.
        op_type: String,
        /// The oldest version covered.
        oldest: i32,
        /// The newest version covered.
        newest: i32,
        /// The version of the node.
        found: i32,
    },
    /// The attributes are not those of the operator.
    #[error(transparent)]
    Op(#[from] OpError),
}

impl Registry {
    /// A registry of these operators.
    pub fn new(groups: &[&[OpDef]]) -> Self {
        groups.iter().copied().fold(Self::default(), Self::with)
    }

    /// The same with these operators as well. Where an earlier one covers the same version, it takes precedence.
    #[must_use]
    pub fn with(mut self, defs: &[OpDef]) -> Self {
        for def in defs {
            self.by_name.entry((def.domain, def.name)).or_default().push(*def);
        }
        self
    }

    /// The same with the operators of a source as well. All others take precedence.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn OperatorSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// The same, which also knows the types of subgraph inputs: files need not state them.
    #[must_use]
    pub const fn with_bodies(mut self, bodies: BodyInputs) -> Self {
        self.bodies = Some(bodies);
        self
    }

    /// The types of the inputs of a node's subgraphs.
    pub(crate) fn body_inputs(&self, body: &Body<'_>) -> Vec<Type> {
        self.bodies.map(|inputs| inputs(body)).unwrap_or_default()
    }

    /// Every operator, sorted by domain, name and version.
    pub fn defs(&self) -> Vec<OpDef> {
        let mut defs: Vec<_> = self.by_name.values().flatten().copied().collect();
        defs.sort_by_key(|def| (def.domain, def.name, def.versions));
        defs
    }

    /// The definition that covers this version.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, domain: &str, op_type: &str, version: i32) -> Result<OpDef, RegistryError> {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        let printed = || if domain.is_empty() { "ai.onnx".to_owned() } else { domain.to_owned() };
        let Some(defs) = self.by_name.get(&(domain, op_type)) else {
            let op_type = op_type.to_owned();
            return Err(RegistryError::UnknownOperator { domain: printed(), op_type });
        };
        let covers = |def: &&OpDef| (def.versions.0..=def.versions.1).contains(&version);
        defs.iter().find(covers).copied().ok_or_else(|| RegistryError::UnknownVersion {
            domain: printed(),
            op_type: op_type.to_owned(),
            oldest: defs.iter().map(|def| def.versions.0).min().unwrap_or(0),
            newest: defs.iter().map(|def| def.versions.1).max().unwrap_or(0),
            found: version,
        })
    }

    /// Creates the operator of a node.
    ///
    /// # Errors
    /// If there is none, or the node has attributes that the operator lacks.
    pub fn build(
        &self,
        domain: &str,
        op_type: &str,
        spec: &NodeSpec<'_>,
    ) -> Result<Arc<dyn Operator>, RegistryError> {
        let op = match self.find(domain, op_type, spec.since_version) {
            Ok(def) => (def.build)(spec)?,
            Err(unknown) => {
                let mut sources = self.sources.iter();
                let found = sources.find_map(|source| source.build(domain, op_type, spec));
                found.unwrap_or(Err(unknown))?
            }
        };
        match spec.unread() {
            Some(name) => Err(OpError::UnknownAttribute { name: name.to_owned() }.into()),
            None => Ok(op),
        }
    }
}
