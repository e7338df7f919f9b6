//! From a path to bytes: map, read, or map with a fallback to reading.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;

use crate::error::LoadError;
use crate::model_bytes::{Kind, ModelBytes, Origin};
use crate::open::{Link, open_file};
use crate::read::read_whole;
#[cfg(target_os = "linux")]
use crate::read::sealed_copy;
use crate::source::Mapping;
use crate::within::open_within;

/// How a file's bytes are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// Map the file: pages are loaded on first access and shared with every process that maps the file.
    /// This is why it is the default: a start reads only what it needs, and further processes need no
    /// additional memory for weights.
    ///
    /// # Condition
    ///
    /// The file must not be written to or truncated while it is mapped. Touching a page that the
    /// file no longer has raises `SIGBUS`, which ends the process; in-place writes become visible and
    /// invalidate what was verified. Replacing the file by
    /// renaming another over it is fine: the mapping keeps the old one. Where the condition cannot
    /// be met, use [`Load::Read`] or [`Load::Sealed`].
    #[default]
    Mapped,
    /// [`Load::Mapped`], under its condition, with every page in memory before this
    /// returns: neither loading nor the first run causes page faults. All pages
    /// count as this process' then, including those never read. Huge pages are not requested: ext4
    /// caches a file in small pages whatever is advised (Linux 6.18, `FilePmdMapped` of smaps).
    Populated,
    /// Read the file into private memory, aligned to 64 bytes. Later changes of the file have no effect.
    Read,
    /// Copy the file into immutable memory (on Linux a `memfd` with all seals), and
    /// map that: as with [`Load::Read`], later changes of the file have no effect; in addition, neither this process
    /// nor its forks can write to the bytes or truncate them. They count as shared memory.
    /// On other systems it is [`Load::Read`].
    Sealed,
    /// [`Load::Mapped`], under its condition; if mapping fails, [`Load::Read`], with the
    /// reason in [`ModelBytes::fallback`].
    Auto,
}

/// The bytes of the file at `path`, which has at least one.
pub(crate) fn load(path: &Path, how: Load) -> Result<ModelBytes, LoadError> {
    load_file(open_file(path, Link::Follow)?, path, how)
}

/// The same for a file within a folder.
pub(crate) fn load_within(
    folder: &Path,
    relative: &Path,
    how: Load,
) -> Result<ModelBytes, LoadError> {
    load_file(open_within(folder, relative)?, &folder.join(relative), how)
}

fn load_file(file: File, path: &Path, how: Load) -> Result<ModelBytes, LoadError> {
    match how {
        Load::Read => return read(&file, path, None),
        Load::Sealed => return sealed(&file, path),
        Load::Mapped | Load::Populated | Load::Auto => {}
    }
    let mapping = map(&file).and_then(|mapping| match how {
        Load::Populated => mapping.populate().map(|()| mapping),
        _ => Ok(mapping),
    });
    match mapping {
        Ok(mapping) => Ok(of_mapping(mapping, path)),
        Err(reason) if how == Load::Auto => {
            tracing::debug!(path = %path.display(), %reason, "cannot map the file, reading it");
            read(&file, path, Some(reason))
        }
        Err(reason) => Err(unmappable(&file, path, reason)),
    }
}

fn map(file: &File) -> io::Result<Mapping> {
    let mapping = Mapping::of(file)?;
    if mapping.as_ref().is_empty() {
        return Err(io::Error::other("the file has no size"));
    }
    Ok(mapping)
}

fn of_mapping(mapping: Mapping, path: &Path) -> ModelBytes {
    let bytes = Bytes::from_owner(mapping.clone());
    let (mapping, path) = (Some(mapping), Some(path.into()));
    ModelBytes::new(bytes, Origin { kind: Kind::Mapped, mapping, path, fallback: None })
}

/// A size of zero may be an empty file or one of `/proc`; reading a byte tells which.
fn unmappable(mut file: &File, path: &Path, source: io::Error) -> LoadError {
    let has_no_size = file.metadata().is_ok_and(|it| it.is_file() && it.len() == 0);
    if has_no_size && matches!(file.read(&mut [0]), Ok(0)) {
        return LoadError::Empty { path: path.into() };
    }
    LoadError::Unmappable { path: path.into(), source }
}

fn read(file: &File, path: &Path, fallback: Option<io::Error>) -> Result<ModelBytes, LoadError> {
    match read_whole(file) {
        Ok(buf) if buf.is_empty() => Err(LoadError::Empty { path: path.into() }),
        Ok(buf) => {
            let origin =
                Origin { kind: Kind::Heap, mapping: None, path: Some(path.into()), fallback };
            Ok(ModelBytes::new(Bytes::from_owner(buf), origin))
        }
        Err(source) => Err(LoadError::Unreadable { path: path.into(), source }),
    }
}

#[cfg(target_os = "linux")]
fn sealed(file: &File, path: &Path) -> Result<ModelBytes, LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.into(), source };
    let copy = sealed_copy(file).map_err(unreadable)?;
    if copy.metadata().map_err(unreadable)?.len() == 0 {
        return Err(LoadError::Empty { path: path.into() });
    }
    let mapping = Mapping::of(&copy).map_err(unreadable)?;
    let origin =
        Origin { kind: Kind::Sealed, mapping: None, path: Some(path.into()), fallback: None };
    Ok(ModelBytes::new(Bytes::from_owner(mapping), origin))
}

