//! A saved model reads back as it was optimized: every node case and every model in the repository.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its own functions too")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use ort_conformance::{node_cases, run_data_set};
use ort_session::{Level, ModelBytes, Optimized, Session};
use ort_tensor_io::find_cases;

fn optimize(level: Level, bytes: Bytes) -> Result<Optimized, String> {
    let builder = Session::builder().level(level).threads(1);
    builder.optimize(ModelBytes::from_owner(bytes)).map_err(|error| error.to_string())
}

/// Checks the file saved from `model`.
fn difference(level: Level, model: &Bytes) -> Result<(), String> {
    // Models with unsupported operators are skipped.
    let Ok(optimized) = optimize(level, model.clone()) else { return Ok(()) };
    let read = read_back(&optimized)?;
    if operators(&optimized) != operators(&read) {
        return Err(format!("it reads back as\n{}", read.text()));
    }
    // Inference of the final graph can find more than inference after each rewrite did.
    let optimized = if level == Level::Disable { optimized } else { read };
    let read = read_back(&optimized)?;
    let (expected, found) = (optimized.text(), read.text());
    if let Some((expected, found)) = expected.lines().zip(found.lines()).find(|(a, b)| a != b) {
        return Err(format!("`{expected}` reads back as `{found}`"));
    }
    match bytes_of(&optimized)? == bytes_of(&read)? {
        true => Ok(()),
        false => Err("saving it again gives other bytes".to_owned()),
    }
}

/// The same for a file with NCHWc operators: these are read as plain ones, and converted to NCHWc again at level
/// layout.
fn difference_in_blocks(level: Level, model: &Bytes) -> Result<(), String> {
    let optimized = optimize(level, model.clone())?;
    let read = optimize(level, bytes_of(&optimized)?)?;
    match operators(&optimized) == operators(&read) {
        true => Ok(()),
        false => Err(format!("it reads back as\n{}", read.text())),
    }
}

fn bytes_of(optimized: &Optimized) -> Result<Bytes, String> {
    optimized.to_bytes().map(Bytes::from).map_err(|error| error.to_string())
}

fn read_back(optimized: &Optimized) -> Result<Optimized, String> {
    optimize(Level::Disable, bytes_of(optimized)?)
}

/// How many nodes apply each operator.
fn operators(optimized: &Optimized) -> Vec<(String, usize)> {
    let changes = optimized.operators().into_iter().filter(|change| change.after > 0);
    changes.map(|change| (change.op_type, change.after)).collect()
}

#[test]
fn every_node_case_reads_back_as_it_was_saved() {
    let files = node_cases::unpack(include_bytes!("../fixtures/node_cases.bin")).unwrap();
    let mut report = String::new();
    let models = files.iter().filter(|(path, _)| path.ends_with(".ort"));
    // Neighbouring cases are similar: one level each is enough.
    let levels = [Level::Disable, Level::All].into_iter().cycle();
    for ((path, model), level) in models.zip(levels) {
        if let Err(error) = difference(level, model) {
            writeln!(report, "{path} at {level}: {error}").unwrap();
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn the_models_in_the_repository_read_back_and_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    for case in find_cases(&folder).unwrap() {
        for path in &case.models {
            let model = Bytes::from(std::fs::read(path).unwrap());
            for level in Level::ALL {
                let result = match level {
                    Level::Layout | Level::All => difference_in_blocks(level, &model),
                    _ => difference(level, &model),
                };
                result.unwrap_or_else(|error| panic!("{} at {level}: {error}", case.name));
            }
            let saved = Bytes::from(optimize(Level::All, model).unwrap().to_bytes().unwrap());
            let session = Session::builder().threads(1).commit(ModelBytes::from_owner(saved));
            let session = session.unwrap();
            for set in &case.data_sets {
                let result = run_data_set(&session, files(set), case.tolerance);
                result.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            }
        }
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, Bytes)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let path = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path();
    let read = |path: PathBuf| (path.clone(), Bytes::from(std::fs::read(path).unwrap()));
    entries.map(path).map(read).collect()
}
