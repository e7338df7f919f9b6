//! Writes files atomically.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ort_loader::{Link, open_file};
use ort_tensor::go_on;

use crate::error::SaveError;

/// The suffix of incomplete files.
const SUFFIX: &str = ".ort-tmp";

/// Bytes between two checks for cancellation: some milliseconds.
const PIECE: usize = 1 << 22;

/// Writes a temporary file, syncs it, and renames it to `path`: readers, also after
/// a crash, find either the previous file or this one. Existing mappings of the previous
/// file stay valid, and a symbolic link at `path` is replaced, not followed.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), SaveError> {
    write_with(path, bytes, OpenOptions::new())
}

/// The same for a file with at most the permissions of `mode`, on systems with modes.
pub(crate) fn write_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), SaveError> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    write_with(path, bytes, options)
}

fn write_with(path: &Path, bytes: &[u8], mut options: OpenOptions) -> Result<(), SaveError> {
    // A rename would replace a device or a pipe.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(SaveError::NotAFile { path: path.to_owned() });
    }
    let failed = |source| SaveError::Write { path: path.to_owned(), source };
    let (temporary, mut file) = create_locked(path, &mut options).map_err(failed)?;
    let written = write_pieces(&mut file, bytes).and_then(|()| file.sync_all());
    let written = written.and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // If removing it fails, so did writing: the first error is reported.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| keep_entry(path)).map_err(failed)
}

/// Writes all `bytes`, unless the thread is cancelled.
fn write_pieces(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(PIECE).try_for_each(|piece| {
        go_on().map_err(io::Error::other)?;
        file.write_all(piece)
    })
}

/// A new file next to `path`, locked until it is closed: see [`remove_leftovers`]. Between its creation and
/// its lock another process may take it for a leftover; then another one is created.
fn create_locked(path: &Path, options: &mut OpenOptions) -> io::Result<(PathBuf, File)> {
    loop {
        let temporary = temporary(path);
        let file = options.write(true).create_new(true).open(&temporary)?;
        // Where files cannot be locked, leftovers are not removed.
        let is_locked = file.lock().is_ok();
        if !is_locked || temporary.try_exists()? {
            return Ok((temporary, file));
        }
    }
}

/// Removes temporary files of interrupted writers in a folder, and returns their number. Active
/// writers hold a lock.
pub(crate) fn remove_leftovers(folder: &Path) -> usize {
    let remove = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_temporary = name.starts_with('.') && name.ends_with(SUFFIX);
        // Removed while it is locked: its creator notices that it is gone.
        let file = open_file(&path, Link::Refuse).ok().filter(|_| is_temporary);
        file.is_some_and(|file| file.try_lock().is_ok() && fs::remove_file(&path).is_ok())
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    files.filter(|path| remove(path.clone())).count()
}

/// A unique name in the same folder.
fn temporary(path: &Path) -> PathBuf {
    static N_WRITTEN: AtomicU64 = AtomicU64::new(0);
    let n = N_WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{n}{SUFFIX}", std::process::id()));
    path.with_file_name(name)
}

/// Syncs the folder's entry, where folders can be opened.
fn keep_entry(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match File::open(folder.unwrap_or(Path::new("."))) {
        Ok(folder) if cfg!(unix) => folder.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_atomically_without_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ort");
        for bytes in [&b"first"[..], b"", b"second"] {
            write_whole(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_without_a_writer_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("model.ort"), folder.path().join(".hidden"));
        fs::write(&other, b"x").unwrap();
        let leftover = temporary(&path);
        let file = File::create(&leftover).unwrap();
        file.lock().unwrap();
        assert_eq!(remove_leftovers(folder.path()), 0);
        drop(file);
        assert_eq!(remove_leftovers(folder.path()), 1);
        assert!(!leftover.exists() && other.exists());
    }

    #[test]
    fn a_folder_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_whole(folder.path(), b"x").unwrap_err();
        assert!(matches!(error, SaveError::NotAFile { .. }), "{error}");
        let nowhere = folder.path().join("none/model.ort");
        let error = write_whole(&nowhere, b"x").unwrap_err();
        assert!(error.to_string().starts_with(&format!("{}: cannot be", nowhere.display())));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
