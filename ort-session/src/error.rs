//! What can go wrong between a path and a session, and between a caller and a run.

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

/// A model that cannot become a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The file cannot be had.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file is something else than a model.
    #[error("this is {format}, not an ONNX or ORT model: {}", format.advice())]
    NotAModel {
        /// What it is.
        format: FileFormat,
    },
    /// The bytes are no sound `.ort` file.
    #[error(transparent)]
    Format(#[from] Box<FormatError>),
    /// The bytes are no sound `.onnx` file.
    #[error(transparent)]
    Onnx(#[from] Box<OnnxError>),
    /// The model has elements in a file whose name leads out of its folder.
    #[error(transparent)]
    External(#[from] ElementsError),
    /// The file is valid, but the model is not valid or has unknown operators.
    #[error(transparent)]
    Import(#[from] Box<ImportError>),
    /// Optimizing failed.
    #[error(transparent)]
    Optimize(#[from] Box<OptimizeError>),
    /// No provider runs some node, or none could compile it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The caller called [`Cancel::cancel`](crate::Cancel::cancel).
    #[error("loading was cancelled")]
    Cancelled,
    /// The model wants more than it may have.
    #[error(transparent)]
    Limit(#[from] LoadLimitError),
    /// No pass of the optimizer has the name of one to be left out.
    #[error("there is no optimizer `{name}`{}", did_you_mean(*nearest))]
    UnknownOptimizer {
        /// The name given.
        name: String,
        /// The one that was probably meant.
        nearest: Option<&'static str>,
    },
    /// An operator that was added has the name of a standard one.
    #[error("{domain}:{name} is a standard operator, which cannot be replaced")]
    StandardOperator {
        /// The domain.
        domain: &'static str,
        /// The operator.
        name: &'static str,
    },
    /// The file has constants only as they are packed for other settings or another machine.
    #[error(
        "the file's weights are packed for `{packed_for}`, and this is `{here}`: run the original \
         model, or pack it for this machine"
    )]
    IncompatibleTarget {
        /// What they are packed for.
        packed_for: String,
        /// What the session would want them packed for.
        here: String,
    },
    /// A packed file whose bytes are not those that were written.
    #[error("the file is damaged: its sum is not that of its bytes")]
    Damaged,
    /// An override of a free dimension that does not fit the inputs.
    #[error(transparent)]
    FreeDimension(#[from] FreeDimensionError),
    /// An initializer that is given and does not fit the model's.
    #[error(transparent)]
    Initializer(#[from] InitializerError),
    /// The name of the file for the optimized model says that it is to have another format.
    #[error(
        "{}: only .ort files are written: name it so, or set session.save_model_format to ORT",
        path.display()
    )]
    SavedFormat {
        /// The file.
        path: PathBuf,
    },
    /// The optimized model cannot be saved.
    #[error("the optimized model is not saved: {0}")]
    Save(#[from] SaveError),
    /// The machine lacks the instruction set that was asked for.
    #[error(transparent)]
    Isa(#[from] UnavailableIsa),
    /// There are affinities for another number of helpers.
    #[error(
        "there are affinities for {n_groups} threads beside the caller, and the session has \
         {n_helpers}"
    )]
    Affinities {
        /// How many groups of processors there are.
        n_groups: usize,
        /// How many threads a run uses beside the caller.
        n_helpers: usize,
    },
    /// The system refuses to let a thread run on the processors it is to run on.
    #[error("cannot let threads run on the processors `{affinities}`: {source}")]
    Affinity {
        /// The processors of all helpers.
        affinities: Affinities,
        /// What the system says.
        source: io::Error,
    },
    /// The system refuses threads.
    #[error("cannot start {n_threads} threads: {reason}")]
    Threads {
        /// How many were asked for.
        n_threads: usize,
        /// What the system says.
        reason: String,
    },
}

/// A model that cannot be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The graph has something that no file can hold.
    #[error(transparent)]
    Export(#[from] Box<ExportError>),
    /// The file would be too big, or not sound.
    #[error(transparent)]
    Format(#[from] Box<WriteError>),
    /// The constants could not be packed.
    #[error(transparent)]
    Plan(#[from] Box<PlanError>),
    /// The packed constants would take more memory than [`LoadLimits`](crate::LoadLimits) allow.
    #[error(transparent)]
    Limit(#[from] LoadLimitError),
    /// A provider packs constants for this process only.
    #[error("a provider of the session packs its constants for one process only")]
    NotPackable,
    /// The model has constants only as kernels want them.
    #[error("the model's weights are there only as they are packed: convert the original model")]
    Released,
    /// A `.onnx` file that no reader would take.
    #[error("the file would have more than 2 GiB, which no reader of protobuf takes")]
    TooLarge,
    /// There is something else than a file in its place.
    #[error("{}: this is not a file", path.display())]
    NotAFile {
        /// The place.
        path: PathBuf,
    },
    /// The system does not write it.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Inputs that do not fit the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The model has no input of this name.
    #[error("there is no input `{name}`; the inputs are {}", known.join(", "))]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// More inputs by position than the model has.
    #[error("{found} inputs were given, but the model has {expected}")]
    TooMany {
        /// How many the model has.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// An input was given twice.
    #[error("input `{name}` was given twice")]
    Duplicate {
        /// The input.
        name: String,
    },
    /// An input is missing, and it has no default.
    #[error("input `{name}` ({expected}) is missing")]
    Missing {
        /// The input.
        name: String,
        /// Its type.
        expected: Box<Type>,
    },
    /// An input has another kind, element type, rank or dimension than the model says.
    #[error("input `{name}`: expected {expected}, found {found}")]
    Type {
        /// The input.
        name: String,
        /// Its declared type.
        expected: Box<Type>,
        /// The type of what was given.
        found: Box<Type>,
    },
    /// An input of a shape that no memory holds.
    #[error("input `{name}`: {error}")]
    Size {
        /// The input.
        name: String,
        /// What is wrong.
        error: TensorError,
    },
}

/// Outputs asked for that the model does not have, or memory that does not fit them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The model has no output of this name.
    #[error(
        "there is no output `{name}`{}; the outputs are {}",
        did_you_mean(nearest.as_deref()), known.join(", ")
    )]
    Unknown {
        /// The name given.
        name: String,
        /// The one that was probably meant.
        nearest: Option<String>,
        /// The names there are.
        known: Vec<String>,
    },
    /// An output was asked for twice, or has two places to be written to.
    #[error("output `{name}` was asked for twice")]
    Duplicate {
        /// The output.
        name: String,
    },
    /// The caller's memory has another element type or shape than the output.
    #[error("output `{name}` is {expected}, and the memory for it is {found}")]
    Type {
        /// The output.
        name: String,
        /// What the run makes.
        expected: Box<Type>,
        /// What the caller's memory is for.
        found: Box<Type>,
    },
}
