//! What can be wrong with the state of a conversation.

use std::path::PathBuf;

use ort_graph::Type;
use ort_loader::LoadError;
use ort_tensor::TensorError;

use crate::error::SaveError;

/// State that does not fit the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// No output has the name of an input of the next run.
    #[error("no output is named as the next value of an input; the outputs are {}", outputs.join(", "))]
    NoPairs {
        /// The outputs there are.
        outputs: Vec<String>,
    },
    /// The model has no input or output of this name, or none that matches this pattern.
    #[error("there is no {kind} `{name}`")]
    Unknown {
        /// `input` or `output`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// An input or output has more than one partner.
    #[error("`{name}` is in more than one pair")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// An output is of another type than the input it is to become, or a value than its input.
    #[error("input `{input}` is {expected}, and what is to become it is {found}")]
    Type {
        /// The input.
        input: String,
        /// Its type.
        expected: Box<Type>,
        /// The other one.
        found: Box<Type>,
    },
    /// The size of a first value is not known.
    #[error(
        "input `{input}` has no first value: its dimension {axis} is unknown, so it must be set"
    )]
    NoFirstValue {
        /// The input.
        input: String,
        /// The dimension.
        axis: usize,
    },
    /// The state was made by another session.
    #[error("the state is not of this session")]
    OtherSession,
    /// A value that does not grow cannot be taken back.
    #[error("input `{input}` does not grow from run to run, so there is no going back")]
    Fixed {
        /// The input.
        input: String,
    },
    /// There are not so many tokens.
    #[error("the state has {len} entries, and {wanted} were to stay")]
    TooShort {
        /// How many there are.
        len: usize,
        /// How many should stay.
        wanted: usize,
    },
    /// There is no memory.
    #[error("input `{input}`: {error}")]
    Tensor {
        /// The input.
        input: String,
        /// What is wrong.
        error: TensorError,
    },
}

/// A file of state that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// What is in the file does not fit the model.
    #[error("{}: {error}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: StateError,
    },
    /// A value is no tensor of numbers, which is all that a file holds.
    #[error("input `{input}` is no tensor of numbers, and cannot be saved")]
    NotSaved {
        /// The input.
        input: String,
    },
    /// A file is not one of state, or is damaged.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(SaveError),
    /// It cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
}
