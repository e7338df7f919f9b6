//! A cache folder from the outside: what is in it, and what may go.

// collects are bounded: by the files of the folder

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ort_format::Limits;
use ort_loader::{Load, ModelBytes};

use super::{SUFFIX, seen_beside};
use crate::packed::Seal;
use crate::save::remove_leftovers;

/// A folder of packed files, as [`SessionBuilder::cache_dir`](crate::SessionBuilder::cache_dir) fills
/// it.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// A packed file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// Where it is.
    pub path: PathBuf,
    /// How long it is.
    pub n_bytes: u64,
    /// When a session last began with it, as far as the folder may be written to.
    pub last_used: SystemTime,
    /// The SHA-256 of the model it was made of, if the file can be read.
    pub of: Option<String>,
    /// What it is packed for, if the file can be read.
    pub packed_for: Option<String>,
    /// Whether this version of the crate can use it, on some machine.
    pub is_current: bool,
}

/// Which packed files stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// No more bytes than this in all, those last used.
    pub max_bytes: Option<u64>,
    /// Only those that were used within this time.
    pub used_within: Option<Duration>,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The packed files.
    pub removed: Vec<CacheEntry>,
    /// How many bytes they took.
    pub n_bytes: u64,
    /// How many files were left over by writers that did not finish.
    pub n_leftovers: usize,
}

impl Cache {
    /// The cache in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Its packed files, those last used first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn entries(&self) -> io::Result<Vec<CacheEntry>> {
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            entries.extend(entry(&file?));
        }
        entries.sort_by(|a, b| (b.last_used, &a.path).cmp(&(a.last_used, &b.path)));
        Ok(entries)
    }

    /// Removes what no session can use: packed files of other versions of this crate, damaged ones,
    /// and what writers left that did not finish; and then those that need not stay. Sessions that
    /// have mapped a file keep it.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file not removed.
    pub fn prune(&self, keep: Retention) -> io::Result<Pruned> {
        let mut pruned =
            Pruned { n_leftovers: remove_leftovers(&self.folder), ..Pruned::default() };
        let (now, mut kept) = (SystemTime::now(), 0);
        for entry in self.entries()? {
            let age = now.duration_since(entry.last_used).unwrap_or_default();
            let stays = entry.is_current
                && keep.used_within.is_none_or(|time| age <= time)
                && keep.max_bytes.is_none_or(|max| kept + entry.n_bytes <= max);
            if stays {
                kept += entry.n_bytes;
                continue;
            }
            fs::remove_file(&entry.path)?;
            // It may have none.
            let _ = fs::remove_file(seen_beside(&entry.path));
            pruned.n_bytes += entry.n_bytes;
            pruned.removed.push(entry);
        }
        Ok(pruned)
    }
}

/// The packed file that a folder's entry is, if it is one.
fn entry(file: &DirEntry) -> Option<CacheEntry> {
    let path = file.path();
    let is_ours = path.file_name()?.to_str()?.ends_with(SUFFIX);
    let metadata = file.metadata().ok().filter(|metadata| is_ours && metadata.is_file())?;
    let used = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let last_used = used(&seen_beside(&path)).max(metadata.modified().ok());
    let (of, packed_for) = said(&path).unzip();
    let current = format!("ort-session {},", env!("CARGO_PKG_VERSION"));
    Some(CacheEntry {
        n_bytes: metadata.len(),
        last_used: last_used.unwrap_or(SystemTime::UNIX_EPOCH),
        is_current: packed_for.as_ref().is_some_and(|line: &String| line.starts_with(&current)),
        of: of.flatten(),
        packed_for,
        path,
    })
}

/// What a packed file says of itself.
fn said(path: &Path) -> Option<(Option<String>, String)> {
    let bytes = ModelBytes::from_path(path, Load::Auto).ok()?;
    let file = ort_format::open(bytes.as_slice(), &Limits::default()).ok()?;
    let seal = Seal::of(file)?;
    Some((seal.of.map(str::to_owned), seal.packed_for.to_owned()))
}
