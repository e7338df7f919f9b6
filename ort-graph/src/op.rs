//! The contract of every operator.

use std::any::Any;
use std::fmt::Debug;

use ort_tensor::{DType, Inputs, Output, TensorError};

use crate::fact::{Fact, Type};
use crate::graph::Graph;

/// The meaning of a node: its attributes are the fields of the type that implements this.
pub trait Operator: Any + Debug + Send + Sync {
    /// The facts of the outputs from those of the inputs. Called when the graph is built (with
    /// what is known then), after each rewrite, and for each new signature of input shapes, when
    /// every dimension that does not depend on data is known.
    ///
    /// # Errors
    /// If types or dimensions do not fit, so that [`Operator::eval`] would fail.
    fn infer(&self, inputs: &Facts<'_>) -> Result<Vec<Fact>, OpError>;

    /// Computes the outputs, in the simplest correct way. For data movement it is also the fast
    /// way.
    ///
    /// # Errors
    /// If the inputs are not what the operator allows, down to single values (an index out of
    /// range, say).
    fn eval(&self, inputs: Inputs<'_>, outputs: &mut [Output<'_>]) -> Result<(), OpError>;

    /// What optimizer and planner may assume.
    fn behaviour(&self) -> Behaviour {
        Behaviour::default()
    }

    /// Floating-point operations (a multiply-add counts two) for inputs and outputs of known
    /// shape; 0 where arithmetic does not dominate.
    fn flops(&self, _inputs: &Facts<'_>, _outputs: &[Fact]) -> u64 {
        0
    }
}

/// What optimizer and planner may assume of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// `eval` can write output `.1` over input `.0` of equal type and shape, for each pair.
    pub in_place: &'static [(usize, usize)],
    /// `eval` can turn the value of input `.0` itself into output `.1`, whatever their shapes, for each pair (see
    /// `Output::take`).
    pub takes: &'static [(usize, usize)],
    /// Output 0 is the bytes of input 0 under another shape: nothing needs to be computed.
    pub is_alias: bool,
    /// The same inputs give the same outputs.
    pub is_deterministic: bool,
    /// The node runs subgraphs; the plan does, not `eval`.
    pub control: Option<Control>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { in_place: &[], takes: &[], is_alias: false, is_deterministic: true, control: None }
    }
}

/// A node that runs subgraphs. The plan handles carried and captured values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Runs `then_branch` if input 0 is true, else `else_branch`.
    If,
    /// Runs `body` up to input 0 times, while its first output is true.
    Loop,
    /// Runs `body` once for each slice of its scanned inputs.
    Scan,
    /// Runs `body` once for each item of sequence input 0.
    SequenceMap,
}

/// The facts of a node's inputs, by position, and the subgraphs of its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    inputs: &'a [Option<&'a Fact>],
    subgraphs: &'a [(&'a str, &'a Graph)],
}

impl<'a> Facts<'a> {
    /// Facts of a node without subgraphs.
    pub const fn new(inputs: &'a [Option<&'a Fact>]) -> Self {
        Self { inputs, subgraphs: &[] }
    }

    /// The same with the subgraphs of the attributes of these names.
    pub const fn with_subgraphs(self, subgraphs: &'a [(&'a str, &'a Graph)]) -> Self {
        Self { subgraphs, ..self }
    }

    /// How many positions there are, present or not.
    pub const fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Whether there is no position.
    pub const fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// The fact at `index`; `None` if the input is absent.
    pub fn get(&self, index: usize) -> Option<&'a Fact> {
        self.inputs.get(index).copied().flatten()
    }

    /// The fact at `index`.
    ///
    /// # Errors
    /// If the input is absent.
    pub fn fact(&self, index: usize) -> Result<&'a Fact, OpError> {
        self.get(index).ok_or(OpError::Tensor(TensorError::MissingInput { index }))
    }

    /// The element type of the tensor at `index`, which `allowed` must accept.
    ///
    /// # Errors
    /// If the input is absent, no tensor, or of a type that is not allowed.
    pub fn dtype(&self, index: usize, allowed: fn(DType) -> bool) -> Result<DType, OpError> {
        let fact = self.fact(index)?;
        match fact.dtype() {
            Some(dtype) if allowed(dtype) => Ok(dtype),
            _ => Err(OpError::InputType { index, found: Box::new(fact.ty.clone()) }),
        }
    }

    /// Checks that the tensor at `index`, if present, has elements of type `expected`.
    ///
    /// # Errors
    /// If it has others.
    pub fn expect_dtype(&self, index: usize, expected: DType) -> Result<(), OpError> {
        match self.get(index) {
            Some(fact) if fact.dtype() != Some(expected) => {
                Err(OpError::InputDType { index, expected, found: Box::new(fact.ty.clone()) })
            }
            _ => Ok(()),
        }
    }

    /// The subgraph of the attribute `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn subgraph(&self, name: &'static str) -> Result<&'a Graph, OpError> {
        let found = self.subgraphs.iter().find(|(attr, _)| *attr == name);
        found.map(|(_, graph)| *graph).ok_or(OpError::MissingAttribute { name })
    }
}

