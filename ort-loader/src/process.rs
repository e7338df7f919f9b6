//! What the whole process holds in memory, as the kernel counts it.
//!
//! Source: Linux, Documentation/filesystems/proc.rst (`status` since 4.5, `smaps_rollup` since
//! 4.14).

use std::fs;
use std::io;

use crate::error::MeasureError;

const STATUS: &str = "/proc/self/status";
const ROLLUP: &str = "/proc/self/smaps_rollup";

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident pages that no file backs: heap, stacks, activations.
    pub rss_anon: u64,
    /// Resident pages of files: mapped models, the program, its libraries.
    pub rss_file: u64,
    /// Resident pages of shared memory.
    pub rss_shmem: u64,
    /// The highest sum of the three so far.
    pub peak_rss: u64,
    /// What only `smaps_rollup` tells; `None` on a kernel built without it.
    pub sharing: Option<Sharing>,
}

/// The resident pages once more, by who else maps them. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Each page divided by the number of processes that map it: sums over processes to what the
    /// machine holds.
    pub pss: u64,
    /// Pages that only this process maps.
    pub private: u64,
    /// Pages that others map too.
    pub shared: u64,
}

impl ProcessMemory {
    /// All resident pages.
    pub const fn rss(&self) -> u64 {
        self.rss_anon + self.rss_file + self.rss_shmem
    }
}

/// Reads the kernel's counters. `Ok(None)` where there are none, which is everywhere but on Linux.
///
/// The kernel lets the counters of `status` lag by some pages a thread or processor; those of
/// [`Sharing`] come from a walk over all pages and are exact.
///
/// # Errors
///
/// [`MeasureError`] if `/proc` is not mounted or lacks a counter.
pub fn process_memory() -> Result<Option<ProcessMemory>, MeasureError> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let status = Counters::read(STATUS)?;
    Ok(Some(ProcessMemory {
        rss_anon: status.bytes("RssAnon")?,
        rss_file: status.bytes("RssFile")?,
        rss_shmem: status.bytes("RssShmem")?,
        peak_rss: status.bytes("VmHWM")?,
        sharing: Sharing::read()?,
    }))
}

impl Sharing {
    fn read() -> Result<Option<Self>, MeasureError> {
        let rollup = match Counters::read(ROLLUP) {
            Err(MeasureError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(None);
            }
            rollup => rollup?,
        };
        Ok(Some(Self {
            pss: rollup.bytes("Pss")?,
            private: rollup.bytes("Private_Clean")? + rollup.bytes("Private_Dirty")?,
            shared: rollup.bytes("Shared_Clean")? + rollup.bytes("Shared_Dirty")?,
        }))
    }
}

/// Lines of the form `Name:   12 kB`.
struct Counters {
    file: &'static str,
    text: String,
}

impl Counters {
    fn read(file: &'static str) -> Result<Self, MeasureError> {
        match fs::read(file) {
            // The process' name is there too, and may be any bytes.
            Ok(bytes) => Ok(Self { file, text: String::from_utf8_lossy(&bytes).into_owned() }),
            Err(source) => Err(MeasureError::Unreadable { file, source }),
        }
    }

    fn bytes(&self, field: &'static str) -> Result<u64, MeasureError> {
        self.text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
            .and_then(|kib| kib.checked_mul(1024))
            .ok_or(MeasureError::NoSize { file: self.file, field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(text: &str) -> Counters {
        Counters { file: STATUS, text: text.into() }
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let counters =
            counters("RssAnonymous:\t 1 kB\nRssAnon:\t    116 kB\nPss_Dirty: 7 kB\nPss: 3 kB\n");
        assert_eq!(counters.bytes("RssAnon").unwrap(), 116 * 1024);
        assert_eq!(counters.bytes("Pss").unwrap(), 3 * 1024);
    }

    #[test]
    fn a_counter_that_is_missing_or_no_size_is_an_error() {
        for text in
            ["", "VmHWM: 12", "VmHWM: x kB", "VmHWM 12 kB", "VmHWM: 99999999999999999999 kB"]
        {
            let error = counters(text).bytes("VmHWM").unwrap_err();
            assert_eq!(error.to_string(), "/proc/self/status: no size in kB under VmHWM", "{text}");
        }
    }

    #[test]
    fn a_process_has_memory() {
        let memory = match process_memory() {
            Ok(Some(memory)) => memory,
            Ok(None) => return println!("skipped: this system has no counters"),
            Err(error) => return println!("skipped: {error}"),
        };
        assert!(memory.rss_anon > 0 && memory.rss_file > 0, "{memory:?}");
        assert!(memory.peak_rss > 0, "{memory:?}");
        if let Some(sharing) = memory.sharing {
            assert!(sharing.pss >= sharing.private, "{sharing:?}");
            assert!(sharing.pss <= sharing.private + sharing.shared, "{sharing:?}");
        }
    }
}
