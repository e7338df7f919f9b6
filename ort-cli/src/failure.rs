//! The errors of the program. Each message is one line and identifies what failed.

use std::io;
use std::path::{Path, PathBuf};

use ort_session::{RunError, SaveError, SessionError, StateError, TensorError, Type, nearest};
use ort_tensor_io::{CaseError, FileError};

use crate::number::plural;

/// Why the program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// The model cannot become a session.
    #[error("{}", of_model(path, source))]
    Model { path: PathBuf, source: Box<SessionError> },
    /// The inputs are invalid, or a node failed.
    #[error("{}: {source}", path.display())]
    Run { path: PathBuf, source: Box<RunError> },
    /// The optimized model cannot be saved.
    #[error("{}", of_saving(path, source))]
    Save { path: PathBuf, source: Box<SaveError> },
    /// A name that does not determine the format of a model.
    #[error("{}: expected a name that ends in .ort or .onnx", path.display())]
    Extension { path: PathBuf },
    /// The result would overwrite the model.
    #[error("{}: this would overwrite the model: choose another --output", path.display())]
    Overwrite { path: PathBuf },
    /// A file of values cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder cannot be searched for test cases.
    #[error(transparent)]
    Cases(#[from] CaseError),
    /// A folder has no test case.
    #[error("{}: no test case here: a .ort or .onnx file next to test_data_set_0", path.display())]
    NoCase { path: PathBuf },
    /// A folder has no inputs.
    #[error("{}: no inputs here: input_0.pb or input_0.npy", path.display())]
    NoInput { path: PathBuf },
    /// A file contains no name, and its number matches no input of the model.
    #[error("{}: input_{position} has no name, and the model has {}", path.display(), plural(*n_inputs, "input"))]
    Position { path: PathBuf, position: usize, n_inputs: usize },
    /// An option names an input that the model does not have.
    #[error("{flag} {name}: no such input; the inputs are {}", known.join(", "))]
    UnknownInput { flag: &'static str, name: String, known: Vec<String> },
    /// There are no random values of this type.
    #[error("input `{name}` is {ty}, which cannot be random: use --input {name}=FILE")]
    NotRandom { name: String, ty: Box<Type> },
    /// The model does not say how many dimensions an input has.
    #[error("input `{name}` has unknown rank: use --shape {name}=1x2x3")]
    NoRank { name: String },
    /// The nodes accept none of the sizes that were tried for free dimensions.
    #[error(
        "no valid sizes found for the free dimensions of {}: set --shape {}=…; with 1 for each, {source}",
        quoted(names), names.first().map_or("NAME", String::as_str)
    )]
    NoSizes { names: Vec<String>, source: Box<RunError> },
    /// A random input is too large.
    #[error("input `{name}`: {source}")]
    Size { name: String, source: TensorError },
    /// A folder for results cannot be created.
    #[error("{}: cannot be created: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// The manual page of an unknown subcommand was requested.
    #[error("no subcommand `{name}`{}", suggestion(name, known))]
    UnknownSubcommand { name: String, known: Vec<String> },
    /// A trace cannot be written.
    #[error(transparent)]
    Trace(#[from] ort_session::ProfileError),
    /// An HTML or manual page cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Page { path: PathBuf, source: io::Error },
    /// A cache folder cannot be read, or a file in it cannot be removed.
    #[error("{}: {source}", path.display())]
    Cache { path: PathBuf, source: io::Error },
    /// The system's report on the process cannot be read.
    #[error(transparent)]
    Measure(#[from] ort_session::MeasureError),
    /// The system has no such report.
    #[error("this system does not report the memory of processes")]
    NotReported,
    /// The number of input folders is neither zero nor that of the models.
    #[error("--inputs is given {n_folders} times for {}: give it once for each, or not at all", plural(*n_models, "model"))]
    InputFolders { n_folders: usize, n_models: usize },
    /// The picture cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Picture { path: PathBuf, source: io::Error },
    /// A child process cannot be started, or communication with it failed.
    #[error("child process {}: {source}", path.display())]
    Process { path: PathBuf, source: io::Error },
    /// A child process exited early or with a failure; it has printed the reason.
    #[error("child process {id} failed: {status}")]
    Ended { id: u32, status: std::process::ExitStatus },
    /// Waiting for the end of standard input failed.
    #[error("standard input: {0}")]
    Wait(#[source] io::Error),
    /// `genai_config.json` cannot be read.
    #[error("{}: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    /// A tokenizer cannot be read or used.
    #[error("{}: {reason}", path.display())]
    Tokenizer { path: PathBuf, reason: String },
    /// The prompt is empty.
    #[error("the prompt has no tokens")]
    NoTokens,
    /// The model is not a supported language model.
    #[error("no input of the model is named input_ids: its inputs are {}", names.join(", "))]
    NoIds { names: Vec<String> },
    /// An input that is neither tokens nor follows from them.
    #[error(
        "input `{name}` ({ty}) does not follow from tokens: `generate` does not support this model"
    )]
    NotGenerated { name: String, ty: Box<Type> },
    /// A model without outputs other than its state.
    #[error("{}: no output for the logits", path.display())]
    NoLogits { path: PathBuf },
    /// The model does not have the named pairs.
    #[error("{}: {source}", path.display())]
    State { path: PathBuf, source: Box<StateError> },
    /// A value cannot be copied: out of memory.
    #[error("value `{name}`: {source}")]
    Value { name: String, source: TensorError },
    /// The arguments are wrong.
    #[error(transparent)]
    Usage(clap::Error),
    /// Results cannot be printed.
    #[error("standard output: {0}")]
    Print(#[source] io::Error),
}

impl Failure {
    /// A model that cannot become a session.
    pub(crate) fn model(path: &Path, source: SessionError) -> Self {
        Failure::Model { path: path.to_owned(), source: Box::new(source) }
    }

    /// A model that cannot be saved.
    pub(crate) fn save(path: &Path, source: SaveError) -> Self {
        Failure::Save { path: path.to_owned(), source: Box::new(source) }
    }

    /// A run that failed.
    pub(crate) fn run(path: &Path, source: RunError) -> Self {
        Failure::Run { path: path.to_owned(), source: Box::new(source) }
    }
}

/// `` `a`, `b` ``
fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The most similar known word, or all of them.
fn suggestion(word: &str, known: &[String]) -> String {
    match nearest(word, known.iter().map(String::as_str)) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; the subcommands are {}", known.join(", ")),
    }
}

/// Messages about the file already name it, and those about the machine have no file.
fn of_model(path: &Path, source: &SessionError) -> String {
    match source {
        SessionError::Load(_)
        | SessionError::Isa(_)
        | SessionError::Threads { .. }
        | SessionError::UnknownOptimizer { .. } => source.to_string(),
        _ => format!("{}: {source}", path.display()),
    }
}

/// Messages about the output file already name it.
fn of_saving(path: &Path, source: &SaveError) -> String {
    match source {
        SaveError::NotAFile { .. } | SaveError::Write { .. } => source.to_string(),
        _ => format!("{}: {source}", path.display()),
    }
}
