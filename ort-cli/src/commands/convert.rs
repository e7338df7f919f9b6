//! `convert`: converts models from one format to the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ort_session::{Level, Optimized, Pack, RequiredOperators, SaveError};
use serde_json::json;

use super::progress_bar;
use crate::examples::examples;
use crate::failure::Failure;
use crate::number;
use crate::options::{SessionOptions, Words, words};
use crate::print::{line, warning};
use crate::terminal::bold;

/// Convert a model, or a folder of models, from .onnx to .ort or back
///
/// The graph is not optimized unless --level is given. Functions of a .onnx file are inlined, and external data is
/// embedded. ONNX Runtime loads both formats, up to --level layout: in a .ort file, functions of the standard that its
/// CPU provider lacks, such as HardSwish, are expanded.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "convert models/ppocr_cls/model.onnx -o model.ort",
    "convert models -o converted --format onnx",
))]
pub(crate) struct Arguments {
    /// The model, or a folder that is searched recursively for .onnx and .ort files
    model: PathBuf,
    /// The output: a path that ends in .ort or .onnx, or a folder
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The format that the models of a folder are converted to
    #[arg(long, value_name = "FORMAT", default_value = "ort", value_parser = words(FORMATS))]
    format: Format,
    /// Also save every constant packed for the kernels of this machine, in .ort files
    #[arg(long)]
    pack: bool,
    /// Optimize up to --level (`fixed`), or at most up to level `basic` (`runtime`)
    ///
    /// With style `runtime`, ONNX Runtime's converter records in the file which quantized operators and activations could
    /// be fused, for minimal builds. This program records none: since 1.30 ONNX Runtime ignores such records unless
    /// session.enable_saved_runtime_optimizations is 1, its full builds find these fusions themselves in .onnx files,
    /// and results are the same without.
    #[arg(long, value_name = "STYLE", default_value = "fixed", value_parser = words(STYLES))]
    optimization_style: Style,
    /// The processors the model is for: only amd64 allows --level layout to convert to the NCHWc layout
    #[arg(long, value_name = "PLATFORM", value_parser = words(PLATFORMS))]
    target_platform: Option<Platform>,
    /// Also write the operators that the models need, as ONNX Runtime's build option --include_ops_by_config reads them
    #[arg(long, value_name = "FILE")]
    required_operators: Option<PathBuf>,
    /// Also write the types of their operands to that file
    #[arg(long, requires = "required_operators")]
    enable_type_reduction: bool,
    /// Print one JSON object per model
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    session: SessionOptions,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Ort,
    Onnx,
}

const FORMATS: Words<Format> = &[("ort", Format::Ort), ("onnx", Format::Onnx)];

/// How much is optimized before the model is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Fixed,
    Runtime,
}

const STYLES: Words<Style> = &[("fixed", Style::Fixed), ("runtime", Style::Runtime)];

/// The processors that a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Platform {
    Amd64,
    Arm,
}

const PLATFORMS: Words<Platform> = &[("amd64", Platform::Amd64), ("arm", Platform::Arm)];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut required = Required::default();
    let is_whole = convert_all(arguments, &mut required)?;
    if let Some(path) = &arguments.required_operators {
        let text = required.text(arguments.enable_type_reduction);
        make_folder(path)?;
        fs::write(path, text).map_err(|source| Failure::Page { path: path.clone(), source })?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether all models could be converted.
fn convert_all(arguments: &Arguments, required: &mut Required) -> Result<bool, Failure> {
    let (from, to) = (&arguments.model, &arguments.output);
    if !from.is_dir() {
        let format = format_of(to).ok_or_else(|| Failure::Extension { path: to.clone() })?;
        required.add(from, &convert(arguments, from, to, format)?);
        return Ok(true);
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
        // A model that cannot be converted does not stop the others.
        match done {
            Ok(optimized) => required.add(model, &optimized),
            Err(failure) => {
                is_whole = false;
                bar.suspend(|| crate::print::error(&failure));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(is_whole)
}

/// What the converted models need.
#[derive(Debug, Default)]
struct Required {
    models: Vec<String>,
    operators: RequiredOperators,
}

impl Required {
    fn add(&mut self, model: &Path, optimized: &Optimized) {
        self.models.push(model.display().to_string());
        self.operators.merge(optimized.required_operators());
    }

    fn text(&self, has_types: bool) -> String {
        let models: String = self.models.iter().map(|model| format!("# - {model}\n")).collect();
        format!("# Generated from:\n{models}{}", self.operators.to_config(has_types))
    }
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

/// Converts the model at `from`.
fn convert(
    arguments: &Arguments,
    from: &Path,
    to: &Path,
    format: Format,
) -> Result<Optimized, Failure> {
    if let (Ok(from), Ok(to)) = (fs::canonicalize(from), fs::canonicalize(to))
        && from == to
    {
        return Err(Failure::Overwrite { path: to });
    }
    let optimized = optimize(arguments, from, format)?;
    let n_bytes = save(&optimized, to, format, arguments.pack);
    let n_bytes = n_bytes.map_err(|source| Failure::save(from, source))?;
    if arguments.json {
        let (from, to) = (from.to_string_lossy(), to.to_string_lossy());
        line(json!({ "model": from, "output": to, "file_bytes": n_bytes }))?;
    } else {
        let (from, to) = (bold(from.display()), bold(to.display()));
        line(format!("{from} → {to} · {}", number::bytes(n_bytes)))?;
    }
    Ok(optimized)
}

fn optimize(arguments: &Arguments, from: &Path, format: Format) -> Result<Optimized, Failure> {
    let most = match arguments.optimization_style {
        Style::Fixed => Level::All,
        Style::Runtime => Level::Basic,
    };
    // The block size of NCHWc depends on the processor.
    let disabled = match arguments.target_platform {
        Some(Platform::Amd64) => &[][..],
        Some(Platform::Arm) | None => &["NchwcTransformer"],
    };
    let mut optimized = arguments.session.convert(from, most, disabled)?;
    if format == Format::Ort && !optimized.is_packed() {
        let left = optimized.lower_for_onnx_runtime();
        for name in left.map_err(|source| Failure::model(from, source))? {
            warning(&format!("{}: ONNX Runtime has no kernel for {name}", from.display()));
        }
    }
    Ok(optimized)
}

fn save(optimized: &Optimized, to: &Path, format: Format, packs: bool) -> Result<usize, SaveError> {
    match format {
        Format::Onnx => optimized.write_onnx(to),
        Format::Ort if packs => {
            optimized.write_packed(to, Pack::KeepOriginals).map(|size| size.file_bytes)
        }
        Format::Ort => optimized.write(to),
    }
}
