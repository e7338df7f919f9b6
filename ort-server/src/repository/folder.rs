//! The layout of a model repository, as Triton and KServe have it.
//!
//! ```text
//! FOLDER/NAME/VERSION/model.onnx     or model.ort; VERSION is a number
//! FOLDER/NAME/model.onnx             version 1
//! FOLDER/NAME/config.pbtxt           optional
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

const FILES: [&str; 2] = ["model.onnx", "model.ort"];

/// The names of the folder's models, sorted.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if is_name(&name) && versions(&folder.join(&name)).is_ok_and(|found| !found.is_empty()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether `name` is one component of a path, and not hidden.
pub(super) fn is_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_one = matches!(components.next(), Some(Component::Normal(it)) if it == name);
    is_one && components.next().is_none() && !name.starts_with('.')
}

/// The files of a model by version.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn versions(folder: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let file_in =
        |folder: &Path| FILES.iter().map(|file| folder.join(file)).find(|path| path.is_file());
    let mut versions = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        // Names such as `01` would give two folders the same version.
        let version = name.to_str().and_then(|name| {
            name.parse::<u64>().ok().filter(|version| version.to_string() == name)
        });
        if let (Some(version), Some(file)) = (version, file_in(&entry.path())) {
            versions.insert(version, file);
        }
    }
    if versions.is_empty() {
        versions.extend(file_in(folder).map(|file| (1, file)));
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn models_have_versions_or_one_file() {
        let folder = repository(&[
            "a/1/model.onnx",
            "a/10/model.ort",
            "a/02/model.onnx",
            "a/3/readme.txt",
            "a/model.onnx",
            "b/model.ort",
            "b/config.pbtxt",
            ".hidden/model.onnx",
            "empty/1/other.onnx",
            "model.onnx",
        ]);
        let folder = folder.path();
        assert_eq!(names(folder).unwrap(), ["a", "b"]);
        let found = versions(&folder.join("a")).unwrap();
        let expected = [(1, folder.join("a/1/model.onnx")), (10, folder.join("a/10/model.ort"))];
        assert_eq!(found, BTreeMap::from(expected));
        let found = versions(&folder.join("b")).unwrap();
        assert_eq!(found, BTreeMap::from([(1, folder.join("b/model.ort"))]));
    }

    #[test]
    fn a_name_does_not_leave_the_folder() {
        for name in ["", ".", "..", "../a", "a/b", "/a", ".git", "a/"] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("a.b-c"));
    }
}
