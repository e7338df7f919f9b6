//! The public interface of a cache folder: its entries, and their removal.

// collects are bounded: by the files of the folder

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ort_format::Limits;
use ort_loader::{Load, ModelBytes};

use super::{SUFFIX, record_path};
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
    /// Its path.
    pub path: PathBuf,
    /// Its size.
    pub n_bytes: u64,
    /// When a session last used it; updated only if the folder is writable.
    pub last_used: SystemTime,
    /// The SHA-256 of its model, if the file can be read.
    pub of: Option<String>,
    /// Its target, if the file can be read.
    pub packed_for: Option<String>,
    /// Whether this version of the crate can use it, on some machine.
    pub is_current: bool,
}

/// Which packed files to keep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// A limit on their total size; those last used are kept.
    pub max_bytes: Option<u64>,
    /// Only those used within this time.
    pub used_within: Option<Duration>,
}

/// The removed files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The packed files.
    pub removed: Vec<CacheEntry>,
    /// Their total size.
    pub n_bytes: u64,
    /// The number of temporary files left by interrupted writers.
    pub n_leftovers: usize,
}

impl Cache {
    /// The cache in `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Its packed files, the last used first.
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
    /// and temporary files of interrupted writers; and then those that `keep` excludes. Sessions that
    /// have mapped a file keep it.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file cannot be removed.
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
            // The marker may be missing.
            let _ = fs::remove_file(record_path(&entry.path));
            pruned.n_bytes += entry.n_bytes;
            pruned.removed.push(entry);
        }
        Ok(pruned)
    }
}

/// The packed file of a directory entry, if it is one.
fn entry(file: &DirEntry) -> Option<CacheEntry> {
    let path = file.path();
    let is_ours = path.file_name()?.to_str()?.ends_with(SUFFIX);
    let metadata = file.metadata().ok().filter(|metadata| is_ours && metadata.is_file())?;
    let used = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let last_used = used(&record_path(&path)).max(metadata.modified().ok());
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

/// The model and target that a packed file states.
fn said(path: &Path) -> Option<(Option<String>, String)> {
    let bytes = ModelBytes::from_path(path, Load::Auto).ok()?;
    let file = ort_format::open(bytes.as_slice(), &Limits::default()).ok()?;
    let seal = Seal::of(file)?;
    Some((seal.of.map(str::to_owned), seal.packed_for.to_owned()))
}
