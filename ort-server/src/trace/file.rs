//! The file of traces, and the thread that writes it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use super::otlp::{self, Record};

/// The spans of a line.
const MAX_LINE: usize = 256;

/// A file that grows by lines to a maximum. Then it is renamed to `FILE.1`, which replaces the one before, and a new one
/// begins.
#[derive(Debug)]
pub(super) struct TraceFile {
    path: PathBuf,
    max_bytes: u64,
    file: File,
    n_bytes: u64,
    /// Whether the last line could not be written.
    has_failed: bool,
}

impl TraceFile {
    /// # Errors
    /// If the path is no regular file, or the system does not allow it.
    pub(super) fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let (file, n_bytes) = opened(path)?;
        Ok(Self { path: path.to_owned(), max_bytes, file, n_bytes, has_failed: false })
    }

    /// Writes what arrives, until `None`; counts what cannot be written.
    pub(super) fn write_all(&mut self, records: &Receiver<Option<Record>>, n_lost: &AtomicU64) {
        let mut is_last = false;
        while !is_last {
            let Ok(Some(first)) = records.recv() else { return };
            let mut line = vec![first];
            while line.len() < MAX_LINE {
                match records.try_recv() {
                    Ok(Some(record)) => line.push(record),
                    Ok(None) => {
                        is_last = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
            if let Err(error) = self.write(&otlp::line(&line)) {
                if !self.has_failed {
                    tracing::error!("{}: traces are lost: {error}", self.path.display());
                }
                let n = u64::try_from(line.len()).unwrap_or(u64::MAX);
                n_lost.fetch_add(n, Ordering::Relaxed);
                self.has_failed = true;
            } else {
                self.has_failed = false;
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let len = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.n_bytes > 0 && self.n_bytes.saturating_add(len) > self.max_bytes {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            fs::rename(&self.path, old)?;
            (self.file, self.n_bytes) = opened(&self.path)?;
        }
        self.file.write_all(line)?;
        self.n_bytes += len;
        Ok(())
    }
}

/// The file, to append to it, and its size.
fn opened(path: &Path) -> io::Result<(File, u64)> {
    // Opening a pipe would wait for its reader.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    let n_bytes = file.metadata()?.len();
    Ok((file, n_bytes))
}
