//! Everything that ends the program with an error. Each message is one line and names its culprit.

use std::io;
use std::path::{Path, PathBuf};

use ort_session::{RunError, SaveError, SessionError, StateError, TensorError, Type, nearest};
use ort_tensor_io::{CaseError, FileError};

use crate::number::plural;

/// Why the program could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// The model cannot become a session.
    #[error("{}", of_model(path, source))]
    Model { path: PathBuf, source: Box<SessionError> },
    /// The inputs do not fit, or a node cannot compute.
    #[error("{}: {source}", path.display())]
    Run { path: PathBuf, source: Box<RunError> },
    /// The optimized model cannot be saved.
    #[error("{}", of_saving(path, source))]
    Save { path: PathBuf, source: Box<SaveError> },
    /// A name that does not say which format a model is to have.
    #[error("{}: expected a name that ends in .ort or .onnx", path.display())]
    Extension { path: PathBuf },
    /// The model would be replaced by what it becomes.
    #[error("{}: this is the model itself: give --output another name", path.display())]
    Overwrite { path: PathBuf },
    /// A file of values cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder cannot be searched for cases.
    #[error(transparent)]
    Cases(#[from] CaseError),
    /// A folder has no case in it.
    #[error("{}: no case here: a .ort or .onnx file beside test_data_set_0", path.display())]
    NoCase { path: PathBuf },
    /// A folder has no input in it.
    #[error("{}: no input here: a file input_0.pb or input_0.npy", path.display())]
    NoInput { path: PathBuf },
    /// A file has no name in it, and its number is none of the model's inputs.
    #[error("{}: input_{position} has no name, and the model has {}", path.display(), plural(*n_inputs, "input"))]
    Position { path: PathBuf, position: usize, n_inputs: usize },
    /// An option names an input that the model does not have.
    #[error("{flag} {name}: there is no such input; the inputs are {}", known.join(", "))]
    UnknownInput { flag: &'static str, name: String, known: Vec<String> },
    /// Random numbers do not make a value of this type.
    #[error("input `{name}` is {ty}, which cannot be random: use --input {name}=FILE")]
    NotRandom { name: String, ty: Box<Type> },
    /// The model does not say how many dimensions an input has.
    #[error("input `{name}` has no known rank: use --shape {name}=1x2x3")]
    NoRank { name: String },
    /// No sizes that were tried for dimensions that the model leaves free fit its nodes.
    #[error(
        "no sizes are found that fit for the free dimensions of {}: set --shape {}=…; with 1 for each, {source}",
        quoted(names), names.first().map_or("NAME", String::as_str)
    )]
    NoSizes { names: Vec<String>, source: Box<RunError> },
    /// A random input is too large.
    #[error("input `{name}`: {source}")]
    Size { name: String, source: TensorError },
    /// A folder for results cannot be made.
    #[error("{}: cannot be made: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// There is no page of such a subcommand.
    #[error("there is no subcommand `{name}`{}", suggestion(name, known))]
    UnknownSubcommand { name: String, known: Vec<String> },
    /// A trace cannot be written.
    #[error(transparent)]
    Trace(#[from] ort_session::ProfileError),
    /// A page cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Page { path: PathBuf, source: io::Error },
    /// A cache folder cannot be read, or a file in it not removed.
    #[error("{}: {source}", path.display())]
    Cache { path: PathBuf, source: io::Error },
    /// The kernel does not say what the process holds.
    #[error(transparent)]
    Measure(#[from] ort_session::MeasureError),
    /// There is nothing to measure with.
    #[error("this system does not tell what a process holds")]
    NotTold,
    /// There are as many folders of inputs as models, or none.
    #[error("--inputs {n_folders} times for {}: give it once for each, or not at all", plural(*n_models, "model"))]
    InputFolders { n_folders: usize, n_models: usize },
    /// The picture cannot be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Picture { path: PathBuf, source: io::Error },
    /// A process of our own cannot be started, or not be talked to.
    #[error("a process of {}: {source}", path.display())]
    Process { path: PathBuf, source: io::Error },
    /// A process of our own ended before its session was ready, or badly; it has said why.
    #[error("process {id} ended with {status}")]
    Ended { id: u32, status: std::process::ExitStatus },
    /// Standard input cannot be waited for.
    #[error("standard input: {0}")]
    Wait(#[source] io::Error),
    /// A file beside the model cannot be read.
    #[error("{}: {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    /// A tokenizer cannot be read, or not be used.
    #[error("{}: {reason}", path.display())]
    Tokenizer { path: PathBuf, reason: String },
    /// There is nothing to begin with.
    #[error("there is no token to begin with")]
    NoTokens,
    /// The model is no language model that can be fed.
    #[error("no input of the model is named input_ids: its inputs are {}", names.join(", "))]
    NoIds { names: Vec<String> },
    /// An input that is neither a token, nor follows from tokens.
    #[error("input `{name}` ({ty}) follows from no token: this model cannot be generated with")]
    NotGenerated { name: String, ty: Box<Type> },
    /// A model that makes nothing but its state.
    #[error("{}: no output is left for the logits", path.display())]
    NoLogits { path: PathBuf },
    /// The pairs that are named are not the model's.
    #[error("{}: {source}", path.display())]
    State { path: PathBuf, source: Box<StateError> },
    /// There is no memory for a copy of a value.
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

/// The known word that was probably meant, or all of them.
fn suggestion(word: &str, known: &[String]) -> String {
    match nearest(word, known.iter().map(String::as_str)) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; there are {}", known.join(", ")),
    }
}

/// A message about the file itself names it already, and one about the machine has no file.
fn of_model(path: &Path, source: &SessionError) -> String {
    match source {
        SessionError::Load(_)
        | SessionError::Isa(_)
        | SessionError::Threads { .. }
        | SessionError::UnknownOptimizer { .. } => source.to_string(),
        _ => format!("{}: {source}", path.display()),
    }
}

/// A message about the file to be written names it already.
fn of_saving(path: &Path, source: &SaveError) -> String {
    match source {
        SaveError::NotAFile { .. } | SaveError::Write { .. } => source.to_string(),
        _ => format!("{}: {source}", path.display()),
    }
}
