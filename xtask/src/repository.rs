//! The tracked files of the repository, read once.
//!
//! git says which files are tracked. Without git, or in an archive of the sources, every file outside of folders made
//! by tools counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::manifest::entries;
use crate::problem::Failure;

/// Folders that are never part of the sources.
const MADE_BY_TOOLS: [&str; 4] = ["target", ".git", ".venv", "__pycache__"];

/// Every tracked text file.
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
    /// In order of their paths.
    pub(crate) files: Vec<File>,
}

/// One file.
pub(crate) struct File {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Repository {
    /// The repository this program was built in.
    pub(crate) fn open() -> Result<Self, Failure> {
        let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest_dir.parent().unwrap_or(manifest_dir).to_path_buf();
        let mut paths = match tracked(&root) {
            Some(paths) => paths,
            None => walk(&root)?,
        };
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let absolute = root.join(&path);
            let bytes =
                fs::read(&absolute).map_err(|source| Failure::File { path: absolute, source })?;
            // Binary files have no lines to check.
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
        Ok(Self { root, files })
    }

    /// The file at exactly this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All files with this extension.
    pub(crate) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = &'a File> {
        self.files
            .iter()
            .filter(move |file| Path::new(&file.path).extension().is_some_and(|it| it == extension))
    }

    /// The crates by name, with their manifests: those at the top, whose folders have their names, and
    /// those below `bindings/`, whose folders are named after what they bind to.
    pub(crate) fn crates(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().filter_map(|file| {
            let folder = file.path.strip_suffix("/Cargo.toml")?;
            match folder.strip_prefix("bindings/") {
                Some(language) if !language.contains('/') => Some((package(file)?, file)),
                _ => (!folder.contains('/')).then_some((folder, file)),
            }
        })
    }
}

/// The name that a manifest gives its crate.
fn package(manifest: &File) -> Option<&str> {
    let mut entries = entries(&manifest.text);
    let name = entries.find(|entry| entry.section == "package" && entry.key == "name")?;
    Some(name.value.trim_matches('"'))
}

/// What git tracks and the work tree still has; `None` if git cannot say.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let list = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let paths = list.split_terminator('\0').map(String::from);
    Some(paths.filter(|path| root.join(path).is_file()).collect())
}

fn walk(root: &Path) -> Result<Vec<String>, Failure> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let absolute = root.join(&folder);
        let failure = |source| Failure::File { path: absolute.clone(), source };
        for entry in fs::read_dir(&absolute).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            let name = entry.file_name();
            let path = folder.join(&name);
            let kind = entry.file_type().map_err(failure)?;
            if kind.is_file() {
                paths.push(path.to_string_lossy().replace('\\', "/"));
            } else if kind.is_dir() && !MADE_BY_TOOLS.iter().any(|made| name == *made) {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
impl Repository {
    /// Files that exist in a test only.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|&(path, text)| File { path: path.into(), text: text.into() });
        Self { root: PathBuf::new(), files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_contains_this_file_and_this_crate() {
        let repository = Repository::open().unwrap();
        assert!(repository.file("Cargo.toml").is_some());
        assert!(repository.crates().any(|(name, _)| name == "xtask"));
        assert!(repository.with_extension("rs").any(|file| file.path == "xtask/src/main.rs"));
    }

    #[test]
    fn a_binding_is_a_crate_by_the_name_of_its_package() {
        let package = "[package]\nname = \"ort-x\"\n";
        let files =
            [("a/Cargo.toml", ""), ("a/b/Cargo.toml", ""), ("bindings/x/Cargo.toml", package)];
        let repository = Repository::of(&files);
        let found: Vec<_> = repository.crates().map(|(name, file)| (name, &*file.path)).collect();
        assert_eq!(found, [("a", "a/Cargo.toml"), ("ort-x", "bindings/x/Cargo.toml")]);
    }

    #[test]
    fn without_git_the_same_files_are_found() {
        let root = Repository::open().unwrap().root;
        let walked = walk(&root).unwrap();
        assert!(walked.iter().any(|path| path == "xtask/src/repository.rs"));
        assert!(walked.iter().all(|path| !path.starts_with("target/")));
    }
}
