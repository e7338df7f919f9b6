//! `convert`: models from one format to the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ort_session::{Optimized, Pack, SaveError};
use serde_json::json;

use super::progress_bar;
use crate::failure::Failure;
use crate::number;
use crate::options::{SessionOptions, Words, words};
use crate::print::{bold, line};

/// Convert models from .onnx to .ort and back, one or a folder of them
///
/// The graph stays as it is unless --level says otherwise; functions of a .onnx file are written out where they are
/// called, and elements in other files go into the one that is written. ONNX Runtime loads both formats, up to --level layout.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The model, or a folder: then every .onnx and .ort file in it, however deep
    model: PathBuf,
    /// Where it goes: a name that ends in .ort or .onnx, or a folder
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// What the models of a folder become
    #[arg(long, value_name = "FORMAT", default_value = "ort", value_parser = words(FORMATS))]
    format: Format,
    /// Also save every constant as the kernels of this machine want it, in .ort files
    #[arg(long)]
    pack: bool,
    /// Print one JSON object a model
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionOptions,
}

/// What a file is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Ort,
    Onnx,
}

const FORMATS: Words<Format> = &[("ort", Format::Ort), ("onnx", Format::Onnx)];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (from, to) = (&arguments.model, &arguments.output);
    if !from.is_dir() {
        let format = format_of(to).ok_or_else(|| Failure::Extension { path: to.clone() })?;
        convert(arguments, from, to, format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let models = models(from)?;
    let bar = progress_bar(models.len());
    let mut is_whole = true;
    for model in &models {
        let inside = model.strip_prefix(from).unwrap_or(model);
        bar.set_message(inside.display().to_string());
        let (extension, _) =
            FORMATS.iter().find(|(_, it)| *it == arguments.format).unwrap_or(&FORMATS[0]);
        let output = to.join(inside).with_extension(extension);
        let done = make_folder(&output)
            .and_then(|()| bar.suspend(|| convert(arguments, model, &output, arguments.format)));
        // One model that cannot be converted must not keep the others from it.
        if let Err(failure) = done {
            is_whole = false;
            bar.suspend(|| crate::print::error(&failure));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn format_of(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?;
    FORMATS.iter().find(|(name, _)| *name == extension).map(|(_, format)| *format)
}

/// The models in a folder and those below it, sorted.
fn models(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |source| Failure::Folder { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(models(&entry.path())?);
        } else if format_of(&entry.path()).is_some() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn make_folder(output: &Path) -> Result<(), Failure> {
    let folder = output.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|source| Failure::Folder { path: folder.to_owned(), source })
}

fn convert(arguments: &Arguments, from: &Path, to: &Path, format: Format) -> Result<(), Failure> {
    if let (Ok(from), Ok(to)) = (fs::canonicalize(from), fs::canonicalize(to))
        && from == to
    {
        return Err(Failure::Overwrite { path: to });
    }
    let optimized = arguments.session.convert(from)?;
    let n_bytes = save(&optimized, to, format, arguments.pack);
    let n_bytes = n_bytes.map_err(|source| Failure::save(from, source))?;
    if arguments.json {
        let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
        return line(json!({ "model": from, "output": to, "file_bytes": n_bytes }));
    }
    let (from, to) = (bold(from.display()), bold(to.display()));
    line(format!("{from} → {to} · {}", number::bytes(n_bytes)))
}

fn save(optimized: &Optimized, to: &Path, format: Format, packs: bool) -> Result<usize, SaveError> {
    match format {
        Format::Onnx => optimized.write_onnx(to),
        Format::Ort if packs => {
            optimized.write_packed(to, Pack::Beside).map(|size| size.file_bytes)
        }
        Format::Ort => optimized.write(to),
    }
}