/// Why a node is invalid, or cannot compute its outputs. The layer that knows the node's name adds it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// A required attribute is absent.
    #[error("attribute `{name}` is missing")]
    MissingAttribute {
        /// Its name.
        name: &'static str,
    },
    /// An attribute of another type than the operator's specification says.
    #[error("attribute `{name}` should be {expected}, but is {found}")]
    AttributeType {
        /// Its name.
        name: &'static str,
        /// The type in the specification.
        expected: &'static str,
        /// The type in the node.
        found: &'static str,
    },
    /// An attribute with a value that is not allowed (or not in this version).
    #[error("attribute `{name}` has the unsupported value {found}")]
    AttributeValue {
        /// Its name.
        name: &'static str,
        /// The value, printed.
        found: String,
    },
    /// An attribute that the operator does not have in this version.
    #[error("unknown attribute `{name}`")]
    UnknownAttribute {
        /// Its name.
        name: String,
    },
    /// Too few or too many inputs.
    #[error("takes {expected} inputs, found {found}")]
    InputCount {
        /// How many the operator takes, in words.
        expected: &'static str,
        /// How many there are.
        found: usize,
    },
    /// An input whose type the operator does not allow.
    #[error("input {index} has the unsupported type {found}")]
    InputType {
        /// The position of the input.
        index: usize,
        /// Its type.
        found: Box<Type>,
    },
    /// An input whose element type is not the one that follows from the others.
    #[error("input {index} should have elements of type {expected}, but is {found}")]
    InputDType {
        /// The position of the input.
        index: usize,
        /// The element type that is needed.
        expected: DType,
        /// Its type.
        found: Box<Type>,
    },
    /// An input of the wrong rank.
    #[error("input {index} should have rank {expected}, but has rank {found}")]
    InputRank {
        /// The position of the input.
        index: usize,
        /// The rank that is needed, in words.
        expected: &'static str,
        /// Its rank.
        found: usize,
    },
    /// Two dimensions that must agree do not.
    #[error("{what}: {left:?} does not fit {right:?}")]
    Shapes {
        /// Which dimensions of which inputs.
        what: &'static str,
        /// The first.
        left: Vec<usize>,
        /// The second.
        right: Vec<usize>,
    },
    /// An axis outside the rank.
    #[error("axis {axis} is out of range for rank {rank}")]
    Axis {
        /// The axis.
        axis: i64,
        /// The rank.
        rank: usize,
    },
    /// An index outside a dimension.
    #[error("{what}: index {index} is out of range for {len} elements")]
    Index {
        /// What is indexed.
        what: &'static str,
        /// The index.
        index: i64,
        /// The length of what is indexed.
        len: usize,
    },
    /// A value of an input that the operator does not allow.
    #[error("input {index}: {what}")]
    InputValue {
        /// The position of the input.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A result that would be too large to address.
    #[error("the result is too large")]
    TooLarge,
    /// A combination that this implementation cannot run.
    #[error("{what} is not supported")]
    Unsupported {
        /// The combination.
        what: &'static str,
    },
    /// An error that only the operator knows, of one that a program defines.
    #[error("{message}")]
    Custom {
        /// Its text.
        message: String,
    },
    /// Something is wrong with a tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
