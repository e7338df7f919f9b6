//! Packages every published crate, and checks that each builds from its package.
//!
//! cargo makes the packages, in order of their dependencies. They are unpacked into a separate workspace, in which
//! each crate depends on the packages of the others, so the build fails if a file is missing. Nothing is uploaded,
//! and the registry is not queried.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::api::is_published;
use crate::problem::{Failure, Problem};
use crate::repository::Repository;

/// Makes and checks the packages.
pub(crate) fn run(repository: &Repository) -> Result<Vec<Problem>, Failure> {
    let published = repository.crates().filter(|(_, manifest)| is_published(manifest));
    let names: Vec<_> = published.map(|(name, _)| name).collect();
    let target = repository.root.join("target/packages");
    let target_dir = [OsStr::new("--target-dir"), target.as_os_str()];
    let package =
        ["package", "--quiet", "--offline", "--no-verify", "--allow-dirty"].map(OsStr::new);
    let chosen = names.iter().flat_map(|name| ["-p", name]).map(OsStr::new);
    let arguments = package.into_iter().chain(target_dir).chain(chosen);
    execute("cargo", &repository.root, arguments)?;

    let unpacked = target.join("unpacked");
    if unpacked.exists() {
        on(&unpacked, |path| fs::remove_dir_all(path))?;
    }
    on(&unpacked, |path| fs::create_dir_all(path))?;
    for name in &names {
        let package = target.join(format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        // With the current time: cargo gives all files of all packages the same time, so that none would seem
        // changed.
        execute("tar", &unpacked, [OsStr::new("-xzmf"), package.as_os_str()])?;
    }
    on(&unpacked.join("Cargo.toml"), |path| fs::write(path, workspace(&names)))?;
    on(&unpacked.join("Cargo.lock"), |to| fs::copy(repository.root.join("Cargo.lock"), to))?;
    let check = ["check", "--quiet", "--offline", "--workspace"].map(OsStr::new);
    execute("cargo", &unpacked, check.into_iter().chain(target_dir))?;
    Ok(Vec::new())
}

/// The manifest above the unpacked packages.
fn workspace(names: &[&str]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut manifest =
        String::from("[workspace]\nresolver = \"3\"\nmembers = [\"ort-*\"]\n\n[patch.crates-io]\n");
    for name in names {
        // Writing to a string does not fail.
        let _ = writeln!(manifest, "{name} = {{ path = \"{name}-{version}\" }}");
    }
    manifest
}

fn on<T>(path: &Path, act: impl FnOnce(&Path) -> std::io::Result<T>) -> Result<T, Failure> {
    act(path).map_err(|source| Failure::File { path: path.to_owned(), source })
}

fn execute<'a>(
    program: &'static str,
    folder: &Path,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Result<(), Failure> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.map_err(|source| Failure::Start { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::Program { program, status: output.status, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_replaces_the_registry() {
        let manifest = workspace(&["ort-a"]);
        let version = env!("CARGO_PKG_VERSION");
        let row = format!("[patch.crates-io]\nort-a = {{ path = \"ort-a-{version}\" }}\n");
        assert!(manifest.ends_with(&row), "{manifest}");
    }
}
