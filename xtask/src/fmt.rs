//! rustfmt on every tracked Rust file. `cargo fmt` does not follow modules that a macro declares,
//! so the files are named one by one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use crate::problem::{Failure, Problem};
use crate::repository::Repository;

const RUSTFMT: &str = "rustfmt";

/// Formats in place.
pub(crate) fn write(repository: &Repository) -> Result<Vec<Problem>, Failure> {
    rustfmt(repository, &[])?;
    Ok(Vec::new())
}

/// One problem per file that is not formatted.
pub(crate) fn check(repository: &Repository) -> Result<Vec<Problem>, Failure> {
    let output = rustfmt(repository, &["--check", "--files-with-diff"])?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    // rustfmt follows modules: it names a file once for each module above it, and untracked files.
    let paths: BTreeSet<_> = stdout.lines().map(|path| relative(&repository.root, path)).collect();
    let paths = paths.into_iter().filter(|path| repository.file(path).is_some());
    let problem = |path: String| Problem::new(&path, 1, "fmt", "run `cargo xtask fmt`");
    Ok(paths.map(problem).collect())
}

fn rustfmt(repository: &Repository, flags: &[&str]) -> Result<Output, Failure> {
    let files = repository.with_extension("rs").map(|file| repository.root.join(&file.path));
    let output = Command::new(RUSTFMT)
        .args(["--edition", "2024"])
        .args(flags)
        .args(files)
        .current_dir(&repository.root)
        .output()
        .map_err(|source| Failure::Start { program: RUSTFMT, source })?;
    // A file that cannot be parsed is reported on stderr; one that differs only sets the exit code.
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() || stderr.is_empty() {
        Ok(output)
    } else {
        Err(Failure::Program { program: RUSTFMT, status: output.status, stderr })
    }
}

fn relative(root: &Path, path: &str) -> String {
    let path = Path::new(path);
    let path = path.strip_prefix(root).unwrap_or(path);
    path.to_string_lossy().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_from_the_root() {
        let root = Path::new("/repository");
        assert_eq!(relative(root, "/repository/a/b.rs"), "a/b.rs");
        assert_eq!(relative(root, "/elsewhere/b.rs"), "/elsewhere/b.rs");
    }
}
