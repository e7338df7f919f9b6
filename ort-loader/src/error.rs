//! The errors of loading. Every message names the file.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// A path that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The path does not exist.
    #[error("{}: no such file", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("{}: is a folder, not a file", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
    },
    /// The path is a pipe or a device, whose reads may block or never end.
    #[error("{}: is {kind}, not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The file must lie within a folder, but a link leads out of it, or may: it has several hard links.
    #[error("{}: {how} leads out of the folder", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
        /// `a link`, or `a hard link`.
        how: &'static str,
    },
    /// The file is empty.
    #[error("{}: the file is empty: write or download it again", path.display())]
    Empty {
        /// The path.
        path: PathBuf,
    },
    /// The system cannot open or read the file.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file can be read but not mapped; only with [`Load::Mapped`](crate::Load::Mapped) and
    /// [`Load::Populated`](crate::Load::Populated).
    #[error("{}: cannot be mapped: {source}", path.display())]
    Unmappable {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Pages that were not released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The range exceeds the bytes, or ends before it starts.
    #[error("bytes {}..{} of a model of {len} bytes", range.start, range.end)]
    OutOfBounds {
        /// The requested range.
        range: Range<usize>,
        /// The number of bytes.
        len: usize,
    },
    /// The system returned an error.
    #[error("pages {}..{} cannot be released: {source}", range.start, range.end)]
    Refused {
        /// The whole pages within the requested range, in bytes.
        range: Range<usize>,
        /// The error of the system.
        source: io::Error,
    },
}

/// A counter that the kernel does not provide.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// A file below `/proc`.
        file: Cow<'static, str>,
        /// The error of the system.
        source: io::Error,
    },
    /// The file does not have this line, or no number in it.
    #[error("{file}: no number, or no size in kB, under {field}")]
    NoSize {
        /// A file below `/proc`.
        file: Cow<'static, str>,
        /// The name of the line.
        field: &'static str,
    },
    /// The file has a line that is not part of a list of mappings.
    #[error("{file}: line {line} is malformed")]
    NoMapping {
        /// A file below `/proc`.
        file: Cow<'static, str>,
        /// The number of the line, from 1.
        line: usize,
    },
}
