//! A file that must lie within a folder, also if links are involved.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::LoadError;
use crate::open::{Link, open_file};

/// Opens the file `relative` of a folder. The target of a symbolic link must lie within the folder. A file with
/// several hard links is an error, as it cannot be known whether all are within.
pub(crate) fn open_within(folder: &Path, relative: &Path) -> Result<File, LoadError> {
    let path = folder.join(relative);
    let real = |path: &Path| -> Result<PathBuf, LoadError> {
        fs::canonicalize(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => LoadError::Missing { path: path.into() },
            _ => LoadError::Unreadable { path: path.into(), source },
        })
    };
    let (root, inside) = (real(folder)?, real(&path)?);
    if !inside.starts_with(&root) {
        return Err(LoadError::Outside { path, how: "a link" });
    }
    // This path is free of links; one that replaces the file meanwhile is not followed.
    let file = open_file(&inside, Link::Refuse)?;
    if n_names(&file) > 1 {
        return Err(LoadError::Outside { path, how: "a hard link" });
    }
    Ok(file)
}

#[cfg(unix)]
fn n_names(file: &File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(1, |metadata| metadata.nlink())
}

/// Not reported by the system.
#[cfg(not(unix))]
fn n_names(_: &File) -> u64 {
    1
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_files_within_the_folder_are_opened() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("model");
        fs::create_dir(&folder).unwrap();
        fs::create_dir(folder.join("sub")).unwrap();
        let (inside, outside) = (folder.join("sub/data"), around.path().join("data"));
        fs::write(&inside, "inside").unwrap();
        fs::write(&outside, "outside").unwrap();
        symlink(&inside, folder.join("link")).unwrap();
        symlink(&outside, folder.join("out")).unwrap();
        symlink(around.path(), folder.join("up")).unwrap();
        fs::hard_link(&outside, folder.join("hard")).unwrap();
        let open = |name: &str| open_within(&folder, Path::new(name));
        assert!(open("sub/data").is_ok() && open("link").is_ok());
        for (name, how) in [("out", "a link"), ("up/data", "a link"), ("hard", "a hard link")] {
            let error = open(name).unwrap_err();
            assert!(matches!(error, LoadError::Outside { how: it, .. } if it == how), "{error}");
        }
        assert!(matches!(open("none"), Err(LoadError::Missing { .. })));
        assert!(matches!(open("sub"), Err(LoadError::Folder { .. })));
    }
}