#[cfg(not(target_os = "linux"))]
fn sealed(file: &File, path: &Path) -> Result<ModelBytes, LoadError> {
    read(file, path, None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use ort_tensor::within;
    use tempfile::TempDir;

    use super::*;

    const ALL: [Load; 5] = [Load::Mapped, Load::Populated, Load::Read, Load::Sealed, Load::Auto];

    fn file_of(content: &[u8]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.ort");
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn every_mode_loads_the_same_bytes() {
        let content: Vec<u8> = (0..=u8::MAX).cycle().take(100_001).collect();
        let (_folder, path) = file_of(&content);
        let copied = if cfg!(target_os = "linux") { Kind::Sealed } else { Kind::Heap };
        let kinds = [Kind::Mapped, Kind::Mapped, Kind::Heap, copied, Kind::Mapped];
        for (how, kind) in ALL.into_iter().zip(kinds) {
            let model = ModelBytes::from_path(&path, how).unwrap();
            assert_eq!(model.as_slice(), content, "{how:?}");
            assert_eq!(model.kind(), kind, "{how:?}");
            assert_eq!(model.path(), Some(path.as_path()), "{how:?}");
            assert!(model.fallback().is_none(), "{how:?}");
            assert_eq!(model.as_slice().as_ptr().align_offset(64), 0, "{how:?}");
        }
    }

    #[test]
    fn a_missing_file_a_folder_and_an_empty_file_are_distinguished() {
        let (folder, empty) = file_of(b"");
        let missing = folder.path().join("nothing.ort");
        for how in ALL {
            let error = |path| ModelBytes::from_path(path, how).unwrap_err();
            let e = error(missing.as_path());
            assert!(matches!(&e, LoadError::Missing { path } if *path == missing), "{e}");
            let e = error(folder.path());
            assert!(matches!(&e, LoadError::Folder { path } if path == folder.path()), "{e}");
            let e = error(empty.as_path());
            assert!(matches!(&e, LoadError::Empty { path } if *path == empty), "{e}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_permission_is_unreadable() {
        use std::os::unix::fs::PermissionsExt;

        let (_folder, path) = file_of(b"secret");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        if File::open(&path).is_ok() {
            println!("skipped: this user may read every file");
            return;
        }
        for how in ALL {
            let error = ModelBytes::from_path(&path, how).unwrap_err();
            assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
        }
    }

    /// `/proc/self/status` is a regular file of size zero that has bytes and cannot be mapped.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_mapping_is_read_by_auto_and_an_error_for_mapped() {
        let path = Path::new("/proc/self/status");
        for how in [Load::Mapped, Load::Populated] {
            let error = ModelBytes::from_path(path, how).unwrap_err();
            assert!(matches!(error, LoadError::Unmappable { .. }), "{error}");
        }

        let model = ModelBytes::from_path(path, Load::Auto).unwrap();
        assert_eq!(model.kind(), Kind::Heap);
        assert!(model.fallback().is_some());
        assert!(model.as_slice().starts_with(b"Name:"));

        for how in [Load::Read, Load::Sealed] {
            let model = ModelBytes::from_path(path, how).unwrap();
            assert!(model.fallback().is_none());
            assert!(model.as_slice().starts_with(b"Name:"));
        }
    }

    #[test]
    fn a_copy_does_not_change() {
        for how in [Load::Read, Load::Sealed] {
            let (_folder, path) = file_of(b"first");
            let model = ModelBytes::from_path(&path, how).unwrap();
            fs::write(&path, b"other").unwrap();
            File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
            assert_eq!(model.as_slice(), b"first", "{how:?}");
        }
    }

    #[test]
    fn a_copy_counts_against_the_allowance() {
        let (_folder, path) = file_of(b"more than ten bytes");
        for how in [Load::Read, Load::Sealed] {
            let error = within(10, 10, || ModelBytes::from_path(&path, how)).unwrap_err();
            assert!(matches!(error, LoadError::Unreadable { .. }), "{how:?}: {error}");
        }
        assert!(within(10, 10, || ModelBytes::from_path(&path, Load::Mapped)).is_ok());
    }

    /// A sparse file may have a size larger than any memory, and occupy no disk space.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_larger_than_memory_is_an_error() {
        let sparse = tempfile::NamedTempFile::new_in("/dev/shm");
        let Ok(sparse) = sparse.and_then(|file| file.as_file().set_len(1 << 62).map(|()| file))
        else {
            return println!("skipped: no file system has files this long");
        };
        for how in ALL {
            let error = ModelBytes::from_path(sparse.path(), how).unwrap_err();
            let is_expected = match how {
                Load::Mapped | Load::Populated => matches!(error, LoadError::Unmappable { .. }),
                Load::Read | Load::Sealed | Load::Auto => {
                    matches!(error, LoadError::Unreadable { .. })
                }
            };
            assert!(is_expected, "{how:?}: {error}");
        }
    }

    #[test]
    fn a_renamed_replacement_leaves_the_mapping_alone() {
        let (folder, path) = file_of(b"first");
        let model = ModelBytes::from_path(&path, Load::Mapped).unwrap();
        let replacement = folder.path().join("new.ort");
        fs::write(&replacement, b"second").unwrap();
        fs::rename(&replacement, &path).unwrap();
        assert_eq!(model.as_slice(), b"first");
    }

    #[test]
    fn messages_name_the_file() {
        let error = ModelBytes::from_path("no/such.ort", Load::Auto).unwrap_err();
        assert_eq!(error.to_string(), "no/such.ort: no such file");
    }
}
