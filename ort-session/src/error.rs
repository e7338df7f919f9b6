//! The errors of loading a session, saving a model, and calling a run.

use std::io;
use std::path::PathBuf;

use ort_ep_cpu::UnavailableIsa;
use ort_format::{FormatError, WriteError};
use ort_graph::{ExportError, ImportError, Type};
use ort_loader::LoadError;
use ort_onnx::{ElementsError, OnnxError};
use ort_optimizer::OptimizeError;
use ort_tensor::TensorError;

use crate::file_format::FileFormat;
use crate::free_dims::FreeDimensionError;
use crate::initializers::InitializerError;
use crate::load_limits::LoadLimitError;
use crate::plan::PlanError;
use crate::threads::Affinities;

/// A model that cannot be loaded as a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file is not a model.
    #[error("this is {format}, not an ONNX or ORT model: {}", format.advice())]
    NotAModel {
        /// Its format.
        format: FileFormat,
    },
    /// The bytes are not a valid `.ort` file.
    #[error(transparent)]
    Format(#[from] Box<FormatError>),
    /// The bytes are not a valid `.onnx` file.
    #[error(transparent)]
    Onnx(#[from] Box<OnnxError>),
    /// The model has external data in a file outside of its folder.
    #[error(transparent)]
    External(#[from] ElementsError),
    /// The file is valid, but the model is not valid or has unknown operators.
    #[error(transparent)]
    Import(#[from] Box<ImportError>),
    /// Optimizing failed.
    #[error(transparent)]
    Optimize(#[from] Box<OptimizeError>),
    /// No provider runs some node, or its provider could not compile it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// [`Cancel::cancel`](crate::Cancel::cancel) was called.
    #[error("loading was cancelled")]
    Cancelled,
    /// The model exceeds a limit.
    #[error(transparent)]
    Limit(#[from] LoadLimitError),
    /// An optimizer pass to be disabled is unknown.
    #[error("there is no optimizer `{name}`{}", did_you_mean(*nearest))]
    UnknownOptimizer {
        /// The name.
        name: String,
        /// The name that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A custom operator has the name of a standard one.
    #[error("{domain}:{name} is a standard operator, which cannot be replaced")]
    StandardOperator {
        /// The domain.
        domain: &'static str,
        /// The operator.
        name: &'static str,
    },
    /// The file's constants are only packed for another target.
    #[error(
        "the file's weights are packed for `{packed_for}`, and this is `{here}`: run the original \
         model, or pack it for this machine"
    )]
    IncompatibleTarget {
        /// The target of the file.
        packed_for: String,
        /// The target of the session.
        here: String,
    },
    /// The bytes of a packed file do not match its checksum.
    #[error("the file is damaged: its checksum does not match")]
    Damaged,
    /// An override of a free dimension that does not fit the inputs.
    #[error(transparent)]
    FreeDimension(#[from] FreeDimensionError),
    /// A replaced initializer does not match the model's.
    #[error(transparent)]
    Initializer(#[from] InitializerError),
    /// The extension of the file for the optimized model is that of another format.
    #[error(
        "{}: only .ort files are written: use that extension, or set session.save_model_format to ORT",
        path.display()
    )]
    SavedFormat {
        /// The file.
        path: PathBuf,
    },
    /// The optimized model cannot be saved.
    #[error("the optimized model cannot be saved: {0}")]
    Save(#[from] SaveError),
    /// The machine lacks the requested instruction set.
    #[error(transparent)]
    Isa(#[from] UnavailableIsa),
    /// The number of affinities is not the number of workers.
    #[error(
        "the affinities are for {n_groups} threads besides the caller, but the session has \
         {n_helpers}"
    )]
    Affinities {
        /// The number of groups of processors.
        n_groups: usize,
        /// The number of threads besides the caller.
        n_helpers: usize,
    },
    /// The system cannot set the affinity of a thread.
    #[error("cannot pin threads to the processors `{affinities}`: {source}")]
    Affinity {
        /// The affinities of all workers.
        affinities: Affinities,
        /// The error of the system.
        source: io::Error,
    },
    /// The system cannot start threads.
    #[error("cannot start {n_threads} threads: {reason}")]
    Threads {
        /// The requested number.
        n_threads: usize,
        /// The error of the system.
        reason: String,
    },
}

/// A model that cannot be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The graph has something that the format cannot represent.
    #[error(transparent)]
    Export(#[from] Box<ExportError>),
    /// Operators that are newer than the model's could not be written out.
    #[error(transparent)]
    Optimize(#[from] Box<OptimizeError>),
    /// The file would be too big, or invalid.
    #[error(transparent)]
    Format(#[from] Box<WriteError>),
    /// The constants could not be packed.
    #[error(transparent)]
    Plan(#[from] Box<PlanError>),
    /// The packed constants would take more memory than [`LoadLimits`](crate::LoadLimits) allow, or saving more time.
    #[error(transparent)]
    Limit(#[from] LoadLimitError),
    /// There is no memory for the file, or it would exceed [`LoadLimits`](crate::LoadLimits).
    #[error("no memory for the file: {0}")]
    Memory(#[from] TensorError),
    /// [`Cancel::cancel`](crate::Cancel::cancel) was called.
    #[error("saving was cancelled")]
    Cancelled,
    /// A provider packs constants for this process only.
    #[error("a provider of the session packs its constants for one process only")]
    NotPackable,
    /// The model only has packed constants.
    #[error("the model only has packed weights: convert the original model")]
    Released,
    /// A `.onnx` file of more than 2 GiB.
    #[error("the file would have more than 2 GiB, which protobuf readers reject")]
    TooLarge,
    /// The path is not a file.
    #[error("{}: not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The system cannot write the file.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Inputs that do not match the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The model has no input of this name.
    #[error("there is no input `{name}`; the inputs are {}", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The names of the model's inputs.
        known: Vec<String>,
    },
    /// There are more positional inputs than the model has.
    #[error("{found} inputs were passed, but the model has {expected}")]
    TooMany {
        /// The number of the model's inputs.
        expected: usize,
        /// The number of inputs passed.
        found: usize,
    },
    /// An input was passed twice.
    #[error("input `{name}` was passed twice")]
    Duplicate {
        /// The input.
        name: String,
    },
    /// An input without a default is missing.
    #[error("input `{name}` ({expected}) is missing")]
    Missing {
        /// The input.
        name: String,
        /// Its type.
        expected: Box<Type>,
    },
    /// The kind, element type, rank or a dimension of an input is not the declared one.
    #[error("input `{name}`: expected {expected}, found {found}")]
    Type {
        /// The input.
        name: String,
        /// Its declared type.
        expected: Box<Type>,
        /// The actual type.
        found: Box<Type>,
    },
    /// An input of a shape too large for memory.
    #[error("input `{name}`: {error}")]
    Size {
        /// The input.
        name: String,
        /// The error.
        error: TensorError,
    },
}

/// Requested outputs that the model does not have, or memory that does not match them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The model has no output of this name.
    #[error(
        "there is no output `{name}`{}; the outputs are {}",
        did_you_mean(nearest.as_deref()), known.join(", ")
    )]
    Unknown {
        /// The name.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// The names of the model's outputs.
        known: Vec<String>,
    },
    /// An output was requested twice, or is bound twice.
    #[error("output `{name}` was requested twice")]
    Duplicate {
        /// The output.
        name: String,
    },
    /// The element type or shape of the caller's memory is not that of the output.
    #[error("output `{name}` is {expected}, and the memory for it is {found}")]
    Type {
        /// The output.
        name: String,
        /// The type of the output.
        expected: Box<Type>,
        /// The type of the memory.
        found: Box<Type>,
    },
}
