//! Test cases: a folder with models, the data sets to run them on, and a tolerance.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use crate::close::{ParseToleranceError, Tolerance};

/// A folder with models, `*.ort` or `*.onnx`, next to `test_data_set_K/` and, optionally, `tol.txt`.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The path relative to the searched folder, with `/`; for that folder itself its name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// The models, sorted by name: at least one.
    pub models: Vec<PathBuf>,
    /// The folders `test_data_set_K`, sorted by K: at least one.
    pub data_sets: Vec<PathBuf>,
    /// The content of `tol.txt` ("rtol atol"), or the default.
    pub tolerance: Tolerance,
}

/// A folder that cannot be searched for cases.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseError {
    /// The system cannot read a file or folder.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A `tol.txt` that does not consist of two numbers.
    #[error("{}: {source}", path.display())]
    Tolerance {
        /// The path.
        path: PathBuf,
        /// The error.
        source: ParseToleranceError,
    },
}

/// The cases in and below `folder`, sorted by path: `folder` itself if it is a case, otherwise those
/// of the folders in it, at any depth. Links to folders are not followed, and cases within a case
/// are not searched.
///
/// # Errors
/// If a folder or a `tol.txt` cannot be read.
pub fn find_cases(folder: &Path) -> Result<Vec<Case>, CaseError> {
    let mut cases = Vec::new();
    // Relative names are readable in reports; the folder itself has none.
    let own_name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    search(folder, "", &mut cases)?;
    for case in cases.iter_mut().filter(|case| case.name.is_empty()) {
        case.name = own_name.clone().into_owned();
    }
    Ok(cases)
}

fn search(folder: &Path, name: &str, cases: &mut Vec<Case>) -> Result<(), CaseError> {
    let unreadable = |source| CaseError::Unreadable { path: folder.to_owned(), source };
    let entries: io::Result<Vec<DirEntry>> = fs::read_dir(folder).map_err(unreadable)?.collect();
    let mut entries = entries.map_err(unreadable)?;
    entries.sort_by_key(DirEntry::file_name);
    if let Some(case) = case_of(folder, name, &entries)? {
        cases.push(case);
        return Ok(());
    }
    for entry in entries.iter().filter(|entry| is_folder(entry)) {
        let own = entry.file_name().to_string_lossy().into_owned();
        let name = if name.is_empty() { own } else { format!("{name}/{own}") };
        search(&entry.path(), &name, cases)?;
    }
    Ok(())
}

fn case_of(folder: &Path, name: &str, entries: &[DirEntry]) -> Result<Option<Case>, CaseError> {
    let paths = || entries.iter().map(DirEntry::path);
    let is_model = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "ort" || extension == "onnx")
    };
    let models: Vec<PathBuf> = paths().filter(is_model).collect();
    let mut data_sets: Vec<(usize, PathBuf)> =
        paths().filter_map(|path| Some((data_set_number(&path)?, path))).collect();
    if models.is_empty() || data_sets.is_empty() {
        return Ok(None);
    }
    data_sets.sort();
    Ok(Some(Case {
        name: name.to_owned(),
        folder: folder.to_owned(),
        models,
        data_sets: data_sets.into_iter().map(|(_, path)| path).collect(),
        tolerance: tolerance(folder.join("tol.txt"))?,
    }))
}

fn data_set_number(path: &Path) -> Option<usize> {
    path.file_name()?.to_str()?.strip_prefix("test_data_set_")?.parse().ok()
}

fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

fn tolerance(path: PathBuf) -> Result<Tolerance, CaseError> {
    match fs::read_to_string(&path) {
        Ok(text) => text.parse().map_err(|source| CaseError::Tolerance { path, source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tolerance::default()),
        Err(source) => Err(CaseError::Unreadable { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if file.ends_with("tol.txt") { "0.5 0" } else { "" }).unwrap();
        }
    }

    #[test]
    fn cases_are_found_at_any_depth_and_sorted() {
        let root = tempfile::tempdir().unwrap();
        make(
            root.path(),
            &[
                "b/model.raw.ort",
                "b/model.all.ort",
                "b/test_data_set_10/input_0.pb",
                "b/test_data_set_9/input_0.pb",
                "b/tol.txt",
                "a/deep/model.ort",
                "a/deep/test_data_set_0/input_0.pb",
                "only_model/model.ort",
                "only_data/test_data_set_0/input_0.pb",
            ],
        );
        let cases = find_cases(root.path()).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["a/deep", "b"]);
        assert_eq!(cases[0].tolerance, Tolerance::default());
        assert_eq!(cases[1].tolerance, Tolerance { rtol: 0.5, atol: 0.0 });
        let folder = root.path().join("b");
        assert_eq!(cases[1].models, ["model.all.ort", "model.raw.ort"].map(|m| folder.join(m)));
        let data_sets = ["test_data_set_9", "test_data_set_10"].map(|d| folder.join(d));
        assert_eq!(cases[1].data_sets, data_sets);
    }

    #[test]
    fn a_case_itself_is_found_under_its_own_name() {
        let root = tempfile::tempdir().unwrap();
        make(root.path(), &["add/model.ort", "add/test_data_set_0/input_0.pb"]);
        let cases = find_cases(&root.path().join("add")).unwrap();
        assert_eq!(cases.len(), 1);
        assert_eq!(cases[0].name, "add");
    }

    #[test]
    fn a_tolerance_without_two_numbers_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        make(root.path(), &["model.ort", "test_data_set_0/input_0.pb"]);
        fs::write(root.path().join("tol.txt"), "tight").unwrap();
        let message = find_cases(root.path()).unwrap_err().to_string();
        assert!(message.ends_with("tol.txt: expected two numbers, `rtol atol`, found \"tight\""));
        assert!(find_cases(&root.path().join("none")).is_err());
    }
}
