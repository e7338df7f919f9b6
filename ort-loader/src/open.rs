//! Opens a regular file without blocking on anything else that may be at its path.

use std::fs::{File, FileType, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::LoadError;

/// How a symbolic link at the end of a path is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Its target is opened.
    Follow,
    /// It is an error, where the system supports that: for folders to which others may have written.
    Refuse,
}

/// Opens a regular file for reading. It never blocks: not on the writer of a pipe, and not on a device.
///
/// # Errors
/// If there is no file, or it is not a regular one.
pub fn open_file(path: &Path, link: Link) -> Result<File, LoadError> {
    let mut options = OpenOptions::new();
    set_flags(options.read(true), link);
    let file = options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LoadError::Missing { path: path.into() },
        _ if path.is_dir() => LoadError::Folder { path: path.into() },
        _ => LoadError::Unreadable { path: path.into(), source },
    })?;
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        // Some systems open a folder like a file, and only fail to read it.
        Ok(metadata) if metadata.is_dir() => Err(LoadError::Folder { path: path.into() }),
        Ok(metadata) => {
            Err(LoadError::NotAFile { path: path.into(), kind: kind(metadata.file_type()) })
        }
        Err(source) => Err(LoadError::Unreadable { path: path.into(), source }),
    }
}

#[cfg(unix)]
fn set_flags(options: &mut OpenOptions, link: Link) {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    let refuse = if link == Link::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
    options.custom_flags((OFlags::NONBLOCK | refuse).bits().cast_signed());
}

#[cfg(not(unix))]
fn set_flags(_: &mut OpenOptions, _: Link) {}

#[cfg(unix)]
fn kind(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;

    match found {
        found if found.is_fifo() => "a pipe",
        found if found.is_char_device() || found.is_block_device() => "a device",
        _ => "a special file",
    }
}

#[cfg(not(unix))]
fn kind(_: FileType) -> &'static str {
    "a special file"
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn special_files_fail_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, socket, link] = ["pipe", "socket", "link"].map(|name| folder.path().join(name));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        symlink(&pipe, &link).unwrap();
        for (path, expected) in [
            (pipe.as_path(), "is a pipe, not a file"),
            (&link, "is a pipe, not a file"),
            (Path::new("/dev/zero"), "is a device, not a file"),
            (&socket, "cannot be read"),
            (folder.path(), "is a folder, not a file"),
        ] {
            let error = open_file(path, Link::Follow).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: {expected}", path.display())), "{error}");
        }
    }

    #[test]
    fn links_are_followed_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "x").unwrap();
        symlink(&file, &link).unwrap();
        assert!(open_file(&link, Link::Follow).is_ok());
        assert!(open_file(&file, Link::Refuse).is_ok());
        let error = open_file(&link, Link::Refuse).unwrap_err();
        assert!(matches!(error, LoadError::Unreadable { .. }), "{error}");
    }
}
