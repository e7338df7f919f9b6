//! The program as scripts see it: standard output, standard error and exit codes.

#![cfg(test)]

mod bench;
mod cache;
mod compare;
mod convert;
mod errors;
mod generate;
mod help;
mod inspect;
mod mem;
mod optimize;
mod pooling;
mod profile;
mod run;
#[cfg(unix)]
mod terminal;
mod test;
mod threads;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value as Json;

/// The result of one call of the program.
#[derive(Debug)]
struct Called {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Calls the program.
fn ort_cli(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Called {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ort-cli")).args(arguments).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Called { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Called {
    /// The one JSON object that was printed.
    fn json(&self) -> Json {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        serde_json::from_str(&self.stdout).expect("JSON")
    }
}

/// The path of one of the models that come with the repository.
fn model(name: &str) -> String {
    format!("{}/model.ort", folder(name))
}

/// The folder of one of them.
fn folder(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models").join(name);
    folder.to_str().expect("text").to_owned()
}

/// The keys of an object, sorted.
fn keys(json: &Json) -> Vec<&str> {
    let mut keys: Vec<&str> = json.as_object().expect("an object").keys().map(|k| &**k).collect();
    keys.sort_unstable();
    keys
}
