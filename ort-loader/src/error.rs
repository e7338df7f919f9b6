//! What can go wrong between a path and its bytes. Every message names the file.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// A path that gives no model bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Nothing is there.
    #[error("{}: no such file", path.display())]
    Missing {
        /// The path asked for.
        path: PathBuf,
    },
    /// A folder is there.
    #[error("{}: is a folder, not a file", path.display())]
    Folder {
        /// The path asked for.
        path: PathBuf,
    },
    /// A pipe or a device is there: something that may never end, or never begin.
    #[error("{}: is {kind}, not a file", path.display())]
    NotAFile {
        /// The path asked for.
        path: PathBuf,
        /// What is there.
        kind: &'static str,
    },
    /// A file that was to be within a folder, and is elsewhere, or may be: it is in several places.
    #[error("{}: {how} leads out of the folder", path.display())]
    Outside {
        /// The path asked for.
        path: PathBuf,
        /// `a link`, or `a hard link`.
        how: &'static str,
    },
    /// The file has no bytes.
    #[error("{}: the file is empty: write or download it again", path.display())]
    Empty {
        /// The path asked for.
        path: PathBuf,
    },
    /// The system refuses to open or read the file.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The path asked for.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file can be read but not mapped; only [`Load::Mapped`](crate::Load::Mapped) and
    /// [`Load::Populated`](crate::Load::Populated) say so.
    #[error("{}: cannot be mapped: {source}", path.display())]
    Unmappable {
        /// The path asked for.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Pages that were not handed back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The range reaches beyond the bytes, or ends before it starts.
    #[error("bytes {}..{} of a model of {len} bytes", range.start, range.end)]
    OutOfBounds {
        /// The range asked for.
        range: Range<usize>,
        /// How many bytes there are.
        len: usize,
    },
    /// The system refuses.
    #[error("pages {}..{} cannot be handed back: {source}", range.start, range.end)]
    Refused {
        /// The whole pages within the range asked for, in bytes.
        range: Range<usize>,
        /// The system's reason.
        source: io::Error,
    },
}

/// A number the kernel should tell and does not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The file the kernel tells it in cannot be read.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// A file below `/proc`.
        file: Cow<'static, str>,
        /// The system's reason.
        source: io::Error,
    },
    /// The file has no such line, or no number in it.
    #[error("{file}: no number, or no size in kB, under {field}")]
    NoSize {
        /// A file below `/proc`.
        file: Cow<'static, str>,
        /// The line looked for.
        field: &'static str,
    },
    /// The file has a line that is none of a list of mappings.
    #[error("{file}: line {line} is of no mapping")]
    NoMapping {
        /// A file below `/proc`.
        file: Cow<'static, str>,
        /// The line, from one on.
        line: usize,
    },
}
